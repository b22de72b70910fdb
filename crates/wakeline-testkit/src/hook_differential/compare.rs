//! Comparing the replies of both sides.

use std::fmt::Debug;
use std::time::Duration;

use wakeline_core::{HookChange, HookLine};

pub(super) use crate::cases::Comparison;

/// Requires equal values.
pub(super) fn same<T: PartialEq + Debug>(what: &str, oracle: T, store: T) -> Comparison {
    if oracle == store {
        return Ok(());
    }
    Err(format!("{what} differs\noracle: {oracle:?}\nstore:  {store:?}"))
}

/// Returns whether the store's time is later than the rules allow.
pub(super) fn is_late(oracle: Option<Duration>, store: Option<Duration>) -> bool {
    oracle.is_some_and(|oracle| store.is_none_or(|store| store > oracle))
}

/// Requires that the waiters of every line that became due sooner are notified, and not too late.
pub(super) fn check_due_notifications(
    lines: &[HookLine],
    before: &[Option<Duration>],
    after: &[Option<Duration>],
    changes: &[HookChange],
) -> Comparison {
    for ((line, before), after) in lines.iter().zip(before).zip(after) {
        let Some(after) = after else { continue };
        if before.is_some_and(|before| before <= *after) {
            continue;
        }
        let concerns = |change: &&HookChange| change.line().as_ref() == Some(line);
        let notified = changes.iter().filter(concerns).any(|change| change.due_in <= *after);
        if !notified {
            return Err(format!(
                "{line:?} is due in {after:?} now, but the changes are {changes:?}"
            ));
        }
    }
    Ok(())
}
