//! Wire types for pushing messages.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::{MessageId, PartitionId, PartitionName, QueueName, TransactionId};
use wakeline_store::flow::Visible;
use wakeline_store::{PushItem, PushOutcome, ScheduleOutcome};

use crate::error::ApiError;
use crate::input::lenient_timestamp;
use crate::render::time;

/// The maximum delay: ten years.
const DELAY_MS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Messages to push.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PushBody<'a> {
    /// The messages, in any number of queues and partitions.
    #[serde(borrow)]
    pub(crate) items: Option<Vec<PushItemBody<'a>>>,
}

/// A message to push.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushItemBody<'a> {
    /// The queue. The first push creates it.
    queue: String,
    /// The partition; `Default` if omitted. Messages of one partition are delivered in order.
    partition: Option<String>,
    /// The payload, which may be any JSON.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// An id for deduplication. Pushing the same id again within the queue's deduplication window
    /// returns the first message.
    transaction_id: Option<String>,
    /// A correlation id.
    trace_id: Option<Uuid>,
    /// Deliver the message after this many milliseconds, up to ten years.
    delay_ms: Option<i64>,
    /// The same as `delayMs`.
    delay: Option<i64>,
    /// Deliver the message at this time, for example `2026-01-31T12:00:00Z`.
    deliver_at: Option<String>,
}

/// Validates when a message is to be delivered; `None` means immediately.
pub(crate) fn due(
    delay_ms: Option<i64>,
    deliver_at: Option<&str>,
) -> Result<Option<Visible>, ApiError> {
    match (delay_ms, deliver_at) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            let message = "delayMs and deliverAt cannot both be given";
            Err(ApiError::invalid_field("deliverAt", message))
        }
        (None, Some(text)) => lenient_timestamp("deliverAt", text).map(|at| Some(Visible::At(at))),
        (Some(0), None) => Ok(None),
        (Some(ms), None) => match u64::try_from(ms) {
            Ok(ms) if ms <= DELAY_MS_MAX => Ok(Some(Visible::After(Duration::from_millis(ms)))),
            _ => {
                let message = format!("delayMs must be from 0 to {DELAY_MS_MAX}, not {ms}");
                Err(ApiError::invalid_field("delayMs", message))
            }
        },
    }
}

impl PushItemBody<'_> {
    /// When the message is to be delivered; `None` means immediately.
    pub(crate) fn due(&self) -> Result<Option<Visible>, ApiError> {
        due(self.delay_ms.or(self.delay), self.deliver_at.as_deref())
    }

    /// Converts the message to a command. The payload refers to the request body.
    pub(crate) fn into_item(self, body: &Bytes) -> Result<PushItem, ApiError> {
        let id = MessageId::generate();
        Ok(PushItem {
            queue: QueueName::new(self.queue)?,
            partition: match self.partition {
                Some(name) => PartitionName::new(name)?,
                None => PartitionName::default_partition(),
            },
            id,
            // A push without a transaction id gets one from its new message id: stores then need
            // not look for earlier pushes, and a repeated store call still stores one message.
            transaction_id: match self.transaction_id {
                Some(name) => TransactionId::new(name)?,
                None => TransactionId::of_message(id),
            },
            trace_id: self.trace_id,
            payload: body.slice_ref(self.payload.get().as_bytes()),
            producer: None,
        })
    }
}

/// The result of pushing one message.
#[derive(Serialize, ToSchema)]
pub(crate) struct PushResult {
    /// The index of the message in the request.
    index: usize,
    /// `queued`, `buffered` (stored during maintenance), `scheduled`, or `duplicate` if the
    /// transaction id is known.
    status: &'static str,
    /// The transaction id of the message.
    transaction_id: String,
    /// The id of the message. For a duplicate, the id of the first message.
    message_id: String,
    /// The id of the partition.
    partition_id: String,
    /// The correlation id.
    trace_id: Option<Uuid>,
    /// The name of the queue.
    #[serde(rename = "queueName")]
    queue_name: String,
    /// When the message will be delivered, if it is scheduled.
    #[serde(rename = "deliverAt", skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
}

/// The outcome of storing one message.
pub(crate) enum PushItemOutcome {
    /// The outcome of a message for immediate delivery.
    Now(PushOutcome),
    /// The outcome of a message for later.
    Later(ScheduleOutcome),
}

/// What a response says about the outcome of one message.
pub(crate) struct PushItemReport {
    pub(crate) status: &'static str,
    pub(crate) message: MessageId,
    pub(crate) partition: PartitionId,
    pub(crate) deliver_at: Option<String>,
}

impl PushItemOutcome {
    pub(crate) fn report(&self) -> PushItemReport {
        let report = |status, message, partition| PushItemReport {
            status,
            message,
            partition,
            deliver_at: None,
        };
        match *self {
            Self::Now(PushOutcome::Queued { id, partition }) => report("queued", id, partition),
            Self::Now(PushOutcome::Held { id, partition }) => report("buffered", id, partition),
            Self::Later(ScheduleOutcome::Scheduled { id, partition, deliver_at, replaced }) => {
                let status = if replaced { "rescheduled" } else { "scheduled" };
                let deliver_at = Some(time(deliver_at));
                PushItemReport { deliver_at, ..report(status, id, partition) }
            }
            Self::Now(PushOutcome::Duplicate { id, partition })
            | Self::Later(ScheduleOutcome::Duplicate { id, partition }) => {
                report("duplicate", id, partition)
            }
        }
    }
}

impl PushResult {
    pub(crate) fn new(index: usize, item: &PushEcho, outcome: &PushItemOutcome) -> Self {
        let report = outcome.report();
        Self {
            index,
            status: report.status,
            transaction_id: item.transaction_id.to_string(),
            message_id: report.message.to_string(),
            partition_id: report.partition.to_string(),
            trace_id: item.trace_id,
            queue_name: item.queue.to_string(),
            deliver_at: report.deliver_at,
        }
    }
}

/// What a response repeats of a pushed message.
pub(crate) struct PushEcho {
    pub(crate) queue: QueueName,
    pub(crate) transaction_id: TransactionId,
    pub(crate) trace_id: Option<Uuid>,
}

impl From<&PushItem> for PushEcho {
    fn from(item: &PushItem) -> Self {
        Self {
            queue: item.queue.clone(),
            transaction_id: item.transaction_id.clone(),
            trace_id: item.trace_id,
        }
    }
}
