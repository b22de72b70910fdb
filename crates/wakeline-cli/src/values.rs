//! Explains invalid values of flags and environment variables: which flag or variable it is, and
//! what the value must be. Other errors are left to the parser of the command line.

use std::error::Error as _;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::config::{UsageError, listed};

/// Explains why a value is invalid that comes from this command line or from a variable.
pub(crate) fn explain(
    command: &clap::Command,
    error: &clap::Error,
    line: &[String],
) -> Option<UsageError> {
    let value = text(error, ContextKind::InvalidValue)?;
    let argument = text(error, ContextKind::InvalidArg)?;
    let flag = argument.split(['[', '=', ' ']).next().unwrap_or_default();
    let variable = variable(command, flag).filter(|_| !is_on(line, flag));
    let place = variable.unwrap_or_else(|| argument.clone());
    if value.is_empty() {
        // Without a variable, the value of a flag is missing, which the parser reports itself.
        let empty = || format!("{place} is empty: unset it, or give it a value");
        return (place != argument).then(|| UsageError(empty()));
    }
    let why = match error.source() {
        Some(source) if source.is::<ParseIntError>() => "must be a whole number".to_owned(),
        Some(source) => source.to_string(),
        None if error.kind() == ErrorKind::InvalidValue => must_be(error),
        None => return None,
    };
    Some(UsageError(format!("{place}: {value:?} is not valid: {why}")))
}

fn must_be(error: &clap::Error) -> String {
    let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
        return "see --help for the valid values".to_owned();
    };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    format!("must be {}", listed(&known))
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The environment variable of a flag.
fn variable(command: &clap::Command, flag: &str) -> Option<String> {
    let long = flag.strip_prefix("--")?;
    let own = command.get_arguments().find(|argument| argument.get_long() == Some(long));
    let own = own.and_then(|argument| argument.get_env()).map(|name| name.to_string_lossy().into());
    own.or_else(|| command.get_subcommands().find_map(|below| variable(below, flag)))
}

fn is_on(line: &[String], flag: &str) -> bool {
    line.iter().any(|argument| {
        argument == flag || argument.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn explained(line: &[&str]) -> String {
        let mut command = crate::Cli::command();
        let error = command.try_get_matches_from_mut(line).expect_err("a mistake");
        let line: Vec<String> = line.iter().map(|one| (*one).to_owned()).collect();
        let why = explain(&crate::Cli::command(), &error, &line);
        why.map_or_else(String::new, |why| why.to_string())
    }

    #[test]
    fn an_invalid_value_is_named_with_what_it_must_be() {
        for (value, words) in [
            (["--pg-pool-max", "many"], "\"many\" is not valid: must be a whole number"),
            (["--log-format", "xml"], "must be text or json"),
            (["--wake-mode", "push"], "must be fused, compete, broadcast or poll"),
            (["--notify", "triger"], "did you mean trigger?"),
            (["--listen", "localhost"], "must be an IP address and a port"),
            (["--hook-allow", "10.0.0.0/33"], "like 10.0.0.0/8"),
        ] {
            let text = explained(&["wakeline", "serve", value[0], value[1]]);
            assert!(text.starts_with(value[0]) && text.contains(words), "{value:?}: {text}");
            assert!(text.contains(&format!("{:?}", value[1])), "{value:?}: {text}");
        }
        let rate = ["wakeline", "dlq", "redrive", "--all", "--rate", "0"];
        assert!(explained(&rate).contains("1..=1000000"), "{}", explained(&rate));
    }

    #[test]
    fn other_errors_are_left_to_the_parser() {
        for line in [&["wakeline", "serv"][..], &["wakeline", "serve", "--listen"]] {
            assert_eq!(explained(line), "", "{line:?}");
        }
    }
}
