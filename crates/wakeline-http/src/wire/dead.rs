//! Dead letters, and the jobs that redrive them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_store::{DeadLetter, RedriveJob, RedriveState};

use crate::error::ApiError;
use crate::render;

/// A message that used up its tries, or was given up.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterAnswer<'a> {
    /// Names this dead letter: a message may be given up by several groups, and again.
    dead_letter_id: String,
    /// The message's id.
    id: String,
    transaction_id: &'a str,
    partition_id: String,
    queue: &'a str,
    partition: &'a str,
    consumer_group: &'a str,
    error_message: Option<&'a str>,
    /// Counted failures.
    retry_count: u32,
    #[schema(value_type = Object)]
    data: &'a RawValue,
    trace_id: Option<Uuid>,
    producer_sub: Option<&'a str>,
    created_at: String,
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
    pub(crate) messages: Vec<DeadLetterAnswer<'a>>,
    /// How many there are on all pages.
    pub(crate) total: u64,
    pub(crate) pagination: Pagination,
}

/// Which page this is.
#[derive(Serialize, ToSchema)]
pub(crate) struct Pagination {
    pub(crate) limit: u32,
    pub(crate) offset: u32,
    /// How many there are on all pages.
    pub(crate) total: u64,
}

/// How many dead letters were removed.
#[derive(Serialize, ToSchema)]
pub(crate) struct PurgedAnswer {
    pub(crate) success: bool,
    pub(crate) purged: u64,
}

/// Which dead letters are meant. What is not given does not matter.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeadLetterFilterBody {
    /// Only this one, by its `deadLetterId`.
    pub(crate) id: Option<String>,
    /// Only of this queue.
    pub(crate) queue: Option<String>,
    /// Only of this group.
    pub(crate) consumer_group: Option<String>,
    /// Only of partitions of this name.
    pub(crate) partition: Option<String>,
    /// Only those given up at or after this time.
    pub(crate) from: Option<String>,
    /// Only those given up before this time.
    pub(crate) to: Option<String>,
    /// Only those whose error contains this text.
    pub(crate) error: Option<String>,
}

/// Dead letters to deliver again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RedriveBody {
    #[serde(default)]
    pub(crate) filter: DeadLetterFilterBody,
    /// Says that an empty filter means all of them.
    #[serde(default)]
    pub(crate) all: bool,
    /// Pushed to this queue instead of given back to the groups that gave them up.
    pub(crate) to_queue: Option<String>,
    /// At most so many a second.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub(crate) rate: Option<u32>,
}

/// A job that redrives dead letters.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedriveAnswer {
    job: String,
    /// `running`, `finished` or `cancelled`.
    state: &'static str,
    /// How many there were when it started.
    total: u64,
    done: u64,
    /// How many could not be redriven: they stay dead letters.
    failed: u64,
    to_queue: Option<String>,
    rate: Option<u32>,
    created_at: String,
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
