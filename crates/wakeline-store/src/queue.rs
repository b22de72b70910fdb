//! The main read and write path of queues: pushing, claiming and settling messages.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    Change, GroupName, LeaseId, LeaseToken, MessageId, PartitionId, PartitionName, QueueLine,
    QueueName, Subscription, Timestamp, TransactionId, Verdict,
};

use crate::error::{InvalidField, StoreError};
use crate::transact::{TransactCommand, TransactReply};

/// One message to store.
#[derive(Debug, Clone)]
pub struct PushItem {
    /// The queue to push to; created by the first push.
    pub queue: QueueName,
    /// The partition to push to; created by the first push.
    pub partition: PartitionName,
    /// The message's id, chosen by the node.
    pub id: MessageId,
    /// Identifies the push for deduplication. The node chooses one if the producer gave none.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// The payload as JSON text.
    pub payload: Bytes,
    /// Who pushed the message, as authenticated by the server.
    pub producer: Option<String>,
}

/// The outcome of pushing one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushOutcome {
    /// The message was stored.
    Queued {
        /// The message's id.
        id: MessageId,
        /// The partition that holds the message.
        partition: PartitionId,
    },
    /// The message was stored, and is held back until maintenance ends.
    Held {
        /// The message's id.
        id: MessageId,
        /// The partition that the message will be in.
        partition: PartitionId,
    },
    /// The partition already has a message with this transaction id; nothing was stored.
    Duplicate {
        /// The id of the first message with the transaction id.
        id: MessageId,
        /// The partition that the first message is in.
        partition: PartitionId,
    },
}

impl PushOutcome {
    /// The id of the message; for a duplicate, the id of the first message.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Queued { id, .. } | Self::Held { id, .. } | Self::Duplicate { id, .. } => *id,
        }
    }

    /// The partition that the message is in, or will be in.
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Queued { partition, .. }
            | Self::Held { partition, .. }
            | Self::Duplicate { partition, .. } => *partition,
        }
    }
}

/// The result of a push.
#[derive(Debug, Clone, Default)]
pub struct PushReply {
    /// One outcome per item, in order.
    pub outcomes: Vec<PushOutcome>,
    /// Changes to publish to the waiters of this process. The store notifies other processes.
    pub changes: Vec<Change>,
}

/// The messages that one waiter can take.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The token of the lease, chosen by the node. After an unknown outcome, claiming again with
    /// the same token does not lease a second time.
    pub token: LeaseToken,
    /// The maximum number of messages, over all partitions.
    pub batch_len_max: u32,
    /// The request gets no further messages once its payloads have this many bytes. The first
    /// message is delivered regardless of its size.
    pub bytes_max: u64,
    /// The maximum number of partitions, from 1 to [`LeaseId::CURSORS_MAX`].
    pub partitions_len_max: u32,
    /// Whether to settle the messages at once instead of leasing them, for delivery at most once.
    pub auto_ack: bool,
    /// The name of the worker, for the ledger.
    pub worker: Option<String>,
}

/// The claim of all waiters of one line.
#[derive(Debug, Clone)]
pub struct LineClaim {
    /// The line that the waiters wait for.
    pub line: QueueLine,
    /// Where the group begins to read, if this is its first poll.
    pub subscription: Subscription,
    /// The waiters, in order of arrival.
    pub requests: Vec<ClaimRequest>,
    /// Whether to report when the next message is due even if every request is served.
    pub further: bool,
}

/// A message as delivered to a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for the message.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// The payload as JSON text.
    pub payload: Bytes,
    /// When the message was pushed.
    pub created_at: Timestamp,
    /// The message's offset in the partition.
    pub offset: i64,
    /// The number of this delivery attempt; the first is 1.
    pub attempt: u32,
    /// Who pushed the message, as authenticated by the server.
    pub producer: Option<String>,
}

/// The messages of one partition that a request claimed. A partition is never split over two
/// requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPartition {
    /// The queue that the partition belongs to.
    pub queue: QueueName,
    /// The partition's name.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// The messages in order of offset; at least one.
    pub messages: Vec<Delivered>,
}

/// The messages that a request claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueClaimResult {
    /// The lease; `None` with `auto_ack`.
    pub lease: Option<LeaseId>,
    /// How long until the lease of the first of its partitions expires.
    pub lease_for: Duration,
    /// The claimed partitions; at least one.
    pub partitions: Vec<ClaimedPartition>,
}

