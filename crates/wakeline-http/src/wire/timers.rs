//! Wire types of timers, in the format of the published Queen clients of version 2.6.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::{
    MessageId, PartitionName, QueueName, TimerKey, TransactionId, check_json_depth,
};
use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, CancelOutcome, PushItem, ScheduleItem, ScheduleOutcome, ScheduledMessage,
};

use super::push::due;
use crate::error::ApiError;
use crate::render::time;

/// Timers to set and to cancel.
#[derive(Deserialize, ToSchema)]
pub(crate) struct TimersBody<'a> {
    /// The operations, which are committed together. A timer may occur only once.
    #[serde(borrow)]
    pub(crate) operations: Option<Vec<TimerBody<'a>>>,
}

/// The kind of an operation on a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TimerOp {
    /// Set the timer. A timer with the same key that is not due yet is replaced.
    Schedule,
    /// The same as `schedule`.
    Reschedule,
    /// Cancel the timer.
    Cancel,
}

/// A timer to set or to cancel.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TimerBody<'a> {
    /// The kind of the operation.
    pub(crate) op: TimerOp,
    /// The queue of the timer.
    pub(crate) queue: String,
    /// The key of the timer, which is unique within its queue.
    pub(crate) timer_key: String,
    /// The payload of the message as JSON, encoded in base64.
    pub(crate) payload: Option<String>,
    /// The payload as plain JSON, instead of `payload`.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) data: Option<&'a RawValue>,
    /// The number of milliseconds until the timer is due, up to ten years.
    pub(crate) delay_ms: Option<i64>,
    /// The time at which the timer is due, for example `2026-01-31T12:00:00Z`, instead of
    /// `delayMs`.
    pub(crate) deliver_at: Option<String>,
    /// The partition of the message; `Default` if omitted.
    pub(crate) partition: Option<String>,
    /// The transaction id of the message.
    pub(crate) txn: Option<String>,
    /// Not supported.
    #[serde(default)]
    pub(crate) payload_zstd: bool,
}

/// A validated operation.
pub(crate) enum TimerCommand {
    Set(ScheduleItem),
    Cancel(CancelItem),
}

impl TimerBody<'_> {
    /// Validates the operation. Returns it as a command, with what the response repeats of it.
    pub(crate) fn check(self, body: &Bytes) -> Result<(TimerCommand, TimerEcho), ApiError> {
        let queue = QueueName::new(&self.queue)?;
        let key = TimerKey::new(&self.timer_key)?;
        let mut echo = TimerEcho { queue: queue.clone(), key: key.clone(), txn: None };
        if self.op == TimerOp::Cancel {
            echo.txn = self.txn;
            return Ok((TimerCommand::Cancel(CancelItem { queue, key }), echo));
        }
        if self.payload_zstd {
            let message = "payloadZstd is not supported: send the payload uncompressed";
            return Err(ApiError::invalid_field("payloadZstd", message));
        }
        if self.delay_ms.is_none() && self.deliver_at.is_none() {
            return Err(ApiError::invalid_field("delayMs", "delayMs or deliverAt is required"));
        }
        // Queen's clients may set a timer for the past, which is due immediately.
        let delay_ms = self.delay_ms.map(|ms| ms.max(0));
        let due = due(delay_ms, self.deliver_at.as_deref())?.unwrap_or(Visible::Now);
        let id = MessageId::generate();
        let transaction_id = match &self.txn {
            Some(txn) => TransactionId::new(txn)?,
            None => TransactionId::of_message(id),
        };
        echo.txn = Some(transaction_id.to_string());
        let partition = match &self.partition {
            Some(name) => PartitionName::new(name)?,
            None => PartitionName::default_partition(),
        };
        let payload = self.payload(body)?;
        let message = PushItem {
            queue,
            partition,
            id,
            transaction_id,
            trace_id: None,
            payload,
            producer: None,
        };
        Ok((TimerCommand::Set(ScheduleItem { message, due, key: Some(key) }), echo))
    }

    fn payload(&self, body: &Bytes) -> Result<Bytes, ApiError> {
        let wrong = |why: String| ApiError::invalid_field("payload", why);
        match (&self.payload, self.data) {
            (None, None) => Ok(Bytes::from_static(b"null")),
            (None, Some(raw)) => Ok(body.slice_ref(raw.get().as_bytes())),
            (Some(_), Some(_)) => Err(wrong("payload and data cannot both be given".to_owned())),
            (Some(text), None) => {
                let bytes = STANDARD.decode(text);
                let bytes = bytes.map_err(|error| {
                    wrong(format!(
                        "payload must be JSON in base64, or use data for plain JSON: {error}"
                    ))
                })?;
                check_json_depth(&bytes)?;
                match serde_json::from_slice::<&RawValue>(&bytes) {
                    Ok(_) => Ok(Bytes::from(bytes)),
                    Err(error) => Err(wrong(format!("payload must be JSON in base64: {error}"))),
                }
            }
        }
    }
}

