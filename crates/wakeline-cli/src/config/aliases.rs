//! Environment variables of the Queen queue server, whose HTTP API this server also speaks. Those
//! that have an equivalent here are accepted, so that users who migrate can keep them.

use super::ServeArgs;

/// Applies these variables to settings that neither a flag nor a `WAKELINE_*` variable sets.
/// Returns notes for the log. Other programs may use the same names, so that a value which is not
/// valid here is ignored.
pub(super) fn apply(
    args: &mut ServeArgs,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if args.long_poll.claims_in_flight_max.is_none() {
        let names = AliasNames { name: "POLL_WORKER_COUNT", ours: "WAKELINE_CLAIMS_IN_FLIGHT_MAX" };
        let read = |value: &str| value.parse().ok().filter(|count| *count > 0);
        args.long_poll.claims_in_flight_max = take(names, &variable, read, &mut notes);
    }
    if args.poll_interval_ms.is_none() {
        let names = AliasNames { name: "POLL_INTERVAL_MS", ours: "WAKELINE_POLL_INTERVAL_MS" };
        let read = |value: &str| value.parse().ok().filter(|interval| *interval > 0);
        args.poll_interval_ms = take(names, &variable, read, &mut notes);
    }
    if args.long_poll.use_priority_dispatch.is_none() {
        let names =
            AliasNames { name: "USE_PRIORITY_DISPATCH", ours: "WAKELINE_USE_PRIORITY_DISPATCH" };
        args.long_poll.use_priority_dispatch = take(names, &variable, parse_bool, &mut notes);
    }
    notes
}

/// A variable of Queen, and the variable of this server that means the same.
#[derive(Debug, Clone, Copy)]
struct AliasNames {
    name: &'static str,
    ours: &'static str,
}

/// Reads a variable of Queen with `read`, and adds a note if it is set. Returns `None` if it is not
/// set, or if its value is not valid.
fn take<T>(
    names: AliasNames,
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> Option<T>,
    notes: &mut Vec<String>,
) -> Option<T> {
    let AliasNames { name, ours } = names;
    let value = variable(name)?;
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    let taken = read(value);
    notes.push(match &taken {
        Some(_) => format!("the variable {name} is used as {ours}: set {ours} instead"),
        None => format!("the variable {name} is ignored: {value:?} is not a valid value of {ours}"),
    });
    taken
}

fn parse_bool(value: &str) -> Option<bool> {
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
        apply(args, |name| {
            set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_of_queen_are_applied_and_noted() {
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
            "the variable POLL_WORKER_COUNT is used as WAKELINE_CLAIMS_IN_FLIGHT_MAX: set \
             WAKELINE_CLAIMS_IN_FLIGHT_MAX instead"
        );
        assert_eq!(notes.len(), 3);
    }

    #[test]
    fn our_own_variables_take_precedence() {
        let mut args = ServeArgs { poll_interval_ms: Some(7), ..ServeArgs::default() };
        let notes = taken(&mut args, &[("POLL_INTERVAL_MS", "50")]);
        assert_eq!((args.poll_interval_ms, notes.len()), (Some(7), 0));
    }

    #[test]
    fn a_value_that_is_not_valid_is_ignored_and_noted() {
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
            format!("the variable {name} is ignored: {value:?} is not a valid value of {ours}")
        });
        assert_eq!(notes, ignored);
    }
}
