//! The words of the rules: what is asked for, what was taken, what was told.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    Change, GroupName, LeaseId, LeaseToken, MessageId, Namespace, PartitionId, PartitionName,
    QueueLine, QueueName, QueueOptions, Selector, Subscription, TaskName, TransactionId, Verdict,
};
use wakeline_store::{
    ClaimRequest, Delivered, Grant, LineClaim, PushItem, SettleItem, SettleOutcome,
};

/// Options of a queue whose failed messages come again at once, so that a rule need not wait.
pub fn at_once() -> QueueOptions {
    QueueOptions { retry_delay_ms: 0, retry_jitter_percent: 0, ..QueueOptions::default() }
}

/// What is claimed: a line and how much of it.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The line.
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

impl Ask {
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

    /// One message of all queues that fit, in queue mode.
    pub fn filter(namespace: Option<Namespace>, task: Option<TaskName>) -> Self {
        Self::of(Selector::Filter { namespace, task })
    }

    /// On behalf of a group.
    pub fn group(mut self, group: &GroupName) -> Self {
        self.line.group = group.clone();
        self
    }

    /// Where the group begins.
    pub fn subscribe(mut self, subscription: Subscription) -> Self {
        self.subscription = subscription;
        self
    }

    /// At most so many messages.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch;
        self
    }

    /// No more once there are so many bytes.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Of at most so many partitions.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Settled at once.
    pub fn auto_ack(mut self) -> Self {
        self.auto_ack = true;
        self
    }

    /// Under this token.
    pub fn token(mut self, token: LeaseToken) -> Self {
        self.token = Some(token);
        self
    }

    /// On behalf of this consumer.
    pub fn worker(mut self, worker: &str) -> Self {
        self.worker = Some(worker.to_owned());
        self
    }

    /// To say what is next even if every request is served.
    pub fn further(mut self) -> Self {
        self.further = true;
        self
    }

    /// A claim with so many requests of this kind.
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

/// What a request got.
#[derive(Debug, Clone)]
pub struct Taken {
    /// On whose behalf.
    pub group: GroupName,
    /// The answer.
    pub grant: Grant,
}

impl Taken {
    /// All messages, over all partitions.
    pub fn messages(&self) -> Vec<&Delivered> {
        self.grant.partitions.iter().flat_map(|partition| &partition.messages).collect()
    }

    /// The transaction ids of all messages.
    pub fn ids(&self) -> Vec<String> {
        self.messages().iter().map(|message| message.transaction_id.to_string()).collect()
    }

    /// The offsets of all messages.
    pub fn offsets(&self) -> Vec<i64> {
        self.messages().iter().map(|message| message.offset).collect()
    }

    /// The attempts of all messages.
    pub fn attempts(&self) -> Vec<u32> {
        self.messages().iter().map(|message| message.attempt).collect()
    }

    /// The names of the partitions.
    pub fn partitions(&self) -> Vec<String> {
        self.grant.partitions.iter().map(|partition| partition.partition.to_string()).collect()
    }

    /// The lease.
    pub fn lease(&self) -> LeaseId {
        self.grant.lease.clone().expect("a lease was asked for")
    }

    /// The first partition.
    pub fn partition_id(&self) -> PartitionId {
        self.grant.partitions[0].partition_id
    }

    /// The message of a transaction id, in the first partition that has it.
    pub fn item(&self, id: &str, verdict: Verdict) -> SettleItem {
        let has = |messages: &[Delivered]| {
            messages.iter().any(|message| message.transaction_id.as_str() == id)
        };
        let holding = self.grant.partitions.iter().find(|partition| has(&partition.messages));
        SettleItem {
            partition: holding.unwrap_or(&self.grant.partitions[0]).partition_id,
            group: self.group.clone(),
            token: self.grant.lease.as_ref().map(|lease| lease.token),
            transaction_id: TransactionId::new(id).expect("a short id"),
            verdict,
            error: None,
        }
    }
}

/// A message whose payload is its transaction id.
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

/// A partition's name.
pub fn partition_name(name: &str) -> PartitionName {
    PartitionName::new(name).expect("a short name")
}

/// Whether a settlement counted.
pub fn is_settled(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Settled { .. })
}

/// Whether a settlement that counted ended the lease of its partition.
pub fn ended_lease(outcome: &SettleOutcome) -> bool {
    matches!(outcome, SettleOutcome::Settled { lease_ended: true, .. })
}

/// The soonest that a line is told of.
pub fn told(changes: &[Change], ask: &Ask) -> Option<Duration> {
    changes.iter().filter(|change| change.concerns(&ask.line)).map(|change| change.due_in).min()
}

/// Shorthand.
pub fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}
