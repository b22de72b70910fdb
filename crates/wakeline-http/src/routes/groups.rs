//! `/api/v1/consumer-groups…`: the progress of consumer groups, and moving or deleting them.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::{GroupName, PartitionName, QueueName, Realm, Verb};
use wakeline_store::{AuditAction, GroupPartitionFilter, Seek, SeekTo};

use crate::access::permit::{ListWindow, Permit};
use crate::error::{ApiError, Problem};
use crate::input::{self, JsonBody, PathParams, QueryParams};
use crate::render;
use crate::state::AppState;
use crate::wire::groups::{
    GroupAnswer, GroupDeletedAnswer, GroupInQueueAnswer, LaggingAnswer, SeekAnswer, SeekBody,
    SubscriptionAnswer, SubscriptionBody, by_queue,
};

/// List all consumer groups, with one entry for each queue that a group reads.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups", tag = "queues",
    responses((status = 200, description = "The groups", body = Vec<GroupAnswer>))
)]
pub(crate) async fn groups(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<Vec<GroupAnswer>>, ApiError> {
    let mut groups = state.queue().store().groups(None).await?;
    groups.retain(|one| permit.may(Realm::Queue, Verb::Read, one.queue.as_str()));
    Ok(Json(groups.into_iter().map(Into::into).collect()))
}

/// Get the progress of a consumer group in each partition of its queues.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups/{group}", tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = Option<String>, Query, description = "Only this queue"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 10000 (default 1000)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The group in each of its queues, by queue name",
            body = BTreeMap<String, GroupInQueueAnswer>),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such group", body = Problem),
    )
)]
pub(crate) async fn group(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(group): PathParams<String>,
    params: QueryParams,
) -> Result<Json<BTreeMap<String, GroupInQueueAnswer>>, ApiError> {
    let group = GroupName::new(group)?;
    let filter = GroupPartitionFilter { group: Some(group.clone()), ..filter(&params, 10_000)? };
    let mut groups = state.queue().store().groups(Some(&group)).await?;
    groups.retain(|one| filter.queue.as_ref().is_none_or(|only| *only == one.queue));
    groups.retain(|one| permit.may(Realm::Queue, Verb::Read, one.queue.as_str()));
    if groups.is_empty() {
        return Err(ApiError::not_found("Consumer group not found"));
    }
    let mut list = permit.listing(ListWindow { limit: filter.limit, offset: filter.offset });
    while let Some(window) = list.next() {
        let read = state.queue().store().group_partitions(within(&filter, window)).await?;
        list.take(read, |one| &one.queue);
    }
    Ok(Json(by_queue(groups, list.items)))
}

fn filter(params: &QueryParams, limit_max: u64) -> Result<GroupPartitionFilter, ApiError> {
    Ok(GroupPartitionFilter {
        group: params.parsed("consumerGroup", |text| Ok(GroupName::new(text)?))?,
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        limit: params.number("limit", 1000, 1..=limit_max)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    })
}

fn within(filter: &GroupPartitionFilter, window: ListWindow) -> GroupPartitionFilter {
    GroupPartitionFilter { limit: window.limit, offset: window.offset, ..filter.clone() }
}

/// List the partitions in which a group is behind, oldest message first.
///
/// A group named `lagging` has no route of its own because of this route; the list of all groups
/// contains it.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups/lagging", tag = "queues",
    params(
        ("minLagSeconds" = Option<u64>, Query,
            description = "Minimum lag in seconds (default 3600)"),
        ("consumerGroup" = Option<String>, Query, description = "Only this consumer group"),
        ("queue" = Option<String>, Query, description = "Only items of this queue"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 10000 (default 1000)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The partitions", body = Vec<LaggingAnswer>),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn lagging(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<Vec<LaggingAnswer>>, ApiError> {
    let behind = Duration::from_secs(params.number("minLagSeconds", 3600, 0..=u32::MAX.into())?);
    let filter = filter(&params, 10_000)?;
    let mut list = permit.listing(ListWindow { limit: filter.limit, offset: filter.offset });
    while let Some(window) = list.next() {
        let read = state.queue().store().lagging(behind, within(&filter, window)).await?;
        list.take(read, |one| &one.queue);
    }
    Ok(Json(list.items.into_iter().map(Into::into).collect()))
}

/// Move a group in one queue to the end, to the beginning, or to a time.
///
/// The group loses its current leases in the queue.
#[utoipa::path(
    post, path = "/api/v1/consumer-groups/{group}/queues/{queue}/seek", tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = String, Path, description = "The queue"),
    ),
    request_body = SeekBody,
    responses(
        (status = 200, description = "The group was moved", body = SeekAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "The group does not read this queue", body = Problem),
    )
)]
pub(crate) async fn seek(
    State(state): State<AppState>,
    PathParams((group, queue)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<SeekAnswer>, ApiError> {
    let body: SeekBody = body.parse()?;
    let to = target(&body)?.ok_or_else(|| {
        ApiError::invalid(
            "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
        )
    })?;
    let (group, queue) = (GroupName::new(group)?, QueueName::new(queue)?);
    run_seek(&state, Seek { group, queue: Some(queue), partition: None, to }).await
}

/// Move a group in one partition. Without a body, the group is moved to the end.
#[utoipa::path(
    post, path = "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
    tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = String, Path, description = "The queue"),
        ("partition" = String, Path, description = "The partition"),
    ),
    request_body(content = Option<SeekBody>),
    responses(
        (status = 200, description = "The group was moved", body = SeekAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "The group does not read this partition", body = Problem),
    )
)]
pub(crate) async fn seek_partition(
    State(state): State<AppState>,
    PathParams((group, queue, partition)): PathParams<(String, String, String)>,
    body: JsonBody,
) -> Result<Json<SeekAnswer>, ApiError> {
    let to = target(&body.parse_or_default()?)?.unwrap_or(SeekTo::End);
    let (group, queue) = (GroupName::new(group)?, QueueName::new(queue)?);
    let partition = Some(PartitionName::new(partition)?);
    run_seek(&state, Seek { group, queue: Some(queue), partition, to }).await
}

