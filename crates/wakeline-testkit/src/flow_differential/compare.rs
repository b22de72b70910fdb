//! What counts as the same.

use std::fmt::Debug;
use std::time::Duration;

use wakeline_core::{FlowChange, FlowLine};

/// A difference, in words.
pub(super) type Same = Result<(), String>;

/// Equal, or a difference.
pub(super) fn same<T: PartialEq + Debug>(what: &str, oracle: T, store: T) -> Same {
    if oracle == store {
        return Ok(());
    }
    Err(format!("{what} differs\noracle: {oracle:?}\nstore:  {store:?}"))
}

/// Never late; zero exactly if something can be taken.
pub(super) fn same_next_due(what: &str, oracle: Option<Duration>, store: Option<Duration>) -> Same {
    let zero = Some(Duration::ZERO);
    if is_late(oracle, store) || (oracle == zero) != (store == zero) {
        return Err(format!("next due of {what}: {oracle:?}, the store says {store:?}"));
    }
    Ok(())
}

fn is_late(oracle: Option<Duration>, store: Option<Duration>) -> bool {
    oracle.is_some_and(|oracle| store.is_none_or(|store| store > oracle))
}

/// Never late; may be early.
pub(super) fn sweep_is_not_late(
    lines: &[FlowLine],
    oracle: &[Option<Duration>],
    store: &[Option<Duration>],
) -> Same {
    same("number of swept lines", oracle.len(), store.len())?;
    for ((line, oracle), store) in lines.iter().zip(oracle).zip(store) {
        if is_late(*oracle, *store) {
            return Err(format!("{line:?} is due in {oracle:?}, the store's sweep says {store:?}"));
        }
    }
    Ok(())
}

/// Whoever gets something sooner than was known before is told, and not too late.
pub(super) fn told_of_what_became_due(
    lines: &[FlowLine],
    before: &[Option<Duration>],
    after: &[Option<Duration>],
    changes: &[FlowChange],
) -> Same {
    for ((line, before), after) in lines.iter().zip(before).zip(after) {
        let Some(after) = after else { continue };
        if before.is_some_and(|before| before <= *after) {
            continue;
        }
        let told = changes.iter().any(|change| change.concerns(line) && change.due_in <= *after);
        if !told {
            return Err(format!("{line:?} is due in {after:?} now, but is told {changes:?}"));
        }
    }
    Ok(())
}
