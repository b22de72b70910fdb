//! `/api/v1/resources/…`: what there is, and how it stands.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{Page, QueueTally};

use crate::access::permit::{Part, Permit};
use crate::error::{ApiError, Problem};
use crate::input::{Params, Parted};
use crate::state::AppState;
use crate::wire::resources::{DepthAnswer, NamespacesAnswer, Sum, TasksAnswer};
use crate::wire::tally::{QueueDetailAnswer, QueuesAnswer, WholeQueue};

/// All queues that a caller may see.
pub(super) const EVERY: Part = Part { limit: u32::MAX, offset: 0 };

pub(super) fn no_queue() -> ApiError {
    ApiError::not_found("Queue not found")
}

/// Which part of a list a request asks for.
pub(super) fn part(params: &Params, preset: u64, most: u64) -> Result<Part, ApiError> {
    Ok(Part {
        limit: params.number("limit", preset, 1..=most)? as u32,
        offset: params.number("offset", 0, 0..=u32::MAX.into())? as u32,
    })
}

/// How queues stand that the caller may see.
pub(super) async fn tallies(
    state: &AppState,
    permit: &Permit,
    part: Part,
) -> Result<Vec<QueueTally>, ApiError> {
    let mut list = permit.listing(part);
    while let Some(Part { limit, offset }) = list.next() {
        let read = state.queue().store().queue_tallies(None, Page { limit, offset }).await?;
        list.take(read, |one| &one.queue);
    }
    Ok(list.items)
}

/// A queue with some of its partitions.
pub(super) async fn whole(
    state: &AppState,
    queue: String,
    params: &Params,
) -> Result<WholeQueue, ApiError> {
    let queue = QueueName::new(queue)?;
    let part = part(params, 100, 1000)?;
    let (page, first) =
        (Page { limit: part.limit, offset: part.offset }, Page { limit: 1, offset: 0 });
    let store = state.queue().store();
    let detail = store.queue(&queue).await?.ok_or_else(no_queue)?;
    let tally = store.queue_tallies(Some(&queue), first).await?.pop().ok_or_else(no_queue)?;
    let partitions = store.partition_tallies(&queue, page).await?;
    Ok(WholeQueue { detail, tally, partitions, part })
}

/// List queues by name, with message counts.
#[utoipa::path(
    get, path = "/api/v1/resources/queues", tag = "queues",
    params(
        ("limit" = Option<u32>, Query, description = "At most so many, up to 10000 (1000)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The queues", body = QueuesAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn queues(
    State(state): State<AppState>,
    permit: Permit,
    params: Params,
) -> Result<Json<QueuesAnswer>, ApiError> {
    let part = part(&params, 1000, 10_000)?;
    let queues = tallies(&state, &permit, part).await?.into_iter().map(Into::into).collect();
    Ok(Json(QueuesAnswer { queues, pagination: part.into() }))
}

/// A queue: its options, how it stands, and its partitions, page by page.
#[utoipa::path(
    get, path = "/api/v1/resources/queues/{queue}", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("limit" = Option<u32>, Query,
            description = "At most so many partitions, up to 1000 (100)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The queue as it stands", body = QueueDetailAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn queue(
    State(state): State<AppState>,
    Parted(queue): Parted<String>,
    params: Params,
) -> Result<Json<QueueDetailAnswer>, ApiError> {
    Ok(Json(whole(&state, queue, &params).await?.into()))
}

/// How much a group of a queue, or the queue, has yet to settle: for those who scale consumers. A
/// group that never read the queue has everything before it.
#[utoipa::path(
    get, path = "/api/v1/resources/queues/{queue}/depth", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("group" = Option<String>, Query,
            description = "The group; without one, the group that is furthest behind in each \
                           partition"),
        ("limit" = Option<u32>, Query,
            description = "At most so many partitions, up to 10000 (1000)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The depth", body = DepthAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn depth(
    State(state): State<AppState>,
    Parted(queue): Parted<String>,
    params: Params,
) -> Result<Json<DepthAnswer>, ApiError> {
    let queue = QueueName::new(queue)?;
    let group = params.parsed("group", |text| Ok(GroupName::new(text)?))?;
    let Part { limit, offset } = part(&params, 1000, 10_000)?;
    let page = Page { limit, offset };
    let depth = state.queue().store().depth(&queue, group.as_ref(), page).await?;
    let depth = depth.ok_or_else(no_queue)?;
    Ok(Json(DepthAnswer::new(queue.into(), group.map(Into::into), depth)))
}

/// Namespaces, and how their queues stand together.
#[utoipa::path(
    get, path = "/api/v1/resources/namespaces", tag = "queues",
    responses((status = 200, description = "The namespaces", body = NamespacesAnswer))
)]
pub(crate) async fn namespaces(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<NamespacesAnswer>, ApiError> {
    let mut sums: BTreeMap<Option<String>, Sum> = BTreeMap::new();
    for queue in tallies(&state, &permit, EVERY).await? {
        let namespace = queue.namespace.as_ref().map(ToString::to_string);
        sums.entry(namespace).or_default().add(&queue);
    }
    Ok(Json(sums.into()))
}

/// Tasks, and how their queues stand together.
#[utoipa::path(
    get, path = "/api/v1/resources/tasks", tag = "queues",
    responses((status = 200, description = "The tasks", body = TasksAnswer))
)]
pub(crate) async fn tasks(
    State(state): State<AppState>,
    permit: Permit,
) -> Result<Json<TasksAnswer>, ApiError> {
    let mut sums: BTreeMap<Option<String>, Sum> = BTreeMap::new();
    for queue in tallies(&state, &permit, EVERY).await? {
        let task = queue.task.as_ref().map(ToString::to_string);
        sums.entry(task).or_default().add(&queue);
    }
    Ok(Json(sums.into()))
}
