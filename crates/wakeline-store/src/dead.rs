//! Dead letters (reading, purging and redriving them) and the background work of the queues.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    Change, DeadLetterId, GroupName, MessageId, PartitionId, PartitionName, QueueName, RedriveId,
    Timestamp, TransactionId,
};

use crate::error::StoreError;

/// A message that used up its attempts or was given up. It owns a copy of the message's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The dead letter's own id: several groups may give up one message, and one group may do so
    /// again after a redrive.
    pub number: DeadLetterId,
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for the message.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
    /// The id of the partition that the message was in.
    pub partition_id: PartitionId,
    /// The queue that the message was in.
    pub queue: QueueName,
    /// The name of the partition that the message was in.
    pub partition: PartitionName,
    /// The group that gave the message up.
    pub group: GroupName,
    /// The error of the last attempt.
    pub error: Option<String>,
    /// The number of failures that counted against the retry limit.
    pub failures: u32,
    /// The payload as JSON text.
    pub payload: Bytes,
    /// Who pushed the message, as authenticated by the server.
    pub producer: Option<String>,
    /// When the message was pushed.
    pub created_at: Timestamp,
    /// When the message was given up.
    pub failed_at: Timestamp,
}

/// Selects dead letters. A field that is `None` does not restrict the selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only the dead letter with this id.
    pub number: Option<DeadLetterId>,
    /// Only those of this queue.
    pub queue: Option<QueueName>,
    /// Only those of this group.
    pub group: Option<GroupName>,
    /// Only those of partitions with this name.
    pub partition: Option<PartitionName>,
    /// Only those given up at or after this time.
    pub from: Option<Timestamp>,
    /// Only those given up before this time.
    pub to: Option<Timestamp>,
    /// Only those whose error contains this text.
    pub error: Option<String>,
}

/// A section of a list, by limit and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The maximum number of items to return.
    pub limit: u32,
    /// The number of items to skip.
    pub offset: u32,
}

/// A page of dead letters and the total count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetters {
    /// The page of dead letters, newest first.
    pub letters: Vec<DeadLetter>,
    /// The number of dead letters on all pages.
    pub total: u64,
}

/// A request to deliver dead letters again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The job's id, chosen by the caller; starting the same job again changes nothing.
    pub id: RedriveId,
    /// Selects among the dead letters that exist when the job starts.
    pub filter: DeadLetterFilter,
    /// Push the messages to this queue instead of returning them to the group that gave them up.
    pub to_queue: Option<QueueName>,
    /// The maximum number of messages per second; `None` means no limit.
    pub rate: Option<u32>,
}

/// The state of a redrive job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveState {
    /// The job has dead letters left to process.
    Running,
    /// The job has processed all its dead letters.
    Finished,
    /// The job was stopped; what it had redriven stays redriven.
    Cancelled,
}

/// A job that redrives dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveJob {
    /// The request that the job carries out.
    pub redrive: Redrive,
    /// The state of the job.
    pub state: RedriveState,
    /// The number of dead letters that the job selected at its start.
    pub total: u64,
    /// The number of dead letters that were redriven.
    pub done: u64,
    /// The number of dead letters that could not be redriven and remain stored.
    pub failed: u64,
    /// When the job was started.
    pub created_at: Timestamp,
    /// When the job last made progress.
    pub updated_at: Timestamp,
}

/// The result of one unit of background work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueBackgroundReport {
    /// The number of rows that it examined.
    pub rows: u64,
    /// When the next unit is due: zero if there is more now, `None` if no work is known.
    pub next_due: Option<Duration>,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<Change>,
}

/// Operations on dead letters, and the background work of queues.
#[async_trait]
pub trait QueueDeadLetters: Send + Sync {
    /// A page of dead letters, newest first.
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError>;

    /// Removes dead letters permanently and returns how many there were.
    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError>;

    /// Starts a redrive job. Returns it together with the changes that wake the background workers.
    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError>;

    /// A redrive job. Jobs that ended are removed after a week.
    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError>;

    /// Stops a redrive job if it is still running; `None` if it does not exist.
    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError>;

    /// Does one unit of due background work on at most `rows` rows, in one short transaction. A
    /// sweep of the background line reports when some is due.
    async fn run_queue_background(&self, rows: u32) -> Result<QueueBackgroundReport, StoreError>;
}
