//! `/api/v1/app/{app_id}/endpoint…`: endpoints.

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
use crate::input::{Body, Params, Parted, Repeatable};
use crate::state::AppState;
use crate::wire::hook::endpoint::{EndpointIn, EndpointOut, EndpointPatch};
use crate::wire::hook::list::{List, Paging};
use crate::wire::hook::{HookInvalid, HookProblem};

/// List an application's endpoints by age.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("order" = Option<String>, Query, description = "ascending or descending"),
    ),
    responses(
        (status = 200, description = "A page", body = List<EndpointOut>),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    params: Params,
) -> Result<Json<List<EndpointOut>>, ApiError> {
    list_of(&state, &app_ref(&named)?, &params).await
}

pub(crate) async fn list_of(
    state: &AppState,
    application: &ApplicationRef,
    params: &Params,
) -> Result<Json<List<EndpointOut>>, ApiError> {
    let paging = Paging::<EndpointId>::read(params, PageOrder::Ascending, |t| t.parse().ok())?;
    let (request, given) = paging.split();
    let page = state.hook().store().endpoints(application, request).await?;
    let page = page.ok_or_else(|| no_application(application))?;
    let key = |endpoint: &Endpoint| endpoint.id.to_string();
    List::new(page, given.as_deref(), key, EndpointOut::new).map(Json)
}

/// Make an endpoint. Its secret is read by itself.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint", tag = "webhooks", request_body = EndpointIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("idempotency-key" = Option<String>, Header, description = "Makes repeating it harmless"),
    ),
    responses(
        (status = 201, description = "Made", body = EndpointOut),
        (status = 404, description = "There is no such application", body = HookProblem),
        (status = 409, description = "Its uid is taken, or the key was used", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
        (status = 503, description = "The server has no encryption key", body = HookProblem),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    Repeatable(key): Repeatable,
    body: Body,
) -> Result<Response, ApiError> {
    let new = body.parse::<EndpointIn>()?;
    create_in(&state, &app_ref(&named)?, new, key).await
}

pub(crate) async fn create_in(
    state: &AppState,
    application: &ApplicationRef,
    new: EndpointIn,
    key: Option<IdempotencyKey>,
) -> Result<Response, ApiError> {
    let created = state.hook().create_endpoint(application, new.into_new(None)?, key).await?;
    let made = made(application, created)?;
    Ok((StatusCode::CREATED, Json(EndpointOut::new(made)?)).into_response())
}

/// What was made, or why not.
pub(crate) fn made(
    application: &ApplicationRef,
    created: Created<Endpoint>,
) -> Result<Endpoint, ApiError> {
    match created {
        Created::New(made) | Created::Repeated(made) => Ok(made),
        Created::Taken(found) => {
            Err(ApiError::conflict(format!("the endpoint {} has this uid", found.id)))
        }
        Created::KeyReused => Err(key_reused()),
        Created::NoApplication => Err(no_application(application)),
    }
}

/// One endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "It", body = EndpointOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
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

/// Make or replace an endpoint.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    request_body = EndpointIn,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "Replaced", body = EndpointOut),
        (status = 201, description = "Made", body = EndpointOut),
        (status = 404, description = "There is none with this id", body = HookProblem),
        (status = 409, description = "Its uid is taken", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body.parse::<EndpointIn>()?;
    put_in(&state, &app_ref(&app)?, &endpoint_ref(&named)?, body).await
}

pub(crate) async fn put_in(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
    body: EndpointIn,
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
    let made = made(application, state.hook().create_endpoint(application, new, None).await?)?;
    Ok((StatusCode::CREATED, Json(EndpointOut::new(made)?)).into_response())
}

/// Change some of an endpoint.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    request_body = EndpointPatch,
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 200, description = "Changed", body = EndpointOut),
        (status = 404, description = "There is none", body = HookProblem),
        (status = 409, description = "Its uid is taken", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
    body: Body,
) -> Result<Json<EndpointOut>, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let body = body.parse::<EndpointPatch>()?;
    let change = |now: &Endpoint| body.clone().into_patch(&now.options);
    let updated = state.hook().change_endpoint(&application, &named, change).await?;
    EndpointOut::new(found(&named, updated)?).map(Json)
}

/// Remove an endpoint. What waits for it is cancelled.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or your own"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or your own"),
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Parted((app, named)): Parted<(String, String)>,
) -> Result<StatusCode, ApiError> {
    delete_in(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await
}

pub(crate) async fn delete_in(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<StatusCode, ApiError> {
    match state.hook().delete_endpoint(application, named).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_endpoint(named)),
    }
}

fn found(named: &EndpointRef, outcome: UpdateOutcome<Endpoint>) -> Result<Endpoint, ApiError> {
    match outcome {
        UpdateOutcome::Updated(endpoint) => Ok(endpoint),
        UpdateOutcome::Missing => Err(no_endpoint(named)),
        UpdateOutcome::Taken => Err(ApiError::conflict("another endpoint has this uid")),
        UpdateOutcome::Stale => Err(ApiError::from(HookError::Contended)),
    }
}
