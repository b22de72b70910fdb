//! Configuration and inspection of queues, and of the store itself.

use async_trait::async_trait;
use wakeline_core::{
    Change, GroupName, Namespace, OptionsPatch, PartitionId, PartitionName, QueueName,
    QueueOptions, TaskName, TransactionId,
};

use crate::error::StoreError;
use crate::ledger::LedgerEntry;

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

/// Changes a queue. What is `None` stays as it is.
#[derive(Debug, Clone)]
pub struct PatchQueue {
    /// The queue.
    pub queue: QueueName,
    /// Its namespace.
    pub namespace: Option<Namespace>,
    /// Its task.
    pub task: Option<TaskName>,
    /// Its options.
    pub options: OptionsPatch,
    /// Make the queue if there is none.
    pub create: bool,
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
    /// The last error of groups that try it again, or have given it up.
    pub errors: Vec<(GroupName, String)>,
    /// Its deliveries, as far as they are remembered, in the order in which they were offered.
    pub ledger: Vec<LedgerEntry>,
}

/// Configuration and inspection of queues.
#[async_trait]
pub trait QueueAdmin: Send + Sync {
    /// Makes or changes a queue; makes its partition `Default`.
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError>;

    /// Changes those of a queue's options that are named: of two such calls at once neither undoes
    /// what the other did, nor if both make the queue. `None` if there is no such queue, and none
    /// is to be made.
    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError>;

    /// A queue as it stands.
    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError>;

    /// Removes a queue with its messages, groups and dead letters. True if it existed.
    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError>;

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
