//! What consumers do with their leases: settle, release, extend.

use std::time::Duration;

use wakeline_core::{
    Change, CursorId, Fencing, GroupName, LeaseId, LeaseToken, PartitionId, RetryDecision,
    Timestamp, Verdict,
};
use wakeline_store::{DeliveryOutcome, Extension, SettleItem, SettleOutcome, SettleReply};

use super::claim::CursorKey;
use super::state::{OracleCursor, OracleGroup, OracleHeld, OracleQueue, OracleState};
use super::take::{Doomed, OracleReading};

impl OracleQueue {
    pub(super) fn cursor_mut(&mut self, key: &CursorKey) -> Option<&mut OracleCursor> {
        self.groups.get_mut(&key.group)?.cursors.get_mut(&key.partition)
    }
}

impl OracleState {
    pub(super) fn settle(&mut self, items: &[SettleItem], now: Timestamp) -> SettleReply {
        let mut reply = SettleReply::default();
        for item in items {
            let (outcome, change) = self.settle_one(item, now);
            reply.outcomes.push(outcome);
            reply.changes.extend(change);
        }
        reply
    }

    fn settle_one(&mut self, item: &SettleItem, now: Timestamp) -> (SettleOutcome, Option<Change>) {
        let Some(key) = self.find(item.partition, |key, _| key.group == item.group) else {
            return (SettleOutcome::StaleLease, None);
        };
        let queue = self.queues.get_mut(&key.queue).expect("it was just found");
        if item.token.is_none() && queue.options.fencing == Fencing::Strict {
            return (SettleOutcome::LeaseRequired, None);
        }
        let partition = queue.partitions[&key.partition].clone();
        let options = queue.options.clone();
        let cursor = queue.cursor_mut(&key).expect("it was just found");
        let Some(lease) = cursor.live_lease(now) else {
            return (SettleOutcome::StaleLease, None);
        };
        if item.token.is_some_and(|token| token != lease.token) {
            return (SettleOutcome::StaleLease, None);
        }
        let named = |offset: &i64| partition.message(*offset).transaction_id == item.transaction_id;
        let Some(offset) = lease.unsettled.keys().copied().find(named) else {
            return (SettleOutcome::NotFound, None);
        };
        let mut held = lease.unsettled.remove(&offset).expect("it was just found");
        lease.ends.insert(offset, ended_as(item.verdict));
        let lease_ended = lease.unsettled.is_empty();
        let ended = lease_ended.then(|| lease.clone());
        held.error = item.error.clone().or(held.error);
        let (mut dead, mut dropped) = (None, false);
        match item.verdict {
            Verdict::Completed => {}
            Verdict::Retry => drop(cursor.parked.insert(offset, held.parked(now))),
            Verdict::DeadLetter => dead = Some(held),
            Verdict::Failed => {
                held.failures += 1;
                match options.after_failure(held.failures, &item.transaction_id) {
                    RetryDecision::After(wait) => {
                        cursor.parked.insert(offset, held.parked(now.plus(wait)));
                    }
                    RetryDecision::GiveUp => {
                        dead = options.dead_letters.then_some(held);
                        dropped = dead.is_none();
                    }
                }
            }
        }
        if lease_ended {
            cursor.lease = None;
            cursor.freed_at = now;
        }
        let outcome = SettleOutcome::Settled {
            queue: key.queue.clone(),
            partition: key.partition.clone(),
            lease_ended,
            dead_lettered: dead.is_some(),
            dropped,
        };
        if dropped {
            queue.losses.dropped += 1;
        }
        queue.groups.get_mut(&key.group).expect("it was just found").settled = true;
        if let Some(held) = dead {
            self.bury(&key, Doomed { offset, held }, now);
        }
        if let Some(lease) = ended {
            self.note(&key, &lease, DeliveryOutcome::Acked, now);
        }
        let change = if lease_ended { self.left_behind(&key, now) } else { None };
        (outcome, change)
    }

