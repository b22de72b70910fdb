//! Pushing messages.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::{MessageId, PartitionName, QueueName, TransactionId};
use wakeline_store::{PushItem, PushOutcome};

use crate::error::ApiError;

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
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// Names this push: repeating it within the queue's dedup window gives the first message.
    transaction_id: Option<String>,
    /// A correlation id.
    trace_id: Option<Uuid>,
}

impl PushItemBody<'_> {
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
            payload: match self.payload {
                Some(raw) => body.slice_ref(raw.get().as_bytes()),
                None => Bytes::from_static(b"null"),
            },
            producer: None,
        })
    }
}

/// What became of one pushed message.
#[derive(Serialize, ToSchema)]
pub(crate) struct PushResult {
    /// Its place in the request.
    index: usize,
    /// `queued`, or `duplicate` if its transaction id was known.
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
}

impl PushResult {
    pub(crate) fn new(index: usize, item: &PushEcho, outcome: &PushOutcome) -> Self {
        let (status, id, partition) = match outcome {
            PushOutcome::Queued { id, partition } => ("queued", id, partition),
            PushOutcome::Duplicate { id, partition } => ("duplicate", id, partition),
        };
        Self {
            index,
            status,
            transaction_id: item.transaction_id.to_string(),
            message_id: id.to_string(),
            partition_id: partition.to_string(),
            trace_id: item.trace_id,
            queue_name: item.queue.to_string(),
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
