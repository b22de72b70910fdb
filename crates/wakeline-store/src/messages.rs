//! Messages: looking through them, intervening, and doing away with them.

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{
    Change, GroupName, MessageId, Namespace, PartitionId, PartitionName, QueueName, TaskName,
    Timestamp, TransactionId,
};

use crate::admin::MessageState;
use crate::dead::Page;
use crate::error::StoreError;

/// Names a message: the newest of a transaction id in its partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageKey {
    /// The partition.
    pub partition: PartitionId,
    /// The name of its push.
    pub transaction_id: TransactionId,
}

/// What is to happen to a message of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intervention {
    /// It is delivered again as soon as can be.
    Retry,
    /// It is given up.
    Bury {
        /// Why.
        error: Option<String>,
    },
}

/// How an intervention ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intervened {
    /// It is so now.
    Done,
    /// There is no such message; nothing changed.
    Missing,
    /// The group does not read the queue; nothing changed.
    NoGroup,
    /// A consumer holds it; nothing changed.
    Leased,
    /// The group is done with it; nothing changed.
    Settled,
    /// The group has too much to read before it; nothing changed.
    TooFar,
}

/// Most messages that a group may have to read before one that it is to give up unread.
pub const BURY_DISTANCE_MAX: i64 = 1_000;

/// A partition as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDetail {
    /// The queue.
    pub queue: QueueName,
    /// Its namespace.
    pub namespace: Option<Namespace>,
    /// Its task.
    pub task: Option<TaskName>,
    /// The partition's name.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// Messages that were ever pushed to it.
    pub end: u64,
    /// When the last one was.
    pub last_push_at: Option<Timestamp>,
}

/// Which messages are looked for. What is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of partitions of this name.
    pub partition: Option<PartitionName>,
    /// Only of queues of this namespace.
    pub namespace: Option<Namespace>,
    /// Only of queues of this task.
    pub task: Option<TaskName>,
    /// Only those that stand so with the queue's main group.
    pub state: Option<MessageState>,
    /// Only those pushed at or after.
    pub from: Option<Timestamp>,
    /// Only those pushed before.
    pub to: Option<Timestamp>,
}

/// Where a look through messages stands: before an offset of a partition; then come the partitions
/// after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePlace {
    /// The partition.
    pub partition: PartitionId,
    /// The offset of the last message that was looked at.
    pub before: i64,
}

/// A message in a list: all but its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMessage {
    /// The queue.
    pub queue: QueueName,
    /// Its namespace.
    pub namespace: Option<Namespace>,
    /// Its task.
    pub task: Option<TaskName>,
    /// The queue's priority.
    pub priority: i32,
    /// The partition.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// Its place in the partition.
    pub offset: i64,
    /// Its id.
    pub id: MessageId,
    /// The producer's id for it.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// Who pushed it.
    pub producer: Option<String>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// How each group of the queue stands with it, by name.
    pub groups: Vec<(GroupName, MessageState)>,
}

impl ListedMessage {
    /// How it stands with the queue's main group: that of consumers who name none, or the first.
    /// Pending if there is none.
    pub fn state(&self) -> MessageState {
        let main = self.groups.iter().find(|(group, _)| group.is_queue_mode());
        main.or(self.groups.first()).map_or(MessageState::Pending, |(_, state)| *state)
    }
}

/// A part of a look through messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedMessages {
    /// By partition, in each the newest first. There may be fewer than asked for although more
    /// follow: a call looks at so many messages and partitions and no more.
    pub messages: Vec<ListedMessage>,
    /// Where to go on; `None` if that was all.
    pub next: Option<MessagePlace>,
}

/// Messages that one call looks at at most, times those asked for.
pub const BROWSE_LOOK: u32 = 10;

/// Partitions that one call looks at at most.
pub const BROWSE_PARTITIONS: u32 = 1_000;

/// Messages and partitions.
#[async_trait]
pub trait QueueMessages: Send + Sync {
    /// Messages from a place on.
    async fn browse(
        &self,
        filter: MessageFilter,
        place: Option<MessagePlace>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError>;

    /// Retries a message of a group, or gives it up.
    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(Intervened, Vec<Change>), StoreError>;

    /// Deletes a message for all groups, present and to come: it is delivered no more, and nobody
    /// holds it or has it parked. Its dead letters stay. True if there was one.
    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError>;

    /// Removes all messages of a queue: its groups stand at the end, their leases are lost. Its
    /// dead letters stay, unless they are to go, too. Returns how many messages went; `None` if
    /// there is no such queue.
    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError>;

    /// The same for one partition; `None` if there is no such one.
    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError>;

    /// Removes a partition with its messages and dead letters; its id is never used again. True if
    /// it existed. The partition `Default` stays.
    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError>;

    /// Partitions of a queue or of all, in order of their ids.
    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError>;
}
