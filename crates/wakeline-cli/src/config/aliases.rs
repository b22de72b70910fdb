//! Environment variables of the queue server whose wire shape this one speaks, for what is a
//! setting here too: whoever moves can keep them.

use super::{ConfigMistake, ServeArgs};

/// Puts what the variables say where neither a flag nor a variable of our own says it. Returns what
/// was taken over, in words for the log.
pub(super) fn take_over(
    args: &mut ServeArgs,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, ConfigMistake> {
    let mut taken = Vec::new();
    let mut alias = |name: &str, ours: &str| {
        let value = variable(name)?;
        taken.push(format!("{name} is taken as {ours}: set that instead"));
        Some(value)
    };
    if args.long_poll.claims_in_flight_max.is_none() {
        let value = alias("POLL_WORKER_COUNT", "WAKELINE_CLAIMS_IN_FLIGHT_MAX");
        args.long_poll.claims_in_flight_max =
            value.map(|value| number("POLL_WORKER_COUNT", &value)).transpose()?;
    }
    if args.poll_interval_ms.is_none() {
        let value = alias("POLL_INTERVAL_MS", "WAKELINE_POLL_INTERVAL_MS");
        args.poll_interval_ms =
            value.map(|value| number("POLL_INTERVAL_MS", &value)).transpose()?;
    }
    if args.long_poll.use_priority_dispatch.is_none() {
        let value = alias("USE_PRIORITY_DISPATCH", "WAKELINE_USE_PRIORITY_DISPATCH");
        args.long_poll.use_priority_dispatch =
            value.map(|value| truth("USE_PRIORITY_DISPATCH", &value)).transpose()?;
    }
    Ok(taken)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, ConfigMistake> {
    let mistake = || ConfigMistake(format!("{name} must be a whole number, not {value:?}"));
    value.trim().parse().map_err(|_| mistake())
}

fn truth(name: &str, value: &str) -> Result<bool, ConfigMistake> {
    match value.trim() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(ConfigMistake(format!("{name} must be true or false, not {value:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(args: &mut ServeArgs, set: &[(&str, &str)]) -> Result<Vec<String>, ConfigMistake> {
        take_over(args, |name| {
            set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_of_the_other_server_are_settings_here_and_are_noted() {
        let mut args = ServeArgs::default();
        let set = [
            ("POLL_WORKER_COUNT", "4"),
            ("POLL_INTERVAL_MS", "50"),
            ("USE_PRIORITY_DISPATCH", "false"),
        ];
        let notes = take(&mut args, &set).expect("valid");
        assert_eq!(args.long_poll.claims_in_flight_max, Some(4));
        assert_eq!(args.poll_interval_ms, Some(50));
        assert_eq!(args.long_poll.use_priority_dispatch, Some(false));
        assert_eq!(
            notes[0],
            "POLL_WORKER_COUNT is taken as WAKELINE_CLAIMS_IN_FLIGHT_MAX: set that instead"
        );
        assert_eq!(notes.len(), 3);
    }

    #[test]
    fn what_is_set_by_our_own_name_stays() {
        let mut args = ServeArgs { poll_interval_ms: Some(7), ..ServeArgs::default() };
        let notes = take(&mut args, &[("POLL_INTERVAL_MS", "50")]).expect("valid");
        assert_eq!((args.poll_interval_ms, notes.len()), (Some(7), 0));
    }

    #[test]
    fn a_value_that_cannot_be_read_names_the_variable() {
        for (name, value) in [("POLL_WORKER_COUNT", "two"), ("USE_PRIORITY_DISPATCH", "maybe")] {
            let mistake = take(&mut ServeArgs::default(), &[(name, value)]).expect_err("refused");
            assert!(mistake.0.starts_with(name) && mistake.0.contains(value), "{}", mistake.0);
        }
    }
}
