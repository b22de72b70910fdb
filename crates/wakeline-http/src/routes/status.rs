//! `/api/v1/status…`: what a dashboard shows.

use axum::Json;
use axum::extract::State;
use wakeline_core::QueueName;
use wakeline_store::MessageFilter;

use super::messages::{Place, look};
use super::resources::{part, tallies, whole};
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{Params, Parted};
use crate::state::AppState;
use crate::wire::resources::{BuffersAnswer, ShortMessage};
use crate::wire::tally::{QueueStatusAnswer, QueuesAnswer};

/// List queues by name, with message counts.
#[utoipa::path(
    get, path = "/api/v1/status/queues", tag = "queues",
    params(
        ("limit" = Option<u32>, Query, description = "At most so many, up to 10000 (100)"),
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
    let part = part(&params, 100, 10_000)?;
    let queues = tallies(&state, &permit, part).await?.into_iter().map(Into::into).collect();
    Ok(Json(QueuesAnswer { queues, pagination: part.into() }))
}

/// A queue and how its partitions stand, page by page.
#[utoipa::path(
    get, path = "/api/v1/status/queues/{queue}", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("limit" = Option<u32>, Query,
            description = "At most so many partitions, up to 1000 (100)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "How it stands", body = QueueStatusAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn queue(
    State(state): State<AppState>,
    Parted(queue): Parted<String>,
    params: Params,
) -> Result<Json<QueueStatusAnswer>, ApiError> {
    Ok(Json(whole(&state, queue, &params).await?.into()))
}

/// Messages of a queue, partition by partition, in each the newest first.
#[utoipa::path(
    get, path = "/api/v1/status/queues/{queue}/messages", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 1000 (50)"),
        ("offset" = Option<u32>, Query, description = "After skipping so many (0)"),
    ),
    responses(
        (status = 200, description = "The messages", body = Vec<ShortMessage>),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn messages(
    State(state): State<AppState>,
    permit: Permit,
    Parted(queue): Parted<String>,
    params: Params,
) -> Result<Json<Vec<ShortMessage>>, ApiError> {
    let queue = QueueName::new(queue)?;
    let part = part(&params, 50, 1000)?;
    if state.queue().store().queue(&queue).await?.is_none() {
        return Err(super::resources::no_queue());
    }
    let filter = MessageFilter { queue: Some(queue), ..MessageFilter::default() };
    let place = Place { next: None, skip: part.offset as usize, limit: part.limit };
    let (found, _) = look(&state, &permit, &filter, place).await?;
    Ok(Json(found.into_iter().map(Into::into).collect()))
}

/// What is held back for the time of a maintenance.
#[utoipa::path(
    get, path = "/api/v1/status/buffers", tag = "operation",
    responses((status = 200, description = "How much it is", body = BuffersAnswer))
)]
pub(crate) async fn buffers(State(state): State<AppState>) -> Json<BuffersAnswer> {
    let held = state.queue().held_messages().await;
    let db_healthy = held.is_ok();
    let pending = held.unwrap_or_default();
    Json(BuffersAnswer { pending, failed: 0, db_healthy, worker: std::process::id() })
}
