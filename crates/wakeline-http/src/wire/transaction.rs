//! Writes of all faces that happen together or not at all.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_store::SettleOutcome;

use crate::error::ApiError;
use crate::wire::ack::{self, AckStatus};
use crate::wire::push::{PushEcho, PushItemBody, Sent};
use crate::wire::timers::{TimerBody, TimerOp, TimerResult};

/// A transaction.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionBody<'a> {
    /// What shall happen.
    #[serde(borrow)]
    pub(crate) operations: Option<Vec<Operation<'a>>>,
    /// Leases under which acknowledgments without a lease of their own are made.
    pub(crate) required_leases: Option<Vec<String>>,
    /// Timers to set and to take back, as in `POST /api/v1/timers`.
    #[serde(borrow)]
    pub(crate) timers: Option<Vec<TimerBody<'a>>>,
    /// Not supported.
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) kv: Option<Vec<serde::de::IgnoredAny>>,
}

/// What one operation does.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationKind {
    /// Push `items`, at once or for later.
    Push,
    /// Settle a message: the fields of an acknowledgment.
    Ack,
    /// Start an orchestration: `name`, and `instance`, `version`, `input` if they are given.
    Start,
    /// Raise an event: `instance`, `event`, and `data` if it is given.
    Signal,
    /// Send a message to the endpoints of an application: `application`, `eventType`, `payload`,
    /// and `eventId`, `channels` if they are given.
    Emit,
    /// Set a timer: `queue`, `timerKey`, `delayMs` or `deliverAt`, and `partition`, `payload`,
    /// `transactionId` if they are given.
    Schedule,
    /// Take a timer back: `queue`, `timerKey`.
    Cancel,
}

/// One operation.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation<'a> {
    /// What it does; the other fields are of one kind each.
    #[serde(rename = "type")]
    pub(crate) kind: OperationKind,
    /// push: the messages.
    #[serde(borrow)]
    pub(crate) items: Option<Vec<PushItemBody<'a>>>,
    /// ack: the name of the push of the message to settle; schedule: the message's.
    pub(crate) transaction_id: Option<String>,
    /// ack: the id of its partition.
    pub(crate) partition_id: Option<String>,
    /// ack: what became of it.
    pub(crate) status: Option<AckStatus>,
    /// ack: why, for failed messages.
    pub(crate) error: Option<String>,
    /// ack: on whose behalf it was popped.
    pub(crate) consumer_group: Option<String>,
    /// ack: the lease it was popped under.
    pub(crate) lease_id: Option<String>,
    /// start: the orchestration.
    pub(crate) name: Option<String>,
    /// start: the version of the code; the newest if absent.
    pub(crate) version: Option<String>,
    /// start: the input; null if absent.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) input: Option<&'a RawValue>,
    /// start, signal: the instance. A start without one gets a new one.
    pub(crate) instance: Option<String>,
    /// signal: the event's name.
    pub(crate) event: Option<String>,
    /// signal: what the event carries; null if absent.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) data: Option<&'a RawValue>,
    /// signal: accept it before the instance's start.
    #[serde(default)]
    pub(crate) early: bool,
    /// emit: the application's id or your own.
    pub(crate) application: Option<String>,
    /// emit: what it tells of.
    pub(crate) event_type: Option<String>,
    /// emit: your own id of it. A second message with it is a `duplicate`.
    pub(crate) event_id: Option<String>,
    /// emit: its channels: at most 5.
    pub(crate) channels: Option<Vec<String>>,
    /// schedule, cancel: the timer's queue.
    pub(crate) queue: Option<String>,
    /// schedule: the partition that the message goes to; `Default` if omitted.
    pub(crate) partition: Option<String>,
    /// schedule, cancel: names the timer within its queue.
    pub(crate) timer_key: Option<String>,
    /// schedule: due in so many milliseconds.
    pub(crate) delay_ms: Option<i64>,
    /// schedule: or due at this moment.
    pub(crate) deliver_at: Option<String>,
    /// emit: what is sent, a JSON object; schedule: what the message carries, any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) payload: Option<&'a RawValue>,
}

impl<'a> Operation<'a> {
    /// The acknowledgment in it.
    pub(crate) fn ack(&self) -> ack::AckBody {
        ack::AckBody {
            transaction_id: self.transaction_id.clone(),
            partition_id: self.partition_id.clone(),
            status: self.status,
            error: self.error.clone(),
            consumer_group: self.consumer_group.clone(),
            lease_id: self.lease_id.clone(),
        }
    }

