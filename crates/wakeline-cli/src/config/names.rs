//! The names of settings. A misspelled name is an error that suggests the nearest known name.
//!
//! # Invariants
//! * Every variable that begins with `WAKELINE_` is a setting, or belongs to other software by one
//!   of the rules below. Otherwise a misspelled setting would silently have no effect.

use std::collections::BTreeSet;

use wakeline_core::nearest;

use super::UsageError;

const PREFIX: &str = "WAKELINE_";
/// Settings that are not flags.
const VARIABLES: [&str; 4] =
    ["WAKELINE_API_KEY", "WAKELINE_ENCRYPTION_KEYS", "WAKELINE_JWT_SECRET", "WAKELINE_LOG"];
/// Shown at the end of `wakeline serve --help`.
pub(super) const SETTINGS_WITHOUT_FLAGS: &str = "\
Environment variables without a flag (secrets have none, because flags show in process lists):
  WAKELINE_API_KEY          API key that clients must send
  WAKELINE_ENCRYPTION_KEYS  Keys for encryption at rest, as id:base64, separated by commas; the
                            first one encrypts
  WAKELINE_JWT_SECRET       Secret of JWTs signed with HS256
  WAKELINE_LOG              Filter of the log, like warn or wakeline_http=debug,info [default: info]

The file of --config may contain the secrets, too: as api_key and encryption_keys, and as jwt_secret
in the table [access].";
/// Variables of the project's own tests, benchmarks and examples, without the prefix.
const TOOLING: [&str; 4] = ["BLESS", "CASES", "LONG", "SEED"];
const TOOLING_PREFIXES: [&str; 3] = ["TEST_", "BENCH_", "EXAMPLE_"];

/// Refuses variables that look like settings but are not.
pub(crate) fn check_environment(
    command: &clap::Command,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<(), UsageError> {
    let mut known: BTreeSet<String> = VARIABLES.map(str::to_owned).into();
    collect_variables(command, &mut known);
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if known.contains(&name) || is_of_tooling(rest) || is_of_kubernetes(&name, &value) {
            continue;
        }
        let settings = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
        let hint = match nearest(rest, settings) {
            Some(known) => format!("did you mean {PREFIX}{known}?"),
            None => "`wakeline serve --help` lists them".to_owned(),
        };
        let text = format!("the environment variable {name} is set, but is not a setting: {hint}");
        return Err(UsageError(text));
    }
    Ok(())
}

fn collect_variables(command: &clap::Command, known: &mut BTreeSet<String>) {
    let variables = command.get_arguments().filter_map(clap::Arg::get_env);
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    for below in command.get_subcommands() {
        collect_variables(below, known);
    }
}

fn is_of_tooling(rest: &str) -> bool {
    TOOLING.contains(&rest) || TOOLING_PREFIXES.iter().any(|prefix| rest.starts_with(prefix))
}

/// Kubernetes sets variables for every service of a namespace in each container. A service named
/// `wakeline` makes `WAKELINE_SERVICE_HOST`, `WAKELINE_PORT` and `WAKELINE_PORT_7632_TCP_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let after_port = name.split_once("_PORT_").map_or("", |(_, rest)| rest);
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_url)
        || after_port.starts_with(|c: char| c.is_ascii_digit())
}

/// Rewrites a decoder's message about an unknown key so that it names the nearest known one.
/// Returns other messages unchanged.
pub(super) fn explain_unknown_key(message: &str) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else { return message.to_owned() };
    let mut quoted = rest.split('`').step_by(2);
    let name = quoted.next().unwrap_or_default();
    let accepted: Vec<_> = quoted.filter(|known| !known.is_empty()).collect();
    let top = top_level_keys();
    let nearest = if !accepted.is_empty() {
        nearest(name, accepted)
    } else if top.contains(name) {
        return format!(
            "{name} is not a top-level setting: it belongs in one of the tables [queue], \
             [long_poll], [hook], [retention] and [access], in [hook] and [retention] without the \
             prefix"
        );
    } else {
        nearest(name, top.iter().map(String::as_str))
    };
    match nearest {
        Some(known) => format!("there is no setting {name:?}: did you mean {known}?"),
        None => {
            format!("there is no setting {name:?} here: `wakeline serve --help` lists all settings")
        }
    }
}

/// The names that settings and tables have in a file.
fn top_level_keys() -> BTreeSet<String> {
    let command = <super::ServeArgs as clap::Args>::augment_args(clap::Command::new("serve"));
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    let secrets = ["api_key", "encryption_keys", "jwt_secret"];
    let tables = ["queue", "long_poll", "hook", "retention", "access"];
    let rest = secrets.into_iter().chain(tables).map(str::to_owned);
    flags.map(|flag| flag.replace('-', "_")).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn check(name: &str, value: &str) -> Result<(), String> {
        let variables = [("PATH", "/bin"), (name, value)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let checked = check_environment(&crate::Cli::command(), variables.into_iter());
        checked.map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn unknown_wakeline_variables_name_the_nearest_setting() {
        for (name, meant) in [
            ("WAKELINE_LISTNE", "did you mean WAKELINE_LISTEN?"),
            ("WAKELINE_STOER", "did you mean WAKELINE_STORE?"),
            ("WAKELINE_APIKEY", "did you mean WAKELINE_API_KEY?"),
            ("WAKELINE_LOGS", "did you mean WAKELINE_LOG?"),
            ("WAKELINE_FAVOURITE_COLOUR", "--help"),
        ] {
            let mistake = check(name, "x").expect_err(name);
            assert!(mistake.contains(name) && mistake.contains(meant), "{mistake}");
        }
    }

    #[test]
    fn known_variables_and_those_of_other_software_are_accepted() {
        for (name, value) in [
            ("WAKELINE_LISTEN", "127.0.0.1:1"),
            ("WAKELINE_HOOK_SLOTS", "1"),
            ("WAKELINE_SERVER", "http://127.0.0.1:1"),
            ("WAKELINE_API_KEY", "k"),
            ("WAKELINE_TEST_POSTGRES", "x"),
            ("WAKELINE_SEED", "1"),
            ("WAKELINE_SERVICE_HOST", "10.0.0.1"),
            ("WAKELINE_SERVICE_PORT_HTTP", "7632"),
            ("WAKELINE_PORT", "tcp://10.0.0.1:7632"),
            ("WAKELINE_PORT_7632_TCP_ADDR", "10.0.0.1"),
            ("WAKELINE_DB_SERVICE_HOST", "10.0.0.2"),
            ("wakeline_listne", "x"),
        ] {
            assert_eq!(check(name, value), Ok(()), "{name}");
        }
    }
}
