//! `POST /api/v1/configure`, `PATCH` and `DELETE /api/v1/resources/queues/{queue}`: creating,
//! changing and deleting queues.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::{Namespace, QueueName, Realm, TaskName, Verb};
use wakeline_store::{AuditAction, ConfigureQueue, PatchQueue};

use super::resources::no_queue;
use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams};
use crate::state::AppState;
use crate::wire::configure::{ConfigureAnswer, ConfigureBody, PatchBody};

/// Create a queue, or replace the options of an existing one.
#[utoipa::path(
    post, path = "/api/v1/configure", tag = "queues", request_body = ConfigureBody,
    responses(
        (status = 200, description = "The queue with its new options", body = ConfigureAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn configure(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
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
    AuditAction::amend(Some(command.queue.to_string()), None);
    Ok(Json(state.queue().configure(command).await?.into()))
}

/// Treats an empty text as missing, because clients send one for a namespace or task that is not
/// set.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Change the given options of a queue. Other options keep their values.
#[utoipa::path(
    patch, path = "/api/v1/resources/queues/{queue}", tag = "queues", request_body = PatchBody,
    params(("queue" = String, Path, description = "The queue")),
    responses(
        (status = 200, description = "The queue with all its options", body = ConfigureAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem),
    )
)]
pub(crate) async fn patch_queue(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
    body: JsonBody,
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

/// The result of deleting a queue.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueDeletedAnswer {
    /// The name of the queue.
    queue: String,
    /// Always true.
    deleted: bool,
    /// Whether the queue existed before.
    existed: bool,
}

/// Delete a queue with its messages, consumer groups and dead letters.
#[utoipa::path(
    delete, path = "/api/v1/resources/queues/{queue}", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "Deleted", body = QueueDeletedAnswer))
)]
pub(crate) async fn delete_queue(
    State(state): State<AppState>,
    PathParams(queue): PathParams<String>,
) -> Result<Json<QueueDeletedAnswer>, ApiError> {
    let queue = QueueName::new(queue)?;
    let existed = state.queue().delete_queue(queue.clone()).await?;
    Ok(Json(QueueDeletedAnswer { queue: queue.into(), deleted: true, existed }))
}