    /// The timer in it.
    pub(crate) fn timer(self, op: TimerOp) -> Result<TimerBody<'a>, ApiError> {
        let missing = |field: &str| ApiError::invalid_field(field, format!("{field} is required"));
        Ok(TimerBody {
            op,
            queue: self.queue.ok_or_else(|| missing("queue"))?,
            timer_key: self.timer_key.ok_or_else(|| missing("timerKey"))?,
            payload: None,
            data: self.payload,
            delay_ms: self.delay_ms,
            deliver_at: self.deliver_at,
            partition: self.partition,
            txn: self.transaction_id,
            payload_zstd: false,
        })
    }
}

/// How a transaction ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionAnswer {
    /// An id of this transaction, for logs.
    pub(crate) transaction_id: String,
    /// Whether all of it happened; otherwise nothing did.
    pub(crate) success: bool,
    /// Why it did not.
    pub(crate) error: Option<String>,
    /// A stable code of why not; see the reference of errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// One per pushed message and other operation; of a refused transaction, the one to blame.
    pub(crate) results: Vec<OperationResult>,
    /// One per timer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) timers: Vec<TimerResult>,
}

/// What became of one pushed message or other operation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperationResult {
    /// The operation's place in the request.
    pub(crate) index: usize,
    /// That of the operation.
    #[serde(rename = "type")]
    kind: &'static str,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    /// push: `queued`, `scheduled` or `duplicate`; start: `started` or `duplicate`; signal:
    /// `accepted`; emit: `stored` or `duplicate`; schedule and cancel: as for timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timer_key: Option<String>,
    error: Option<&'static str>,
    dlq: bool,
}

impl OperationResult {
    fn of(index: usize, kind: &'static str) -> Self {
        Self {
            index,
            kind,
            success: true,
            transaction_id: None,
            status: None,
            message_id: None,
            partition_id: None,
            queue_name: None,
            deliver_at: None,
            instance: None,
            timer_key: None,
            error: None,
            dlq: false,
        }
    }

    pub(crate) fn push(index: usize, item: &PushEcho, outcome: &Sent) -> Self {
        let (status, id, partition, deliver_at) = outcome.told();
        Self {
            transaction_id: Some(item.transaction_id.to_string()),
            status: Some(status),
            message_id: Some(id.to_string()),
            partition_id: Some(partition.to_string()),
            queue_name: Some(item.queue.to_string()),
            deliver_at,
            ..Self::of(index, "push")
        }
    }

    pub(crate) fn ack(index: usize, transaction_id: &str, outcome: &SettleOutcome) -> Self {
        let dlq = matches!(outcome, SettleOutcome::Settled { dead_lettered: true, .. });
        let queue_name = match outcome {
            SettleOutcome::Settled { queue, .. } => Some(queue.to_string()),
            _ => None,
        };
        Self {
            success: matches!(outcome, SettleOutcome::Settled { .. }),
            transaction_id: Some(transaction_id.to_owned()),
            queue_name,
            error: ack::refusal(outcome),
            dlq,
            ..Self::of(index, "ack")
        }
    }

    /// A start or a signal.
    pub(crate) fn orchestration(
        (index, kind): (usize, &'static str),
        instance: &str,
        status: &'static str,
    ) -> Self {
        let instance = Some(instance.to_owned());
        Self { status: Some(status), instance, ..Self::of(index, kind) }
    }

    pub(crate) fn emit(index: usize, status: &'static str, message_id: String) -> Self {
        let message_id = Some(message_id);
        Self { status: Some(status), message_id, ..Self::of(index, "emit") }
    }

    /// A timer that was set or taken back, or not: neither refuses a transaction.
    pub(crate) fn timer((index, kind): (usize, &'static str), result: TimerResult) -> Self {
        Self {
            transaction_id: result.txn,
            status: Some(result.status),
            message_id: result.message_id,
            queue_name: Some(result.queue),
            deliver_at: result.deliver_at,
            timer_key: Some(result.timer_key),
            ..Self::of(index, kind)
        }
    }

    /// The one that a transaction was refused for.
    pub(crate) fn refused((index, kind): (usize, &'static str), error: &'static str) -> Self {
        Self { success: false, error: Some(error), ..Self::of(index, kind) }
    }
}
