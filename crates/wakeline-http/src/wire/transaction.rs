//! Wire types of transactions, whose operations are committed together or not at all.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_store::SettleOutcome;

use crate::error::ApiError;
use crate::wire::ack::{self, AckStatus};
use crate::wire::push::{PushEcho, PushItemBody, PushItemOutcome};
use crate::wire::timers::{TimerBody, TimerOp, TimerResult};

/// A transaction.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionBody<'a> {
    /// The operations.
    #[serde(borrow)]
    pub(crate) operations: Option<Vec<Operation<'a>>>,
    /// Leases for acknowledgments that name no lease.
    pub(crate) required_leases: Option<Vec<String>>,
    /// Timers to set and to cancel, as in `POST /api/v1/timers`.
    #[serde(borrow)]
    pub(crate) timers: Option<Vec<TimerBody<'a>>>,
    /// Not supported.
    #[schema(value_type = Option<Vec<Object>>)]
    pub(crate) kv: Option<Vec<serde::de::IgnoredAny>>,
}

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationKind {
    /// Push the messages in `items`, for immediate or later delivery.
    Push,
    /// Settle a message. The fields are those of an acknowledgment.
    Ack,
    /// Start an orchestration. Requires `name`; accepts `instance`, `version` and `input`.
    Start,
    /// Raise an event for an instance. Requires `instance` and `event`; accepts `data`.
    Signal,
    /// Send a message to the endpoints of an application. Requires `application`, `eventType` and
    /// `payload`; accepts `eventId` and `channels`.
    Emit,
    /// Set a timer. Requires `queue`, `timerKey`, and `delayMs` or `deliverAt`; accepts
    /// `partition`, `payload` and `transactionId`.
    Schedule,
    /// Cancel a timer. Requires `queue` and `timerKey`.
    Cancel,
}

/// An operation of a transaction.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation<'a> {
    /// The kind of the operation. Each other field belongs to the kinds that its description names.
    #[serde(rename = "type")]
    pub(crate) kind: OperationKind,
    /// For `push`: the messages.
    #[serde(borrow)]
    pub(crate) items: Option<Vec<PushItemBody<'a>>>,
    /// For `ack` and `schedule`: the transaction id of the message.
    pub(crate) transaction_id: Option<String>,
    /// For `ack`: the id of the message's partition.
    pub(crate) partition_id: Option<String>,
    /// For `ack`: how the message is settled.
    pub(crate) status: Option<AckStatus>,
    /// For `ack`: the reason, for failed messages.
    pub(crate) error: Option<String>,
    /// For `ack`: the consumer group that popped the message.
    pub(crate) consumer_group: Option<String>,
    /// For `ack`: the lease under which the message was popped.
    pub(crate) lease_id: Option<String>,
    /// For `start`: the name of the orchestration.
    pub(crate) name: Option<String>,
    /// For `start`: the version of the code; the newest if absent.
    pub(crate) version: Option<String>,
    /// For `start`: the input; null if absent.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) input: Option<&'a RawValue>,
    /// For `start` and `signal`: the id of the instance. For a start without one, the server
    /// generates it.
    pub(crate) instance: Option<String>,
    /// For `signal`: the name of the event.
    pub(crate) event: Option<String>,
    /// For `signal`: the data of the event; null if absent.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) data: Option<&'a RawValue>,
    /// For `signal`: accept the event before the instance was started.
    #[serde(default)]
    pub(crate) early: bool,
    /// For `emit`: the id or uid of the application.
    pub(crate) application: Option<String>,
    /// For `emit`: the event type of the message.
    pub(crate) event_type: Option<String>,
    /// For `emit`: your own id of the message. A second message with the same id is a `duplicate`.
    pub(crate) event_id: Option<String>,
    /// For `emit`: the channels of the message, at most 5.
    pub(crate) channels: Option<Vec<String>>,
    /// For `schedule` and `cancel`: the queue of the timer.
    pub(crate) queue: Option<String>,
    /// For `schedule`: the partition of the message; `Default` if omitted.
    pub(crate) partition: Option<String>,
    /// For `schedule` and `cancel`: the key of the timer within its queue.
    pub(crate) timer_key: Option<String>,
    /// For `schedule`: the number of milliseconds until the timer is due.
    pub(crate) delay_ms: Option<i64>,
    /// For `schedule`: the time at which the timer is due, instead of `delayMs`.
    pub(crate) deliver_at: Option<String>,
    /// For `emit`: the payload, a JSON object. For `schedule`: the payload, any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) payload: Option<&'a RawValue>,
}

impl<'a> Operation<'a> {
    /// The acknowledgment in the fields of the operation.
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

    /// The timer in the fields of the operation.
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

/// The result of a transaction.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionAnswer {
    /// The id of the transaction, for logs.
    pub(crate) transaction_id: String,
    /// Whether the transaction was committed. Otherwise nothing was written.
    pub(crate) success: bool,
    /// Why the transaction was refused.
    pub(crate) error: Option<String>,
    /// A stable error code; the error reference lists all codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// One result per pushed message and per other operation. For a refused transaction, only the
    /// operation that caused the refusal.
    pub(crate) results: Vec<OperationResult>,
    /// One result per timer in `timers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) timers: Vec<TimerResult>,
}

/// The result of one pushed message or other operation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperationResult {
    /// The index of the operation in the request.
    pub(crate) index: usize,
    /// The type of the operation.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Whether the operation succeeded.
    success: bool,
    /// The transaction id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    /// For `push`: `queued`, `buffered`, `scheduled` or `duplicate`. For `start`: `started` or
    /// `duplicate`. For `signal`: `accepted`. For `emit`: `stored` or `duplicate`. For `schedule`
    /// and `cancel`: as for timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// The id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// The id of the message's partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_id: Option<String>,
    /// The name of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_name: Option<String>,
    /// When the message will be delivered, if it is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<String>,
    /// The id of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The key of the timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    timer_key: Option<String>,
    /// Why the operation was refused.
    error: Option<&'static str>,
    /// Whether the message is a dead letter now.
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

    pub(crate) fn push(index: usize, item: &PushEcho, outcome: &PushItemOutcome) -> Self {
        let report = outcome.report();
        Self {
            transaction_id: Some(item.transaction_id.to_string()),
            status: Some(report.status),
            message_id: Some(report.message.to_string()),
            partition_id: Some(report.partition.to_string()),
            queue_name: Some(item.queue.to_string()),
            deliver_at: report.deliver_at,
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

    /// The result of a start or a signal.
    pub(crate) fn orchestration(
        index: usize,
        kind: &'static str,
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

    /// The result of setting or cancelling a timer. It is a success even if the timer did not
    /// change, because that does not refuse a transaction.
    pub(crate) fn timer(index: usize, kind: &'static str, result: TimerResult) -> Self {
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

    /// The result of the operation because of which a transaction was refused.
    pub(crate) fn refused(index: usize, kind: &'static str, error: &'static str) -> Self {
        Self { success: false, error: Some(error), ..Self::of(index, kind) }
    }
}
