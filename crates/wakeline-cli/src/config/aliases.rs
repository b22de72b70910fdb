//! Environment variables of the queue server whose wire shape this one speaks, for what is a
//! setting here too: whoever moves can keep them.

use super::ServeArgs;

/// Puts what the variables say where neither a flag nor a variable of our own says it. Returns what
/// to say of them in the log. Other programs may use these names, too: a value that cannot be meant
/// for us is left alone.
pub(super) fn take_over(
    args: &mut ServeArgs,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if args.long_poll.claims_in_flight_max.is_none() {
        let names = ("POLL_WORKER_COUNT", "WAKELINE_CLAIMS_IN_FLIGHT_MAX");
        let read = |value: &str| value.parse().ok().filter(|count| *count > 0);
        args.long_poll.claims_in_flight_max = take(names, &variable, read, &mut notes);
    }
    if args.poll_interval_ms.is_none() {
        let names = ("POLL_INTERVAL_MS", "WAKELINE_POLL_INTERVAL_MS");
        let read = |value: &str| value.parse().ok().filter(|interval| *interval > 0);
        args.poll_interval_ms = take(names, &variable, read, &mut notes);
    }
    if args.long_poll.use_priority_dispatch.is_none() {
        let names = ("USE_PRIORITY_DISPATCH", "WAKELINE_USE_PRIORITY_DISPATCH");
        args.long_poll.use_priority_dispatch = take(names, &variable, truth, &mut notes);
    }
    notes
}

fn take<T>(
    (name, ours): (&str, &str),
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> Option<T>,
    notes: &mut Vec<String>,
) -> Option<T> {
    let value = variable(name)?;
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    let taken = read(value);
    notes.push(match &taken {
        Some(_) => format!("{name} is taken as {ours}: set that instead"),
        None => format!("{name} is ignored, because {ours} cannot be {value:?}"),
    });
    taken
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(args: &mut ServeArgs, set: &[(&str, &str)]) -> Vec<String> {
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
        let notes = taken(&mut args, &set);
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
        let notes = taken(&mut args, &[("POLL_INTERVAL_MS", "50")]);
        assert_eq!((args.poll_interval_ms, notes.len()), (Some(7), 0));
    }

    #[test]
    fn a_value_that_cannot_be_meant_for_us_is_left_alone_and_noted() {
        let mut args = ServeArgs::default();
        let set = [
            ("POLL_WORKER_COUNT", "0"),
            ("POLL_INTERVAL_MS", "100ms"),
            ("USE_PRIORITY_DISPATCH", ""),
        ];
        let notes = taken(&mut args, &set);
        assert_eq!(args.long_poll.claims_in_flight_max, None);
        assert_eq!((args.poll_interval_ms, args.long_poll.use_priority_dispatch), (None, None));
        let ignored = [
            ("POLL_WORKER_COUNT", "WAKELINE_CLAIMS_IN_FLIGHT_MAX", "0"),
            ("POLL_INTERVAL_MS", "WAKELINE_POLL_INTERVAL_MS", "100ms"),
        ];
        let ignored = ignored.map(|(name, ours, value)| {
            format!("{name} is ignored, because {ours} cannot be {value:?}")
        });
        assert_eq!(notes, ignored);
    }
}
