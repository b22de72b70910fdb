//! Wire types of dead letters and redrive jobs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_store::{DeadLetter, RedriveJob, RedriveState};

use crate::error::ApiError;
use crate::render;

/// A dead letter: a message that failed too often, or that a consumer or an operator gave up.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterAnswer<'a> {
    /// The id of the dead letter. A message can become a dead letter of several groups, and more
    /// than once.
    dead_letter_id: String,
    /// The id of the message.
    id: String,
    /// The transaction id of the message.
    transaction_id: &'a str,
    /// The id of the message's partition.
    partition_id: String,
    /// The queue of the message.
    queue: &'a str,
    /// The partition of the message.
    partition: &'a str,
    /// The consumer group whose dead letter it is.
    consumer_group: &'a str,
    /// The last error.
    error_message: Option<&'a str>,
    /// The number of counted failures.
    retry_count: u32,
    /// The payload of the message.
    #[schema(value_type = Object)]
    data: &'a RawValue,
    /// The producer's correlation id.
    trace_id: Option<Uuid>,
    /// The producer of the message.
    producer_sub: Option<&'a str>,
    /// When the message was pushed.
    created_at: String,
    /// When the message became a dead letter.
    failed_at: String,
}

impl<'a> DeadLetterAnswer<'a> {
    pub(crate) fn new(letter: &'a DeadLetter) -> Result<Self, ApiError> {
        Ok(Self {
            dead_letter_id: letter.number.to_string(),
            id: letter.id.to_string(),
            transaction_id: letter.transaction_id.as_str(),
            partition_id: letter.partition_id.to_string(),
            queue: letter.queue.as_str(),
            partition: letter.partition.as_str(),
            consumer_group: letter.group.as_str(),
            error_message: letter.error.as_deref(),
            retry_count: letter.failures,
            data: render::payload(&letter.payload, &letter.id)?,
            trace_id: letter.trace_id,
            producer_sub: letter.producer.as_deref(),
            created_at: render::time(letter.created_at),
            failed_at: render::time(letter.failed_at),
        })
    }
}

/// A page of dead letters, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLettersAnswer<'a> {
    /// The dead letters.
    pub(crate) messages: Vec<DeadLetterAnswer<'a>>,
    /// The number of items on all pages.
    pub(crate) total: u64,
    /// The window of the list that this page shows.
    pub(crate) pagination: Pagination,
}

/// The window of a list that a page shows.
#[derive(Serialize, ToSchema)]
pub(crate) struct Pagination {
    /// The maximum number of items of the page.
    pub(crate) limit: u32,
    /// The number of items before the page.
    pub(crate) offset: u32,
    /// The number of items on all pages.
    pub(crate) total: u64,
}

/// The result of deleting dead letters.
#[derive(Serialize, ToSchema)]
pub(crate) struct PurgedAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The number of dead letters that were deleted.
    pub(crate) purged: u64,
}

/// A filter of dead letters. Omitted fields match everything.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeadLetterFilterBody {
    /// Only the dead letter with this `deadLetterId`.
    pub(crate) id: Option<String>,
    /// Only dead letters of this queue.
    pub(crate) queue: Option<String>,
    /// Only dead letters of this consumer group.
    pub(crate) consumer_group: Option<String>,
    /// Only dead letters of partitions with this name.
    pub(crate) partition: Option<String>,
    /// Only messages that became dead letters at or after this time.
    pub(crate) from: Option<String>,
    /// Only messages that became dead letters before this time.
    pub(crate) to: Option<String>,
    /// Only dead letters whose error contains this text.
    pub(crate) error: Option<String>,
}

/// Dead letters to deliver again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RedriveBody {
    /// Which dead letters to deliver.
    #[serde(default)]
    pub(crate) filter: DeadLetterFilterBody,
    /// Confirms that all dead letters are meant if the filter is empty.
    #[serde(default)]
    pub(crate) all: bool,
    /// Push the messages to this queue instead of returning them to their groups.
    pub(crate) to_queue: Option<String>,
    /// The maximum number of dead letters per second.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub(crate) rate: Option<u32>,
}

/// A job that redrives dead letters.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedriveAnswer {
    /// The id of the job.
    job: String,
    /// `running`, `finished` or `cancelled`.
    state: &'static str,
    /// The number of matching dead letters when the job started.
    total: u64,
    /// The number of dead letters that were redriven so far.
    done: u64,
    /// The number of dead letters that could not be redriven. They are kept.
    failed: u64,
    /// The queue to which the messages are pushed, if the request named one.
    to_queue: Option<String>,
    /// The maximum number of dead letters per second.
    rate: Option<u32>,
    /// When the job started.
    created_at: String,
    /// When the job last made progress.
    updated_at: String,
}

impl From<RedriveJob> for RedriveAnswer {
    fn from(job: RedriveJob) -> Self {
        Self {
            job: job.redrive.id.to_string(),
            state: match job.state {
                RedriveState::Running => "running",
                RedriveState::Finished => "finished",
                RedriveState::Cancelled => "cancelled",
            },
            total: job.total,
            done: job.done,
            failed: job.failed,
            to_queue: job.redrive.to_queue.map(Into::into),
            rate: job.redrive.rate,
            created_at: render::time(job.created_at),
            updated_at: render::time(job.updated_at),
        }
    }
}
