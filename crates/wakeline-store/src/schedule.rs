//! Messages that are to be delivered later, and timers: those of them that have a key.
//!
//! # Invariants
//! * A scheduled message gets its offset once it is due, by the database's clock; until then no
//!   reader of the queue sees it, and its partition does not wait for it.
//! * Its transaction id counts from the moment it is scheduled.
//! * A timer ends as exactly one of delivered, cancelled and replaced.

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    MessageId, PartitionId, PartitionName, QueueName, TimerKey, Timestamp, TransactionId,
};

use crate::error::StoreError;
use crate::flow::Visible;
use crate::queue::PushItem;

/// A message to deliver later.
#[derive(Debug, Clone)]
pub struct ScheduleItem {
    /// The message.
    pub message: PushItem,
    /// When it is due. One that is due at once is moved by the next call that looks at its queue.
    pub due: Visible,
    /// Names the timer within its queue, whatever the partition: a timer of this key that is not
    /// due yet is replaced.
    pub key: Option<TimerKey>,
}

/// What became of a message to deliver later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleOutcome {
    /// Stored.
    Scheduled {
        /// Its id.
        id: MessageId,
        /// Where it will go.
        partition: PartitionId,
        /// When it is due.
        deliver_at: Timestamp,
        /// Whether it took the place of a timer of the same key.
        replaced: bool,
    },
    /// The partition has this transaction id already; nothing was stored. A timer that it was to
    /// replace stays as it was.
    Duplicate {
        /// The id of the first message.
        id: MessageId,
        /// Where that one is, or will go.
        partition: PartitionId,
    },
}

/// A timer to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelItem {
    /// Its queue.
    pub queue: QueueName,
    /// Its key.
    pub key: TimerKey,
}

/// What became of a cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It will not be delivered.
    Cancelled(ScheduledRef),
    /// It is due: it is delivered, or about to be.
    TooLate(ScheduledRef),
    /// There is none of this key (any more).
    Absent,
}

/// What names a scheduled message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledRef {
    /// Its id.
    pub id: MessageId,
    /// The producer's id for it.
    pub transaction_id: TransactionId,
    /// When it is due.
    pub deliver_at: Timestamp,
}

/// Which scheduled messages to list: those of a queue, in the order in which they will be due.
#[derive(Debug, Clone)]
pub struct ScheduledFilter {
    /// The queue.
    pub queue: QueueName,
    /// Only the timer of this key.
    pub key: Option<TimerKey>,
    /// Begins after this one.
    pub after: Option<(Timestamp, i64)>,
    /// Most of them.
    pub limit: u32,
}

/// A message that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledMessage {
    /// Its place among those that are due at the same moment.
    pub seq: i64,
    /// Its timer's key.
    pub key: Option<TimerKey>,
    /// Its id.
    pub id: MessageId,
    /// The producer's id for it.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// Who scheduled it.
    pub producer: Option<String>,
    /// The partition that it goes to.
    pub partition: PartitionName,
    /// The id of that.
    pub partition_id: PartitionId,
    /// When it was scheduled.
    pub scheduled_at: Timestamp,
    /// When it is due.
    pub deliver_at: Timestamp,
    /// JSON text.
    pub payload: Bytes,
}

/// Reading what is scheduled. Scheduling and cancelling are parts of
/// [`crate::QueueStore::transact`].
#[async_trait]
pub trait QueueSchedule: Send + Sync {
    /// Scheduled messages that have no offset yet, by (due time, place).
    async fn scheduled(&self, filter: ScheduledFilter)
    -> Result<Vec<ScheduledMessage>, StoreError>;
}
