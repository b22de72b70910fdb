//! The oracle's state, and how queues, partitions, groups and messages are created.
//!
//! # Invariants
//! * Every group of a queue has a cursor for every partition of the queue.
//! * Ids are never used twice, so a deleted object is never mistaken for a newer one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    Change, GroupId, GroupName, LeaseToken, MessageId, Namespace, PartitionId, PartitionName,
    QueueName, QueueOptions, Selector, Subscription, TaskName, Timestamp, TransactionId,
};
use wakeline_store::{
    DeliveryOutcome, Dropped, Losses, Maintenance, PushGate, PushItem, PushOutcome, PushReply,
    Trace,
};

use super::access::OracleAccess;
use super::dead::{Buried, Redriving};
use super::flow::OracleFlow;
use super::hook::OracleHook;
use super::ledger::OracleEndedDelivery;
use super::schedule::Scheduled;
use super::stats::OracleStats;

/// The whole state of the oracle. A transaction works on a clone.
#[derive(Debug, Clone, Default)]
pub(super) struct OracleState {
    pub(super) queues: BTreeMap<QueueName, OracleQueue>,
    /// The messages that the current claim has dropped.
    pub(super) dropped: Vec<Dropped>,
    /// Dead letters in the order in which they were created.
    pub(super) dead_letters: Vec<Buried>,
    /// Redrive jobs.
    pub(super) redrives: Vec<Redriving>,
    /// Subscriptions to queues that do not exist yet.
    pub(super) remembered: Vec<OracleSubscription>,
    /// Orchestrations.
    pub(super) flow: OracleFlow,
    /// How often each operation of orchestrations was called.
    pub(super) flow_calls: BTreeMap<&'static str, u64>,
    /// Webhooks.
    pub(super) hook: OracleHook,
    /// How often each operation of webhooks was called.
    pub(super) hook_calls: BTreeMap<&'static str, u64>,
    /// API keys and the audit log.
    pub(super) access: OracleAccess,
    /// Statistics over time.
    pub(super) stats: OracleStats,
    /// Which operations are suspended.
    pub(super) maintenance: Maintenance,
    ids: i64,
}

#[derive(Debug, Clone)]
pub(super) struct OracleSubscription {
    pub(super) selector: Selector,
    pub(super) group: GroupName,
    pub(super) subscription: Subscription,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct OracleQueue {
    pub(super) id: i64,
    pub(super) namespace: Option<Namespace>,
    pub(super) task: Option<TaskName>,
    pub(super) options: QueueOptions,
    pub(super) created_at: Timestamp,
    pub(super) partitions: BTreeMap<PartitionName, OraclePartition>,
    pub(super) groups: BTreeMap<GroupName, OracleGroup>,
    /// How many messages groups have lost to time limits.
    pub(super) losses: Losses,
    /// The part of `losses` that housekeeping has reported.
    pub(super) reported: Losses,
    /// Scheduled messages and held messages.
    pub(super) scheduled: Vec<Scheduled>,
    /// The leases that have ended.
    pub(super) ledger: Vec<OracleEndedDelivery>,
}

#[derive(Debug, Clone)]
pub(super) struct OraclePartition {
    pub(super) id: PartitionId,
    /// The offset of the first stored message.
    pub(super) first: i64,
    /// The stored messages, in order of offset.
    pub(super) log: Vec<OracleMessage>,
    /// When the last message was pushed, even if it is no longer stored.
    pub(super) last_push_at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct OracleMessage {
    pub(super) id: MessageId,
    pub(super) transaction_id: TransactionId,
    pub(super) trace_id: Option<Uuid>,
    pub(super) payload: Bytes,
    pub(super) producer: Option<String>,
    pub(super) created_at: Timestamp,
    /// Its traces, with numbers that grow over all messages.
    pub(super) traces: Vec<(i64, Trace)>,
    /// Whether it was deleted, so that its offset is a gap.
    pub(super) deleted: bool,
}

#[derive(Debug, Clone)]
pub(super) struct OracleGroup {
    pub(super) id: GroupId,
    pub(super) subscription: Subscription,
    pub(super) created_at: Timestamp,
    pub(super) cursors: BTreeMap<PartitionName, OracleCursor>,
    /// When a poll was last recorded.
    pub(super) polled_at: Timestamp,
    /// Whether it has ever settled a message.
    pub(super) settled: bool,
}

#[derive(Debug, Clone)]
pub(super) struct OracleCursor {
    /// The first offset that was never leased.
    pub(super) next: i64,
    pub(super) lease: Option<OracleLease>,
    /// The messages that wait to be delivered again, by offset.
    pub(super) parked: BTreeMap<i64, OracleParked>,
    /// When it was last served or freed; cursors that were due earlier are served first.
    pub(super) freed_at: Timestamp,
    /// When messages were last taken, and the worker that took them.
    pub(super) taken: Option<(Timestamp, Option<String>)>,
}

#[derive(Debug, Clone)]
pub(super) struct OracleLease {
    pub(super) token: LeaseToken,
    pub(super) until: Timestamp,
    pub(super) unsettled: BTreeMap<i64, OracleHeld>,
    /// When it was claimed.
    pub(super) at: Timestamp,
    pub(super) worker: Option<String>,
    /// The outcomes of the settled messages.
    pub(super) ends: BTreeMap<i64, DeliveryOutcome>,
}

/// A message under a lease.
#[derive(Debug, Clone)]
pub(super) struct OracleHeld {
    pub(super) failures: u32,
    pub(super) error: Option<String>,
    pub(super) alone: bool,
    /// Whether it was taken from the log rather than from the parked messages.
    pub(super) from_log: bool,
}

/// A message that waits to be delivered again.
#[derive(Debug, Clone)]
pub(super) struct OracleParked {
    pub(super) failures: u32,
    pub(super) due_at: Timestamp,
    pub(super) error: Option<String>,
    pub(super) alone: bool,
}

impl OracleHeld {
    pub(super) fn parked(self, due_at: Timestamp) -> OracleParked {
        OracleParked { failures: self.failures, due_at, error: self.error, alone: self.alone }
    }
}

impl OracleCursor {
    pub(super) fn at(next: i64, now: Timestamp) -> Self {
        Self { next, lease: None, parked: BTreeMap::new(), freed_at: now, taken: None }
    }

