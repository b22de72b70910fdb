//! `POST /api/v1/configure`, `PATCH` and `DELETE /api/v1/resources/queues/{queue}`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::{Namespace, QueueName, Realm, TaskName, Verb};
use wakeline_store::{ConfigureQueue, Deed, PatchQueue};

use super::resources::no_queue;
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{Body, Parted};
use crate::state::AppState;
use crate::wire::configure::{ConfigureAnswer, ConfigureBody, PatchBody};

/// Make a queue, or replace its options.
#[utoipa::path(
    post, path = "/api/v1/configure", tag = "queues", request_body = ConfigureBody,
    responses(
        (status = 200, description = "The queue as it stands now", body = ConfigureAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn configure(
    State(state): State<AppState>,
    permit: Permit,
    body: Body,
) -> Result<Json<ConfigureAnswer>, ApiError> {
    let body: ConfigureBody = body.parse()?;
    let queue = body.queue.ok_or_else(|| ApiError::invalid("queue is required"))?;
    let command = ConfigureQueue {
        queue: QueueName::new(queue)?,
        namespace: given(body.namespace).map(Namespace::new).transpose()?,
        task: given(body.task).map(TaskName::new).transpose()?,
        options: body.options.unwrap_or_default().check()?,
    };
    permit.need(Realm::Queue, Verb::Configure, command.queue.as_str())?;
    Deed::tell(Some(command.queue.to_string()), None);
    Ok(Json(state.queue().configure(command).await?.into()))
}

/// Clients send an empty text for a namespace or task that is not set.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Change those of a queue's options that are named; the others stay as they are.
#[utoipa::path(
    patch, path = "/api/v1/resources/queues/{queue}", tag = "queues", request_body = PatchBody,
    params(("queue" = String, Path, description = "The queue")),
    responses(
        (status = 200, description = "The queue with all its options", body = ConfigureAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn patch_queue(
    State(state): State<AppState>,
    Parted(queue): Parted<String>,
    body: Body,
) -> Result<Json<ConfigureAnswer>, ApiError> {
    let body: PatchBody = body.parse()?;
    let command = PatchQueue {
        queue: QueueName::new(queue)?,
        namespace: given(body.namespace).map(Namespace::new).transpose()?,
        task: given(body.task).map(TaskName::new).transpose()?,
        options: body.options.unwrap_or_default().patch()?,
        create: false,
    };
    let detail = state.queue().patch(command).await?.ok_or_else(no_queue)?;
    Ok(Json(detail.into()))
}

/// A queue that is gone.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueDeletedAnswer {
    queue: String,
    deleted: bool,
    /// Whether it was there before.
    existed: bool,
}

/// Remove a queue with its messages, groups and dead letters.
#[utoipa::path(
    delete, path = "/api/v1/resources/queues/{queue}", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "It is gone", body = QueueDeletedAnswer))
)]
pub(crate) async fn delete_queue(
    State(state): State<AppState>,
    Parted(queue): Parted<String>,
) -> Result<Json<QueueDeletedAnswer>, ApiError> {
    let queue = QueueName::new(queue)?;
    let existed = state.queue().delete_queue(queue.clone()).await?;
    Ok(Json(QueueDeletedAnswer { queue: queue.into(), deleted: true, existed }))
}
