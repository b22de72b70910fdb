//! `/api/v1/messages…`, and what is done away with: queues cleared, partitions deleted.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use wakeline_core::{
    GroupName, Namespace, PartitionName, QueueName, Realm, TaskName, TransactionId, Verb,
};
use wakeline_store::{
    Deed, Intervened, Intervention, ListedMessage, MessageFilter, MessageKey, MessagePlace, Page,
};

use crate::access::permit::{Part, Permit};
use crate::error::{ApiError, Problem};
use crate::input::{Body, Params, Parted};
use crate::state::AppState;
use crate::wire::ack::partition_id;
use crate::wire::messages::{
    ClearedAnswer, InterveneBody, IntervenedAnswer, ListedAnswer, MessageAnswer,
    MessageDeletedAnswer, MessagesAnswer, PartitionAnswer, PartitionDeletedAnswer,
    PartitionsAnswer, mode_of, place_of, place_text, state_of,
};

/// Most messages that a list may skip.
const OFFSET_MAX: u64 = 100_000;

fn missing() -> ApiError {
    ApiError::not_found("Message not found")
}

/// Messages, partition by partition, in each the newest first.
#[utoipa::path(
    get, path = "/api/v1/messages", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("partition" = Option<String>, Query, description = "Only of partitions of this name"),
        ("ns" = Option<String>, Query, description = "Only of queues of this namespace"),
        ("task" = Option<String>, Query, description = "Only of queues of this task"),
        ("status" = Option<String>, Query,
            description = "Only `pending`, `processing`, `completed` or `dead_letter`"),
        ("from" = Option<String>, Query, description = "Only those pushed at or after"),
        ("to" = Option<String>, Query, description = "Only those pushed before"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 1000 (200)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
        ("cursor" = Option<String>, Query,
            description = "Goes on where an answer ended, instead of skipping"),
    ),
    responses(
        (status = 200, description = "The messages", body = MessagesAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn messages(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<MessagesAnswer>, ApiError> {
    let filter = MessageFilter {
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        partition: params.parsed("partition", |text| Ok(PartitionName::new(text)?))?,
        namespace: params.parsed("ns", |text| Ok(Namespace::new(text)?))?,
        task: params.parsed("task", |text| Ok(TaskName::new(text)?))?,
        state: params.parsed("status", |text| {
            state_of(text).ok_or_else(|| {
                let message = format!(
                    "status must be pending, processing, completed or dead_letter, not {text:?}"
                );
                ApiError::invalid_param("status", message)
            })
        })?,
        from: params.moment("from")?,
        to: params.moment("to")?,
    };
    if let Some(queue) = &filter.queue {
        permit.need(Realm::Queue, Verb::Read, queue.as_str())?;
    }
    let limit = params.number("limit", 200, 1..=1000)? as u32;
    let skip = params.number("offset", 0, 0..=OFFSET_MAX)? as usize;
    let place = params.parsed("cursor", |text| {
        let message = format!("cursor must be one that an earlier answer returned, not {text:?}");
        place_of(text).ok_or_else(|| ApiError::invalid_param("cursor", message))
    })?;
    let place = Place { next: place, skip, limit };
    let (found, next) = look(&state, &permit, &filter, place).await?;
    let mode = mode_of(&found);
    Ok(Json(MessagesAnswer {
        messages: found.iter().map(ListedAnswer::new).collect(),
        mode,
        cursor: next.map(place_text),
    }))
}

/// Where a page begins, and how long it is.
pub(super) struct Place {
    pub(super) next: Option<MessagePlace>,
    pub(super) skip: usize,
    pub(super) limit: u32,
}

/// Looks until the page is full, or as far as one answer may look. Of queues that the caller may
/// not read nothing is found.
pub(super) async fn look(
    state: &AppState,
    permit: &Permit,
    filter: &MessageFilter,
    Place { next: mut place, mut skip, limit }: Place,
) -> Result<(Vec<ListedMessage>, Option<MessagePlace>), ApiError> {
    let mut found = Vec::new();
    loop {
        let wanted = (limit as usize - found.len() + skip).min(1000) as u32;
        let list = state.queue().store().browse(filter.clone(), place, wanted).await?;
        let progressed = !list.messages.is_empty();
        let seen = |one: &ListedMessage| permit.may(Realm::Queue, Verb::Read, one.queue.as_str());
        let seen: Vec<_> = list.messages.into_iter().filter(seen).collect();
        let skipped = skip.min(seen.len());
        skip -= skipped;
        found.extend(seen.into_iter().skip(skipped));
        place = list.next;
        if place.is_none() || !progressed || found.len() >= limit as usize {
            return Ok((found, place));
        }
    }
}

/// One message, and how each group stands with it.
#[utoipa::path(
    get, path = "/api/v1/messages/{partitionId}/{transactionId}", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The name of the message's push"),
    ),
    responses(
        (status = 200, description = "The message", body = MessageAnswer<'_>),
        (status = 404, description = "There is no such message", body = Problem),
    )
)]
pub(crate) async fn message(
    State(state): State<AppState>,
    Parted((partition, transaction_id)): Parted<(String, String)>,
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

/// Deliver a message again as soon as can be: one that waits for a retry, that is done with, or
/// that was given up.
#[utoipa::path(
    post, path = "/api/v1/messages/{partitionId}/{transactionId}/retry", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The name of the message's push"),
    ),
    request_body(content = Option<InterveneBody>),
    responses(
        (status = 200, description = "It is due", body = IntervenedAnswer),
        (status = 404, description = "There is no such message or group", body = Problem),
        (status = 409, description = "A consumer holds it", body = Problem),
    )
)]
pub(crate) async fn retry(
    State(state): State<AppState>,
    Parted((partition, transaction_id)): Parted<(String, String)>,
    body: Body,
) -> Result<Json<IntervenedAnswer>, ApiError> {
    let body: InterveneBody = body.parse_or_default()?;
    let key = key(partition, transaction_id)?;
    intervene(&state, key, (group(body.consumer_group)?, Intervention::Retry)).await
}

