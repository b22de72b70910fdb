//! Jobs that change many deliveries, and the statistics and the test call of an endpoint.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, JobId};
use wakeline_store::hook::{DeliveryFilter, JobKind};

use super::{app_ref, endpoint_ref, find_endpoint, no_application, no_endpoint};
use crate::error::ApiError;
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::attempt::EndpointStatsOut;
use crate::wire::hook::job::{BulkReplayIn, JobIn, PingOut, RangeIn, TaskOut};
use crate::wire::hook::{HookInvalid, HookProblem};

/// Start a job that retries the failed deliveries of an endpoint in a time range.
///
/// Each delivery gets its full retry schedule again.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover", tag = "webhooks",
    request_body = RangeIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 202, description = "The job was started", body = TaskOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn recover(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let application = app_ref(&app)?;
    let filter = range_filter(&state, &application, &named, &body).await?;
    start(&state, &application, JobKind::Recover, filter).await
}

/// Start a job that delivers messages of a time range that an endpoint never received.
///
/// The job covers the messages that the endpoint's current filters match.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing", tag = "webhooks",
    request_body = RangeIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 202, description = "The job was started", body = TaskOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn replay_missing(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let application = app_ref(&app)?;
    let filter = range_filter(&state, &application, &named, &body).await?;
    start(&state, &application, JobKind::ReplayMissing, filter).await
}

/// Parses a body with a time range into a filter of the deliveries to an endpoint.
async fn range_filter(
    state: &AppState,
    application: &ApplicationRef,
    endpoint: &str,
    body: &JsonBody,
) -> Result<DeliveryFilter, ApiError> {
    let body: RangeIn = body.parse()?;
    let endpoint = find_endpoint(state, application, &endpoint_ref(endpoint)?).await?;
    body.filter(endpoint.id)
}

/// Start a job that makes one more attempt for many deliveries of an endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay", tag = "webhooks",
    request_body = BulkReplayIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 202, description = "The job was started", body = TaskOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn bulk_replay(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let application = app_ref(&app)?;
    let body: BulkReplayIn = body.parse()?;
    let endpoint = find_endpoint(&state, &application, &endpoint_ref(&named)?).await?;
    start(&state, &application, JobKind::Resend, body.filter(endpoint.id)?).await
}

/// Start a job that changes the deliveries of an application that match a filter.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/job", tag = "webhooks", request_body = JobIn,
    params(("app_id" = String, Path, description = "The application's id or uid")),
    responses(
        (status = 202, description = "The job was started", body = TaskOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    PathParams(app): PathParams<String>,
    body: JsonBody,
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

/// Get the state of a job. Finished jobs are kept for seven days.
#[utoipa::path(
    get, path = "/api/v1/background-task/{task_id}", tag = "webhooks",
    params(("task_id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job", body = TaskOut),
        (status = 404, description = "There is no such job", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<TaskOut>, ApiError> {
    let missing = || ApiError::not_found(format!("there is no task {named}"));
    let id: JobId = named.parse().map_err(|_| missing())?;
    let job = state.hook().store().job(id).await?;
    Ok(Json(job.ok_or_else(missing)?.into()))
}

/// Count the deliveries of an endpoint by state.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
        ("since" = Option<String>, Query,
            description = "Only deliveries created at or after this time (default: all)"),
    ),
    responses(
        (status = 200, description = "The counts", body = EndpointStatsOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn stats(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    params: QueryParams,
) -> Result<Json<EndpointStatsOut>, ApiError> {
    let since = params.timestamp("since")?;
    let endpoint = find_endpoint(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await?;
    let store = state.hook().store();
    let stats = store.endpoint_stats(endpoint.application, endpoint.id, since).await?;
    Ok(Json(stats.into()))
}

/// Send a signed `webhook.ping` to an endpoint and return the result.
///
/// Nothing is stored, and the request does not count as an attempt.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/ping", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The result of the request", body = PingOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The endpoint is a pull endpoint", body = HookInvalid),
    )
)]
pub(crate) async fn ping(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<Json<PingOut>, ApiError> {
    let named = endpoint_ref(&named)?;
    let report = state.hook().ping(&app_ref(&app)?, &named).await?;
    Ok(Json(report.ok_or_else(|| no_endpoint(&named))?.into()))
}

/// Check that this node serves requests, as published Svix clients do.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "operation",
    responses(
        (status = 204, description = "The node serves requests"),
        (status = 503, description = "The node does not serve requests",
            body = crate::error::Problem),
    )
)]
pub(crate) async fn health(State(state): State<AppState>) -> Result<StatusCode, ApiError> {
    if state.is_draining() {
        return Err(ApiError::draining());
    }
    state.queue().store().ping().await?;
    Ok(StatusCode::NO_CONTENT)
}
