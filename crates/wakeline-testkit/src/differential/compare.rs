//! What counts as the same.

use std::fmt::Debug;
use std::time::Duration;

use wakeline_core::{Change, QueueLine};
use wakeline_store::{GrantedPartition, PushOutcome, SettleItem, SettleOutcome};

use super::side::Skew;

/// A difference, in words.
pub(super) type Same = Result<(), String>;

/// Equal, or a difference.
pub(super) fn same<T: PartialEq + Debug>(what: &str, oracle: T, store: T) -> Same {
    if oracle == store {
        return Ok(());
    }
    Err(format!("{what} differs\noracle: {oracle:?}\nstore:  {store:?}"))
}

/// The same partition with the same messages; the partitions' ids are each side's own.
pub(super) fn same_partition(
    skew: Skew,
    oracle: &GrantedPartition,
    store: &GrantedPartition,
) -> Same {
    let messages = store.messages.iter().map(|message| skew.delivered(message)).collect();
    same("queue", &oracle.queue, &store.queue)?;
    same("partition", &oracle.partition, &store.partition)?;
    same("what was delivered", &oracle.messages, &messages)
}

/// Never late; zero exactly if something can be taken.
pub(super) fn same_next_due(
    oracle: Option<Duration>,
    store: Option<Duration>,
    line: &QueueLine,
) -> Same {
    let zero = Some(Duration::ZERO);
    let late = match (oracle, store) {
        (Some(oracle), Some(store)) => store > oracle,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if late || (oracle == zero) != (store == zero) {
        return Err(format!("next due of {line:?}: {oracle:?}, the store says {store:?}"));
    }
    Ok(())
}

/// Never late. May be early, even zero where a claim would only end a lease.
pub(super) fn sweep_is_not_late(
    lines: &[QueueLine],
    oracle: &[Option<Duration>],
    store: &[Option<Duration>],
) -> Same {
    same("number of swept lines", oracle.len(), store.len())?;
    for ((line, oracle), store) in lines.iter().zip(oracle).zip(store) {
        if let Some(oracle) = oracle
            && store.is_none_or(|store| store > *oracle)
        {
            return Err(format!("{line:?} is due in {oracle:?}, the store's sweep says {store:?}"));
        }
    }
    Ok(())
}

/// Whoever gets something sooner than was known before is told, and not too late.
pub(super) fn told_of_what_became_due(
    lines: &[QueueLine],
    before: &[Option<Duration>],
    after: &[Option<Duration>],
    changes: &[Change],
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

/// The same outcomes of a push; the partitions' ids are each side's own.
pub(super) fn same_pushes(oracle: &[PushOutcome], store: &[PushOutcome]) -> Same {
    let plain = |outcomes: &[PushOutcome]| -> Vec<_> {
        (outcomes.iter())
            .map(|outcome| match outcome {
                PushOutcome::Queued { id, .. } => ("queued", *id),
                PushOutcome::Held { id, .. } => ("held", *id),
                PushOutcome::Duplicate { id, .. } => ("duplicate", *id),
            })
            .collect()
    };
    same("outcomes of the push", plain(oracle), plain(store))
}

/// The same outcomes of settlements. Where a call ended a lease itself, a later settlement of it
/// may be called stale or not found, and any of the settlements may be the one that ended it.
pub(super) fn same_settlements(
    items: &[SettleItem],
    oracle: &[SettleOutcome],
    store: &[SettleOutcome],
) -> Same {
    same("number of outcomes", oracle.len(), store.len())?;
    let ended = |outcomes: &[SettleOutcome], item: &SettleItem| {
        items.iter().zip(outcomes).any(|(other, outcome)| {
            (other.partition, &other.group) == (item.partition, &item.group)
                && matches!(outcome, SettleOutcome::Settled { lease_ended: true, .. })
        })
    };
    let plain = |outcomes: &[SettleOutcome]| -> Vec<SettleOutcome> {
        (items.iter().zip(outcomes))
            .map(|(item, outcome)| match outcome.clone() {
                SettleOutcome::Settled { queue, partition, dead_lettered, dropped, .. } => {
                    let lease_ended = ended(outcomes, item);
                    SettleOutcome::Settled { queue, partition, lease_ended, dead_lettered, dropped }
                }
                SettleOutcome::NotFound if ended(outcomes, item) => SettleOutcome::StaleLease,
                outcome => outcome,
            })
            .collect()
    };
    same("outcomes of settlements", plain(oracle), plain(store))
}
