//! `/api/v1/messages…`: single messages; also clearing queues, and listing and deleting partitions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use wakeline_core::{
    GroupName, Namespace, PartitionName, QueueName, Realm, TaskName, TransactionId, Verb,
};
use wakeline_store::{
    AuditAction, BrowsePosition, Intervention, InterventionOutcome, ListedMessage, MessageFilter,
    MessageKey, Page,
};

use crate::access::permit::{ListWindow, Permit};
use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::ack::partition_id;
use crate::wire::messages::{
    InterveneBody, IntervenedAnswer, ListedAnswer, MessageAnswer, MessageDeletedAnswer,
    MessagesAnswer, mode_of, parse_position, parse_state, render_position,
};
use crate::wire::partitions::{
    ClearedAnswer, PartitionAnswer, PartitionDeletedAnswer, PartitionsAnswer,
};

/// The maximum number of messages that a list may skip.
const OFFSET_MAX: u64 = 100_000;

fn missing() -> ApiError {
    ApiError::not_found("Message not found")
}

/// List messages by partition, newest first within each partition.
#[utoipa::path(
    get, path = "/api/v1/messages", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("partition" = Option<String>, Query, description = "Only partitions with this name"),
        ("ns" = Option<String>, Query, description = "Only queues of this namespace"),
        ("task" = Option<String>, Query, description = "Only queues of this task"),
        ("status" = Option<String>, Query,
            description = "Only messages with this status: `pending`, `processing`, `completed` \
                or `dead_letter`"),
        ("from" = Option<String>, Query,
            description = "Only messages pushed at or after this time"),
        ("to" = Option<String>, Query, description = "Only messages pushed before this time"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 200)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
        ("cursor" = Option<String>, Query,
            description = "The `cursor` of the previous page; use it instead of `offset` for \
                long lists"),
    ),
    responses(
        (status = 200, description = "The messages", body = MessagesAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn messages(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<MessagesAnswer>, ApiError> {
    let filter = MessageFilter {
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        partition: params.parsed("partition", |text| Ok(PartitionName::new(text)?))?,
        namespace: params.parsed("ns", |text| Ok(Namespace::new(text)?))?,
        task: params.parsed("task", |text| Ok(TaskName::new(text)?))?,
        state: params.parsed("status", |text| {
            parse_state(text).ok_or_else(|| {
                let message = format!(
                    "status must be pending, processing, completed or dead_letter, not {text:?}"
                );
                ApiError::invalid_param("status", message)
            })
        })?,
        from: params.timestamp("from")?,
        to: params.timestamp("to")?,
    };
    if let Some(queue) = &filter.queue {
        permit.need(Realm::Queue, Verb::Read, queue.as_str())?;
    }
    let limit = params.number("limit", 200, 1..=1000)? as u32;
    let skip = params.number("offset", 0, 0..=OFFSET_MAX)? as usize;
    let next = params.parsed("cursor", |text| {
        let message = format!("cursor must be one that an earlier response returned, not {text:?}");
        parse_position(text).ok_or_else(|| ApiError::invalid_param("cursor", message))
    })?;
    let start = PageStart { next, skip, limit };
    let (found, next) = browse(&state, &permit, &filter, start).await?;
    let mode = mode_of(&found);
    Ok(Json(MessagesAnswer {
        messages: found.iter().map(ListedAnswer::new).collect(),
        mode,
        cursor: next.map(render_position),
    }))
}

/// Where a page begins, and how long it is.
pub(super) struct PageStart {
    pub(super) next: Option<BrowsePosition>,
    pub(super) skip: usize,
    pub(super) limit: u32,
}

/// Reads messages until the page is full or the scan limit of one request is reached. Messages of
/// queues that the caller may not read are left out.
pub(super) async fn browse(
    state: &AppState,
    permit: &Permit,
    filter: &MessageFilter,
    PageStart { mut next, mut skip, limit }: PageStart,
) -> Result<(Vec<ListedMessage>, Option<BrowsePosition>), ApiError> {
    let mut found = Vec::new();
    loop {
        let wanted = (limit as usize - found.len() + skip).min(1000) as u32;
        let list = state.queue().store().browse(filter.clone(), next, wanted).await?;
        let progressed = !list.messages.is_empty();
        let seen = |one: &ListedMessage| permit.may(Realm::Queue, Verb::Read, one.queue.as_str());
        let seen: Vec<_> = list.messages.into_iter().filter(seen).collect();
        let skipped = skip.min(seen.len());
        skip -= skipped;
        found.extend(seen.into_iter().skip(skipped));
        next = list.next;
        if next.is_none() || !progressed || found.len() >= limit as usize {
            return Ok((found, next));
        }
    }
}

/// Get a message and its state in each consumer group.
#[utoipa::path(
    get, path = "/api/v1/messages/{partitionId}/{transactionId}", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The message's transaction id"),
    ),
    responses(
        (status = 200, description = "The message", body = MessageAnswer<'_>),
        (status = 404, description = "There is no such message", body = Problem),
    )
)]
pub(crate) async fn message(
    State(state): State<AppState>,
    PathParams((partition, transaction_id)): PathParams<(String, String)>,
) -> Result<Response, ApiError> {
    let MessageKey { partition, transaction_id } = key(partition, transaction_id)?;
    let detail = state.queue().store().message(partition, &transaction_id).await?;
    let detail = detail.ok_or_else(missing)?;
    let queue = state.queue().store().queue(&detail.queue).await?.ok_or_else(missing)?;
    Ok(Json(MessageAnswer::new(partition, &detail, queue.options)?).into_response())
}

fn key(partition: String, transaction_id: String) -> Result<MessageKey, ApiError> {
    let partition = partition_id(&partition)?.ok_or_else(missing)?;
    Ok(MessageKey { partition, transaction_id: TransactionId::new(transaction_id)? })
}

/// Deliver a message to a group again as soon as possible.
///
/// The message may be waiting for a retry, or the group may have settled it or made it a dead
/// letter.
#[utoipa::path(
    post, path = "/api/v1/messages/{partitionId}/{transactionId}/retry", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The message's transaction id"),
    ),
    request_body(content = Option<InterveneBody>),
    responses(
        (status = 200, description = "The message is due now", body = IntervenedAnswer),
        (status = 404, description = "There is no such message or group", body = Problem),
        (status = 409, description = "A consumer has leased the message", body = Problem),
    )
)]
pub(crate) async fn retry(
    State(state): State<AppState>,
    PathParams((partition, transaction_id)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<IntervenedAnswer>, ApiError> {
    let body: InterveneBody = body.parse_or_default()?;
    let key = key(partition, transaction_id)?;
    intervene(&state, key, group(body.consumer_group)?, Intervention::Retry).await
}

/// Make a message a dead letter of a group.
#[utoipa::path(
    post, path = "/api/v1/messages/{partitionId}/{transactionId}/dlq", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The message's transaction id"),
    ),
    request_body(content = Option<InterveneBody>),
    responses(
        (status = 200, description = "The message is now a dead letter", body = IntervenedAnswer),
        (status = 404, description = "There is no such message or group", body = Problem),
        (status = 409, description = "A consumer has leased the message, or the group has settled \
            it",
            body = Problem),
    )
)]
pub(crate) async fn give_up(
    State(state): State<AppState>,
    PathParams((partition, transaction_id)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<IntervenedAnswer>, ApiError> {
    let body: InterveneBody = body.parse_or_default()?;
    let key = key(partition, transaction_id)?;
    let intervention = Intervention::GiveUp { error: body.error };
    intervene(&state, key, group(body.consumer_group)?, intervention).await
}

/// Delete a message for all groups.
///
/// No existing or future group receives it, not even after it was moved back. Current leases of the
/// message are released. Its dead letters are kept.
#[utoipa::path(
    delete, path = "/api/v1/messages/{partitionId}/{transactionId}", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The message's transaction id"),
    ),
    responses(
        (status = 200, description = "Deleted", body = MessageDeletedAnswer),
        (status = 404, description = "There is no such message", body = Problem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    PathParams((partition, transaction_id)): PathParams<(String, String)>,
) -> Result<Json<MessageDeletedAnswer>, ApiError> {
    let key = key(partition, transaction_id)?;
    AuditAction::amend(Some(format!("{}/{}", key.partition, key.transaction_id)), None);
    let answer = MessageDeletedAnswer {
        success: true,
        message: "Message deleted",
        partition_id: key.partition.to_string(),
        transaction_id: key.transaction_id.to_string(),
    };
    if state.queue().delete_message(key).await? { Ok(Json(answer)) } else { Err(missing()) }
}

fn group(name: Option<String>) -> Result<GroupName, ApiError> {
    Ok(name.map_or(Ok(GroupName::queue_mode()), GroupName::new)?)
}

async fn intervene(
    state: &AppState,
    key: MessageKey,
    group: GroupName,
    intervention: Intervention,
) -> Result<Json<IntervenedAnswer>, ApiError> {
    let named = format!("{}/{}", key.partition, key.transaction_id);
    AuditAction::amend(Some(named), Some(group.to_string()));
    let answer = IntervenedAnswer {
        success: true,
        partition_id: key.partition.to_string(),
        transaction_id: key.transaction_id.to_string(),
        consumer_group: group.to_string(),
    };
    match state.queue().intervene(key, group, intervention).await? {
        InterventionOutcome::Done => Ok(Json(answer)),
        InterventionOutcome::Missing => Err(missing()),
        InterventionOutcome::NoGroup => {
            Err(ApiError::not_found("The group does not read this queue"))
        }
        InterventionOutcome::Leased => Err(ApiError::conflict(
            "A consumer has leased the message: try again when the lease has ended",
        )),
        InterventionOutcome::Settled => {
            Err(ApiError::conflict("The group has settled the message"))
        }
        InterventionOutcome::TooFar => Err(ApiError::conflict(
            "The group has too many unread messages before this message: let consumers settle \
             some of them first",
        )),
    }
}

/// Delete all messages of a queue or of one of its partitions.
///
/// The consumer groups continue with messages that are pushed later.
#[utoipa::path(
    delete, path = "/api/v1/queues/{queue}/clear", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("partition" = Option<String>, Query, description = "Only this partition"),
        ("deadLetters" = Option<bool>, Query,
            description = "Also delete dead letters (default false)"),
    ),
    responses(
        (status = 200, description = "The messages were deleted", body = ClearedAnswer),
        (status = 404, description = "There is no such queue or partition", body = Problem),
    )
)]
pub(crate) async fn clear(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    params: QueryParams,
) -> Result<Json<ClearedAnswer>, ApiError> {
    let (queue, dead_letters) = (QueueName::new(queue)?, params.flag("deadLetters")?);
    let partition = params.parsed("partition", |text| Ok(PartitionName::new(text)?))?;
    let store = state.queue().store();
    let (cleared, missing) = match &partition {
        Some(only) => {
            (store.clear_partition(&queue, only, dead_letters).await?, "Partition not found")
        }
        None => (store.clear_queue(&queue, dead_letters).await?, "Queue not found"),
    };
    let cleared = cleared.ok_or_else(|| ApiError::not_found(missing))?;
    Ok(Json(ClearedAnswer { success: true, queue: queue.into(), cleared }))
}

