//! Counts of the messages in queues and partitions, by state.
//!
//! # Invariants
//! * All counts are derived from the ends of logs, cursors and dead letters. No message is read in
//!   order to be counted, so the cost depends on the number of partitions and dead letters, not on
//!   the number of messages.

use async_trait::async_trait;
use wakeline_core::{
    GroupName, Namespace, PartitionId, PartitionName, QueueName, TaskName, Timestamp,
};

use crate::dead::Page;
use crate::error::StoreError;
use crate::housekeeping::Losses;

/// The numbers of messages of a partition or a queue, by state.
///
/// The counts of a partition are those of the group that is furthest behind in it, measured by the
/// messages that it has not read or settled yet; among equals, the first by name. If no group reads
/// the partition, all stored messages are pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageCounts {
    /// Messages that were ever pushed.
    pub total: u64,
    /// Messages that were not delivered yet, or wait to be delivered again.
    pub pending: u64,
    /// Messages that are delivered under a live lease and not settled.
    pub processing: u64,
    /// Pending messages that were delivered before.
    pub retrying: u64,
    /// Messages that are neither pending nor processing, and are a dead letter of some group.
    pub given_up: u64,
    /// Stored dead letters of all groups.
    pub dead_letters: u64,
}

impl MessageCounts {
    /// Messages that need no further work: settled, skipped or removed.
    pub fn completed(&self) -> u64 {
        self.total.saturating_sub(self.pending + self.processing + self.given_up)
    }

    /// Adds other counts.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.pending += other.pending;
        self.processing += other.processing;
        self.retrying += other.retrying;
        self.given_up += other.given_up;
        self.dead_letters += other.dead_letters;
    }
}

/// The counts of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// The store's numeric id of the queue.
    pub id: i64,
    /// The queue's name.
    pub queue: QueueName,
    /// The queue's namespace, if it has one.
    pub namespace: Option<Namespace>,
    /// The queue's task, if it has one.
    pub task: Option<TaskName>,
    /// When the queue was created.
    pub created_at: Timestamp,
    /// The queue's priority.
    pub priority: i32,
    /// The number of partitions.
    pub partitions: u64,
    /// The number of partitions with pending or processing messages.
    pub partitions_behind: u64,
    /// The number of partitions in which some group holds a lease.
    pub partitions_leased: u64,
    /// The number of partitions that have dead letters.
    pub partitions_dead: u64,
    /// The number of live leases; there is at most one per partition and group.
    pub leases: u64,
    /// The messages of all partitions together.
    pub messages: MessageCounts,
    /// The messages that the queue's groups lost to its limits.
    pub losses: Losses,
}

/// The counts of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCounts {
    /// The partition's name.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// The messages of the partition.
    pub messages: MessageCounts,
    /// When the oldest stored message was pushed.
    pub oldest_at: Option<Timestamp>,
    /// When the last message was pushed.
    pub last_push_at: Option<Timestamp>,
}

/// The number of messages that a group, or a whole queue, has not settled yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Depth {
    /// The number of unread or unsettled messages.
    pub len: u64,
    /// The number of partitions with unread or unsettled messages.
    pub partitions_behind: u64,
    /// A page of these partitions, in order of creation, with the number of messages of each.
    pub partitions: Vec<(PartitionName, u64)>,
}

/// The number of dead letters of a queue with the same error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterError {
    /// The queue that the dead letters come from.
    pub queue: QueueName,
    /// The error of their last attempt.
    pub error: Option<String>,
    /// The number of dead letters.
    pub len: u64,
}

/// Counts of the messages in queues.
#[async_trait]
pub trait CountsStore: Send + Sync {
    /// The counts of one queue, or of all queues ordered by name.
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError>;

    /// The counts of the partitions of a queue, in order of creation.
    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError>;

    /// The number of messages that a group has not settled yet; without a group, of the group that
    /// is furthest behind in each partition. A group that has never read the queue counts all
    /// stored messages. `None` if the queue does not exist.
    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError>;

    /// The errors of the `newest` most recent dead letters, grouped by queue and error, most
    /// frequent first.
    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError>;
}
