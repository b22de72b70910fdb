//! Scheduled messages, and transactions.

use wakeline_core::{Change, PartitionName, Selector, TimerKey, Timestamp};
use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, CancelOutcome, PushGate, PushItem, PushOutcome, ScheduleItem, ScheduleOutcome,
    ScheduledFilter, ScheduledMessage, ScheduledRef, TransactCommand, TransactOutcome,
    TransactReply, Transacted,
};

use super::state::{OracleMessage, OracleQueue, OracleState};

/// A message that is not due yet. Its `created_at` is the time at which it was scheduled.
#[derive(Debug, Clone)]
pub(super) struct Scheduled {
    pub(super) seq: i64,
    pub(super) partition: PartitionName,
    pub(super) message: OracleMessage,
    pub(super) deliver_at: Timestamp,
    pub(super) key: Option<TimerKey>,
    /// Whether it was pushed during a maintenance, and is held.
    pub(super) held: bool,
}

impl Scheduled {
    fn named(&self) -> ScheduledRef {
        ScheduledRef {
            id: self.message.id,
            transaction_id: self.message.transaction_id.clone(),
            deliver_at: self.deliver_at,
        }
    }
}

impl OracleQueue {
    /// Returns when the first scheduled message that a selector covers is due.
    pub(super) fn scheduled_due(&self, selector: &Selector) -> Option<Timestamp> {
        let ours = self.scheduled.iter().filter(|one| speaks_of(selector, &one.partition));
        ours.map(|one| one.deliver_at).min()
    }

    /// Gives due messages their offsets, in the order in which they became due.
    fn move_due(&mut self, selector: &Selector, now: Timestamp) {
        let due =
            |one: &mut Scheduled| one.deliver_at <= now && speaks_of(selector, &one.partition);
        let mut due: Vec<_> = self.scheduled.extract_if(.., due).collect();
        due.sort_by_key(|one| (one.deliver_at, one.seq));
        for Scheduled { partition, message, .. } in due {
            let partition = self
                .partitions
                .get_mut(&partition)
                .expect("it was created when the message was scheduled");
            partition.append(OracleMessage { created_at: now, ..message });
        }
    }
}

fn speaks_of(selector: &Selector, partition: &PartitionName) -> bool {
    match selector {
        Selector::Partition(_, name) => name == partition,
        Selector::Queue(_) | Selector::Filter { .. } => true,
    }
}

impl OracleState {
    /// Gives due messages their offsets, unless pushes are held or refused.
    pub(super) fn move_due(&mut self, selector: &Selector, now: Timestamp) {
        if self.maintenance.pushes != PushGate::Open {
            return;
        }
        for (name, queue) in &mut self.queues {
            if queue.matches(name, selector) {
                queue.move_due(selector, now);
            }
        }
    }

    pub(super) fn transact(&mut self, command: TransactCommand, now: Timestamp) -> TransactReply {
        let mut copy = self.clone();
        copy.make_way(&command.pushes, now);
        let cancels = command.cancels.iter().map(|item| copy.cancel(item, now)).collect();
        let (mut schedules, mut changes) = (Vec::new(), Vec::new());
        for item in command.schedules {
            let (outcome, change) = copy.schedule(item, now);
            schedules.push(outcome);
            changes.extend(change);
        }
        let pushed = copy.store(command.pushes, now);
        let settled = copy.settle(&command.settles, now);
        let enqueued = copy.flow.enqueue(command.envelopes, &[], now);
        let (mut emits, mut hook_changes) = (Vec::new(), Vec::new());
        for message in command.emits {
            let reply = copy.hook.emit_piggybacked(message, now);
            emits.push(reply.outcome);
            hook_changes.extend(reply.changes);
        }
        let outcome = TransactOutcome::judge(Transacted {
            cancels,
            schedules,
            pushes: pushed.outcomes,
            settles: settled.outcomes,
            envelopes: enqueued.outcomes,
            emits,
        });
        if let TransactOutcome::Refused(refusal) = outcome {
            return TransactReply::refused(refusal);
        }
        *self = copy;
        changes.extend(pushed.changes.into_iter().chain(settled.changes));
        TransactReply { outcome, changes, flow_changes: enqueued.changes, hook_changes }
    }

