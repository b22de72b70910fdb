//! Configuration and inspection of queues, and of the store itself.

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    Change, GroupName, MessageId, Namespace, PartitionId, PartitionName, QueueName, QueueOptions,
    TaskName, Timestamp, TransactionId,
};

use crate::error::StoreError;

/// Makes or changes a queue. Options are replaced as a whole.
#[derive(Debug, Clone)]
pub struct ConfigureQueue {
    /// The queue.
    pub queue: QueueName,
    /// Its namespace; `None` keeps what it has, or takes it from the name of a new queue.
    pub namespace: Option<Namespace>,
    /// Its task; like the namespace.
    pub task: Option<TaskName>,
    /// Its options.
    pub options: QueueOptions,
}

/// A queue as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDetail {
    /// The store's number for it.
    pub id: i64,
    /// Its name.
    pub queue: QueueName,
    /// Its namespace.
    pub namespace: Option<Namespace>,
    /// Its task.
    pub task: Option<TaskName>,
    /// Its options.
    pub options: QueueOptions,
    /// The partition `Default`.
    pub default_partition: PartitionId,
}

/// A message that used up its tries, or was given up. It owns its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for it.
    pub transaction_id: TransactionId,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// The queue.
    pub queue: QueueName,
    /// The partition.
    pub partition: PartitionName,
    /// The group that gave it up.
    pub group: GroupName,
    /// The last error.
    pub error: Option<String>,
    /// Counted failures.
    pub failures: u32,
    /// JSON text.
    pub payload: Bytes,
    /// Who pushed it.
    pub producer: Option<String>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// When it was given up.
    pub failed_at: Timestamp,
}

/// Which dead letters to list.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterFilter {
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this group.
    pub group: Option<GroupName>,
    /// Only of this partition.
    pub partition: Option<PartitionName>,
    /// At most so many.
    pub limit: u32,
    /// After skipping so many, newest first.
    pub offset: u32,
}

/// Where a message stands with one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// Not delivered yet, or waiting for a retry.
    Pending,
    /// Delivered, not settled.
    Processing,
    /// Settled.
    Completed,
    /// Given up.
    DeadLetter,
}

/// A message as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageDetail {
    /// The queue.
    pub queue: QueueName,
    /// The partition.
    pub partition: PartitionName,
    /// The message; `attempt` is the number of the next try in queue mode.
    pub message: crate::queue::Delivered,
    /// How each group of the queue stands with it.
    pub groups: Vec<(GroupName, MessageState)>,
}

/// Configuration and inspection of queues.
#[async_trait]
pub trait QueueAdmin: Send + Sync {
    /// Makes or changes a queue; makes its partition `Default`.
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError>;

    /// A queue as it stands.
    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError>;

    /// Removes a queue with its messages, groups and dead letters. True if it existed.
    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError>;

    /// Dead letters, newest first.
    async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Vec<DeadLetter>, StoreError>;

    /// The newest message of a transaction id in a partition.
    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError>;
}

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// `sqlite` or `postgres`.
    pub kind: &'static str,
    /// Where it is, without secrets.
    pub location: String,
}

/// The store itself.
#[async_trait]
pub trait StoreAdmin: Send + Sync {
    /// What and where it is.
    fn info(&self) -> StoreInfo;

    /// Fails unless a statement can be run.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes calls under way and ends all connections and threads.
    async fn close(&self);
}
