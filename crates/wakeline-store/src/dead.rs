//! Dead letters: reading, purging and redriving them; and the background work of the queues.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    Change, DeadLetterId, GroupName, MessageId, PartitionId, PartitionName, QueueName, RedriveId,
    Timestamp, TransactionId,
};

use crate::error::StoreError;

/// A message that used up its tries, or was given up. It owns its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its own id: one message may be given up by several groups, and again after a redrive.
    pub number: DeadLetterId,
    /// The message's id.
    pub id: MessageId,
    /// The producer's id for it.
    pub transaction_id: TransactionId,
    /// The producer's correlation id.
    pub trace_id: Option<Uuid>,
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

/// Which dead letters are meant. What is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only this one.
    pub number: Option<DeadLetterId>,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Only of this group.
    pub group: Option<GroupName>,
    /// Only of partitions of this name.
    pub partition: Option<PartitionName>,
    /// Only those given up at or after.
    pub from: Option<Timestamp>,
    /// Only those given up before.
    pub to: Option<Timestamp>,
    /// Only those whose error contains this text.
    pub error: Option<String>,
}

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// At most so many.
    pub limit: u32,
    /// After skipping so many.
    pub offset: u32,
}

/// Dead letters, and how many there are in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetters {
    /// A page of them, newest first.
    pub letters: Vec<DeadLetter>,
    /// How many there are on all pages.
    pub total: u64,
}

/// Dead letters that are to be delivered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The job's id, made by the caller: starting it again changes nothing.
    pub id: RedriveId,
    /// Which of those that there are when it starts.
    pub filter: DeadLetterFilter,
    /// Pushed to this queue, instead of given back to the group that gave it up.
    pub to_queue: Option<QueueName>,
    /// At most so many a second; `None` as fast as can be.
    pub rate: Option<u32>,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveState {
    /// It goes on.
    Running,
    /// It has been through.
    Finished,
    /// It was stopped; what it had done stays done.
    Cancelled,
}

/// A job that redrives dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveJob {
    /// What it is.
    pub redrive: Redrive,
    /// How it stands.
    pub state: RedriveState,
    /// How many there were when it started.
    pub total: u64,
    /// How many were redriven.
    pub done: u64,
    /// How many could not be: they stay dead letters.
    pub failed: u64,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last went on.
    pub updated_at: Timestamp,
}

/// What a piece of background work came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueChores {
    /// Rows that it looked at.
    pub rows: u64,
    /// When the next piece is due: zero if there is more now, `None` if nothing is in sight.
    pub next_due: Option<Duration>,
    /// What the caller tells its own waiters.
    pub changes: Vec<Change>,
}

/// Dead letters.
#[async_trait]
pub trait QueueDeadLetters: Send + Sync {
    /// Dead letters, newest first.
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError>;

    /// Removes dead letters for good; returns how many.
    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError>;

    /// Starts a job. Returns it, and whom to tell: those who do background work.
    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError>;

    /// A job. Those that ended are forgotten after a week.
    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError>;

    /// Stops a job, if it is still running; `None` if there is none.
    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError>;

    /// Does a piece of background work that is due, on at most `rows` rows, in one short commit.
    /// When there is some is told by a sweep of the line of chores.
    async fn do_queue_chores(&self, rows: u32) -> Result<QueueChores, StoreError>;
}
