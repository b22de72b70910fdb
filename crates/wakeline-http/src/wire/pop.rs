//! Wire types of popped messages.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::GroupName;
use wakeline_store::{ClaimedPartition, Delivered, QueueClaimResult};

use crate::error::ApiError;
use crate::render;

/// Messages that were popped.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PopAnswer<'a> {
    /// Always true. The status is 204 if no message is available.
    success: bool,
    /// The queue of the first message.
    queue: &'a str,
    /// The partition of the first message.
    partition: &'a str,
    /// The id of the partition of the first message.
    partition_id: String,
    /// The lease, which is needed to settle the messages; empty with `autoAck`.
    lease_id: String,
    /// The length of the lease in milliseconds; 0 with `autoAck`.
    lease_ms: u64,
    /// The name of the consumer group.
    consumer_group: &'a str,
    /// The messages. Those of one partition are in order.
    messages: Vec<PoppedMessage<'a>>,
    /// The number of partitions that the messages come from.
    partitions_claimed: usize,
}

/// The response to a pop while pops are paused.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PausedAnswer<'a> {
    /// Always true.
    success: bool,
    /// Always true.
    paused: bool,
    /// The name of the consumer group.
    consumer_group: &'a str,
    /// An empty list.
    #[schema(value_type = Vec<Object>)]
    messages: [(); 0],
}

impl<'a> PausedAnswer<'a> {
    pub(crate) fn new(group: &'a GroupName) -> Self {
        Self { success: true, paused: true, consumer_group: group.as_str(), messages: [] }
    }
}

/// A message that was popped.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PoppedMessage<'a> {
    /// The id of the message.
    id: String,
    /// The transaction id of the message, which is needed to settle it.
    transaction_id: &'a str,
    /// The producer's correlation id.
    trace_id: Option<Uuid>,
    /// The payload.
    #[schema(value_type = Object)]
    data: &'a RawValue,
    /// The producer of the message.
    producer_sub: Option<&'a str>,
    /// When the message was pushed.
    created_at: String,
    /// The name of the queue.
    queue: &'a str,
    /// The id of the partition, which is needed to settle the message.
    partition_id: String,
    /// The name of the partition.
    partition: &'a str,
    /// The offset of the message in the partition.
    offset: i64,
    /// The number of the attempt; the first is 1.
    attempt: u32,
    /// The lease, which is needed to settle the message.
    lease_id: &'a str,
    /// The name of the consumer group.
    consumer_group: &'a str,
}

impl<'a> PopAnswer<'a> {
    /// Renders the result of a claim. `lease` is the text of its lease, or empty.
    pub(crate) fn new(
        claimed: &'a QueueClaimResult,
        group: &'a GroupName,
        lease: &'a str,
    ) -> Result<Self, ApiError> {
        let mut messages = Vec::new();
        for partition in &claimed.partitions {
            for message in &partition.messages {
                let origin = MessageOrigin { partition, group: group.as_str(), lease };
                messages.push(PoppedMessage::new(message, &origin)?);
            }
        }
        let first = claimed.partitions.first();
        Ok(Self {
            success: true,
            queue: first.map_or("", |partition| partition.queue.as_str()),
            partition: first.map_or("", |partition| partition.partition.as_str()),
            partition_id: first.map_or_else(String::new, |first| first.partition_id.to_string()),
            lease_id: lease.to_owned(),
            lease_ms: u64::try_from(claimed.lease_for.as_millis()).unwrap_or(u64::MAX),
            consumer_group: group.as_str(),
            messages,
            partitions_claimed: claimed.partitions.len(),
        })
    }
}

/// Where a popped message comes from.
struct MessageOrigin<'a> {
    partition: &'a ClaimedPartition,
    group: &'a str,
    lease: &'a str,
}

impl<'a> PoppedMessage<'a> {
    fn new(message: &'a Delivered, origin: &MessageOrigin<'a>) -> Result<Self, ApiError> {
        Ok(Self {
            id: message.id.to_string(),
            transaction_id: message.transaction_id.as_str(),
            trace_id: message.trace_id,
            data: render::payload(&message.payload, &message.id)?,
            producer_sub: message.producer.as_deref(),
            created_at: render::time(message.created_at),
            queue: origin.partition.queue.as_str(),
            partition_id: origin.partition.partition_id.to_string(),
            partition: origin.partition.partition.as_str(),
            offset: message.offset,
            attempt: message.attempt,
            lease_id: origin.lease,
            consumer_group: origin.group,
        })
    }
}
