//! `…/endpoint/{endpoint_id}/secret` and `…/headers`: signing secrets and additional headers, which
//! are stored encrypted.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_hook::Rotate;
use wakeline_store::hook::RotateOutcome;

use super::{app_ref, endpoint_ref, no_endpoint};
use crate::error::ApiError;
use crate::input::{JsonBody, PathParams};
use crate::state::AppState;
use crate::wire::hook::endpoint::{HeadersIn, HeadersOut, HeadersPatch, RotateIn, SecretOut};
use crate::wire::hook::{HookInvalid, HookProblem};

/// How long an old secret continues to sign if a rotation does not say.
const GRACE_SECS_DEFAULT: u64 = 24 * 60 * 60;

/// Get the signing secret of an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The secret", body = SecretOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn secret(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<Json<SecretOut>, ApiError> {
    secret_of(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await.map(Json)
}

pub(crate) async fn secret_of(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<SecretOut, ApiError> {
    let key = state.hook().secret(application, named).await?;
    let key = key.ok_or_else(|| no_endpoint(named))?;
    Ok(SecretOut { key })
}

/// Replace the signing secret of an endpoint. The old secret continues to sign for a limited time.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate", tag = "webhooks",
    request_body = RotateIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The new secret", body = SecretOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 409, description = "Too many old secrets are still valid", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn rotate(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<Json<SecretOut>, ApiError> {
    let body: RotateIn = body.parse_or_default()?;
    rotate_of(&state, &app_ref(&app)?, &endpoint_ref(&named)?, body).await.map(Json)
}

pub(crate) async fn rotate_of(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
    body: RotateIn,
) -> Result<SecretOut, ApiError> {
    let grace = body.grace_period_seconds.unwrap_or(GRACE_SECS_DEFAULT);
    let grace = Duration::from_secs(grace);
    let rotate = Rotate { key: body.key, asymmetric: body.asymmetric, grace };
    match state.hook().rotate_secret(application, named, rotate).await? {
        RotateOutcome::Rotated => {
            secret_of(state, application, named).await.map_err(ApiError::after_write)
        }
        RotateOutcome::Missing => Err(no_endpoint(named)),
        RotateOutcome::TooMany => Err(ApiError::conflict(
            "too many old secrets are still valid: wait until one expires, or set \
             gracePeriodSeconds to 0",
        )),
    }
}

/// Get the additional headers of an endpoint. The values of credentials are not returned.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", tag = "webhooks",
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 200, description = "The headers", body = HeadersOut),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
    )
)]
pub(crate) async fn headers(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
) -> Result<Json<HeadersOut>, ApiError> {
    headers_of(&state, &app_ref(&app)?, &endpoint_ref(&named)?).await
}

pub(crate) async fn headers_of(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<Json<HeadersOut>, ApiError> {
    let found = state.hook().headers(application, named).await?;
    let found = found.ok_or_else(|| no_endpoint(named))?;
    Ok(Json(HeadersOut { headers: found.headers, sensitive: found.sensitive }))
}

/// Replace the additional headers of an endpoint.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", tag = "webhooks",
    request_body = HeadersIn,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 204, description = "Replaced"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn put_headers(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    let body: HeadersIn = body.parse()?;
    put_headers_of(&state, &app_ref(&app)?, &endpoint_ref(&named)?, body).await
}

pub(crate) async fn put_headers_of(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
    body: HeadersIn,
) -> Result<StatusCode, ApiError> {
    let set = state.hook().set_headers(application, named, body.headers).await?;
    done(set, named)
}

/// Add, change and delete additional headers of an endpoint.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", tag = "webhooks",
    request_body = HeadersPatch,
    params(
        ("app_id" = String, Path, description = "The application's id or uid"),
        ("endpoint_id" = String, Path, description = "The endpoint's id or uid"),
    ),
    responses(
        (status = 204, description = "Updated"),
        (status = 404, description = "There is no such endpoint", body = HookProblem),
        (status = 422, description = "The request is invalid", body = HookInvalid),
    )
)]
pub(crate) async fn patch_headers(
    State(state): State<AppState>,
    PathParams((app, named)): PathParams<(String, String)>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    let (application, named) = (app_ref(&app)?, endpoint_ref(&named)?);
    let body: HeadersPatch = body.parse()?;
    let removed = body.delete_headers.unwrap_or_default();
    let mut patch: BTreeMap<_, _> = removed.into_iter().map(|name| (name, None)).collect();
    patch.extend(body.headers);
    let patched = state.hook().patch_headers(&application, &named, patch).await?;
    done(patched, &named)
}

fn done(found: bool, named: &EndpointRef) -> Result<StatusCode, ApiError> {
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(no_endpoint(named)) }
}
