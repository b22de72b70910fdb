//! The names, times and handles of the two sides of a comparison.

use std::time::Duration;

use wakeline_core::{
    CursorId, DeadLetterId, GroupName, LeaseId, LeaseToken, Namespace, PartitionId, PartitionName,
    QueueLine, QueueName, Selector, Timestamp, TransactionId,
};
use wakeline_store::{DeadLetter, Delivered, GroupPartition, LedgerEntry};

use super::op::{GROUPS, MessageTarget, PARTITIONS, QUEUES, partition};

/// The names that a sequence uses.
pub(super) struct QueueNames {
    pub(super) queues: Vec<QueueName>,
    pub(super) partitions: Vec<PartitionName>,
    pub(super) groups: Vec<GroupName>,
    pub(super) namespace: Namespace,
}

impl QueueNames {
    /// Generates names that no other case uses.
    pub(super) fn fresh() -> Self {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let namespace = Namespace::new(&unique).expect("a short name");
        let queue = |n| QueueName::new(format!("{unique}.{n}")).expect("a short name");
        let group = |n| match n {
            0 => GroupName::queue_mode(),
            n => GroupName::new(format!("g{n}-{unique}")).expect("a short name"),
        };
        Self {
            queues: (0..QUEUES).map(queue).collect(),
            partitions: (0..PARTITIONS).map(partition).collect(),
            groups: (0..GROUPS).map(group).collect(),
            namespace,
        }
    }

    pub(super) fn places() -> impl Iterator<Item = MessageTarget> {
        (0..QUEUES).flat_map(|queue| {
            (0..PARTITIONS).map(move |partition| MessageTarget { queue, partition })
        })
    }

    pub(super) fn place(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Option<MessageTarget> {
        Some(MessageTarget {
            queue: self.queues.iter().position(|name| name == queue)?,
            partition: self.partitions.iter().position(|name| name == partition)?,
        })
    }

    pub(super) fn line(&self, place: MessageTarget, group: usize) -> QueueLine {
        let queue = self.queues[place.queue].clone();
        let selector = Selector::Partition(queue, self.partitions[place.partition].clone());
        QueueLine { selector, group: self.groups[group].clone() }
    }

    /// Returns the line of one queue, or of both queues by their namespace.
    pub(super) fn wide_line(&self, queue: Option<usize>, group: usize) -> QueueLine {
        let selector = match queue {
            Some(queue) => Selector::Queue(self.queues[queue].clone()),
            None => Selector::Filter { namespace: Some(self.namespace.clone()), task: None },
        };
        QueueLine { selector, group: self.groups[group].clone() }
    }

    /// Returns a line for every possible cursor.
    pub(super) fn all_lines(&self) -> Vec<QueueLine> {
        let groups = |place| (0..GROUPS).map(move |group| self.line(place, group));
        Self::places().flat_map(groups).collect()
    }
}

/// By how many microseconds the store's clock is ahead of the oracle's.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueSkew(pub(super) i64);

impl QueueSkew {
    pub(super) fn group_partition(self, partition: GroupPartition) -> GroupPartition {
        GroupPartition {
            partition_id: PartitionId(0),
            oldest_at: partition.oldest_at.map(|at| self.to_oracle(at)),
            leased_until: partition.leased_until.map(|until| self.to_oracle(until)),
            taken_at: partition.taken_at.map(|at| self.to_oracle(at)),
            ..partition
        }
    }

    /// Converts a time of the store's clock to the oracle's.
    pub(super) fn to_oracle(self, time: Timestamp) -> Timestamp {
        Timestamp(time.0 - self.0)
    }

    /// Converts a time of the oracle's clock to the store's.
    pub(super) fn to_store(self, time: Timestamp) -> Timestamp {
        Timestamp(time.0 + self.0)
    }

    pub(super) fn delivered(self, message: &Delivered) -> Delivered {
        Delivered { created_at: self.to_oracle(message.created_at), ..message.clone() }
    }

    /// Converts and sorts ledger entries, because entries with equal times come in any order.
    pub(super) fn ledger(self, entries: Vec<LedgerEntry>) -> Vec<LedgerEntry> {
        let plain = |entry: LedgerEntry| LedgerEntry {
            offered_at: self.to_oracle(entry.offered_at),
            ended_at: entry.ended_at.map(|at| self.to_oracle(at)),
            leased_until: self.to_oracle(entry.leased_until),
            ..entry
        };
        let mut entries: Vec<_> = entries.into_iter().map(plain).collect();
        entries.sort();
        entries
    }

    pub(super) fn dead_letter(self, letter: &DeadLetter) -> DeadLetter {
        DeadLetter {
            created_at: self.to_oracle(letter.created_at),
            failed_at: self.to_oracle(letter.failed_at),
            partition_id: PartitionId(0),
            number: DeadLetterId(0),
            ..letter.clone()
        }
    }
}

/// One side's view of a leased cursor.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    pub(super) partition: PartitionId,
    pub(super) lease: LeaseId,
}

impl Handle {
    /// Returns the part of a lease that covers its n-th partition.
    pub(super) fn of(lease: &LeaseId, n: usize) -> Self {
        let cursor: CursorId = lease.cursors[n];
        let lease = LeaseId { token: lease.token, cursors: vec![cursor] };
        Self { partition: cursor.partition, lease }
    }
}

/// A cursor that was leased on both sides. The lease may have ended.
#[derive(Debug, Clone)]
pub(super) struct QueueHold {
    pub(super) group: usize,
    pub(super) token: LeaseToken,
    pub(super) oracle: Handle,
    pub(super) store: Handle,
    pub(super) messages: Vec<TransactionId>,
}

/// The time so long ago.
pub(super) fn ago(now: Timestamp, ms: u64) -> Timestamp {
    let micros = i64::try_from(Duration::from_millis(ms).as_micros()).expect("a short time");
    Timestamp(now.0 - micros)
}
