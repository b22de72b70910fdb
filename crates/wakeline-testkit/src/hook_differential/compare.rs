//! What counts as the same.

use std::fmt::Debug;
use std::time::Duration;

use wakeline_core::{HookChange, HookLine};

/// A difference, in words.
pub(super) type Same = Result<(), String>;

/// Equal, or a difference.
pub(super) fn same<T: PartialEq + Debug>(what: &str, oracle: T, store: T) -> Same {
    if oracle == store {
        return Ok(());
    }
    Err(format!("{what} differs\noracle: {oracle:?}\nstore:  {store:?}"))
}

/// Whether a store's time is later than that of the rules.
pub(super) fn is_late(oracle: Option<Duration>, store: Option<Duration>) -> bool {
    oracle.is_some_and(|oracle| store.is_none_or(|store| store > oracle))
}

/// Whoever gets something sooner than was known before is told, and not too late.
pub(super) fn told_of_what_became_due(
    lines: &[HookLine],
    before: &[Option<Duration>],
    after: &[Option<Duration>],
    changes: &[HookChange],
) -> Same {
    for ((line, before), after) in lines.iter().zip(before).zip(after) {
        let Some(after) = after else { continue };
        if before.is_some_and(|before| before <= *after) {
            continue;
        }
        let concerns = |change: &&HookChange| change.line().as_ref() == Some(line);
        let told = changes.iter().filter(concerns).any(|change| change.due_in <= *after);
        if !told {
            return Err(format!("{line:?} is due in {after:?} now, but is told {changes:?}"));
        }
    }
    Ok(())
}
