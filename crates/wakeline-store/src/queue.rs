//! The queue's hot path: push, claim, settle.

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
    /// The queue; made by the first push to it.
    pub queue: QueueName,
    /// The partition; made by the first push to it.
    pub partition: PartitionName,
    /// The message's id, made by the node.
    pub id: MessageId,
    /// Names the push. Made by the node if the producer gave none.
    pub transaction_id: TransactionId,
    /// A correlation id of the producer's.
    pub trace_id: Option<Uuid>,
    /// JSON text.
    pub payload: Bytes,
    /// Who pushed it, as authenticated by the server.
    pub producer: Option<String>,
}

/// What became of one pushed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushOutcome {
    /// Stored.
    Queued {
        /// Its id.
        id: MessageId,
        /// Where it went.
        partition: PartitionId,
    },
    /// Stored, and held back for the time of a maintenance.
    Held {
        /// Its id.
        id: MessageId,
        /// Where it will go.
        partition: PartitionId,
    },
    /// The partition has this transaction id already.
    Duplicate {
        /// The id of the first message.
        id: MessageId,
        /// Where that one is.
        partition: PartitionId,
    },
}

impl PushOutcome {
    /// The id of the message: the first of its transaction id.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Queued { id, .. } | Self::Held { id, .. } | Self::Duplicate { id, .. } => *id,
        }
    }

    /// Where that message is, or will go.
    pub fn partition(&self) -> PartitionId {
        match self {
            Self::Queued { partition, .. }
            | Self::Held { partition, .. }
            | Self::Duplicate { partition, .. } => *partition,
        }
    }
}

/// Answer to a push.
#[derive(Debug, Clone, Default)]
pub struct PushReply {
    /// One per item, in order.
    pub outcomes: Vec<PushOutcome>,
    /// What the caller tells its own waiters. Other processes are told by the store.
    pub changes: Vec<Change>,
}

/// What one waiter can take.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The token of the lease, made by the node. Claiming again with the same token after an
    /// unknown outcome does not lease a second time.
    pub token: LeaseToken,
    /// Most messages, over all partitions.
    pub batch_len_max: u32,
    /// Once its messages have so many bytes of payload it gets no more. The first is delivered
    /// whatever its size.
    pub bytes_max: u64,
    /// Most partitions, 1 to [`LeaseId::CURSORS_MAX`].
    pub partitions_len_max: u32,
    /// Settle at once instead of leasing: at most once.
    pub auto_ack: bool,
    /// Who asks, for the ledger.
    pub worker: Option<String>,
}

/// The waiters of one line that are served by one claim.
#[derive(Debug, Clone)]
pub struct LineClaim {
    /// What they wait for.
    pub line: QueueLine,
    /// Where the group begins, if this is its first poll.
    pub subscription: Subscription,
    /// The waiters, in order of arrival.
    pub requests: Vec<ClaimRequest>,
    /// Whether to say what is next even if every request is served.
    pub further: bool,
}

/// A message on its way to a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Its id.
    pub id: MessageId,
    /// The producer's id for it.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// JSON text.
    pub payload: Bytes,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// Its place in the partition.
    pub offset: i64,
    /// Which try this is; the first is 1.
    pub attempt: u32,
    /// Who pushed it.
    pub producer: Option<String>,
}

/// What a request got of one partition. A partition is never split over two requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedPartition {
    /// The queue.
    pub queue: QueueName,
    /// The partition's name.
    pub partition: PartitionName,
    /// The partition's id.
    pub partition_id: PartitionId,
    /// At least one message, in order of offset.
    pub messages: Vec<Delivered>,
}

/// What a request got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease; `None` with `auto_ack`.
    pub lease: Option<LeaseId>,
    /// How long until the first of its partitions expires.
    pub lease_for: Duration,
    /// At least one partition.
    pub partitions: Vec<GrantedPartition>,
}

