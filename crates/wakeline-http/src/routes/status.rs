//! `/api/v1/status…`: queues and messages as dashboards show them.

use axum::Json;
use axum::extract::State;
use wakeline_core::QueueName;
use wakeline_store::MessageFilter;

use super::messages::{PageStart, browse};
use super::resources::{queue_counts, queue_with_partitions, window};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::counts::{QueueStatusAnswer, QueuesAnswer};
use crate::wire::resources::{BuffersAnswer, ShortMessage};

/// List queues by name, with message counts.
#[utoipa::path(
    get, path = "/api/v1/status/queues", tag = "queues",
    params(
        ("limit" = Option<u32>, Query, description = "Page size, up to 10000 (default 100)"),
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
    let window = window(&params, 100, 10_000)?;
    let queues = queue_counts(&state, &permit, window).await?.into_iter().map(Into::into).collect();
    Ok(Json(QueuesAnswer { queues, pagination: window.into() }))
}

/// Get a queue and a page of its partitions, with message counts.
#[utoipa::path(
    get, path = "/api/v1/status/queues/{queue}", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("limit" = Option<u32>, Query,
            description = "Maximum number of partitions, up to 1000 (default 100)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The queue with its partitions", body = QueueStatusAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn queue(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    params: QueryParams,
) -> Result<Json<QueueStatusAnswer>, ApiError> {
    Ok(Json(queue_with_partitions(&state, queue, &params).await?.into()))
}

/// List the messages of a queue by partition, newest first within each partition.
#[utoipa::path(
    get, path = "/api/v1/status/queues/{queue}/messages", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 50)"),
        ("offset" = Option<u32>, Query, description = "Number of items to skip (default 0)"),
    ),
    responses(
        (status = 200, description = "The messages", body = Vec<ShortMessage>),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn messages(
    State(state): State<AppState>,
    permit: Permit,
    PathParams(queue): PathParams<String>,
    params: QueryParams,
) -> Result<Json<Vec<ShortMessage>>, ApiError> {
    let queue = QueueName::new(queue)?;
    let window = window(&params, 50, 1000)?;
    if state.queue().store().queue(&queue).await?.is_none() {
        return Err(super::resources::no_queue());
    }
    let filter = MessageFilter { queue: Some(queue), ..MessageFilter::default() };
    let start = PageStart { next: None, skip: window.offset as usize, limit: window.limit };
    let (found, _) = browse(&state, &permit, &filter, start).await?;
    Ok(Json(found.into_iter().map(Into::into).collect()))
}

/// Get the number of messages that are buffered because of maintenance.
#[utoipa::path(
    get, path = "/api/v1/status/buffers", tag = "operation",
    responses((status = 200, description = "The number of buffered messages", body = BuffersAnswer))
)]
pub(crate) async fn buffers(State(state): State<AppState>) -> Json<BuffersAnswer> {
    let held = state.queue().held_messages().await;
    let db_healthy = held.is_ok();
    let pending = held.unwrap_or_default();
    Json(BuffersAnswer { pending, failed: 0, db_healthy, worker: std::process::id() })
}
