//! How queues and partitions stand, in numbers.
//!
//! # Invariants
//! * Everything is derived from the ends of logs, cursors and dead letters: no message is read to
//!   be counted, so the cost goes with partitions and dead letters, never with messages.

use async_trait::async_trait;
use wakeline_core::{
    GroupName, Namespace, PartitionId, PartitionName, QueueName, TaskName, Timestamp,
};

use crate::dead::Page;
use crate::error::StoreError;
use crate::keep::Losses;

/// How the messages of a partition or a queue stand.
///
/// A partition stands as its group does that is furthest behind in it, by what that one has yet to
/// read or to settle; of equals the first by name. Without a group all that is stored is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Messages that were ever pushed.
    pub total: u64,
    /// Not delivered yet, or waiting to be delivered again.
    pub pending: u64,
    /// Delivered under a live lease, not settled.
    pub processing: u64,
    /// Of those pending, such that were delivered before.
    pub retrying: u64,
    /// Neither pending nor processing, and a dead letter of some group.
    pub given_up: u64,
    /// Dead letters that are stored, of all groups.
    pub dead_letters: u64,
}

impl Tally {
    /// Messages that are done with: settled, passed over or removed.
    pub fn completed(&self) -> u64 {
        self.total.saturating_sub(self.pending + self.processing + self.given_up)
    }

    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.pending += other.pending;
        self.processing += other.processing;
        self.retrying += other.retrying;
        self.given_up += other.given_up;
        self.dead_letters += other.dead_letters;
    }
}

/// How a queue stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTally {
    /// The store's number for it.
    pub id: i64,
    /// The queue.
    pub queue: QueueName,
    /// Its namespace.
    pub namespace: Option<Namespace>,
    /// Its task.
    pub task: Option<TaskName>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its priority.
    pub priority: i32,
    /// Its partitions.
    pub partitions: u64,
    /// Those in which something is pending or processing.
    pub partitions_behind: u64,
    /// Those in which some group holds a lease.
    pub partitions_leased: u64,
    /// Those that dead letters come from.
    pub partitions_dead: u64,
    /// Live leases: one per partition and group.
    pub leases: u64,
    /// Its messages, all partitions together.
    pub tally: Tally,
    /// What its groups lost to its owner's limits.
    pub losses: Losses,
}

/// How a partition stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTally {
    /// The partition.
    pub partition: PartitionName,
    /// Its id.
    pub partition_id: PartitionId,
    /// Its messages.
    pub tally: Tally,
    /// When the oldest message that is stored was pushed.
    pub oldest_at: Option<Timestamp>,
    /// When the last message was pushed.
    pub last_push_at: Option<Timestamp>,
}

/// How much a group of a queue, or the queue, has yet to settle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Depth {
    /// Messages that are unread or unsettled.
    pub len: u64,
    /// Partitions that have such.
    pub partitions_behind: u64,
    /// A part of these, in the order in which they were made, with what each has.
    pub partitions: Vec<(PartitionName, u64)>,
}

/// Dead letters of a queue that have the same error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterError {
    /// The queue.
    pub queue: QueueName,
    /// Why they were given up.
    pub error: Option<String>,
    /// How many.
    pub len: u64,
}

/// How queues stand, in numbers.
#[async_trait]
pub trait QueueTallies: Send + Sync {
    /// How one queue stands, or all do, ordered by name.
    async fn queue_tallies(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueTally>, StoreError>;

    /// How the partitions of a queue stand, in the order in which they were made.
    async fn partition_tallies(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionTally>, StoreError>;

    /// How much a group has yet to settle; without one, the group that is furthest behind in each
    /// partition. One that never read the queue is read as one that begins with all. `None` if
    /// there is no such queue.
    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError>;

    /// Why the newest dead letters were given up, so many of them, by queue and error, the most
    /// frequent first.
    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError>;
}