/// What a response repeats of an operation.
pub(crate) struct TimerEcho {
    pub(crate) queue: QueueName,
    pub(crate) key: TimerKey,
    pub(crate) txn: Option<String>,
}

/// The results of operations on timers.
#[derive(Serialize, ToSchema)]
pub(crate) struct TimersAnswer {
    /// One result per operation, in order.
    pub(crate) results: Vec<TimerResult>,
}

/// The result of one operation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimerResult {
    /// Whether the operation succeeded.
    ok: bool,
    /// `scheduled`, `rescheduled` (a timer with this key was replaced), `duplicate` (the
    /// transaction id is known; nothing changed), `cancelled`, `absent` (no such timer is waiting;
    /// it may have been delivered) or `too_late` (the timer is due).
    pub(crate) status: &'static str,
    /// The name of the queue.
    pub(crate) queue: String,
    /// The key of the timer.
    pub(crate) timer_key: String,
    /// The transaction id of the message.
    pub(crate) txn: Option<String>,
    /// The id of the message.
    pub(crate) message_id: Option<String>,
    /// When the message is, or was to be, delivered.
    pub(crate) deliver_at: Option<String>,
}

impl TimerResult {
    fn new(echo: &TimerEcho, ok: bool, status: &'static str) -> Self {
        Self {
            ok,
            status,
            queue: echo.queue.to_string(),
            timer_key: echo.key.to_string(),
            txn: echo.txn.clone(),
            message_id: None,
            deliver_at: None,
        }
    }

    pub(crate) fn set(echo: &TimerEcho, outcome: &ScheduleOutcome) -> Self {
        match outcome {
            ScheduleOutcome::Scheduled { id, deliver_at, replaced, .. } => Self {
                message_id: Some(id.to_string()),
                deliver_at: Some(time(*deliver_at)),
                ..Self::new(echo, true, if *replaced { "rescheduled" } else { "scheduled" })
            },
            ScheduleOutcome::Duplicate { id, .. } => {
                Self { message_id: Some(id.to_string()), ..Self::new(echo, true, "duplicate") }
            }
        }
    }

    pub(crate) fn cancelled(echo: &TimerEcho, outcome: &CancelOutcome) -> Self {
        let (ok, status, named) = match outcome {
            CancelOutcome::Cancelled(named) => (true, "cancelled", named),
            CancelOutcome::TooLate(named) => (false, "too_late", named),
            CancelOutcome::Absent => return Self::new(echo, false, "absent"),
        };
        Self {
            txn: Some(named.transaction_id.to_string()),
            message_id: Some(named.id.to_string()),
            deliver_at: Some(time(named.deliver_at)),
            ..Self::new(echo, ok, status)
        }
    }
}

/// A page of scheduled messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimerPage {
    /// The messages in the order in which they are due.
    pub(crate) rows: Vec<TimerRow>,
    /// Whether there are more messages.
    pub(crate) truncated: bool,
    /// The `after` of the next page; null on the last page.
    pub(crate) next_after: Option<String>,
}

/// A scheduled message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimerRow {
    /// The name of the queue.
    queue: String,
    /// The key of the timer; null for a message that was pushed with a delay.
    timer_key: Option<String>,
    /// The partition of the message.
    partition: String,
    /// The transaction id of the message.
    txn: String,
    /// The id of the message.
    message_id: String,
    /// When the message was scheduled.
    scheduled_at: String,
    /// When the message is due.
    deliver_at: String,
}

impl TimerRow {
    pub(crate) fn new(queue: &QueueName, found: &ScheduledMessage) -> Self {
        Self {
            queue: queue.to_string(),
            timer_key: found.key.as_ref().map(ToString::to_string),
            partition: found.partition.to_string(),
            txn: found.transaction_id.to_string(),
            message_id: found.id.to_string(),
            scheduled_at: time(found.scheduled_at),
            deliver_at: time(found.deliver_at),
        }
    }
}

/// A timer, if it is waiting.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimerLook {
    /// Whether the timer is waiting.
    found: bool,
    /// The payload of the message, encoded in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// The other fields of the timer.
    #[serde(flatten)]
    row: Option<TimerRow>,
}

impl TimerLook {
    pub(crate) fn new(queue: &QueueName, found: Option<&ScheduledMessage>) -> Self {
        Self {
            found: found.is_some(),
            payload: found.map(|found| STANDARD.encode(&found.payload)),
            row: found.map(|found| TimerRow::new(queue, found)),
        }
    }
}