/// What a claim found in one line.
#[derive(Debug, Clone, Default)]
pub struct LineOutcome {
    /// One per request, in order; `None` where there was nothing left.
    pub grants: Vec<Option<Grant>>,
    /// Time until the next item of the line becomes available, if a request went without or the
    /// claim was to look further: the earliest of retry time, lease expiry, delay and window end.
    /// Possibly early, never late.
    /// Short if only rivals' rows were in the way. `None` means that nothing is in sight.
    pub next_due: Option<Duration>,
    /// Messages whose last lease had run out, in queues that keep no dead letters.
    pub dropped: Vec<Dropped>,
    /// Whether claims get nothing for the time of a maintenance. The end of that is told to all.
    pub paused: bool,
    /// Why nothing was done for this line: what it says is wrong. The other lines of the call are
    /// not concerned.
    pub refused: Option<InvalidField>,
}

impl LineOutcome {
    /// Of a line that is refused.
    pub fn refused(requests: usize, invalid: InvalidField) -> Self {
        Self { grants: vec![None; requests], refused: Some(invalid), ..Self::default() }
    }
}

/// A message that used up its tries in a queue that keeps no dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The queue.
    pub queue: QueueName,
    /// The partition.
    pub partition: PartitionName,
    /// Its place there.
    pub offset: i64,
}

/// What a consumer says of one message.
#[derive(Debug, Clone)]
pub struct SettleItem {
    /// Where the message is.
    pub partition: PartitionId,
    /// On whose behalf it was delivered.
    pub group: GroupName,
    /// The lease it was delivered under; without one only queues with lenient fencing settle.
    pub token: Option<LeaseToken>,
    /// Names the message within the lease. If the lease holds several with this id, the first
    /// unsettled one is meant.
    pub transaction_id: TransactionId,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, for failed messages and dead letters.
    pub error: Option<String>,
}

/// What became of one settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Recorded.
    Settled {
        /// The queue.
        queue: QueueName,
        /// The partition.
        partition: PartitionName,
        /// Whether this ended the lease of the partition.
        lease_ended: bool,
        /// Whether the message is a dead letter now.
        dead_lettered: bool,
        /// Whether its tries are used up and its queue keeps no dead letters.
        dropped: bool,
    },
    /// The lease has expired, was settled, or never was; nothing changed.
    StaleLease,
    /// The lease is live but does not hold an unsettled message of this id; nothing changed.
    NotFound,
    /// No lease was named and the queue asks for one; nothing changed.
    LeaseRequired,
}

/// Answer to a settlement.
#[derive(Debug, Clone, Default)]
pub struct SettleReply {
    /// One per item, in order.
    pub outcomes: Vec<SettleOutcome>,
    /// What the caller tells its own waiters.
    pub changes: Vec<Change>,
}

/// Answer to a lease extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Partitions that are held on.
    pub held: Vec<PartitionId>,
    /// Partitions that were no longer held; nothing changed for them.
    pub lost: Vec<PartitionId>,
    /// When the first of the held ones expires now.
    pub expires_at: Option<Timestamp>,
}

/// The queue's hot path.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// Stores messages; answers when they are durable. Missing queues and partitions are made.
    /// Items of one partition keep their order.
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError>;

    /// Writes of all faces, all or nothing.
    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError>;

    /// Leases messages for the waiters of some lines: one call, one commit. One outcome per line,
    /// in order. A group that is not known yet is made, if its queue exists; a subscription other
    /// than [`Subscription::All`] is recorded even if it does not. A line that is wrong in itself,
    /// such as one that subscribes from a future moment, is refused in its own outcome.
    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError>;

    /// Settles messages, in any order. Items that name the same message count once, the first.
    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError>;

    /// Moves the end of a lease to `span` from now; never to an earlier time.
    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError>;

    /// Gives back what is unsettled under these leases, without counting an attempt. Leases that
    /// are not live are passed over.
    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError>;

    /// Reads, without claiming, how long until each line has something: zero if it has now.
    /// An unknown queue has nothing; an unknown group is read as one that begins with
    /// [`Subscription::All`], so that a waiter whose hint was lost is found. Also does the store's
    /// housekeeping that is due.
    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError>;
}
