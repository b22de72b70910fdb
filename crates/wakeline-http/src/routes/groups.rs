//! `/api/v1/consumer-groups…`

use axum::Json;
use axum::extract::State;
use wakeline_core::{GroupName, QueueName};

use crate::error::{ApiError, Problem};
use crate::input::{self, Body, Parted};
use crate::render;
use crate::state::AppState;
use crate::wire::groups::{GroupAnswer, GroupDeletedAnswer, SubscriptionAnswer, SubscriptionBody};

/// All consumer groups, one entry per queue.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups", tag = "queues",
    responses((status = 200, description = "The groups", body = Vec<GroupAnswer>))
)]
pub(crate) async fn groups(
    State(state): State<AppState>,
) -> Result<Json<Vec<GroupAnswer>>, ApiError> {
    let groups = state.queue().store().groups(None).await?;
    Ok(Json(groups.into_iter().map(Into::into).collect()))
}

/// One consumer group, one entry per queue.
#[utoipa::path(
    get, path = "/api/v1/consumer-groups/{group}", tag = "queues",
    params(("group" = String, Path, description = "The group")),
    responses(
        (status = 200, description = "The group in each of its queues", body = Vec<GroupAnswer>),
        (status = 404, description = "There is no such group", body = Problem),
    )
)]
pub(crate) async fn group(
    State(state): State<AppState>,
    Parted(group): Parted<String>,
) -> Result<Json<Vec<GroupAnswer>>, ApiError> {
    let group = GroupName::new(group)?;
    let groups = state.queue().store().groups(Some(&group)).await?;
    if groups.is_empty() {
        return Err(ApiError::not_found("Consumer group not found"));
    }
    Ok(Json(groups.into_iter().map(Into::into).collect()))
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
    let moved = state.queue().resubscribe(group.clone(), from).await?;
    Ok(Json(SubscriptionAnswer {
        success: true,
        consumer_group: group.into(),
        new_timestamp: render::time(from),
        rows_updated: moved,
    }))
}