/// Give a message up: it becomes a dead letter of its group.
#[utoipa::path(
    post, path = "/api/v1/messages/{partitionId}/{transactionId}/dlq", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The name of the message's push"),
    ),
    request_body(content = Option<InterveneBody>),
    responses(
        (status = 200, description = "It is a dead letter", body = IntervenedAnswer),
        (status = 404, description = "There is no such message or group", body = Problem),
        (status = 409, description = "A consumer holds it, or the group is done with it",
            body = Problem),
    )
)]
pub(crate) async fn give_up(
    State(state): State<AppState>,
    Parted((partition, transaction_id)): Parted<(String, String)>,
    body: Body,
) -> Result<Json<IntervenedAnswer>, ApiError> {
    let body: InterveneBody = body.parse_or_default()?;
    let key = key(partition, transaction_id)?;
    let intervention = Intervention::Bury { error: body.error };
    intervene(&state, key, (group(body.consumer_group)?, intervention)).await
}

/// Delete a message: no group gets it any more, present or to come, nor after it was moved back.
/// Current leases of it are released. Its dead letters stay.
#[utoipa::path(
    delete, path = "/api/v1/messages/{partitionId}/{transactionId}", tag = "queues",
    params(
        ("partitionId" = String, Path, description = "The partition's id"),
        ("transactionId" = String, Path, description = "The name of the message's push"),
    ),
    responses(
        (status = 200, description = "It is gone", body = MessageDeletedAnswer),
        (status = 404, description = "There is no such message", body = Problem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Parted((partition, transaction_id)): Parted<(String, String)>,
) -> Result<Json<MessageDeletedAnswer>, ApiError> {
    let key = key(partition, transaction_id)?;
    Deed::tell(Some(format!("{}/{}", key.partition, key.transaction_id)), None);
    let answer = MessageDeletedAnswer {
        success: true,
        message: "Message deleted",
        partition_id: key.partition.to_string(),
        transaction_id: key.transaction_id.to_string(),
    };
    match state.queue().delete_message(key).await? {
        true => Ok(Json(answer)),
        false => Err(missing()),
    }
}

fn group(name: Option<String>) -> Result<GroupName, ApiError> {
    Ok(name.map_or(Ok(GroupName::queue_mode()), GroupName::new)?)
}

async fn intervene(
    state: &AppState,
    key: MessageKey,
    (group, intervention): (GroupName, Intervention),
) -> Result<Json<IntervenedAnswer>, ApiError> {
    let named = format!("{}/{}", key.partition, key.transaction_id);
    Deed::tell(Some(named), Some(group.to_string()));
    let answer = IntervenedAnswer {
        success: true,
        partition_id: key.partition.to_string(),
        transaction_id: key.transaction_id.to_string(),
        consumer_group: group.to_string(),
    };
    match state.queue().intervene(key, group, intervention).await? {
        Intervened::Done => Ok(Json(answer)),
        Intervened::Missing => Err(missing()),
        Intervened::NoGroup => Err(ApiError::not_found("The group does not read this queue")),
        Intervened::Leased => Err(ApiError::conflict("A consumer holds the message")),
        Intervened::Settled => Err(ApiError::conflict("The group is done with the message")),
        Intervened::TooFar => {
            Err(ApiError::conflict("The group has too much to read before the message"))
        }
    }
}

/// Remove all messages of a queue or of one of its partitions; its groups go on with what will be
/// pushed.
#[utoipa::path(
    delete, path = "/api/v1/queues/{queue}/clear", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("partition" = Option<String>, Query, description = "Only this partition"),
        ("deadLetters" = Option<bool>, Query, description = "Its dead letters, too (false)"),
    ),
    responses(
        (status = 200, description = "It is empty", body = ClearedAnswer),
        (status = 404, description = "There is no such queue or partition", body = Problem),
    )
)]
pub(crate) async fn clear(
    State(state): State<AppState>,
    Parted(queue): Parted<String>,
    params: Params,
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

/// Remove a partition with its messages, leases and dead letters.
#[utoipa::path(
    delete, path = "/api/v1/resources/queues/{queue}/partitions/{partition}", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("partition" = String, Path, description = "The partition"),
    ),
    responses(
        (status = 200, description = "It is gone", body = PartitionDeletedAnswer),
        (status = 400, description = "The partition `Default` stays", body = Problem),
    )
)]
pub(crate) async fn delete_partition(
    State(state): State<AppState>,
    Parted((queue, partition)): Parted<(String, String)>,
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

/// Partitions, in the order in which they were made.
#[utoipa::path(
    get, path = "/api/v1/resources/partitions", tag = "queues",
    params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 10000 (1000)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The partitions", body = PartitionsAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn partitions(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<PartitionsAnswer>, ApiError> {
    let queue = params.parsed("queue", |text| Ok(QueueName::new(text)?))?;
    let wanted = Part {
        limit: params.number("limit", 1000, 1..=10_000)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    };
    let mut list = permit.listing(wanted);
    while let Some(Part { limit, offset }) = list.next() {
        let page = Page { limit, offset };
        let read = state.queue().store().partitions(queue.as_ref(), page).await?;
        list.take(read, |one| &one.queue);
    }
    let partitions = list.items.into_iter().map(PartitionAnswer::from).collect();
    Ok(Json(PartitionsAnswer { partitions }))
}
