//! `/api/v1/orchestrations…`: starting, signalling, reading and waiting for orchestrations.

pub(crate) mod mailbox;
pub(crate) mod manage;
pub(crate) mod read;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_flow::{Client, Json as Value, Started, Status};

use wakeline_core::{Realm, Verb};

use crate::access::permit::Permit;
use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::flow::{
    AcceptedAnswer, ActivityAnswer, OrchestrationAnswer, StartAnswer, StartBody,
};

/// The maximum number of activities in a response.
const ACTIVITIES_MAX: u32 = 100;

/// Start an orchestration. Requests with the same instance id start it only once.
#[utoipa::path(
    post, path = "/api/v1/orchestrations", tag = "orchestrations",
    request_body = StartBody,
    responses(
        (status = 201, description = "The instance was created", body = StartAnswer),
        (status = 200, description = "The instance already exists", body = StartAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn start(
    State(state): State<AppState>,
    permit: Permit,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let body: StartBody = body.parse()?;
    match &body.instance {
        Some(instance) => permit.need(Realm::Flow, Verb::Push, instance)?,
        // Only the pattern that matches everything covers an id that the server generates.
        None => permit.need_all(Realm::Flow, Verb::Push)?,
    }
    let instance = body.instance.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let input = body.input.unwrap_or_else(Value::null);
    let started = state.flow().start_raw(&instance, &body.name, body.version, input).await?;
    let (status, started) = match started {
        Started::New => (StatusCode::CREATED, true),
        Started::Exists => (StatusCode::OK, false),
    };
    Ok((status, Json(StartAnswer { instance, started })).into_response())
}

/// Get the state of an instance.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}", tag = "orchestrations",
    params(("instance" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "The instance", body = OrchestrationAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn instance(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
) -> Result<Json<OrchestrationAnswer>, ApiError> {
    let status = state.flow().status(&instance).await?;
    let mut answer = answer(&instance, &status)?;
    answer.activities = activities(state.flow(), &instance).await?;
    Ok(Json(answer))
}

/// Reads the oldest activities of an instance that have not ended.
async fn activities(client: &Client, instance: &str) -> Result<Vec<ActivityAnswer>, ApiError> {
    let activities = client.pending_activities(instance, ACTIVITIES_MAX).await?;
    Ok(activities.into_iter().map(Into::into).collect())
}

/// Wait until an instance has ended, or until its status or key-value state has a newer version.
///
/// Without `statusVersion` and `kvVersion` the request waits until the
/// instance has ended. The response is 204 if nothing changed before the timeout.
#[utoipa::path(
    get, path = "/api/v1/orchestrations/{instance}/wait", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("timeout" = Option<u64>, Query,
            description = "Maximum wait in milliseconds (default 30000)"),
        ("statusVersion" = Option<u64>, Query,
            description = "The last status version that the client has seen"),
        ("kvVersion" = Option<u64>, Query,
            description = "The last key-value version that the client has seen"),
    ),
    responses(
        (status = 200, description = "The instance", body = OrchestrationAnswer),
        (status = 204, description = "Nothing changed before the timeout"),
        (status = 404, description = "There is no such instance", body = Problem),
    )
)]
pub(crate) async fn wait(
    State(state): State<AppState>,
    PathParams(instance): PathParams<String>,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let settings = state.settings();
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let (usual, most) = (millis(settings.default_timeout), millis(settings.wait_max));
    let timeout = params.number("timeout", usual, 0..=most)?;
    let version = |name| match params.text(name) {
        Some(_) => params.number(name, 0, 0..=u64::MAX >> 1).map(Some),
        None => Ok(None),
    };
    let seen = (version("statusVersion")?, version("kvVersion")?);
    let timeout = Duration::from_millis(timeout);
    match state.flow().wait_for_news(&instance, seen.0, seen.1, timeout).await? {
        Some(status) => Ok(Json(answer(&instance, &status)?).into_response()),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Raise an event for an instance. The body is the data of the event.
///
/// With `early=true` the instance need not exist yet; it receives the event when it starts.
#[utoipa::path(
    post, path = "/api/v1/orchestrations/{instance}/events/{event}", tag = "orchestrations",
    params(
        ("instance" = String, Path, description = "The instance"),
        ("event" = String, Path, description = "The event's name"),
        ("early" = Option<bool>, Query,
            description = "Accept the event before the instance was started (default false)"),
    ),
    request_body = Option<serde_json::Value>,
    responses(
        (status = 202, description = "Accepted for delivery", body = AcceptedAnswer),
        (status = 404, description = "There is no such instance", body = Problem),
        (status = 409, description = "The instance has ended", body = Problem),
    )
)]
pub(crate) async fn raise_event(
    State(state): State<AppState>,
    PathParams((instance, event)): PathParams<(String, String)>,
    params: QueryParams,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let data: Value = if body.0.is_empty() { Value::null() } else { body.parse()? };
    if params.flag("early")? {
        state.flow().raise_event_early(&instance, &event, &data).await?;
    } else {
        state.flow().raise_event(&instance, &event, &data).await?;
    }
    Ok(accepted(instance))
}

pub(crate) async fn exists(client: &Client, instance: &str) -> Result<(), ApiError> {
    match client.status(instance).await? {
        Status::Missing => Err(missing(instance)),
        _ => Ok(()),
    }
}

pub(crate) fn accepted(instance: String) -> Response {
    let body = Json(AcceptedAnswer { instance, accepted: true });
    (StatusCode::ACCEPTED, body).into_response()
}

fn missing(instance: &str) -> ApiError {
    ApiError::not_found(format!("there is no instance {instance}"))
}

fn answer(instance: &str, status: &Status) -> Result<OrchestrationAnswer, ApiError> {
    match status {
        Status::Missing => Err(missing(instance)),
        Status::Pending(found) | Status::Running(found) | Status::Ended(found) => {
            Ok(found.as_ref().into())
        }
    }
}
