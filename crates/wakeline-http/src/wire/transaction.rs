//! Pushes and acknowledgments that happen together or not at all.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_store::{PushOutcome, SettleOutcome};

use crate::wire::ack::{self, AckStatus};
use crate::wire::push::{PushEcho, PushItemBody};

/// A transaction.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionBody<'a> {
    /// What shall happen.
    #[serde(borrow)]
    pub(crate) operations: Option<Vec<Operation<'a>>>,
    /// Leases under which acknowledgments without a lease of their own are made.
    pub(crate) required_leases: Option<Vec<String>>,
}

/// What one operation does.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationKind {
    Push,
    Ack,
}

/// One operation: a push with `items`, or an ack with the fields of an acknowledgment.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation<'a> {
    /// `push` or `ack`.
    #[serde(rename = "type")]
    pub(crate) kind: OperationKind,
    /// Messages to push.
    #[serde(borrow)]
    pub(crate) items: Option<Vec<PushItemBody<'a>>>,
    /// The name of the push of the message to settle.
    pub(crate) transaction_id: Option<String>,
    /// The id of its partition.
    pub(crate) partition_id: Option<String>,
    /// What became of it.
    pub(crate) status: Option<AckStatus>,
    /// Why, for failed messages.
    pub(crate) error: Option<String>,
    /// On whose behalf it was popped.
    pub(crate) consumer_group: Option<String>,
    /// The lease it was popped under.
    pub(crate) lease_id: Option<String>,
}

impl Operation<'_> {
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
    /// One per pushed message and acknowledgment.
    pub(crate) results: Vec<OperationResult>,
}

/// What became of one pushed message or acknowledgment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperationResult {
    /// The operation's place in the request.
    index: usize,
    /// `push` or `ack`.
    #[serde(rename = "type")]
    kind: &'static str,
    success: bool,
    transaction_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_name: Option<String>,
    error: Option<&'static str>,
    dlq: bool,
}

impl OperationResult {
    pub(crate) fn push(index: usize, item: &PushEcho, outcome: &PushOutcome) -> Self {
        let (status, id, partition) = match outcome {
            PushOutcome::Queued { id, partition } => ("queued", id, partition),
            PushOutcome::Duplicate { id, partition } => ("duplicate", id, partition),
        };
        Self {
            index,
            kind: "push",
            success: true,
            transaction_id: item.transaction_id.to_string(),
            status: Some(status),
            message_id: Some(id.to_string()),
            partition_id: Some(partition.to_string()),
            queue_name: Some(item.queue.to_string()),
            error: None,
            dlq: false,
        }
    }

    pub(crate) fn ack(index: usize, transaction_id: &str, outcome: &SettleOutcome) -> Self {
        let dlq = matches!(outcome, SettleOutcome::Settled { dead_lettered: true, .. });
        let queue_name = match outcome {
            SettleOutcome::Settled { queue, .. } => Some(queue.to_string()),
            _ => None,
        };
        Self {
            index,
            kind: "ack",
            success: matches!(outcome, SettleOutcome::Settled { .. }),
            transaction_id: transaction_id.to_owned(),
            status: None,
            message_id: None,
            partition_id: None,
            queue_name,
            error: ack::refusal(outcome),
            dlq,
        }
    }
}
