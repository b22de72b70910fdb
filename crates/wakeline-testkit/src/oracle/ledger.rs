//! The ledger: how leases ended, kept for as long as the options of their queue say.

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline_core::{GroupId, GroupName, PartitionId, PartitionName, QueueName, Timestamp};
use wakeline_store::{DeliveryOutcome, LedgerEntry};

use super::claim::CursorKey;
use super::state::{OracleLease, OracleQueue, OracleState};

/// A lease that has ended, and the outcome of each of its messages.
#[derive(Debug, Clone)]
pub(super) struct OracleEndedDelivery {
    partition: PartitionId,
    group: GroupId,
    worker: Option<String>,
    at: Timestamp,
    until: Timestamp,
    ended_at: Timestamp,
    forgotten_at: Timestamp,
    outcomes: BTreeMap<i64, DeliveryOutcome>,
}

impl OracleLease {
    /// Returns the outcome of each message of the lease; unsettled messages get `rest`.
    fn outcomes(&self, rest: DeliveryOutcome) -> BTreeMap<i64, DeliveryOutcome> {
        let open = self.unsettled.keys().map(|offset| (*offset, rest));
        self.ends.iter().map(|(offset, end)| (*offset, *end)).chain(open).collect()
    }
}

impl OracleState {
    /// Records how a lease ended. An expired lease ended at its expiry, not when it was noticed.
    pub(super) fn note(
        &mut self,
        key: &CursorKey,
        lease: &OracleLease,
        rest: DeliveryOutcome,
        now: Timestamp,
    ) {
        let queue = self.queues.get_mut(&key.queue).expect("it had the lease");
        let kept = Duration::from_secs(queue.options.ledger_secs.into());
        if kept.is_zero() {
            return;
        }
        let ended_at = now.min(lease.until);
        queue.ledger.push(OracleEndedDelivery {
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

    /// Records the end of a lease that is taken away from its consumer.
    pub(super) fn note_lost(&mut self, key: &CursorKey, now: Timestamp) {
        let Some(lease) = self.cursor(key).lease.clone() else { return };
        let live = lease.until > now;
        let rest = if live { DeliveryOutcome::Released } else { DeliveryOutcome::Expired };
        self.note(key, &lease, rest, now);
    }

    /// Returns the deliveries of a message, in the order in which they were made.
    pub(super) fn ledger(
        &self,
        queue_name: &QueueName,
        partition: &PartitionName,
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
            entries.extend(lease.and_then(|lease| queue.leased(lease, group_name, offset, now)));
        }
        entries.sort_by_key(|entry| {
            (entry.offered_at, entry.ended_at.is_none(), entry.ended_at, entry.group.clone())
        });
        entries
    }
}

impl OracleQueue {
    fn group_name(&self, id: GroupId) -> Option<GroupName> {
        let found = self.groups.iter().find(|(_, group)| group.id == id);
        found.map(|(name, _)| name.clone())
    }

    /// Returns the entry of a lease that is live, or has expired without being noticed.
    fn leased(
        &self,
        lease: &OracleLease,
        group: &GroupName,
        offset: i64,
        now: Timestamp,
    ) -> Option<LedgerEntry> {
        let kept = Duration::from_secs(self.options.ledger_secs.into());
        let over = lease.until <= now;
        if over && (kept.is_zero() || lease.until.plus(kept) <= now) {
            return None;
        }
        let rest = if over { DeliveryOutcome::Expired } else { DeliveryOutcome::Open };
        let ended = OracleEndedDelivery {
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

fn entry(ended: &OracleEndedDelivery, group: &GroupName, offset: i64) -> Option<LedgerEntry> {
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