    /// Returns the change that announces what a freed cursor offers, and when.
    pub(super) fn left_behind(&self, key: &CursorKey, now: Timestamp) -> Option<Change> {
        let queue = &self.queues[&key.queue];
        let partition = &queue.partitions[&key.partition];
        let due_at =
            OracleReading { options: &queue.options, partition, now }.due_at(self.cursor(key))?;
        Some(Change {
            partition: Some(key.partition.clone()),
            group: Some(key.group.clone()),
            ..queue.change(&key.queue, now.until(due_at))
        })
    }

    pub(super) fn release(&mut self, leases: &[LeaseId], now: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        for lease in leases {
            for cursor in &lease.cursors {
                changes.extend(self.release_one(*cursor, lease.token, now));
            }
        }
        changes
    }

    fn release_one(&mut self, id: CursorId, token: LeaseToken, now: Timestamp) -> Option<Change> {
        let key = self.find(id.partition, |_, group| group.id == id.group)?;
        let queue = self.queues.get_mut(&key.queue).expect("it was just found");
        let cursor = queue.cursor_mut(&key).expect("it was just found");
        cursor.live_lease(now).filter(|lease| lease.token == token)?;
        self.note_lost(&key, now);
        let queue = self.queues.get_mut(&key.queue).expect("it was just found");
        let cursor = queue.cursor_mut(&key).expect("it was just found");
        let mut lease = cursor.lease.take().expect("it is live");
        cursor.freed_at = now;
        let last = |cursor: &OracleCursor| cursor.next - 1;
        while lease.unsettled.get(&last(cursor)).is_some_and(|held: &OracleHeld| held.from_log) {
            lease.unsettled.remove(&last(cursor));
            cursor.next -= 1;
        }
        for (offset, held) in lease.unsettled {
            cursor.parked.insert(offset, held.parked(now));
        }
        self.left_behind(&key, now)
    }

    pub(super) fn extend(&mut self, lease: &LeaseId, span: Duration, now: Timestamp) -> Extension {
        let mut extension = Extension { held: Vec::new(), lost: Vec::new(), expires_at: None };
        for id in &lease.cursors {
            match self.extend_one(*id, lease.token, span, now) {
                Some(until) => {
                    extension.held.push(id.partition);
                    let first = extension.expires_at.map_or(until, |at| at.min(until));
                    extension.expires_at = Some(first);
                }
                None => extension.lost.push(id.partition),
            }
        }
        extension
    }

    fn extend_one(
        &mut self,
        id: CursorId,
        token: LeaseToken,
        span: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let key = self.find(id.partition, |_, group| group.id == id.group)?;
        let cursor = self.queues.get_mut(&key.queue)?.cursor_mut(&key)?;
        let lease = cursor.live_lease(now).filter(|lease| lease.token == token)?;
        lease.until = lease.until.max(now.plus(span));
        Some(lease.until)
    }

    pub(super) fn live_token(
        &mut self,
        partition: PartitionId,
        group: &GroupName,
        now: Timestamp,
    ) -> Option<LeaseToken> {
        let key = self.find(partition, |key, _| key.group == *group)?;
        let cursor = self.queues.get_mut(&key.queue)?.cursor_mut(&key)?;
        cursor.live_lease(now).map(|lease| lease.token)
    }

    /// Finds the first cursor of a partition whose group satisfies `fits`.
    pub(super) fn find(
        &self,
        id: PartitionId,
        fits: impl Fn(&CursorKey, &OracleGroup) -> bool,
    ) -> Option<CursorKey> {
        for (queue_name, queue) in &self.queues {
            let partition = queue.partitions.iter().find(|(_, partition)| partition.id == id);
            let Some((partition, _)) = partition else { continue };
            for (group_name, group) in &queue.groups {
                let key = CursorKey {
                    queue: queue_name.clone(),
                    partition: partition.clone(),
                    group: group_name.clone(),
                };
                if fits(&key, group) {
                    return Some(key);
                }
            }
        }
        None
    }
}

/// Returns the ledger's outcome for a consumer's verdict.
fn ended_as(verdict: Verdict) -> DeliveryOutcome {
    match verdict {
        Verdict::Completed => DeliveryOutcome::Acked,
        Verdict::Failed | Verdict::DeadLetter => DeliveryOutcome::Failed,
        Verdict::Retry => DeliveryOutcome::Released,
    }
}
