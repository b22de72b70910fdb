//! Helpers that say in a rule what is claimed, what was taken, and what was notified.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    Change, GroupName, LeaseId, LeaseToken, MessageId, Namespace, PartitionId, PartitionName,
    QueueLine, QueueName, QueueOptions, Selector, Subscription, TaskName, TransactionId, Verdict,
};
use wakeline_store::{
    ClaimRequest, Delivered, LineClaim, PushItem, QueueClaimResult, SettleItem, SettleOutcome,
};

/// Options of a queue whose failed messages are retried at once, so that a rule need not wait.
pub fn at_once() -> QueueOptions {
    QueueOptions { retry_delay_ms: 0, retry_jitter_percent: 0, ..QueueOptions::default() }
}

/// What a rule claims: a line, and how much of it.
#[derive(Debug, Clone)]
pub struct ClaimSpec {
    /// The line that is claimed.
    pub line: QueueLine,
    subscription: Subscription,
    batch: u32,
    bytes: u64,
    partitions: u32,
    auto_ack: bool,
    token: Option<LeaseToken>,
    worker: Option<String>,
    further: bool,
}

impl ClaimSpec {
    fn of(selector: Selector) -> Self {
        Self {
            line: QueueLine { selector, group: GroupName::queue_mode() },
            subscription: Subscription::All,
            batch: 1,
            bytes: u64::MAX,
            partitions: 1,
            auto_ack: false,
            token: None,
            worker: None,
            further: false,
        }
    }

    /// One message of a queue, in queue mode.
    pub fn queue(queue: &QueueName) -> Self {
        Self::of(Selector::Queue(queue.clone()))
    }

    /// One message of a partition, in queue mode.
    pub fn partition(queue: &QueueName, partition: &str) -> Self {
        Self::of(Selector::Partition(queue.clone(), partition_name(partition)))
    }

    /// One message of all queues that match, in queue mode.
    pub fn filter(namespace: Option<Namespace>, task: Option<TaskName>) -> Self {
        Self::of(Selector::Filter { namespace, task })
    }

    /// Claims on behalf of a group.
    pub fn group(mut self, group: &GroupName) -> Self {
        self.line.group = group.clone();
        self
    }

    /// Sets where the group begins.
    pub fn subscribe(mut self, subscription: Subscription) -> Self {
        self.subscription = subscription;
        self
    }

    /// Sets the maximal number of messages.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the number of bytes after which no more messages are taken.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the maximal number of partitions.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Settles the messages when they are taken.
    pub fn auto_ack(mut self) -> Self {
        self.auto_ack = true;
        self
    }

    /// Claims with this token.
    pub fn token(mut self, token: LeaseToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Claims on behalf of this consumer.
    pub fn worker(mut self, worker: &str) -> Self {
        self.worker = Some(worker.to_owned());
        self
    }

    /// Requests the next due time even if every request is served.
    pub fn further(mut self) -> Self {
        self.further = true;
        self
    }

    /// A claim with this number of such requests.
    pub fn line_claim(&self, requests: usize) -> LineClaim {
        let request = || ClaimRequest {
            token: self.token.unwrap_or_else(LeaseToken::generate),
            batch_len_max: self.batch,
            bytes_max: self.bytes,
            partitions_len_max: self.partitions,
            auto_ack: self.auto_ack,
            worker: self.worker.clone(),
        };
        LineClaim {
            line: self.line.clone(),
            subscription: self.subscription,
            requests: (0..requests).map(|_| request()).collect(),
            further: self.further,
        }
    }
}

/// What one request of a claim got.
#[derive(Debug, Clone)]
pub struct TakenBatch {
    /// The group on whose behalf it was claimed.
    pub group: GroupName,
    /// The store's answer to the request.
    pub result: QueueClaimResult,
}

impl TakenBatch {
    /// All messages, over all partitions.
    pub fn messages(&self) -> Vec<&Delivered> {
        self.result.partitions.iter().flat_map(|partition| &partition.messages).collect()
    }

    /// The transaction ids of all messages, in order.
    pub fn ids(&self) -> Vec<String> {
        self.messages().iter().map(|message| message.transaction_id.to_string()).collect()
    }

    /// The offsets of all messages, in order.
    pub fn offsets(&self) -> Vec<i64> {
        self.messages().iter().map(|message| message.offset).collect()
    }

    /// The attempts of all messages, in order.
    pub fn attempts(&self) -> Vec<u32> {
        self.messages().iter().map(|message| message.attempt).collect()
    }

    /// The names of the partitions, in order.
    pub fn partitions(&self) -> Vec<String> {
        self.result.partitions.iter().map(|partition| partition.partition.to_string()).collect()
    }

    /// The lease, which must exist.
    pub fn lease(&self) -> LeaseId {
        self.result.lease.clone().expect("a lease was requested")
    }

    /// The id of the first partition.
    pub fn partition_id(&self) -> PartitionId {
        self.result.partitions[0].partition_id
    }

    /// The settlement of the message with this transaction id, in the first partition that has it.
    pub fn item(&self, id: &str, verdict: Verdict) -> SettleItem {
        let has = |messages: &[Delivered]| {
            messages.iter().any(|message| message.transaction_id.as_str() == id)
        };
        let holding = self.result.partitions.iter().find(|partition| has(&partition.messages));
        SettleItem {
            partition: holding.unwrap_or(&self.result.partitions[0]).partition_id,
            group: self.group.clone(),
            token: self.result.lease.as_ref().map(|lease| lease.token),
            transaction_id: TransactionId::new(id).expect("a short id"),
            verdict,
            error: None,
        }
    }
}

/// A message to push whose payload is its transaction id.
pub fn item(queue: &QueueName, partition: &str, id: &str) -> PushItem {
    PushItem {
        queue: queue.clone(),
        partition: partition_name(partition),
        id: MessageId::generate(),
        transaction_id: TransactionId::new(id).expect("a short id"),
        trace_id: None,
        payload: Bytes::from(format!("\"{id}\"")),
        producer: None,
    }
}

/// A valid partition name.
pub fn partition_name(name: &str) -> PartitionName {
    PartitionName::new(name).expect("a short name")
}

/// Whether a settlement succeeded.
pub fn is_settled(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Settled { .. })
}

/// Whether a settlement succeeded and ended the lease of its partition.
pub fn ended_lease(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Settled { lease_ended: true, .. })
}

/// The earliest time at which a line is due, by the changes that concern it.
pub fn earliest_due(changes: &[Change], spec: &ClaimSpec) -> Option<Duration> {
    changes.iter().filter(|change| change.concerns(&spec.line)).map(|change| change.due_in).min()
}

/// A duration of seconds, as the store returns it for the next due time.
pub fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}
