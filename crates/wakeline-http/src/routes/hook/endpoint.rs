//! `/api/v1/app/{app_id}/endpoint…`: the endpoints of applications.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, EndpointId, EndpointRef, IdempotencyKey};
use wakeline_hook::HookError;
use wakeline_store::hook::{Created, Endpoint, PageOrder, UpdateOutcome};

use super::no_endpoint;
use super::{app_ref, endpoint_ref, find_endpoint, key_reused, no_application};
use crate::error::ApiError;
use crate::input::{IdempotencyHeader, JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::endpoint::{EndpointBody, EndpointOut, EndpointPatchBody};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List the endpoints of an application in the order of their creation.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("order" = Option<String>, Query, description = "`ascending` or `descending`"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<EndpointOut>),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    params: QueryParams,
) -> Result<Json<List<EndpointOut>>, ApiError> {
    list_of(&state, &app_ref(&named)?, &params).await
}

pub(crate) async fn list_of(
    state: &AppState,
    application: &ApplicationRef,
    params: &QueryParams,
) -> Result<Json<List<EndpointOut>>, ApiError> {
    let paging = Paging::<EndpointId>::read(params, PageOrder::Ascending, |t| t.parse().ok())?;
    let (request, given) = paging.split();
    let page = state.hook().store().endpoints(application, request).await?;
    let page = page.ok_or_else(|| no_application(application))?;
    let key = |endpoint: &Endpoint| endpoint.id.to_string();
    List::new(page, given.as_deref(), key, EndpointOut::new).map(Json)
}

/// Create an endpoint. A separate route returns its signing secret.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint", tag = "webhooks", request_body = EndpointBody,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("idempotency-key" = Option<String>, Header,
            description = "Makes the request safe to retry"),
    ),
    responses(
        (status = 201, description = "Created", body = EndpointOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 409, description = "The uid is already in use, or the idempotency key was used \
            for another request",
            body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
        (status = 503, description = "The server has no encryption key", body = HookProblem),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    IdempotencyHeader(key): IdempotencyHeader,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let new = body.parse::<EndpointBody>()?;
    create_in(&state, &app_ref(&named)?, new, key).await
}

pub(crate) async fn create_in(
    state: &AppState,
    application: &ApplicationRef,
    new: EndpointBody,
    key: Option<IdempotencyKey>,
) -> Result<Response, ApiError> {
    let created = state.hook().create_endpoint(application, new.into_new(None)?, key).await?;
    let made = created_endpoint(application, created)?;
    Ok((StatusCode::CREATED, Json(EndpointOut::new(made)?)).into_response())
}

/// Returns the endpoint that was created, or the error if none was.
pub(crate) fn created_endpoint(
    application: &ApplicationRef,
    created: Created<Endpoint>,
) -> Result<Endpoint, ApiError> {
    match created {
        Created::New(made) | Created::Repeated(made) => Ok(made),
        Created::Taken(found) => {
            Err(ApiError::conflict(format!("the endpoint {} already has this uid", found.id)))
        }
        Created::KeyReused => Err(key_reused()),
        Created::NoApplication => Err(no_application(application)),
    }
}

/// Get an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The endpoint", body = EndpointOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<Json<EndpointOut>, ApiError> {
    get_in(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await
}

pub(crate) async fn get_in(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<Json<EndpointOut>, ApiError> {
    EndpointOut::new(find_endpoint(state, application, named).await?).map(Json)
}

/// Create or replace an endpoint.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    request_body = EndpointBody,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "Replaced", body = EndpointOut),
        (status = 201, description = "Created", body = EndpointOut),
        (status = 404, description = "There is no such object, and an id chosen by the server \
            cannot be created",
            body = HookProblem),
        (status = 409, description = "The uid is already in use", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let body = body.parse::<EndpointBody>()?;
    put_in(&state, &app_ref(&app)?, &endpoint_ref(&named)?, body).await
}

pub(crate) async fn put_in(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
    body: EndpointBody,
) -> Result<Response, ApiError> {
    let replace = |now: &Endpoint| body.clone().into_patch(now.options.clone());
    match state.hook().change_endpoint(application, named, replace).await? {
        UpdateOutcome::Missing => {}
        updated => return Ok(Json(EndpointOut::new(found(named, updated)?)?).into_response()),
    }
    let EndpointRef::Own(own) = named else {
        return Err(no_endpoint(named));
    };
    let new = body.into_new(Some(own.clone()))?;
    let made =
        created_endpoint(application, state.hook().create_endpoint(application, new, None).await?)?;
    Ok((StatusCode::CREATED, Json(EndpointOut::new(made)?)).into_response())
}

/// Change the given fields of an endpoint.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    request_body = EndpointPatchBody,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "Updated", body = EndpointOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 409, description = "The uid is already in use", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<EndpointOut>, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let body = body.parse::<EndpointPatchBody>()?;
    let change = |now: &Endpoint| body.clone().into_patch(&now.options);
    let updated = state.hook().change_endpoint(&application, &named, change).await?;
    EndpointOut::new(found(&named, updated)?).map(Json)
}

/// Delete an endpoint and cancel its pending deliveries.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<StatusCode, ApiError> {
    delete_in(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await
}

pub(crate) async fn delete_in(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<StatusCode, ApiError> {
    if state.hook().delete_endpoint(application, named).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_endpoint(named))
    }
}

fn found(named: &EndpointRef, outcome: UpdateOutcome<Endpoint>) -> Result<Endpoint, ApiError> {
    match outcome {
        UpdateOutcome::Updated(endpoint) => Ok(endpoint),
        UpdateOutcome::Missing => Err(no_endpoint(named)),
        UpdateOutcome::Taken => Err(ApiError::conflict("another endpoint already has this uid")),
        UpdateOutcome::Stale => Err(ApiError::from(HookError::Contended)),
    }
}
