//! `/api/v1/consumer-groups…`

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use wakeline_core::{GroupName, PartitionName, QueueName, Realm, Verb};
use wakeline_store::{Deed, GroupPartitionFilter, Seek, SeekTo};

use crate::access::permit::{Part, Permit};
use crate::error::{ApiError, Problem};
use crate::input::{self, Body, Params, Parted};
use crate::render;
use crate::state::AppState;
use crate::wire::groups::{
    GroupAnswer, GroupDeletedAnswer, GroupInQueueAnswer, LaggingAnswer, SeekAnswer, SeekBody,
    SubscriptionAnswer, SubscriptionBody, by_queue,
};

/// All consumer groups, one entry per queue.
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

/// One consumer group: how far it is in each of its queues, partition by partition.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups/{group}", tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = Option<String>, Query, description = "Only in this queue"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 10000 (1000)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "By queue", body = BTreeMap<String, GroupInQueueAnswer>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such group", body = Problem),
    )
)]
pub(crate) async fn group(
    State(state): State<AppState>,
    permit: Permit,
    Parted(group): Parted<String>,
    params: Params,
) -> Result<Json<BTreeMap<String, GroupInQueueAnswer>>, ApiError> {
    let group = GroupName::new(group)?;
    let filter = GroupPartitionFilter { group: Some(group.clone()), ..filter(&params, 10_000)? };
    let mut groups = state.queue().store().groups(Some(&group)).await?;
    groups.retain(|one| filter.queue.as_ref().is_none_or(|only| *only == one.queue));
    let seen = |queue: &QueueName| permit.may(Realm::Queue, Verb::Read, queue.as_str());
    groups.retain(|one| seen(&one.queue));
    if groups.is_empty() {
        return Err(ApiError::not_found("Consumer group not found"));
    }
    let mut list = permit.listing(Part { limit: filter.limit, offset: filter.offset });
    while let Some(part) = list.next() {
        let read = state.queue().store().group_partitions(of_part(&filter, part)).await?;
        list.take(read, |one| &one.queue);
    }
    Ok(Json(by_queue(groups, list.items)))
}

fn filter(params: &Params, limit_max: u64) -> Result<GroupPartitionFilter, ApiError> {
    Ok(GroupPartitionFilter {
        group: params.parsed("consumerGroup", |text| Ok(GroupName::new(text)?))?,
        queue: params.parsed("queue", |text| Ok(QueueName::new(text)?))?,
        limit: params.number("limit", 1000, 1..=limit_max)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    })
}

fn of_part(filter: &GroupPartitionFilter, part: Part) -> GroupPartitionFilter {
    GroupPartitionFilter { limit: part.limit, offset: part.offset, ..filter.clone() }
}

/// Partitions in which a group is behind, the oldest message first. No group can be asked for by
/// the name `lagging` alone; it is listed among all.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups/lagging", tag = "queues",
    params(
        ("minLagSeconds" = Option<u64>, Query, description = "Behind by at least so long (3600)"),
        ("consumerGroup" = Option<String>, Query, description = "Only of this group"),
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 10000 (1000)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The partitions", body = Vec<LaggingAnswer>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn lagging(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<Vec<LaggingAnswer>>, ApiError> {
    let behind = Duration::from_secs(params.number("minLagSeconds", 3600, 0..=u32::MAX.into())?);
    let filter = filter(&params, 10_000)?;
    let mut list = permit.listing(Part { limit: filter.limit, offset: filter.offset });
    while let Some(part) = list.next() {
        let read = state.queue().store().lagging(behind, of_part(&filter, part)).await?;
        list.take(read, |one| &one.queue);
    }
    Ok(Json(list.items.into_iter().map(Into::into).collect()))
}

/// Move a group in one queue: to its end, its beginning, or what was pushed since a time. What it
/// holds under leases is lost to it.
#[utoipa::path(
    post, path = "/api/v1/consumer-groups/{group}/queues/{queue}/seek", tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = String, Path, description = "The queue"),
    ),
    request_body = SeekBody,
    responses(
        (status = 200, description = "Where it goes on", body = SeekAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "The group does not read this queue", body = Problem),
    )
)]
pub(crate) async fn seek(
    State(state): State<AppState>,
    Parted((group, queue)): Parted<(String, String)>,
    body: Body,
) -> Result<Json<SeekAnswer>, ApiError> {
    let body: SeekBody = body.parse()?;
    let to = target(&body)?.ok_or_else(|| {
        ApiError::invalid(
            "Must specify either 'toEnd': true or 'timestamp', or 'toBeginning': true",
        )
    })?;
    let (group, queue) = (GroupName::new(group)?, QueueName::new(queue)?);
    go_to(&state, Seek { group, queue: Some(queue), partition: None, to }).await
}