    pub(super) fn live_lease(&mut self, now: Timestamp) -> Option<&mut OracleLease> {
        self.lease.as_mut().filter(|lease| lease.until > now)
    }
}

impl OracleQueue {
    /// Returns a change for all waiters of this queue.
    pub(super) fn change(&self, name: &QueueName, due_in: Duration) -> Change {
        Change {
            queue: name.clone(),
            partition: None,
            namespace: self.namespace.clone(),
            task: self.task.clone(),
            group: None,
            due_in,
        }
    }

    /// Returns the message that already has a transaction id in a partition: one in the log within
    /// the deduplication window, or a scheduled one.
    pub(super) fn known(
        &self,
        partition: &PartitionName,
        transaction_id: &TransactionId,
        now: Timestamp,
    ) -> Option<MessageId> {
        let window = Duration::from_secs(self.options.dedup_window_secs.into());
        let stored = self.partitions[partition].log.iter().find(|message| {
            let known = message.transaction_id == *transaction_id && !message.deleted;
            known && message.created_at.plus(window) >= now
        });
        let waiting = self.scheduled.iter().find(|scheduled| {
            scheduled.partition == *partition && scheduled.message.transaction_id == *transaction_id
        });
        stored.map(|message| message.id).or(waiting.map(|scheduled| scheduled.message.id))
    }

    pub(super) fn matches(&self, name: &QueueName, selector: &Selector) -> bool {
        match selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => queue == name,
            Selector::Filter { namespace, task } => {
                (namespace.is_none() || *namespace == self.namespace)
                    && (task.is_none() || *task == self.task)
            }
        }
    }
}

impl OracleState {
    pub(super) fn next_id(&mut self) -> i64 {
        self.ids += 1;
        self.ids
    }

    /// Creates a queue, its partition `Default`, and the groups whose subscription waits for it.
    pub(super) fn ensure_queue(&mut self, name: &QueueName, now: Timestamp) {
        if self.queues.contains_key(name) {
            return;
        }
        let (namespace, task) = name.derived_scope();
        self.make_queue(name, namespace, task, now);
    }

    pub(super) fn make_queue(
        &mut self,
        name: &QueueName,
        namespace: Option<Namespace>,
        task: Option<TaskName>,
        now: Timestamp,
    ) {
        let queue = OracleQueue {
            id: self.next_id(),
            namespace,
            task,
            options: QueueOptions::default(),
            created_at: now,
            partitions: BTreeMap::new(),
            groups: BTreeMap::new(),
            losses: Losses::default(),
            reported: Losses::default(),
            scheduled: Vec::new(),
            ledger: Vec::new(),
        };
        let remembered: Vec<_> = (self.remembered.iter())
            .filter(|remembered| queue.matches(name, &remembered.selector))
            .cloned()
            .collect();
        self.queues.insert(name.clone(), queue);
        self.remembered.retain(|remembered| match &remembered.selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => queue != name,
            Selector::Filter { .. } => true,
        });
        self.ensure_partition(name, &PartitionName::default_partition(), now);
        for OracleSubscription { group, subscription, at, .. } in remembered {
            self.ensure_group(name, &group, subscription, at);
        }
        let queue = self.queues.get_mut(name).expect("it was just made");
        queue.groups.values_mut().for_each(|group| group.polled_at = now);
    }

