//! Comparing the replies of both sides.

use std::fmt::Debug;
use std::time::Duration;

use wakeline_core::{FlowChange, FlowLine};

pub(super) use crate::cases::Comparison;

/// Requires equal values.
pub(super) fn same<T: PartialEq + Debug>(what: &str, oracle: T, store: T) -> Comparison {
    if oracle == store {
        return Ok(());
    }
    Err(format!("{what} differs\noracle: {oracle:?}\nstore:  {store:?}"))
}

/// Requires a next-due time that is not late, and is zero exactly if something can be claimed.
pub(super) fn same_next_due(
    what: &str,
    oracle: Option<Duration>,
    store: Option<Duration>,
) -> Comparison {
    let zero = Some(Duration::ZERO);
    if is_late(oracle, store) || (oracle == zero) != (store == zero) {
        return Err(format!("next due of {what}: {oracle:?}, the store says {store:?}"));
    }
    Ok(())
}

fn is_late(oracle: Option<Duration>, store: Option<Duration>) -> bool {
    oracle.is_some_and(|oracle| store.is_none_or(|store| store > oracle))
}

/// Requires times that are not late. They may be early.
pub(super) fn sweep_is_not_late(
    lines: &[FlowLine],
    oracle: &[Option<Duration>],
    store: &[Option<Duration>],
) -> Comparison {
    same("number of swept lines", oracle.len(), store.len())?;
    for ((line, oracle), store) in lines.iter().zip(oracle).zip(store) {
        if is_late(*oracle, *store) {
            return Err(format!("{line:?} is due in {oracle:?}, the store's sweep says {store:?}"));
        }
    }
    Ok(())
}

/// Requires that the waiters of every line that became due sooner are notified, and not too late.
pub(super) fn check_due_notifications(
    lines: &[FlowLine],
    before: &[Option<Duration>],
    after: &[Option<Duration>],
    changes: &[FlowChange],
) -> Comparison {
    for ((line, before), after) in lines.iter().zip(before).zip(after) {
        let Some(after) = after else { continue };
        if before.is_some_and(|before| before <= *after) {
            continue;
        }
        let notified =
            changes.iter().any(|change| change.concerns(line) && change.due_in <= *after);
        if !notified {
            return Err(format!(
                "{line:?} is due in {after:?} now, but the changes are {changes:?}"
            ));
        }
    }
    Ok(())
}
