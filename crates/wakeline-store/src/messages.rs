//! Inspection and removal of messages, and manual intervention in their delivery.

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{
    Change, GroupName, MessageId, Namespace, PartitionId, PartitionName, QueueName, TaskName,
    Timestamp, TransactionId,
};

use crate::admin::MessageState;
use crate::dead::Page;
use crate::error::StoreError;

/// Identifies a message: the newest one with a transaction id in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageKey {
    /// The id of the partition.
    pub partition: PartitionId,
    /// The transaction id that the message was pushed with.
    pub transaction_id: TransactionId,
}

/// An operator's decision about a message of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intervention {
    /// Deliver the message again as soon as possible.
    Retry,
    /// Give the message up, as if it had used up its attempts.
    GiveUp {
        /// The error to record.
        error: Option<String>,
    },
}

/// The outcome of an intervention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterventionOutcome {
    /// The intervention took effect.
    Done,
    /// The message does not exist; nothing changed.
    Missing,
    /// The group does not read the queue; nothing changed.
    NoGroup,
    /// A consumer holds the message under a lease; nothing changed.
    Leased,
    /// The group has already settled the message; nothing changed.
    Settled,
    /// The group has more than [`GIVE_UP_DISTANCE_MAX`] messages to read before this one; nothing
    /// changed.
    TooFar,
}

/// The maximum number of messages that a group may have to read before one that it gives up unread.
pub const GIVE_UP_DISTANCE_MAX: i64 = 1_000;

/// A partition of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDetail {
    /// The queue that the partition belongs to.
    pub queue: QueueName,
    /// The namespace of the queue.
    pub namespace: Option<Namespace>,
    /// The task of the queue.
    pub task: Option<TaskName>,
    /// The partition's name.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// The number of messages ever pushed to the partition.
    pub end: u64,
    /// When the last message was pushed.
    pub last_push_at: Option<Timestamp>,
}

/// Selects messages. A field that is `None` does not restrict the selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// Only messages of this queue.
    pub queue: Option<QueueName>,
    /// Only messages of partitions with this name.
    pub partition: Option<PartitionName>,
    /// Only messages of queues in this namespace.
    pub namespace: Option<Namespace>,
    /// Only messages of queues with this task.
    pub task: Option<TaskName>,
    /// Only messages in this state for the queue's main group; see [`ListedMessage::state`].
    pub state: Option<MessageState>,
    /// Only messages pushed at or after this time.
    pub from: Option<Timestamp>,
    /// Only messages pushed before this time.
    pub to: Option<Timestamp>,
}

/// A position in a list of messages: before an offset of a partition. The partitions with greater
/// ids follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrowsePosition {
    /// The partition that the list continues in.
    pub partition: PartitionId,
    /// The offset of the last message that was examined.
    pub before: i64,
}

/// A message in a list, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMessage {
    /// The queue that holds the message.
    pub queue: QueueName,
    /// The namespace of the queue.
    pub namespace: Option<Namespace>,
    /// The task of the queue.
    pub task: Option<TaskName>,
    /// The priority of the queue.
    pub priority: i32,
    /// The name of the partition.
    pub partition: PartitionName,
    /// The id of the partition.
    pub partition_id: PartitionId,
    /// The message's offset in the partition.
    pub offset: i64,
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for the message.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// Who pushed the message, as authenticated by the server.
    pub producer: Option<String>,
    /// When the message was pushed.
    pub created_at: Timestamp,
    /// The state of the message for each group of the queue, ordered by the groups' names.
    pub groups: Vec<(GroupName, MessageState)>,
}

impl ListedMessage {
    /// The state for the queue's main group: the group of consumers that name none, or else the
    /// first group. Pending if the queue has no group.
    pub fn state(&self) -> MessageState {
        let main = self.groups.iter().find(|(group, _)| group.is_queue_mode());
        main.or(self.groups.first()).map_or(MessageState::Pending, |(_, state)| *state)
    }
}

/// A page of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedMessages {
    /// The messages, ordered by partition, and within a partition newest first. There may be fewer
    /// than the limit although more follow, because one call examines a limited number of messages
    /// and partitions ([`BROWSE_EXAMINED_FACTOR`], [`BROWSE_PARTITIONS_MAX`]).
    pub messages: Vec<ListedMessage>,
    /// The position to continue from; `None` at the end of the list.
    pub next: Option<BrowsePosition>,
}

/// The maximum number of messages that one call examines, as a multiple of the requested limit.
pub const BROWSE_EXAMINED_FACTOR: u32 = 10;

/// The maximum number of partitions that one call examines.
pub const BROWSE_PARTITIONS_MAX: u32 = 1_000;

/// Inspection and removal of messages and partitions.
#[async_trait]
pub trait QueueMessages: Send + Sync {
    /// A page of messages, beginning at a position.
    async fn browse(
        &self,
        filter: MessageFilter,
        position: Option<BrowsePosition>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError>;

    /// Retries a message for a group, or gives it up.
    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(InterventionOutcome, Vec<Change>), StoreError>;

    /// Deletes a message for all present and future groups: it is not delivered any more, and
    /// leases and retries of it end. Its dead letters are kept. Returns true if it existed.
    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError>;

    /// Removes all messages of a queue: its groups move to the end, and their leases end. Removes
    /// its dead letters too if `dead_letters` is set. Returns the number of removed messages;
    /// `None` if the queue does not exist.
    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError>;

    /// Like [`QueueMessages::clear_queue`], for one partition; `None` if it does not exist.
    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError>;

    /// Removes a partition with its messages and dead letters; its id is never used again. Returns
    /// true if it existed. The partition `Default` cannot be removed.
    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError>;

    /// The partitions of one queue or of all, ordered by id.
    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError>;
}