/// The result of a claim in one line.
#[derive(Debug, Clone, Default)]
pub struct LineOutcome {
    /// One entry per request, in order; `None` where nothing was left.
    pub results: Vec<Option<QueueClaimResult>>,
    /// Time until the line's next message becomes available, if a request got none or `further` was
    /// set: the earliest of retry time, lease expiry, delay and window end. Possibly early, never
    /// late. A short time if only rows locked by concurrent claims were found. `None` if no future
    /// message is known.
    pub next_due: Option<Duration>,
    /// Messages whose last attempt's lease had expired, in queues that keep no dead letters.
    pub dropped: Vec<Dropped>,
    /// Whether claims return nothing because of maintenance. All nodes are notified when it ends.
    pub paused: bool,
    /// The reason why the line is invalid and nothing was done for it. The other lines of the call
    /// are not affected.
    pub refused: Option<InvalidField>,
}

impl LineOutcome {
    /// The outcome of a line that is refused.
    pub fn refused(requests: usize, invalid: InvalidField) -> Self {
        Self { results: vec![None; requests], refused: Some(invalid), ..Self::default() }
    }
}

/// A message that used up its attempts in a queue that keeps no dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The queue that the message was in.
    pub queue: QueueName,
    /// The partition that the message was in.
    pub partition: PartitionName,
    /// The message's offset in the partition.
    pub offset: i64,
}

/// A consumer's verdict on one message.
#[derive(Debug, Clone)]
pub struct SettleItem {
    /// The id of the partition that holds the message.
    pub partition: PartitionId,
    /// The group that the message was delivered to.
    pub group: GroupName,
    /// The token of the lease that the message was delivered under. Only queues with lenient
    /// fencing accept `None`.
    pub token: Option<LeaseToken>,
    /// Identifies the message within the lease. If the lease holds several messages with this id,
    /// the first unsettled one is settled.
    pub transaction_id: TransactionId,
    /// Whether the message was processed, failed or is given up.
    pub verdict: Verdict,
    /// The error to record for failed messages and dead letters.
    pub error: Option<String>,
}

/// The outcome of settling one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The verdict was recorded.
    Settled {
        /// The queue that holds the message.
        queue: QueueName,
        /// The partition that holds the message.
        partition: PartitionName,
        /// Whether this ended the lease of the partition.
        lease_ended: bool,
        /// Whether the message is now a dead letter.
        dead_lettered: bool,
        /// Whether the message used up its attempts, and its queue keeps no dead letters.
        dropped: bool,
    },
    /// The lease has expired, was settled already, or never existed; nothing changed.
    StaleLease,
    /// The lease is live but does not hold an unsettled message with this id; nothing changed.
    NotFound,
    /// No lease was named, but the queue requires one; nothing changed.
    LeaseRequired,
}

/// The result of settling messages.
#[derive(Debug, Clone, Default)]
pub struct SettleReply {
    /// One outcome per item, in order.
    pub outcomes: Vec<SettleOutcome>,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<Change>,
}

/// The result of extending a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The partitions whose lease was extended.
    pub held: Vec<PartitionId>,
    /// The partitions that were no longer held; nothing changed for them.
    pub lost: Vec<PartitionId>,
    /// When the first of the extended leases expires.
    pub expires_at: Option<Timestamp>,
}

/// The main read and write path of queues. Concurrent calls of one kind may share a commit.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// Stores messages and returns when they are durable. Missing queues and partitions are
    /// created. Items for one partition keep their order.
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError>;

    /// Executes writes of several APIs in one transaction: all of them or none.
    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError>;

    /// Leases messages for the waiters of some lines: one call, one commit, one outcome per line.
    /// An unknown group is created if its queue exists; a subscription other than
    /// [`Subscription::All`] is recorded even if the queue does not exist. An invalid line, such as
    /// one that subscribes from a time in the future, is refused in its own outcome.
    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError>;

    /// Settles messages, in any order. If several items name the same message, only the first of
    /// them counts.
    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError>;

    /// Moves the end of a lease to `span` from now, but never to an earlier time.
    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError>;

    /// Gives back the unsettled messages of these leases without counting an attempt. Leases that
    /// are not live are skipped.
    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError>;

    /// Reads, without claiming, how long until each line has a message: zero if it has one now. An
    /// unknown queue has none. An unknown group is treated as one that subscribed with
    /// [`Subscription::All`], so that a waiter whose hint was lost is found. Also does the store's
    /// housekeeping that is due.
    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError>;
}
