//! What the oracle remembers, and how queues, partitions, groups and messages come to be.
//!
//! # Invariants
//! * Every group of a queue has a cursor for every partition of the queue.
//! * Ids are never used twice, so what was deleted can not be mistaken for what came after it.

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

use super::access::Access;
use super::dead::{Buried, Redriving};
use super::flow::Flow;
use super::hook::Hook;
use super::ledger::Ended;
use super::schedule::Scheduled;
use super::stats::Stats;

/// Everything that the oracle remembers. Cloned to try a transaction.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) queues: BTreeMap<QueueName, Queue>,
    /// What the claim under way has dropped.
    pub(super) dropped: Vec<Dropped>,
    /// In the order in which they were given up.
    pub(super) dead_letters: Vec<Buried>,
    /// Jobs that redrive them.
    pub(super) redrives: Vec<Redriving>,
    /// Subscriptions to queues that do not exist yet.
    pub(super) remembered: Vec<Remembered>,
    /// Orchestrations.
    pub(super) flow: Flow,
    /// How often each operation of orchestrations was called.
    pub(super) flow_calls: BTreeMap<&'static str, u64>,
    /// Webhooks.
    pub(super) hook: Hook,
    /// How often each operation of webhooks was called.
    pub(super) hook_calls: BTreeMap<&'static str, u64>,
    /// API keys, and what was done to what.
    pub(super) access: Access,
    /// Figures over time.
    pub(super) stats: Stats,
    /// What is suspended.
    pub(super) maintenance: Maintenance,
    ids: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub(super) selector: Selector,
    pub(super) group: GroupName,
    pub(super) subscription: Subscription,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) namespace: Option<Namespace>,
    pub(super) task: Option<TaskName>,
    pub(super) options: QueueOptions,
    pub(super) created_at: Timestamp,
    pub(super) partitions: BTreeMap<PartitionName, Partition>,
    pub(super) groups: BTreeMap<GroupName, Group>,
    /// What groups lost to the limits of time.
    pub(super) losses: Losses,
    /// Of these, what housekeeping has told of.
    pub(super) told: Losses,
    /// Messages that wait for their time.
    pub(super) scheduled: Vec<Scheduled>,
    /// How leases ended.
    pub(super) ledger: Vec<Ended>,
}

#[derive(Debug, Clone)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    /// The offset of the first message that is stored.
    pub(super) first: i64,
    /// What is stored, in order of offset.
    pub(super) log: Vec<Message>,
    /// When the last message was pushed, stored or not.
    pub(super) last_push_at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) transaction_id: TransactionId,
    pub(super) trace_id: Option<Uuid>,
    pub(super) payload: Bytes,
    pub(super) producer: Option<String>,
    pub(super) created_at: Timestamp,
    /// What was noted on it, with numbers that grow over all messages.
    pub(super) traces: Vec<(i64, Trace)>,
    /// It was deleted: its offset is a gap.
    pub(super) deleted: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) subscription: Subscription,
    pub(super) created_at: Timestamp,
    pub(super) cursors: BTreeMap<PartitionName, Cursor>,
    /// When it was last polled, as far as that was recorded.
    pub(super) polled_at: Timestamp,
    /// Whether it has ever settled anything.
    pub(super) settled: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Cursor {
    /// The first offset that was never leased.
    pub(super) next: i64,
    pub(super) lease: Option<Lease>,
    /// What waits to be delivered again, by offset.
    pub(super) parked: BTreeMap<i64, Parked>,
    /// When it was last served or freed: others that were due before go first.
    pub(super) freed_at: Timestamp,
    /// When messages were last taken, and by whom.
    pub(super) taken: Option<(Timestamp, Option<String>)>,
}

#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) token: LeaseToken,
    pub(super) until: Timestamp,
    pub(super) unsettled: BTreeMap<i64, Held>,
    /// When it was granted, and to whom.
    pub(super) at: Timestamp,
    pub(super) worker: Option<String>,
    /// What became of what is settled.
    pub(super) ends: BTreeMap<i64, DeliveryOutcome>,
}

/// A message under a lease.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) failures: u32,
    pub(super) error: Option<String>,
    pub(super) alone: bool,
    /// Taken from the log, not from what was parked.
    pub(super) from_log: bool,
}

