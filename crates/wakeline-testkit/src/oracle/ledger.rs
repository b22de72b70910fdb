//! The ledger: how leases ended, remembered for as long as their queue wants.

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline_core::{GroupId, GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{DeliveryOutcome, LedgerEntry};

use super::claim::CursorKey;
use super::state::{Lease, Queue, State};

/// A lease that is over.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    partition: PartitionId,
    group: GroupId,
    worker: Option<String>,
    at: Timestamp,
    until: Timestamp,
    ended_at: Timestamp,
    forgotten_at: Timestamp,
    outcomes: BTreeMap<i64, DeliveryOutcome>,
}

impl Lease {
    /// What it was given, with what became of it; what is unsettled ends as `rest`.
    fn outcomes(&self, rest: DeliveryOutcome) -> BTreeMap<i64, DeliveryOutcome> {
        let open = self.unsettled.keys().map(|offset| (*offset, rest));
        self.ends.iter().map(|(offset, end)| (*offset, *end)).chain(open).collect()
    }
}

impl State {
    /// Remembers how a lease ended. One that ran out ended then, whoever notices it when.
    pub(super) fn note(
        &mut self,
        key: &CursorKey,
        lease: &Lease,
        rest: DeliveryOutcome,
        now: Timestamp,
    ) {
        let queue = self.queues.get_mut(&key.queue).expect("it had the lease");
        let kept = Duration::from_secs(queue.options.ledger_secs.into());
        if kept.is_zero() {
            return;
        }
        let ended_at = now.min(lease.until);
        queue.ledger.push(Ended {
            partition: queue.partitions[&key.partition].id,
            group: queue.groups[&key.group].id,
            worker: lease.worker.clone(),
            at: lease.at,
            until: lease.until,
            ended_at,
            forgotten_at: ended_at.plus(kept),
            outcomes: lease.outcomes(rest),
        });
    }

    /// Remembers the end of a lease whose consumer has no say in it any more.
    pub(super) fn note_lost(&mut self, key: &CursorKey, now: Timestamp) {
        let Some(lease) = self.cursor(key).lease.clone() else { return };
        let rest = match lease.until > now {
            true => DeliveryOutcome::Released,
            false => DeliveryOutcome::Expired,
        };
        self.note(key, &lease, rest, now);
    }

    /// The deliveries of a message, in the order in which they were offered.
    pub(super) fn ledger(
        &self,
        (queue_name, partition): (&QueueName, &PartitionName),
        offset: i64,
        now: Timestamp,
    ) -> Vec<LedgerEntry> {
        let queue = &self.queues[queue_name];
        let id = queue.partitions[partition].id;
        let mut entries: Vec<LedgerEntry> = (queue.ledger.iter())
            .filter(|ended| ended.partition == id && ended.forgotten_at > now)
            .filter_map(|ended| entry(ended, &queue.group_name(ended.group)?, offset))
            .collect();
        for (group_name, group) in &queue.groups {
            let lease = group.cursors[partition].lease.as_ref();
            entries.extend(lease.and_then(|lease| queue.leased(lease, (group_name, offset), now)));
        }
        entries.sort_by_key(|entry| {
            (entry.offered_at, entry.ended_at.is_none(), entry.ended_at, entry.group.clone())
        });
        entries
    }
}

impl Queue {
    fn group_name(&self, id: GroupId) -> Option<GroupName> {
        let found = self.groups.iter().find(|(_, group)| group.id == id);
        found.map(|(name, _)| name.clone())
    }

    /// A lease that is out, or ran out unnoticed.
    fn leased(
        &self,
        lease: &Lease,
        (group, offset): (&GroupName, i64),
        now: Timestamp,
    ) -> Option<LedgerEntry> {
        let kept = Duration::from_secs(self.options.ledger_secs.into());
        let over = lease.until <= now;
        if over && (kept.is_zero() || lease.until.plus(kept) <= now) {
            return None;
        }
        let rest = if over { DeliveryOutcome::Expired } else { DeliveryOutcome::Open };
        let ended = Ended {
            partition: PartitionId(0),
            group: GroupId(0),
            worker: lease.worker.clone(),
            at: lease.at,
            until: lease.until,
            ended_at: lease.until,
            forgotten_at: lease.until,
            outcomes: lease.outcomes(rest),
        };
        let entry = entry(&ended, group, offset)?;
        Some(LedgerEntry { ended_at: entry.ended_at.filter(|_| over), ..entry })
    }
}

fn entry(ended: &Ended, group: &GroupName, offset: i64) -> Option<LedgerEntry> {
    Some(LedgerEntry {
        offered_at: ended.at,
        ended_at: Some(ended.ended_at),
        group: group.clone(),
        worker: ended.worker.clone(),
        leased_until: ended.until,
        outcome: *ended.outcomes.get(&offset)?,
        first_offset: *ended.outcomes.keys().next()?,
        last_offset: *ended.outcomes.keys().last()?,
        messages: ended.outcomes.len() as u64,
    })
}
