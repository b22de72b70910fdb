//! Work on many deliveries, and what an endpoint came to: recover, replay, statistics, ping.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, JobId};
use wakeline_store::hook::{DeliveryFilter, JobKind};

use super::{app_ref, endpoint_ref, find_endpoint, no_application, no_endpoint};
use crate::error::ApiError;
use crate::input::{Body, Params, Parted};
use crate::state::AppState;
use crate::wire::hook::attempt::EndpointStatsOut;
use crate::wire::hook::job::{BulkReplayIn, JobIn, PingOut, RangeIn, TaskOut};
use crate::wire::hook::{HookInvalid, HookProblem};

/// Give an endpoint's failed deliveries of some time their whole schedule again.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover", tag = "webhooks",
    request_body = RangeIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 202, description = "The job that does it", body = TaskOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn recover(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    over_range(&state, (&app, &named), &body, JobKind::Recover).await
}

/// Send an endpoint the messages of some time that it would get today and never had.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing", tag = "webhooks",
    request_body = RangeIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 202, description = "The job that does it", body = TaskOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn replay_missing(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    over_range(&state, (&app, &named), &body, JobKind::ReplayMissing).await
}

async fn over_range(
    state: &AppState,
    (app, named): (&str, &str),
    body: &Body,
    kind: JobKind,
) -> Result<Response, ApiError> {
    let application = app_ref(app)?;
    let body: RangeIn = body.parse()?;
    let endpoint = find_endpoint(state, &application, &endpoint_ref(named)?).await?;
    start(state, &application, kind, body.filter(endpoint.id)?).await
}

/// Make one more attempt for many deliveries of an endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay", tag = "webhooks",
    request_body = BulkReplayIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 202, description = "The job that does it", body = TaskOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn bulk_replay(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let application = app_ref(&app)?;
    let body: BulkReplayIn = body.parse()?;
    let endpoint = find_endpoint(&state, &application, &endpoint_ref(&named)?).await?;
    start(&state, &application, JobKind::Resend, body.filter(endpoint.id)?).await
}

/// Change many deliveries of an application by a filter.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/job", tag = "webhooks", request_body = JobIn,
    params(("app_id" = String, Path, description = "The application's id or your own")),
    responses(
        (status = 202, description = "The job that does it", body = TaskOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    Parted(app): Parted<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let application = app_ref(&app)?;
    let body: JobIn = body.parse()?;
    let endpoint = match &body.endpoint_id {
        Some(named) => Some(find_endpoint(&state, &application, &endpoint_ref(named)?).await?.id),
        None => None,
    };
    let kind = body.kind();
    if kind == JobKind::ReplayMissing && endpoint.is_none() {
        let message =
            "endpointId is required for replay_missing: it names the endpoint that missed messages";
        return Err(ApiError::invalid_field("endpointId", message));
    }
    start(&state, &application, kind, body.filter(endpoint)?).await
}

async fn start(
    state: &AppState,
    application: &ApplicationRef,
    kind: JobKind,
    filter: DeliveryFilter,
) -> Result<Response, ApiError> {
    let job = state.hook().start_job(application, kind, filter).await?;
    let job = job.ok_or_else(|| no_application(application))?;
    Ok((StatusCode::ACCEPTED, Json(TaskOut::from(job))).into_response())
}

/// How a job stands. Finished ones are kept for seven days.
#[utoipa::path(
    get, path = "/api/v1/background-task/{task_id}", tag = "webhooks",
    params(("task_id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "How it stands", body = TaskOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<Json<TaskOut>, ApiError> {
    let missing = || ApiError::not_found(format!("there is no task {named}"));
    let id: JobId = named.parse().map_err(|_| missing())?;
    let job = state.hook().store().job(id).await?;
    Ok(Json(job.ok_or_else(missing)?.into()))
}

/// How many deliveries of an endpoint stand how.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
        ("since" = Option<String>, Query, description = "Only made at or after this (all)"),
    ),
    responses(
        (status = 200, description = "How many", body = EndpointStatsOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn stats(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    params: Params,
) -> Result<Json<EndpointStatsOut>, ApiError> {
    let since = params.moment("since")?;
    let endpoint = find_endpoint(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await?;
    let store = state.hook().store();
    let stats = store.endpoint_stats(endpoint.application, endpoint.id, since).await?;
    Ok(Json(stats.into()))
}

/// Call an endpoint with a signed `webhook.ping`, and say how it answered.
///
/// Nothing is stored, and it counts as no attempt.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/ping", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "How it answered", body = PingOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "It is pulled from", body = HookInvalid),
    )
)]
pub(crate) async fn ping(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
) -> Result<Json<PingOut>, ApiError> {
    let named = endpoint_ref(&named)?;
    let report = state.hook().ping(&app_ref(&app)?, &named).await?;
    Ok(Json(report.ok_or_else(|| no_endpoint(&named))?.into()))
}

/// Whether this node serves, as published clients ask.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "operation",
    responses(
        (status = 204, description = "It does"),
        (status = 503, description = "It does not", body = crate::error::Problem),
    )
)]
pub(crate) async fn health(State(state): State<AppState>) -> Result<StatusCode, ApiError> {
    if state.is_draining() {
        return Err(ApiError::draining());
    }
    state.queue().store().ping().await?;
    Ok(StatusCode::NO_CONTENT)
}
