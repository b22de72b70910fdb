//! Pushing messages.

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
use crate::input::moment;
use crate::render::time;

/// Longest delay: ten years.
const DELAY_MS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Messages to push.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PushBody<'a> {
    /// The messages, over any number of queues and partitions.
    #[serde(borrow)]
    pub(crate) items: Option<Vec<PushItemBody<'a>>>,
}

/// One message to push.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushItemBody<'a> {
    /// The queue; made by the first push to it.
    queue: String,
    /// The partition; `Default` if omitted. Messages of one partition are delivered in order.
    partition: Option<String>,
    /// Any JSON.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// Names this push: repeating it within the queue's dedup window gives the first message.
    transaction_id: Option<String>,
    /// A correlation id.
    trace_id: Option<Uuid>,
    /// Deliver it so many milliseconds from now, up to ten years.
    delay_ms: Option<i64>,
    /// The same as `delayMs`.
    delay: Option<i64>,
    /// Deliver it at this moment: `2026-01-31T12:00:00Z`.
    deliver_at: Option<String>,
}

/// When a message is to be delivered; `None` at once.
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
        (None, Some(text)) => moment("deliverAt", text).map(|at| Some(Visible::At(at))),
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
    /// When it is to be delivered; `None` at once.
    pub(crate) fn due(&self) -> Result<Option<Visible>, ApiError> {
        due(self.delay_ms.or(self.delay), self.deliver_at.as_deref())
    }

    /// The message as a command. The payload stays where it is in the request body.
    pub(crate) fn into_item(self, body: &Bytes) -> Result<PushItem, ApiError> {
        let id = MessageId::generate();
        Ok(PushItem {
            queue: QueueName::new(self.queue)?,
            partition: match self.partition {
                Some(name) => PartitionName::new(name)?,
                None => PartitionName::default_partition(),
            },
            id,
            // A push without a name is named by its message, which is new: a store need not look
            // for earlier ones, and a repeated store call still gives one message.
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

/// What became of one pushed message.
#[derive(Serialize, ToSchema)]
pub(crate) struct PushResult {
    /// Its place in the request.
    index: usize,
    /// `queued`, `scheduled`, or `duplicate` if its transaction id was known.
    status: &'static str,
    /// The name of the push.
    transaction_id: String,
    /// The message's id; of the first one, if this is a duplicate.
    message_id: String,
    /// The partition's id.
    partition_id: String,
    /// The correlation id.
    trace_id: Option<Uuid>,
    /// The queue.
    #[serde(rename = "queueName")]
    queue_name: String,
    /// When it will be delivered, if it is scheduled.
    #[serde(rename = "deliverAt", skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
}

/// What became of one message, stored at once or for later.
pub(crate) enum Sent {
    /// At once.
    Now(PushOutcome),
    /// For later.
    Later(ScheduleOutcome),
}

impl Sent {
    /// Its status, id, partition and time.
    pub(crate) fn told(&self) -> (&'static str, MessageId, PartitionId, Option<String>) {
        match *self {
            Self::Now(PushOutcome::Queued { id, partition }) => ("queued", id, partition, None),
            Self::Now(PushOutcome::Held { id, partition }) => ("buffered", id, partition, None),
            Self::Later(ScheduleOutcome::Scheduled { id, partition, deliver_at, replaced }) => {
                let status = if replaced { "rescheduled" } else { "scheduled" };
                (status, id, partition, Some(time(deliver_at)))
            }
            Self::Now(PushOutcome::Duplicate { id, partition })
            | Self::Later(ScheduleOutcome::Duplicate { id, partition }) => {
                ("duplicate", id, partition, None)
            }
        }
    }
}

impl PushResult {
    pub(crate) fn new(index: usize, item: &PushEcho, outcome: &Sent) -> Self {
        let (status, id, partition, deliver_at) = outcome.told();
        Self {
            index,
            status,
            transaction_id: item.transaction_id.to_string(),
            message_id: id.to_string(),
            partition_id: partition.to_string(),
            trace_id: item.trace_id,
            queue_name: item.queue.to_string(),
            deliver_at,
        }
    }
}

/// What an answer repeats of a pushed item.
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