/// A message that waits to be delivered again.
#[derive(Debug, Clone)]
pub(super) struct Parked {
    pub(super) failures: u32,
    pub(super) due_at: Timestamp,
    pub(super) error: Option<String>,
    pub(super) alone: bool,
}

impl Held {
    pub(super) fn parked(self, due_at: Timestamp) -> Parked {
        Parked { failures: self.failures, due_at, error: self.error, alone: self.alone }
    }
}

impl Cursor {
    pub(super) fn at(next: i64, now: Timestamp) -> Self {
        Self { next, lease: None, parked: BTreeMap::new(), freed_at: now, taken: None }
    }

    pub(super) fn live_lease(&mut self, now: Timestamp) -> Option<&mut Lease> {
        self.lease.as_mut().filter(|lease| lease.until > now)
    }
}

impl Queue {
    /// A hint for everyone who may be waiting for this queue.
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

    /// The message that a transaction id names in a partition: one of the log within the dedup
    /// window, or one that waits for its time.
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
        let waits = self.scheduled.iter().find(|scheduled| {
            scheduled.partition == *partition && scheduled.message.transaction_id == *transaction_id
        });
        stored.map(|message| message.id).or(waits.map(|scheduled| scheduled.message.id))
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

impl State {
    pub(super) fn next_id(&mut self) -> i64 {
        self.ids += 1;
        self.ids
    }

    /// Makes a queue, its partition `Default`, and the groups that were waiting for it.
    pub(super) fn ensure_queue(&mut self, name: &QueueName, now: Timestamp) {
        if self.queues.contains_key(name) {
            return;
        }
        let (namespace, task) = name.derived_scope();
        self.make_queue(name, (namespace, task), now);
    }

    pub(super) fn make_queue(
        &mut self,
        name: &QueueName,
        (namespace, task): (Option<Namespace>, Option<TaskName>),
        now: Timestamp,
    ) {
        let queue = Queue {
            id: self.next_id(),
            namespace,
            task,
            options: QueueOptions::default(),
            created_at: now,
            partitions: BTreeMap::new(),
            groups: BTreeMap::new(),
            losses: Losses::default(),
            told: Losses::default(),
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
        for Remembered { group, subscription, at, .. } in remembered {
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
        let queue = self.queues.get_mut(queue).expect("the queue was made before");
        if queue.partitions.contains_key(name) {
            return;
        }
        let partition =
            Partition { id, first: 0, log: Vec::new(), last_push_at: Timestamp(i64::MIN) };
        queue.partitions.insert(name.clone(), partition);
        for group in queue.groups.values_mut() {
            group.cursors.insert(name.clone(), Cursor::at(0, now));
        }
    }

    /// Begins a group in a queue, unless it has begun there.
    pub(super) fn ensure_group(
        &mut self,
        queue: &QueueName,
        name: &GroupName,
        subscription: Subscription,
        now: Timestamp,
    ) {
        let id = GroupId(i32::try_from(self.next_id()).expect("tests make few groups"));
        let queue = self.queues.get_mut(queue).expect("the queue was made before");
        if queue.groups.contains_key(name) {
            return;
        }
        let subscription = if name.is_queue_mode() { Subscription::All } else { subscription };
        let cursors = (queue.partitions.iter())
            .map(|(name, partition)| {
                // Its freed_at lies before everything, so that only the messages decide when
                // the partition became due.
                let cursor = Cursor::at(partition.beginning(subscription), Timestamp(0));
                (name.clone(), cursor)
            })
            .collect();
        let group =
            Group { id, subscription, created_at: now, cursors, polled_at: now, settled: false };
        queue.resume(now);
        queue.groups.insert(name.clone(), group);
    }

    pub(super) fn push(&mut self, items: Vec<PushItem>, now: Timestamp) -> PushReply {
        self.make_way(&items, now);
        self.store(items, now)
    }

    /// Makes the partitions of messages, and moves what is due there.
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
        let queue = self.queues.get_mut(&item.queue).expect("made before the push");
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
        let partition = queue.partitions.get_mut(partition_name).expect("made before the push");
        partition.append(Message {
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
