//! Single messages.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::PartitionId;
use wakeline_store::{MessageDetail, MessageState};

use crate::error::ApiError;
use crate::render;

/// Where a message stands with one group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupState<'a> {
    name: &'a str,
    /// `pending`, `processing`, `completed` or `dead_letter`.
    status: &'static str,
}

/// A message as it stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageAnswer<'a> {
    id: String,
    transaction_id: &'a str,
    partition_id: String,
    /// Queue and partition, joined by a slash, for display.
    queue_path: String,
    queue: &'a str,
    partition: &'a str,
    /// Its place in the partition.
    offset: i64,
    trace_id: Option<Uuid>,
    producer_sub: Option<&'a str>,
    created_at: String,
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// How it stands with consumers that name no group, or with the first group.
    status: &'static str,
    consumer_groups: Vec<GroupState<'a>>,
}

impl<'a> MessageAnswer<'a> {
    pub(crate) fn new(id: PartitionId, detail: &'a MessageDetail) -> Result<Self, ApiError> {
        let message = &detail.message;
        let groups = &detail.groups;
        let main = groups.iter().find(|(group, _)| group.is_queue_mode()).or(groups.first());
        Ok(Self {
            id: message.id.to_string(),
            transaction_id: message.transaction_id.as_str(),
            partition_id: id.to_string(),
            queue_path: format!("{}/{}", detail.queue, detail.partition),
            queue: detail.queue.as_str(),
            partition: detail.partition.as_str(),
            offset: message.offset,
            trace_id: message.trace_id,
            producer_sub: message.producer.as_deref(),
            created_at: render::time(message.created_at),
            payload: render::payload(&message.payload, &message.id)?,
            status: main.map_or("pending", |(_, state)| state_word(*state)),
            consumer_groups: groups
                .iter()
                .map(|(group, state)| GroupState {
                    name: group.as_str(),
                    status: state_word(*state),
                })
                .collect(),
        })
    }
}

fn state_word(state: MessageState) -> &'static str {
    match state {
        MessageState::Pending => "pending",
        MessageState::Processing => "processing",
        MessageState::Completed => "completed",
        MessageState::DeadLetter => "dead_letter",
    }
}
