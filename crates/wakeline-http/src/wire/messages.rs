//! Wire types of single messages.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::{GroupName, PartitionId, QueueOptions};
use wakeline_store::{
    BrowsePosition, DeliveryOutcome, LedgerEntry, ListedMessage, MessageDetail, MessageState,
};

use crate::error::ApiError;
use crate::render;
use crate::wire::options::OptionsAnswer;

/// The state of a message in one consumer group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupState<'a> {
    /// The name of the group.
    name: &'a str,
    /// `pending`, `processing`, `completed` or `dead_letter`.
    status: &'static str,
    /// The last error, if the group retries the message or has made it a dead letter.
    error_message: Option<&'a str>,
}

/// A message and its state.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageAnswer<'a> {
    /// The id of the message.
    id: String,
    /// The transaction id of the message.
    transaction_id: &'a str,
    /// The id of the partition.
    partition_id: String,
    /// Queue and partition, joined by a slash, for display.
    queue_path: String,
    /// The name of the queue.
    queue: &'a str,
    /// The name of the partition.
    partition: &'a str,
    /// The offset of the message in the partition.
    offset: i64,
    /// The producer's correlation id.
    trace_id: Option<Uuid>,
    /// The producer of the message.
    producer_sub: Option<&'a str>,
    /// When the message was pushed.
    created_at: String,
    /// The payload.
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// The state for consumers that name no group. If there are none, the state in the first group.
    status: &'static str,
    /// The states in all groups.
    consumer_groups: Vec<GroupState<'a>>,
    /// Whether the queue encrypts stored payloads. The payload in this response is not encrypted.
    is_encrypted: bool,
    /// The last error of consumers that name no group, or of the first group that has one.
    error_message: Option<&'a str>,
    /// The number of recorded deliveries that failed or expired.
    retry_count: usize,
    /// The options of the queue.
    queue_config: OptionsAnswer,
    /// How the queue is consumed.
    mode: GroupsMode,
    /// The recorded deliveries of the message, oldest first.
    ledger: Vec<LedgerAnswer<'a>>,
}

/// How a queue is consumed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupsMode {
    /// Whether consumers that name no group read the queue.
    has_queue_mode: bool,
    /// The number of named groups that read the queue.
    bus_groups_count: usize,
    /// `queue`: only consumers that name no group; `bus`: only named groups; `hybrid`: both;
    /// `none`: no consumer yet.
    #[serde(rename = "type")]
    kind: &'static str,
}

impl GroupsMode {
    fn of(groups: &[(GroupName, MessageState)]) -> Self {
        let has_queue_mode = groups.iter().any(|(group, _)| group.is_queue_mode());
        let bus_groups_count = groups.iter().filter(|(group, _)| !group.is_queue_mode()).count();
        let kind = match (has_queue_mode, bus_groups_count) {
            (true, 0) => "queue",
            (true, _) => "hybrid",
            (false, 0) => "none",
            (false, _) => "bus",
        };
        Self { has_queue_mode, bus_groups_count, kind }
    }
}

/// One delivery of a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LedgerAnswer<'a> {
    /// The name of the consumer group.
    consumer_group: &'a str,
    /// The consumer: its `workerId`, or the name of its key or token.
    worker_id: Option<&'a str>,
    /// When the message was delivered.
    offered_at: String,
    /// The end of the lease, as last extended.
    leased_until: String,
    /// When the delivery ended; null while the lease is active.
    ended_at: Option<String>,
    /// `open`, `acked`, `failed`, `expired` or `released`.
    outcome: &'static str,
    /// The number of messages that were delivered together.
    messages: u64,
    /// The offset of the first of these messages.
    first_offset: i64,
    /// The offset of the last of these messages.
    last_offset: i64,
}

impl<'a> From<&'a LedgerEntry> for LedgerAnswer<'a> {
    fn from(entry: &'a LedgerEntry) -> Self {
        Self {
            consumer_group: entry.group.as_str(),
            worker_id: entry.worker.as_deref(),
            offered_at: render::time(entry.offered_at),
            leased_until: render::time(entry.leased_until),
            ended_at: entry.ended_at.map(render::time),
            outcome: match entry.outcome {
                DeliveryOutcome::Open => "open",
                DeliveryOutcome::Acked => "acked",
                DeliveryOutcome::Failed => "failed",
                DeliveryOutcome::Expired => "expired",
                DeliveryOutcome::Released => "released",
            },
            messages: entry.messages,
            first_offset: entry.first_offset,
            last_offset: entry.last_offset,
        }
    }
}

impl<'a> MessageAnswer<'a> {
    pub(crate) fn new(
        id: PartitionId,
        detail: &'a MessageDetail,
        options: QueueOptions,
    ) -> Result<Self, ApiError> {
        let is_failure = |entry: &&LedgerEntry| {
            matches!(entry.outcome, DeliveryOutcome::Failed | DeliveryOutcome::Expired)
        };
        let message = &detail.message;
        let groups = &detail.groups;
        let error_of = |group: &GroupName| {
            let found = detail.errors.iter().find(|(other, _)| other == group);
            found.map(|(_, error)| error.as_str())
        };
        let first_error = detail.errors.first().map(|(_, error)| error.as_str());
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
                    error_message: error_of(group),
                })
                .collect(),
            error_message: error_of(&GroupName::queue_mode()).or(first_error),
            is_encrypted: options.encrypted,
            retry_count: detail.ledger.iter().filter(is_failure).count(),
            queue_config: options.into(),
            mode: GroupsMode::of(groups),
            ledger: detail.ledger.iter().map(Into::into).collect(),
        })
    }
}

