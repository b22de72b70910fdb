//! Scheduled messages, which are delivered later, and timers, which are scheduled messages with a
//! key.
//!
//! # Invariants
//! * A scheduled message gets its offset when it is due by the database's clock. Until then no
//!   reader of the queue sees it, and its partition does not wait for it.
//! * Its transaction id counts for deduplication from the time it is scheduled.
//! * Every timer ends in exactly one way: it is delivered, cancelled or replaced.

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
    /// The message to push when it is due.
    pub message: PushItem,
    /// When the message is due. If that is now, the next call that examines the queue moves it
    /// into the log.
    pub due: Visible,
    /// Identifies the timer within its queue, regardless of the partition: a timer with this key
    /// that is not due yet is replaced.
    pub key: Option<TimerKey>,
}

/// The outcome of scheduling a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleOutcome {
    /// The message was stored.
    Scheduled {
        /// The message's id.
        id: MessageId,
        /// The partition that the message will be pushed to.
        partition: PartitionId,
        /// When the message is due.
        deliver_at: Timestamp,
        /// Whether the message replaced a timer with the same key.
        replaced: bool,
    },
    /// The partition already has a message with this transaction id; nothing was stored. A timer
    /// that was to be replaced stays as it was.
    Duplicate {
        /// The id of the first message with the transaction id.
        id: MessageId,
        /// The partition that the first message is in, or will be pushed to.
        partition: PartitionId,
    },
}

/// A timer to cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelItem {
    /// The queue of the timer.
    pub queue: QueueName,
    /// The timer's key.
    pub key: TimerKey,
}

/// The outcome of cancelling a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The timer will not be delivered.
    Cancelled(ScheduledRef),
    /// The timer is due: it was delivered, or is about to be.
    TooLate(ScheduledRef),
    /// There is no timer with this key, or there is none any more.
    Absent,
}

/// Identifies a scheduled message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledRef {
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for the message.
    pub transaction_id: TransactionId,
    /// When the message is due.
    pub deliver_at: Timestamp,
}

/// Selects scheduled messages of a queue, listed in the order in which they will be due.
#[derive(Debug, Clone)]
pub struct ScheduledFilter {
    /// The queue whose messages are listed.
    pub queue: QueueName,
    /// Only the timer with this key.
    pub key: Option<TimerKey>,
    /// Only messages after this position, which is the `deliver_at` and `seq` of a message.
    pub after: Option<(Timestamp, i64)>,
    /// The maximum number of messages to return.
    pub limit: u32,
}

/// A scheduled message that is not due yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledMessage {
    /// The message's sequence number, which orders messages that are due at the same time.
    pub seq: i64,
    /// The key of the timer, if the message has one.
    pub key: Option<TimerKey>,
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for the message.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// Who scheduled the message, as authenticated by the server.
    pub producer: Option<String>,
    /// The name of the partition that the message will be pushed to.
    pub partition: PartitionName,
    /// The id of that partition.
    pub partition_id: PartitionId,
    /// When the message was scheduled.
    pub scheduled_at: Timestamp,
    /// When the message is due.
    pub deliver_at: Timestamp,
    /// The payload as JSON text.
    pub payload: Bytes,
}

/// Read access to scheduled messages. [`crate::QueueStore::transact`] schedules and cancels them.
#[async_trait]
pub trait QueueSchedule: Send + Sync {
    /// Scheduled messages that have no offset yet, ordered by due time and sequence number.
    async fn scheduled(&self, filter: ScheduledFilter)
    -> Result<Vec<ScheduledMessage>, StoreError>;
}
