//! Popping messages.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::GroupName;
use wakeline_store::{Delivered, Grant, GrantedPartition};

use crate::error::ApiError;
use crate::render;

/// Messages that were popped.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PopAnswer<'a> {
    /// Always true; an empty pop is 204.
    success: bool,
    /// The queue of the first message.
    queue: &'a str,
    /// The partition of the first message.
    partition: &'a str,
    /// Its id.
    partition_id: String,
    /// The lease to settle under; empty with `autoAck`.
    lease_id: String,
    /// How long the lease lasts, in milliseconds; 0 with `autoAck`.
    lease_ms: u64,
    /// On whose behalf they were popped.
    consumer_group: &'a str,
    /// The messages; those of one partition are in order.
    messages: Vec<PoppedMessage<'a>>,
    /// How many partitions they come from.
    partitions_claimed: usize,
}

/// What a pop gets while pops pause.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PausedAnswer<'a> {
    /// Always true.
    success: bool,
    /// Always true.
    paused: bool,
    /// On whose behalf it was.
    consumer_group: &'a str,
    /// None.
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
    /// The message's id.
    id: String,
    /// The name of its push; settle it by this.
    transaction_id: &'a str,
    /// The producer's correlation id.
    trace_id: Option<Uuid>,
    /// The payload.
    #[schema(value_type = Object)]
    data: &'a RawValue,
    /// Who pushed it.
    producer_sub: Option<&'a str>,
    /// When it was pushed.
    created_at: String,
    /// The queue.
    queue: &'a str,
    /// The partition's id.
    partition_id: String,
    /// The partition.
    partition: &'a str,
    /// Its place in the partition.
    offset: i64,
    /// Which try this is; the first is 1.
    attempt: u32,
    /// The lease to settle under.
    lease_id: &'a str,
    /// On whose behalf it was popped.
    consumer_group: &'a str,
}

impl<'a> PopAnswer<'a> {
    /// Renders a grant; `lease` is the text of its lease, or empty.
    pub(crate) fn new(
        grant: &'a Grant,
        group: &'a GroupName,
        lease: &'a str,
    ) -> Result<Self, ApiError> {
        let mut messages = Vec::new();
        for partition in &grant.partitions {
            for message in &partition.messages {
                let part = PartOf { partition, group: group.as_str(), lease };
                messages.push(PoppedMessage::new(message, &part)?);
            }
        }
        let first = grant.partitions.first();
        Ok(Self {
            success: true,
            queue: first.map_or("", |partition| partition.queue.as_str()),
            partition: first.map_or("", |partition| partition.partition.as_str()),
            partition_id: first.map_or_else(String::new, |first| first.partition_id.to_string()),
            lease_id: lease.to_owned(),
            lease_ms: u64::try_from(grant.lease_for.as_millis()).unwrap_or(u64::MAX),
            consumer_group: group.as_str(),
            messages,
            partitions_claimed: grant.partitions.len(),
        })
    }
}

struct PartOf<'a> {
    partition: &'a GrantedPartition,
    group: &'a str,
    lease: &'a str,
}

impl<'a> PoppedMessage<'a> {
    fn new(message: &'a Delivered, part: &PartOf<'a>) -> Result<Self, ApiError> {
        Ok(Self {
            id: message.id.to_string(),
            transaction_id: message.transaction_id.as_str(),
            trace_id: message.trace_id,
            data: render::payload(&message.payload, &message.id)?,
            producer_sub: message.producer.as_deref(),
            created_at: render::time(message.created_at),
            queue: part.partition.queue.as_str(),
            partition_id: part.partition.partition_id.to_string(),
            partition: part.partition.partition.as_str(),
            offset: message.offset,
            attempt: message.attempt,
            lease_id: part.lease,
            consumer_group: part.group,
        })
    }
}