pub(crate) fn state_word(state: MessageState) -> &'static str {
    match state {
        MessageState::Pending => "pending",
        MessageState::Processing => "processing",
        MessageState::Completed => "completed",
        MessageState::DeadLetter => "dead_letter",
    }
}

/// A message in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedAnswer {
    /// The id of the message.
    id: String,
    /// The transaction id of the message.
    transaction_id: String,
    /// The id of the partition.
    partition_id: String,
    /// Queue and partition, joined by a slash, for display.
    queue_path: String,
    /// The name of the queue.
    queue: String,
    /// The name of the partition.
    partition: String,
    /// The namespace of the queue.
    namespace: Option<String>,
    /// The task of the queue.
    task: Option<String>,
    /// The state for consumers that name no group. If there are none, the state in the first group.
    status: &'static str,
    /// The state for consumers that name no group, if there are any.
    queue_status: Option<&'static str>,
    /// The state in named groups.
    bus_status: BusStatus,
    /// The offset of the message in the partition.
    offset: i64,
    /// The producer's correlation id.
    trace_id: Option<Uuid>,
    /// The producer of the message.
    producer_sub: Option<String>,
    /// The priority of the queue.
    queue_priority: i32,
    /// When the message was pushed.
    created_at: String,
}

/// The state of a message in named groups.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BusStatus {
    /// The number of named groups that have settled the message.
    consumed_by: usize,
    /// The number of named groups of the queue.
    total_groups: usize,
}

/// How the queues of a list are consumed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsumingMode {
    /// Whether consumers that name no group read one of the queues.
    has_queue_mode: bool,
    /// The number of named groups that read one of the queues.
    bus_groups_count: usize,
    /// `queue`: only consumers that name no group; `bus`: only named groups; `hybrid`: both;
    /// `none`: no consumer yet.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// A page of messages by partition, newest first within each partition.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessagesAnswer {
    /// The messages.
    pub(crate) messages: Vec<ListedAnswer>,
    /// How the queues of these messages are consumed.
    pub(crate) mode: ConsumingMode,
    /// The `cursor` of the next page; null at the end of the list. A page may have fewer items than
    /// the limit although the list continues.
    pub(crate) cursor: Option<String>,
}

impl ListedAnswer {
    pub(crate) fn new(message: &ListedMessage) -> Self {
        let named = || message.groups.iter().filter(|(group, _)| !group.is_queue_mode());
        let done = |state: &MessageState| {
            matches!(state, MessageState::Completed | MessageState::DeadLetter)
        };
        let main = message.groups.iter().find(|(group, _)| group.is_queue_mode());
        Self {
            id: message.id.to_string(),
            transaction_id: message.transaction_id.to_string(),
            partition_id: message.partition_id.to_string(),
            queue_path: format!("{}/{}", message.queue, message.partition),
            queue: message.queue.to_string(),
            partition: message.partition.to_string(),
            namespace: message.namespace.as_ref().map(ToString::to_string),
            task: message.task.as_ref().map(ToString::to_string),
            status: state_word(message.state()),
            queue_status: main.map(|(_, state)| state_word(*state)),
            bus_status: BusStatus {
                consumed_by: named().filter(|(_, state)| done(state)).count(),
                total_groups: named().count(),
            },
            offset: message.offset,
            trace_id: message.trace_id,
            producer_sub: message.producer.clone(),
            queue_priority: message.priority,
            created_at: render::time(message.created_at),
        }
    }
}

/// Determines how the queues of some messages are consumed.
pub(crate) fn mode_of(messages: &[ListedMessage]) -> ConsumingMode {
    let groups = || messages.iter().flat_map(|message| &message.groups).map(|(group, _)| group);
    let has_queue_mode = groups().any(|group| group.is_queue_mode());
    let named: BTreeSet<_> = groups().filter(|group| !group.is_queue_mode()).collect();
    let kind = match (has_queue_mode, named.is_empty()) {
        (true, true) => "queue",
        (false, false) => "bus",
        (true, false) => "hybrid",
        (false, true) => "none",
    };
    ConsumingMode { has_queue_mode, bus_groups_count: named.len(), kind }
}

/// Parses the name of a state.
pub(crate) fn parse_state(name: &str) -> Option<MessageState> {
    match name {
        "pending" => Some(MessageState::Pending),
        "processing" => Some(MessageState::Processing),
        "completed" => Some(MessageState::Completed),
        "dead_letter" => Some(MessageState::DeadLetter),
        _ => None,
    }
}

/// Encodes a position in a list of messages as a cursor for clients.
pub(crate) fn render_position(position: BrowsePosition) -> String {
    format!("{}.{}", position.partition.0, position.before)
}

/// Decodes a cursor that [`render_position`] encoded.
pub(crate) fn parse_position(text: &str) -> Option<BrowsePosition> {
    let (partition, before) = text.split_once('.')?;
    let partition = PartitionId(partition.parse().ok()?);
    Some(BrowsePosition { partition, before: before.parse().ok()? })
}

/// The group for which a message is retried or given up.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InterveneBody {
    /// The consumer group. If omitted, the group of consumers that name none.
    pub(crate) consumer_group: Option<String>,
    /// Why the message is given up.
    pub(crate) error: Option<String>,
}

/// The result of retrying or giving up a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntervenedAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// The id of the message's partition.
    pub(crate) partition_id: String,
    /// The transaction id of the message.
    pub(crate) transaction_id: String,
    /// The name of the consumer group.
    pub(crate) consumer_group: String,
}

/// The result of deleting a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDeletedAnswer {
    /// Always true.
    pub(crate) success: bool,
    /// A description of the result for people.
    pub(crate) message: &'static str,
    /// The id of the message's partition.
    pub(crate) partition_id: String,
    /// The transaction id of the message.
    pub(crate) transaction_id: String,
}