    pub(super) fn ensure_partition(
        &mut self,
        queue: &QueueName,
        name: &PartitionName,
        now: Timestamp,
    ) {
        let id = PartitionId(self.next_id());
        let queue = self.queues.get_mut(queue).expect("the queue was created before");
        if queue.partitions.contains_key(name) {
            return;
        }
        let partition =
            OraclePartition { id, first: 0, log: Vec::new(), last_push_at: Timestamp(i64::MIN) };
        queue.partitions.insert(name.clone(), partition);
        for group in queue.groups.values_mut() {
            group.cursors.insert(name.clone(), OracleCursor::at(0, now));
        }
    }

    /// Creates a group in a queue, unless it exists there.
    pub(super) fn ensure_group(
        &mut self,
        queue: &QueueName,
        name: &GroupName,
        subscription: Subscription,
        now: Timestamp,
    ) {
        let id = GroupId(i32::try_from(self.next_id()).expect("tests make few groups"));
        let queue = self.queues.get_mut(queue).expect("the queue was created before");
        if queue.groups.contains_key(name) {
            return;
        }
        let subscription = if name.is_queue_mode() { Subscription::All } else { subscription };
        let cursors = (queue.partitions.iter())
            .map(|(name, partition)| {
                // With freed_at at the beginning of time, only the messages decide when the
                // partition became due.
                let cursor = OracleCursor::at(partition.beginning(subscription), Timestamp(0));
                (name.clone(), cursor)
            })
            .collect();
        let group = OracleGroup {
            id,
            subscription,
            created_at: now,
            cursors,
            polled_at: now,
            settled: false,
        };
        queue.resume(now);
        queue.groups.insert(name.clone(), group);
    }

    pub(super) fn push(&mut self, items: Vec<PushItem>, now: Timestamp) -> PushReply {
        self.make_way(&items, now);
        self.store(items, now)
    }

    /// Creates the partitions of messages, and moves scheduled messages that are due there.
    pub(super) fn make_way(&mut self, items: &[PushItem], now: Timestamp) {
        for item in items {
            self.ensure_queue(&item.queue, now);
            self.ensure_partition(&item.queue, &item.partition, now);
            self.move_due(&Selector::Partition(item.queue.clone(), item.partition.clone()), now);
        }
    }

    pub(super) fn store(&mut self, items: Vec<PushItem>, now: Timestamp) -> PushReply {
        let mut reply = PushReply::default();
        for item in items {
            let (outcome, change) = self.push_one(item, now);
            reply.outcomes.push(outcome);
            reply.changes.extend(change.filter(|change| !reply.changes.contains(change)));
        }
        reply
    }

    fn push_one(&mut self, item: PushItem, now: Timestamp) -> (PushOutcome, Option<Change>) {
        let partition_name = &item.partition;
        let queue = self.queues.get_mut(&item.queue).expect("it was created before the push");
        if let Some(id) = queue.known(partition_name, &item.transaction_id, now) {
            let partition = queue.partitions[partition_name].id;
            return (PushOutcome::Duplicate { id, partition }, None);
        }
        let options = &queue.options;
        let wait = Duration::from_secs(options.delay_secs.max(options.window_secs).into());
        if self.maintenance.pushes != PushGate::Open {
            let change = Change {
                partition: Some(item.partition.clone()),
                ..queue.change(&item.queue, wait)
            };
            return (self.hold_back(item, now), Some(change));
        }
        let partition =
            queue.partitions.get_mut(partition_name).expect("it was created before the push");
        partition.append(OracleMessage {
            id: item.id,
            transaction_id: item.transaction_id,
            trace_id: item.trace_id,
            payload: item.payload,
            producer: item.producer,
            created_at: now,
            traces: Vec::new(),
            deleted: false,
        });
        let outcome = PushOutcome::Queued { id: item.id, partition: partition.id };
        let change =
            Change { partition: Some(item.partition.clone()), ..queue.change(&item.queue, wait) };
        (outcome, Some(change))
    }
}