/// Parses the target of a seek; `None` if the body names none.
fn target(body: &SeekBody) -> Result<Option<SeekTo>, ApiError> {
    match (body.to_end, body.to_beginning, &body.timestamp) {
        (false, false, None) => Ok(None),
        (true, false, None) => Ok(Some(SeekTo::End)),
        (false, true, None) => Ok(Some(SeekTo::Beginning)),
        (false, false, Some(text)) => Ok(Some(SeekTo::Since(input::timestamp("timestamp", text)?))),
        _ => Err(ApiError::invalid(
            "Only one of 'toEnd', 'toBeginning' and 'timestamp' can be given",
        )),
    }
}

async fn run_seek(state: &AppState, seek: Seek) -> Result<Json<SeekAnswer>, ApiError> {
    AuditAction::amend(None, Some(format!("{:?}", seek.to)));
    let moved = state.queue().seek(seek.clone()).await?;
    if moved == 0 {
        let what = if seek.partition.is_some() { "partition" } else { "queue" };
        return Err(ApiError::not_found(format!("The group does not read this {what}")));
    }
    Ok(Json(SeekAnswer {
        success: true,
        consumer_group: seek.group.into(),
        queue_name: seek.queue.map(Into::into).unwrap_or_default(),
        partition_name: seek.partition.map(Into::into),
        seek_to_end: seek.to == SeekTo::End,
        seek_to_beginning: seek.to == SeekTo::Beginning,
        target_timestamp: match seek.to {
            SeekTo::Since(from) => Some(render::time(from)),
            SeekTo::Beginning | SeekTo::End => None,
        },
        updated: true,
        partitions_updated: moved,
    }))
}

/// Delete a group in all its queues. Its next pop subscribes it again.
#[utoipa::path(
    delete, path = "/api/v1/consumer-groups/{group}", tag = "queues",
    params(("group" = String, Path, description = "The group")),
    responses((status = 200, description = "The group was deleted", body = GroupDeletedAnswer))
)]
pub(crate) async fn delete_group(
    State(state): State<AppState>,
    PathParams(group): PathParams<String>,
) -> Result<Json<GroupDeletedAnswer>, ApiError> {
    delete(&state, GroupName::new(group)?, None).await
}

/// Delete a group in one queue. Its next pop of the queue subscribes it again.
#[utoipa::path(
    delete, path = "/api/v1/consumer-groups/{group}/queues/{queue}", tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = String, Path, description = "The queue"),
    ),
    responses((status = 200, description = "The group was deleted", body = GroupDeletedAnswer))
)]
pub(crate) async fn delete_group_of_queue(
    State(state): State<AppState>,
    PathParams((group, queue)): PathParams<(String, String)>,
) -> Result<Json<GroupDeletedAnswer>, ApiError> {
    delete(&state, GroupName::new(group)?, Some(QueueName::new(queue)?)).await
}

async fn delete(
    state: &AppState,
    group: GroupName,
    queue: Option<QueueName>,
) -> Result<Json<GroupDeletedAnswer>, ApiError> {
    let deleted = state.queue().delete_group(group.clone(), queue.clone()).await?;
    Ok(Json(GroupDeletedAnswer {
        success: true,
        consumer_group: group.into(),
        queue_name: queue.map(Into::into),
        deleted_partitions: deleted,
        metadata_deleted: true,
    }))
}

/// Move a group in all its queues to the messages pushed at or after a time.
#[utoipa::path(
    post, path = "/api/v1/consumer-groups/{group}/subscription", tag = "queues",
    params(("group" = String, Path, description = "The group")),
    request_body = SubscriptionBody,
    responses(
        (status = 200, description = "The group was moved", body = SubscriptionAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn subscription(
    State(state): State<AppState>,
    PathParams(group): PathParams<String>,
    body: JsonBody,
) -> Result<Json<SubscriptionAnswer>, ApiError> {
    let group = GroupName::new(group)?;
    let body: SubscriptionBody = body.parse()?;
    let from = body
        .subscription_timestamp
        .ok_or_else(|| ApiError::invalid("Missing subscriptionTimestamp in request body"))?;
    let from = input::timestamp("subscriptionTimestamp", &from)?;
    let to = SeekTo::Since(from);
    AuditAction::amend(None, Some(format!("{to:?}")));
    let seek = Seek { group: group.clone(), queue: None, partition: None, to };
    let moved = state.queue().seek(seek).await?;
    Ok(Json(SubscriptionAnswer {
        success: true,
        consumer_group: group.into(),
        new_timestamp: render::time(from),
        rows_updated: moved,
    }))
}