/// Delete a partition with its messages, leases and dead letters.
#[utoipa::path(
    delete, path = "/api/v1/resources/queues/{queue}/partitions/{partition}", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("partition" = String, Path, description = "The partition"),
    ),
    responses(
        (status = 200, description = "Deleted", body = PartitionDeletedAnswer),
        (status = 400, description = "The partition `Default` cannot be deleted", body = Problem),
    )
)]
pub(crate) async fn delete_partition(
    State(state): State<AppState>,
    PathParams((queue, partition)): PathParams<(String, String)>,
) -> Result<Json<PartitionDeletedAnswer>, ApiError> {
    let (queue, partition) = (QueueName::new(queue)?, PartitionName::new(partition)?);
    if partition == PartitionName::default_partition() {
        return Err(ApiError::invalid(
            "the partition Default cannot be deleted: clear its queue instead",
        ));
    }
    let existed = state.queue().store().delete_partition(&queue, &partition).await?;
    let (queue, partition) = (queue.into(), partition.into());
    Ok(Json(PartitionDeletedAnswer { queue, partition, deleted: true, existed }))
}

/// List partitions in the order of their creation.
#[utoipa::path(
    get, path = "/api/v1/resources/partitions", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 10000 (default 1000)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The partitions", body = PartitionsAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn partitions(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<PartitionsAnswer>, ApiError> {
    let queue = params.parsed("queue", |text| Ok(QueueName::new(text)?))?;
    let wanted = ListWindow {
        limit: params.number("limit", 1000, 1..=10_000)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    };
    let mut list = permit.listing(wanted);
    while let Some(ListWindow { limit, offset }) = list.next() {
        let page = Page { limit, offset };
        let read = state.queue().store().partitions(queue.as_ref(), page).await?;
        list.take(read, |one| &one.queue);
    }
    let partitions = list.items.into_iter().map(PartitionAnswer::from).collect();
    Ok(Json(PartitionsAnswer { partitions }))
}
