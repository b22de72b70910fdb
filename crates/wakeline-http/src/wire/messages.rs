//! Single messages.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::{GroupName, PartitionId, QueueOptions};
use wakeline_store::{
    DeliveryOutcome, LedgerEntry, ListedMessage, MessageDetail, MessagePlace, MessageState,
    PartitionDetail,
};

use crate::error::ApiError;
use crate::render;
use crate::wire::options::OptionsAnswer;

/// Where a message stands with one group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupState<'a> {
    name: &'a str,
    /// `pending`, `processing`, `completed` or `dead_letter`.
    status: &'static str,
    /// Its last error, if it tries the message again or has given it up.
    error_message: Option<&'a str>,
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
    /// Whether its queue encrypts what it stores. The payload above is in the clear.
    is_encrypted: bool,
    /// The last error of consumers that name no group, or of the first group with one.
    error_message: Option<&'a str>,
    /// Deliveries that failed or ran out, as far as they are remembered.
    retry_count: usize,
    /// The options of its queue.
    queue_config: OptionsAnswer,
    mode: GroupsMode,
    /// Its deliveries, as far as they are remembered, in the order in which they were offered.
    ledger: Vec<LedgerAnswer<'a>>,
}

/// Who reads the queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupsMode {
    /// Whether consumers that name no group do.
    has_queue_mode: bool,
    /// Groups that do.
    bus_groups_count: usize,
    /// `queue`: only consumers that name no group; `bus`: only named groups; `hybrid`: both;
    /// `none`: nobody yet.
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
    consumer_group: &'a str,
    /// To whom: as it called itself, or the name of its key or token.
    worker_id: Option<&'a str>,
    offered_at: String,
    /// The end of its lease, as last extended.
    leased_until: String,
    /// Null while the lease is live.
    ended_at: Option<String>,
    /// `open`, `acked`, `failed`, `expired` or `released`.
    outcome: &'static str,
    /// Messages that were delivered together.
    messages: u64,
    first_offset: i64,
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
        let again = |entry: &&LedgerEntry| {
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
            retry_count: detail.ledger.iter().filter(again).count(),
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
    id: String,
    transaction_id: String,
    partition_id: String,
    /// Queue and partition, joined by a slash, for display.
    queue_path: String,
    queue: String,
    partition: String,
    namespace: Option<String>,
    task: Option<String>,
    /// How it stands with consumers that name no group, or with the first group.
    status: &'static str,
    /// How it stands with consumers that name no group, if there are any.
    queue_status: Option<&'static str>,
    /// How it stands with named groups: how many there are, and how many are done with it.
    bus_status: BusStatus,
    /// Its place in the partition.
    offset: i64,
    trace_id: Option<Uuid>,
    producer_sub: Option<String>,
    queue_priority: i32,
    created_at: String,
}

/// How groups stand with a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BusStatus {
    /// Named groups that are done with it.
    consumed_by: usize,
    /// Named groups of the queue.
    total_groups: usize,
}

/// How the queues of a list are consumed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsumingMode {
    /// Whether consumers that name no group read one of them.
    has_queue_mode: bool,
    /// Named groups that do.
    bus_groups_count: usize,
    /// `queue`: only consumers that name no group; `bus`: only named groups; `hybrid`: both;
    /// `none`: nobody yet.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Messages, partition by partition, in each the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessagesAnswer {
    pub(crate) messages: Vec<ListedAnswer>,
    pub(crate) mode: ConsumingMode,
    /// Where the list goes on; null at its end. There may be more although fewer came than were
    /// asked for.
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

/// How the queues of some messages are consumed.
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

/// A state by its word.
pub(crate) fn state_of(word: &str) -> Option<MessageState> {
    match word {
        "pending" => Some(MessageState::Pending),
        "processing" => Some(MessageState::Processing),
        "completed" => Some(MessageState::Completed),
        "dead_letter" => Some(MessageState::DeadLetter),
        _ => None,
    }
}

/// A place as clients keep it.
pub(crate) fn place_text(place: MessagePlace) -> String {
    format!("{}.{}", place.partition.0, place.before)
}

/// A place that a client kept.
pub(crate) fn place_of(text: &str) -> Option<MessagePlace> {
    let (partition, before) = text.split_once('.')?;
    let partition = PartitionId(partition.parse().ok()?);
    Some(MessagePlace { partition, before: before.parse().ok()? })
}

/// On whose behalf, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InterveneBody {
    /// The group; consumers who name none if it is omitted.
    pub(crate) consumer_group: Option<String>,
    /// Why it is given up.
    pub(crate) error: Option<String>,
}

/// What was done.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntervenedAnswer {
    pub(crate) success: bool,
    pub(crate) partition_id: String,
    pub(crate) transaction_id: String,
    pub(crate) consumer_group: String,
}

/// A message that is gone.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDeletedAnswer {
    pub(crate) success: bool,
    /// The same in words.
    pub(crate) message: &'static str,
    pub(crate) partition_id: String,
    pub(crate) transaction_id: String,
}

/// How many messages went.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClearedAnswer {
    pub(crate) success: bool,
    pub(crate) queue: String,
    pub(crate) cleared: u64,
}

/// Whether a partition went.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartitionDeletedAnswer {
    pub(crate) queue: String,
    pub(crate) partition: String,
    pub(crate) deleted: bool,
    pub(crate) existed: bool,
}

/// A partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionAnswer {
    id: String,
    name: String,
    queue: String,
    namespace: Option<String>,
    task: Option<String>,
    /// Messages that were ever pushed to it.
    total_messages: u64,
    last_activity: Option<String>,
}

impl From<PartitionDetail> for PartitionAnswer {
    fn from(partition: PartitionDetail) -> Self {
        Self {
            id: partition.partition_id.to_string(),
            name: partition.partition.into(),
            queue: partition.queue.into(),
            namespace: partition.namespace.map(Into::into),
            task: partition.task.map(Into::into),
            total_messages: partition.end,
            last_activity: partition.last_push_at.map(render::time),
        }
    }
}

/// Partitions.
#[derive(Serialize, ToSchema)]
pub(crate) struct PartitionsAnswer {
    pub(crate) partitions: Vec<PartitionAnswer>,
}