/// Move a group in one partition; without a body, to its end.
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
        (status = 200, description = "Where it goes on", body = SeekAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "The group does not read this partition", body = Problem),
    )
)]
pub(crate) async fn seek_partition(
    State(state): State<AppState>,
    Parted((group, queue, partition)): Parted<(String, String, String)>,
    body: Body,
) -> Result<Json<SeekAnswer>, ApiError> {
    let to = target(&body.parse_or_default()?)?.unwrap_or(SeekTo::End);
    let (group, queue) = (GroupName::new(group)?, QueueName::new(queue)?);
    let partition = Some(PartitionName::new(partition)?);
    go_to(&state, Seek { group, queue: Some(queue), partition, to }).await
}

/// Where to, if it is said.
fn target(body: &SeekBody) -> Result<Option<SeekTo>, ApiError> {
    match (body.to_end, body.to_beginning, &body.timestamp) {
        (false, false, None) => Ok(None),
        (true, false, None) => Ok(Some(SeekTo::End)),
        (false, true, None) => Ok(Some(SeekTo::Beginning)),
        (false, false, Some(text)) => Ok(Some(SeekTo::Since(input::timestamp("timestamp", text)?))),
        _ => Err(ApiError::invalid("Only one of 'toEnd', 'toBeginning' and 'timestamp' can be")),
    }
}

async fn go_to(state: &AppState, seek: Seek) -> Result<Json<SeekAnswer>, ApiError> {
    Deed::tell(None, Some(format!("{:?}", seek.to)));
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

/// Forget a group: its next poll subscribes anew.
#[utoipa::path(
    delete, path = "/api/v1/consumer-groups/{group}", tag = "queues",
    params(("group" = String, Path, description = "The group")),
    responses((status = 200, description = "It is forgotten", body = GroupDeletedAnswer))
)]
pub(crate) async fn delete_group(
    State(state): State<AppState>,
    Parted(group): Parted<String>,
) -> Result<Json<GroupDeletedAnswer>, ApiError> {
    delete(&state, GroupName::new(group)?, None).await
}

/// Forget a group in one queue.
#[utoipa::path(
    delete, path = "/api/v1/consumer-groups/{group}/queues/{queue}", tag = "queues",
    params(
        ("group" = String, Path, description = "The group"),
        ("queue" = String, Path, description = "The queue"),
    ),
    responses((status = 200, description = "It is forgotten", body = GroupDeletedAnswer))
)]
pub(crate) async fn delete_group_of_queue(
    State(state): State<AppState>,
    Parted((group, queue)): Parted<(String, String)>,
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

/// Move a group, in all its queues, to what was pushed at or after a time.
#[utoipa::path(
    post, path = "/api/v1/consumer-groups/{group}/subscription", tag = "queues",
    params(("group" = String, Path, description = "The group")),
    request_body = SubscriptionBody,
    responses(
        (status = 200, description = "Where it continues", body = SubscriptionAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn subscription(
    State(state): State<AppState>,
    Parted(group): Parted<String>,
    body: Body,
) -> Result<Json<SubscriptionAnswer>, ApiError> {
    let group = GroupName::new(group)?;
    let body: SubscriptionBody = body.parse()?;
    let from = body
        .subscription_timestamp
        .ok_or_else(|| ApiError::invalid("Missing subscriptionTimestamp in request body"))?;
    let from = input::timestamp("subscriptionTimestamp", &from)?;
    let to = SeekTo::Since(from);
    Deed::tell(None, Some(format!("{to:?}")));
    let seek = Seek { group: group.clone(), queue: None, partition: None, to };
    let moved = state.queue().seek(seek).await?;
    Ok(Json(SubscriptionAnswer {
        success: true,
        consumer_group: group.into(),
        new_timestamp: render::time(from),
        rows_updated: moved,
    }))
}
