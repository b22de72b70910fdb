//! `/api/v1/resources/…`: queues, namespaces and tasks with their message counts.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{Page, QueueCounts};

use crate::access::permit::{ListWindow, Permit};
use crate::error::{ApiError, Problem};
use crate::input::{PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::counts::{QueueDetailAnswer, QueueWithPartitions, QueuesAnswer};
use crate::wire::resources::{DepthAnswer, NamespacesAnswer, QueueSum, TasksAnswer};

/// The window of a list that includes all queues.
pub(super) const ALL_QUEUES: ListWindow = ListWindow { limit: u32::MAX, offset: 0 };

pub(super) fn no_queue() -> ApiError {
    ApiError::not_found("Queue not found")
}

/// Parses the window of a list that a request selects.
pub(super) fn window(
    params: &QueryParams,
    default: u64,
    limit_max: u64,
) -> Result<ListWindow, ApiError> {
    Ok(ListWindow {
        limit: params.number("limit", default, 1..=limit_max)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    })
}

/// Reads the message counts of the queues that the caller may see.
pub(super) async fn queue_counts(
    state: &AppState,
    permit: &Permit,
    window: ListWindow,
) -> Result<Vec<QueueCounts>, ApiError> {
    let mut list = permit.listing(window);
    while let Some(ListWindow { limit, offset }) = list.next() {
        let read = state.queue().store().queue_counts(None, Page { limit, offset }).await?;
        list.take(read, |one| &one.queue);
    }
    Ok(list.items)
}

/// Reads a queue and a page of its partitions.
pub(super) async fn queue_with_partitions(
    state: &AppState,
    queue: String,
    params: &QueryParams,
) -> Result<QueueWithPartitions, ApiError> {
    let queue = QueueName::new(queue)?;
    let window = window(params, 100, 1000)?;
    let page = Page { limit: window.limit, offset: window.offset };
    let first = Page { limit: 1, offset: 0 };
    let store = state.queue().store();
    let detail = store.queue(&queue).await?.ok_or_else(no_queue)?;
    let counts = store.queue_counts(Some(&queue), first).await?.pop().ok_or_else(no_queue)?;
    let partitions = store.partition_counts(&queue, page).await?;
    Ok(QueueWithPartitions { detail, counts, partitions, window })
}

/// List queues by name, with message counts.
#[utoipa::path(
    get, path = "/api/v1/resources/queues", tag = "queues",
    params(
        ("limit" = Option<u32>, Query, description = "Page size, up to 10000 (default 1000)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The queues", body = QueuesAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn queues(
    State(state): State<AppState>,
    permit: Permit,
    params: QueryParams,
) -> Result<Json<QueuesAnswer>, ApiError> {
    let window = window(&params, 1000, 10_000)?;
    let queues = queue_counts(&state, &permit, window).await?.into_iter().map(Into::into).collect();
    Ok(Json(QueuesAnswer { queues, pagination: window.into() }))
}

/// Get the options and message counts of a queue, and a page of its partitions.
#[utoipa::path(
    get, path = "/api/v1/resources/queues/{queue}", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("limit" = Option<u32>, Query,
            description = "Maximum number of partitions, up to 1000 (default 100)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The queue", body = QueueDetailAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn queue(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    params: QueryParams,
) -> Result<Json<QueueDetailAnswer>, ApiError> {
    Ok(Json(queue_with_partitions(&state, queue, &params).await?.into()))
}

/// Count the messages of a queue that a group has not settled yet. Autoscalers can use the count.
///
/// For a group that never read the queue, all messages count.
#[utoipa::path(
    get, path = "/api/v1/resources/queues/{queue}/depth", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("group" = Option<String>, Query,
            description = "The group; without one, the group that is furthest behind in each \
                           partition"),
        ("limit" = Option<u32>, Query,
            description = "Maximum number of partitions, up to 10000 (default 1000)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The depth", body = DepthAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn depth(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    params: QueryParams,
) -> Result<Json<DepthAnswer>, ApiError> {
    let queue = QueueName::new(queue)?;
    let group = params.parsed("group", |text| Ok(GroupName::new(text)?))?;
    let ListWindow { limit, offset } = window(&params, 1000, 10_000)?;
    let page = Page { limit, offset };
    let depth = state.queue().store().depth(&queue, group.as_ref(), page).await?;
    let depth = depth.ok_or_else(no_queue)?;
    Ok(Json(DepthAnswer::new(queue.into(), group.map(Into::into), depth)))
}

/// List namespaces with the total message counts of their queues.
#[utoipa::path(
    get, path = "/api/v1/resources/namespaces", tag = "queues",
    responses((status = 200, description = "The namespaces", body = NamespacesAnswer))
)]
pub(crate) async fn namespaces(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<NamespacesAnswer>, ApiError> {
    let mut sums: BTreeMap<Option<String>, QueueSum> = BTreeMap::new();
    for queue in queue_counts(&state, &permit, ALL_QUEUES).await? {
        let namespace = queue.namespace.as_ref().map(ToString::to_string);
        sums.entry(namespace).or_default().add(&queue);
    }
    Ok(Json(sums.into()))
}

/// List tasks with the total message counts of their queues.
#[utoipa::path(
    get, path = "/api/v1/resources/tasks", tag = "queues",
    responses((status = 200, description = "The tasks", body = TasksAnswer))
)]
pub(crate) async fn tasks(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<TasksAnswer>, ApiError> {
    let mut sums: BTreeMap<Option<String>, QueueSum> = BTreeMap::new();
    for queue in queue_counts(&state, &permit, ALL_QUEUES).await? {
        let task = queue.task.as_ref().map(ToString::to_string);
        sums.entry(task).or_default().add(&queue);
    }
    Ok(Json(sums.into()))
}