    fn cancel(&mut self, item: &CancelItem, now: Timestamp) -> CancelOutcome {
        let Some(queue) = self.queues.get_mut(&item.queue) else { return CancelOutcome::Absent };
        let named = |one: &Scheduled| one.key.as_ref() == Some(&item.key);
        match queue.scheduled.iter().position(named) {
            None => CancelOutcome::Absent,
            Some(at) if queue.scheduled[at].deliver_at <= now => {
                CancelOutcome::TooLate(queue.scheduled[at].named())
            }
            Some(at) => CancelOutcome::Cancelled(queue.scheduled.remove(at).named()),
        }
    }

    fn schedule(
        &mut self,
        item: ScheduleItem,
        now: Timestamp,
    ) -> (ScheduleOutcome, Option<Change>) {
        let ScheduleItem { message, due, key } = item;
        self.ensure_queue(&message.queue, now);
        self.ensure_partition(&message.queue, &message.partition, now);
        let seq = self.next_id();
        let deliver_at = match due {
            Visible::Now => now,
            Visible::After(span) => now.plus(span),
            Visible::At(at) => at,
        };
        let queue = self.queues.get_mut(&message.queue).expect("it was just created");
        let partition = queue.partitions[&message.partition].id;
        let same = |one: &Scheduled| key.is_some() && one.key == key;
        // A message that is due can no longer be replaced, so it gives up its key.
        for one in queue.scheduled.iter_mut().filter(|one| same(one) && one.deliver_at <= now) {
            one.key = None;
        }
        let before = queue.scheduled.iter().position(same).map(|at| queue.scheduled.remove(at));
        if let Some(id) = queue.known(&message.partition, &message.transaction_id, now) {
            queue.scheduled.extend(before);
            return (ScheduleOutcome::Duplicate { id, partition }, None);
        }
        let change = Change {
            partition: Some(message.partition.clone()),
            ..queue.change(&message.queue, now.until(deliver_at))
        };
        let outcome = ScheduleOutcome::Scheduled {
            id: message.id,
            partition,
            deliver_at,
            replaced: before.is_some(),
        };
        let partition = message.partition.clone();
        let message = OracleMessage {
            id: message.id,
            transaction_id: message.transaction_id,
            trace_id: message.trace_id,
            payload: message.payload,
            producer: message.producer,
            created_at: now,
            traces: Vec::new(),
            deleted: false,
        };
        let held = false;
        queue.scheduled.push(Scheduled { seq, partition, message, deliver_at, key, held });
        (outcome, Some(change))
    }

    /// Stores a pushed message as held: due, but not moved before the maintenance ends.
    pub(super) fn hold_back(&mut self, item: PushItem, now: Timestamp) -> PushOutcome {
        let seq = self.next_id();
        let queue = self.queues.get_mut(&item.queue).expect("it was created before the push");
        let partition =
            queue.partitions.get_mut(&item.partition).expect("it was created before the push");
        partition.last_push_at = partition.last_push_at.max(now);
        let outcome = PushOutcome::Held { id: item.id, partition: partition.id };
        let message = OracleMessage {
            id: item.id,
            transaction_id: item.transaction_id,
            trace_id: item.trace_id,
            payload: item.payload,
            producer: item.producer,
            created_at: now,
            traces: Vec::new(),
            deleted: false,
        };
        let (partition, deliver_at) = (item.partition, now);
        let one = Scheduled { seq, partition, message, deliver_at, key: None, held: true };
        queue.scheduled.push(one);
        outcome
    }

    pub(super) fn scheduled(&self, filter: &ScheduledFilter) -> Vec<ScheduledMessage> {
        let Some(queue) = self.queues.get(&filter.queue) else { return Vec::new() };
        let mut found: Vec<_> = (queue.scheduled.iter())
            .filter(|one| filter.key.is_none() || one.key == filter.key)
            .filter(|one| filter.after.is_none_or(|after| (one.deliver_at, one.seq) > after))
            .map(|one| scheduled_message(queue, one))
            .collect();
        found.sort_by_key(|one| (one.deliver_at, one.seq));
        found.truncate(filter.limit as usize);
        found
    }
}

fn scheduled_message(queue: &OracleQueue, one: &Scheduled) -> ScheduledMessage {
    let message = &one.message;
    ScheduledMessage {
        seq: one.seq,
        key: one.key.clone(),
        id: message.id,
        transaction_id: message.transaction_id.clone(),
        trace_id: message.trace_id,
        producer: message.producer.clone(),
        partition: one.partition.clone(),
        partition_id: queue.partitions[&one.partition].id,
        scheduled_at: message.created_at,
        deliver_at: one.deliver_at,
        payload: message.payload.clone(),
    }
}
