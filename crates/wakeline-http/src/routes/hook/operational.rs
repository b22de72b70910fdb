//! `/api/v1/operational-webhook/endpoint…`: endpoints that are notified of failing endpoints.
//!
//! They are endpoints of an application that belongs to the server.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use wakeline_core::{ApplicationRef, Uid};
use wakeline_hook::OPERATIONAL_UID;

use super::{endpoint, endpoint_ref, keys};
use crate::error::ApiError;
use crate::input::{IdempotencyHeader, JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::hook::endpoint::{
    EndpointBody, EndpointOut, HeadersIn, HeadersOut, RotateIn, SecretOut,
};
use crate::wire::hook::list::List;
use crate::wire::hook::{HookInvalid, HookProblem};

fn application() -> ApplicationRef {
    ApplicationRef::Own(Uid::parse(OPERATIONAL_UID).expect("the uid is valid"))
}

/// List operational endpoints in the order of their creation.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint", tag = "webhooks",
    params(
        ("limit" = Option<u32>, Query, description = "Page size, up to 250 (default 50)"),
        ("iterator" = Option<String>, Query, description = "The `iterator` of an earlier response"),
        ("order" = Option<String>, Query, description = "`ascending` or `descending`"),
    ),
    responses(
        (status = 200, description = "A page of results", body = List<EndpointOut>),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    params: QueryParams,
) -> Result<Json<List<EndpointOut>>, ApiError> {
    // The application is created together with its first endpoint.
    if state.hook().store().application(&application()).await?.is_none() {
        let (iterator, prev_iterator) = (None, None);
        return Ok(Json(List { data: Vec::new(), done: true, iterator, prev_iterator }));
    }
    endpoint::list_of(&state, &application(), &params).await
}

/// Create an operational endpoint.
#[utoipa::path(
    post, path = "/api/v1/operational-webhook/endpoint", tag = "webhooks",
    request_body = EndpointBody,
    params(
        ("idempotency-key" = Option<String>, Header,
            description = "Makes the request safe to retry"),
    ),
    responses(
        (status = 201, description = "Created", body = EndpointOut),
        (status = 409, description = "The uid is already in use, or the idempotency key was used \
            for another request",
            body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    IdempotencyHeader(key): IdempotencyHeader,
    body: JsonBody,
) -> Result<Response, ApiError> {
    endpoint::create_in(&state, &application(), body.parse()?, key).await
}

/// Get an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 200, description = "The endpoint", body = EndpointOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<EndpointOut>, ApiError> {
    endpoint::get_in(&state, &application(), &endpoint_ref(&named)?).await
}

/// Create or replace an operational endpoint.
#[utoipa::path(
    put, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}", tag = "webhooks",
    request_body = EndpointBody,
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 200, description = "Replaced", body = EndpointOut),
        (status = 201, description = "Created", body = EndpointOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    endpoint::put_in(&state, &application(), &endpoint_ref(&named)?, body.parse()?).await
}

/// Delete an operational endpoint.
#[utoipa::path(
    delete, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn delete(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<StatusCode, ApiError> {
    endpoint::delete_in(&state, &application(), &endpoint_ref(&named)?).await
}

/// Get the signing secret of an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 200, description = "The secret", body = SecretOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn secret(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<SecretOut>, ApiError> {
    keys::secret_of(&state, &application(), &endpoint_ref(&named)?).await.map(Json)
}

/// Replace the signing secret of an operational endpoint.
#[utoipa::path(
    post, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret/rotate",
    tag = "webhooks", request_body = RotateIn,
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 204, description = "Replaced"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 409, description = "Too many old secrets are still valid", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn rotate(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let body: RotateIn = body.parse_or_default()?;
    keys::rotate_of(&state, &application(), &endpoint_ref(&named)?, body).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Get the additional headers of an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/headers", tag = "webhooks",
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 200, description = "The headers", body = HeadersOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn headers(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
) -> Result<Json<HeadersOut>, ApiError> {
    keys::headers_of(&state, &application(), &endpoint_ref(&named)?).await
}

/// Replace the additional headers of an operational endpoint.
#[utoipa::path(
    put, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/headers", tag = "webhooks",
    request_body = HeadersIn,
    params(("endpoint_id" = String, Path, description = "The endpoint's id or uid")),
    responses(
        (status = 204, description = "Replaced"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn put_headers(
    State(state): State<AppState>,
    PathParams(named): PathParams<String>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    let body: HeadersIn = body.parse()?;
    keys::put_headers_of(&state, &application(), &endpoint_ref(&named)?, body).await
}
