//! Configuration and inspection of queues, and of the store itself.

use async_trait::async_trait;
use wakeline_core::{
    Change, GroupName, Namespace, OptionsPatch, PartitionId, PartitionName, QueueName,
    QueueOptions, TaskName, TransactionId,
};

use crate::error::StoreError;
use crate::ledger::LedgerEntry;

/// Creates a queue or changes it. Options are replaced as a whole.
#[derive(Debug, Clone)]
pub struct ConfigureQueue {
    /// The queue to create or change.
    pub queue: QueueName,
    /// The namespace. `None` keeps the current one; a new queue then takes it from its name.
    pub namespace: Option<Namespace>,
    /// The task; `None` has the same meaning as for the namespace.
    pub task: Option<TaskName>,
    /// The complete new options.
    pub options: QueueOptions,
}

/// Changes a queue. Fields that are `None` stay as they are.
#[derive(Debug, Clone)]
pub struct PatchQueue {
    /// The queue to change.
    pub queue: QueueName,
    /// The new namespace.
    pub namespace: Option<Namespace>,
    /// The new task.
    pub task: Option<TaskName>,
    /// The options to change.
    pub options: OptionsPatch,
    /// Whether to create the queue if it does not exist.
    pub create: bool,
}

/// A queue and its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDetail {
    /// The store's numeric id of the queue.
    pub id: i64,
    /// The queue's name.
    pub queue: QueueName,
    /// The queue's namespace, if it has one.
    pub namespace: Option<Namespace>,
    /// The queue's task, if it has one.
    pub task: Option<TaskName>,
    /// The queue's current options.
    pub options: QueueOptions,
    /// The id of the partition `Default`.
    pub default_partition: PartitionId,
}

/// The state of a message for one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// Not delivered yet, or waiting for a retry.
    Pending,
    /// Delivered under a live lease and not settled.
    Processing,
    /// Settled successfully, or skipped by the group.
    Completed,
    /// Given up; a dead letter may be stored.
    DeadLetter,
}

/// A message with its state in every group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageDetail {
    /// The queue that holds the message.
    pub queue: QueueName,
    /// The partition that holds the message.
    pub partition: PartitionName,
    /// The message itself; `attempt` is the number of the next attempt in queue mode.
    pub message: crate::queue::Delivered,
    /// The state of the message for each group of the queue.
    pub groups: Vec<(GroupName, MessageState)>,
    /// The last error of each group that will retry the message or has given it up.
    pub errors: Vec<(GroupName, String)>,
    /// The message's deliveries that are still in the ledger, in the order in which they were
    /// offered.
    pub ledger: Vec<LedgerEntry>,
}

/// Configuration and inspection of queues.
#[async_trait]
pub trait QueueAdmin: Send + Sync {
    /// Creates or changes a queue, and creates its partition `Default`.
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError>;

    /// Changes only the named options, so that two concurrent calls do not undo each other, even if
    /// both create the queue. Returns `None` if the queue does not exist and is not to be created.
    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError>;

    /// The configuration of a queue; `None` if it does not exist.
    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError>;

    /// Removes a queue with its messages, groups and dead letters. Returns true if it existed.
    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError>;

    /// The newest message with a transaction id in a partition.
    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError>;
}

/// Describes a store for logs and health reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// The kind of database: `sqlite` or `postgres`.
    pub kind: &'static str,
    /// The database's address or path, without secrets.
    pub location: String,
}

/// Operations on the store itself.
#[async_trait]
pub trait StoreAdmin: Send + Sync {
    /// The kind and location of the store.
    fn info(&self) -> StoreInfo;

    /// Fails unless the store can run a statement.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes the calls in progress and ends all connections and threads.
    async fn close(&self);
}
