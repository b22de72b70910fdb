//! Comparing the replies of both sides.

use std::fmt::Debug;
use std::time::Duration;

use wakeline_core::{Change, QueueLine};
use wakeline_store::{ClaimedPartition, PushOutcome, SettleItem, SettleOutcome};

use super::side::QueueSkew;

pub(super) use crate::cases::Comparison;

/// Requires equal values.
pub(super) fn same<T: PartialEq + Debug>(what: &str, oracle: T, store: T) -> Comparison {
    if oracle == store {
        return Ok(());
    }
    Err(format!("{what} differs\noracle: {oracle:?}\nstore:  {store:?}"))
}

/// Requires the same partition with the same messages. Each side has its own ids of partitions.
pub(super) fn same_partition(
    skew: QueueSkew,
    oracle: &ClaimedPartition,
    store: &ClaimedPartition,
) -> Comparison {
    let messages = store.messages.iter().map(|message| skew.delivered(message)).collect();
    same("queue", &oracle.queue, &store.queue)?;
    same("partition", &oracle.partition, &store.partition)?;
    same("what was delivered", &oracle.messages, &messages)
}

/// Requires a next-due time that is not late, and is zero exactly if something can be taken.
pub(super) fn same_next_due(
    oracle: Option<Duration>,
    store: Option<Duration>,
    line: &QueueLine,
) -> Comparison {
    let zero = Some(Duration::ZERO);
    let late = match (oracle, store) {
        (Some(oracle), Some(store)) => store > oracle,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if late || (oracle == zero) != (store == zero) {
        return Err(format!("next due of {line:?}: {oracle:?}, but the store returns {store:?}"));
    }
    Ok(())
}

/// Requires times that are not late. They may be early, even zero where a claim would only end a
/// lease.
pub(super) fn sweep_is_not_late(
    lines: &[QueueLine],
    oracle: &[Option<Duration>],
    store: &[Option<Duration>],
) -> Comparison {
    same("number of swept lines", oracle.len(), store.len())?;
    for ((line, oracle), store) in lines.iter().zip(oracle).zip(store) {
        if let Some(oracle) = oracle
            && store.is_none_or(|store| store > *oracle)
        {
            return Err(format!(
                "{line:?} is due in {oracle:?}, but the store's sweep returns {store:?}"
            ));
        }
    }
    Ok(())
}

/// Requires that the waiters of every line that became due sooner are notified, and not too late.
pub(super) fn check_due_notifications(
    lines: &[QueueLine],
    before: &[Option<Duration>],
    after: &[Option<Duration>],
    changes: &[Change],
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

/// Requires the same outcomes of a push. Each side has its own ids of partitions.
pub(super) fn same_pushes(oracle: &[PushOutcome], store: &[PushOutcome]) -> Comparison {
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

/// Requires the same outcomes of settlements. If the call ends a lease, a later settlement of that
/// lease may be reported as stale or as not found, and any settlement may be reported as the one
/// that ended the lease.
pub(super) fn same_settlements(
    items: &[SettleItem],
    oracle: &[SettleOutcome],
    store: &[SettleOutcome],
) -> Comparison {
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
