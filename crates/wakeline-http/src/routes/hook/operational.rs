//! `/api/v1/operational-webhook/endpoint…`: who hears of endpoints that fail.
//!
//! They are endpoints of an application of the server's own.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, Uid};
use wakeline_hook::OPERATIONAL_UID;

use super::{endpoint, endpoint_ref, keys};
use crate::error::ApiError;
use crate::input::{Body, Params, Parted, Repeatable};
use crate::state::AppState;
use crate::wire::hook::endpoint::{
    EndpointIn, EndpointOut, HeadersIn, HeadersOut, RotateIn, SecretOut,
};
use crate::wire::hook::list::List;
use crate::wire::hook::{HookInvalid, HookProblem};

fn application() -> ApplicationRef {
    ApplicationRef::Own(Uid::parse(OPERATIONAL_UID).expect("it keeps the rules of own ids"))
}

/// List operational endpoints by age.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint", tag = "webhooks",
    params(
        ("limit" = Option<u32>, Query, description = "At most so many, up to 250 (50)"),
        ("iterator" = Option<String>, Query, description = "Where to go on"),
        ("order" = Option<String>, Query, description = "ascending or descending"),
    ),
    responses(
        (status = 200, description = "A page", body = List<EndpointOut>),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    params: Params,
) -> Result<Json<List<EndpointOut>>, ApiError> {
    // The application is made with its first endpoint.
    if state.hook().store().application(&application()).await?.is_none() {
        let (iterator, prev_iterator) = (None, None);
        return Ok(Json(List { data: Vec::new(), done: true, iterator, prev_iterator }));
    }
    endpoint::list_of(&state, &application(), &params).await
}

/// Make an operational endpoint.
#[utoipa::path(
    post, path = "/api/v1/operational-webhook/endpoint", tag = "webhooks",
    request_body = EndpointIn,
    params(
        ("idempotency-key" = Option<String>, Header, description = "Makes repeating it harmless"),
    ),
    responses(
        (status = 201, description = "Made", body = EndpointOut),
        (status = 409, description = "Its uid is taken, or the key was used", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    Repeatable(key): Repeatable,
    body: Body,
) -> Result<Response, ApiError> {
    endpoint::create_in(&state, &application(), body.parse()?, key).await
}

/// One operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 200, description = "It", body = EndpointOut),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<Json<EndpointOut>, ApiError> {
    endpoint::get_in(&state, &application(), &endpoint_ref(&named)?).await
}

/// Replace an operational endpoint.
#[utoipa::path(
    put, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}", tag = "webhooks",
    request_body = EndpointIn,
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 200, description = "Replaced", body = EndpointOut),
        (status = 201, description = "Made", body = EndpointOut),
        (status = 404, description = "There is none", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Response, ApiError> {
    endpoint::put_in(&state, &application(), &endpoint_ref(&named)?, body.parse()?).await
}

/// Remove an operational endpoint.
#[utoipa::path(
    delete, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "There is none", body = HookProblem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<StatusCode, ApiError> {
    endpoint::delete_in(&state, &application(), &endpoint_ref(&named)?).await
}

/// An operational endpoint's signing secret.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 200, description = "The secret", body = SecretOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn secret(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<Json<SecretOut>, ApiError> {
    keys::secret_of(&state, &application(), &endpoint_ref(&named)?).await.map(Json)
}

/// Replace an operational endpoint's signing secret.
#[utoipa::path(
    post, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret/rotate",
    tag = "webhooks", request_body = RotateIn,
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 204, description = "Replaced"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 409, description = "Too many old secrets still sign", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn rotate(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let body: RotateIn = body.parse_or_default()?;
    keys::rotate_of(&state, &application(), &endpoint_ref(&named)?, body).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Headers that are sent along to an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/headers", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 200, description = "The headers", body = HeadersOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn headers(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
) -> Result<Json<HeadersOut>, ApiError> {
    keys::headers_of(&state, &application(), &endpoint_ref(&named)?).await
}

/// Replace the headers that are sent along to an operational endpoint.
#[utoipa::path(
    put, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/headers", tag = "webhooks",
    request_body = HeadersIn,
    params(("endpoint_id" = String, Path, description = "The endpoint's id or your own")),
    responses(
        (status = 204, description = "Replaced"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "Something is wrong with the request", body = HookInvalid),
    )
)]
pub(crate) async fn put_headers(
    State(state): State<AppState>,
    Parted(named): Parted<String>,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let body: HeadersIn = body.parse()?;
    keys::put_headers_of(&state, &application(), &endpoint_ref(&named)?, body).await
}
