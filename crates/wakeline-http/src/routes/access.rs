//! `/api/v1/keys…` and `/api/v1/audit`: API keys and the audit log.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_store::{AuditAction, AuditFilter};

use crate::error::{ApiError, Problem};
use crate::input::{JsonBody, PathParams, QueryParams};
use crate::state::AppState;
use crate::wire::access::{AuditAnswer, KeyIn, KeyMade, KeyRevoked, KeyRotateIn, KeysAnswer};

/// How long a former secret stays valid if the request does not say.
const OVERLAP_SECS: u64 = 24 * 3600;

/// List all API keys by name, including revoked and expired ones, without their secrets.
#[utoipa::path(
    get, path = "/api/v1/keys", tag = "access",
    responses((status = 200, description = "The keys", body = KeysAnswer))
)]
pub(crate) async fn keys(State(state): State<AppState>) -> Result<Json<KeysAnswer>, ApiError> {
    let keys = state.access().store().keys().await?;
    Ok(Json(KeysAnswer { keys: keys.into_iter().map(Into::into).collect() }))
}

/// Create an API key. Only this response contains its secret.
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "access", request_body = KeyIn,
    responses(
        (status = 201, description = "Created", body = KeyMade),
        (status = 400, description = "The request is invalid", body = Problem),
        (status = 409, description = "An active key already has this name", body = Problem),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<(StatusCode, Json<KeyMade>), ApiError> {
    let request = body.parse::<KeyIn>()?.check()?;
    let scopes: Vec<_> = request.scopes.iter().map(ToString::to_string).collect();
    AuditAction::amend(Some(request.name.clone()), Some(scopes.join(" ")));
    match state.access().create_key(request).await? {
        Some(minted) => Ok((StatusCode::CREATED, Json(minted.into()))),
        None => Err(ApiError::conflict("there is already an active key with this name")),
    }
}

/// Revoke an API key permanently. This node rejects it immediately, other nodes within seconds.
#[utoipa::path(
    delete, path = "/api/v1/keys/{id}", tag = "access",
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "The key was revoked", body = KeyRevoked),
        (status = 404, description = "There is no active key with this id", body = Problem),
    )
)]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<KeyRevoked>, ApiError> {
    if state.access().revoke_key(check_key_id(&id)?).await? {
        Ok(Json(KeyRevoked { id, revoked: true }))
    } else {
        Err(missing())
    }
}

/// Replace the secret of an API key. The previous secret stays valid for a limited time.
#[utoipa::path(
    post, path = "/api/v1/keys/{id}/rotate", tag = "access",
    params(("id" = String, Path, description = "The key's id")),
    request_body(content = KeyRotateIn, description = "Optional"),
    responses(
        (status = 200, description = "The key with its new secret", body = KeyMade),
        (status = 404, description = "There is no active key with this id", body = Problem),
    )
)]
pub(crate) async fn rotate(
    State(state): State<AppState>,
    PathParams(id): PathParams<String>,
    body: JsonBody,
) -> Result<Json<KeyMade>, ApiError> {
    let overlap = body.parse_or_default::<KeyRotateIn>()?.overlap_seconds.unwrap_or(OVERLAP_SECS);
    let overlap = Duration::from_secs(overlap);
    let minted = state.access().rotate_key(check_key_id(&id)?, overlap).await?;
    Ok(Json(minted.ok_or_else(missing)?.into()))
}

/// Returns the text if it can be the id of a key.
fn check_key_id(id: &str) -> Result<&str, ApiError> {
    if id.bytes().all(|byte| byte.is_ascii_alphanumeric()) { Ok(id) } else { Err(missing()) }
}

fn missing() -> ApiError {
    ApiError::not_found("there is no active key with this id: GET /api/v1/keys lists all keys")
}

/// List administrative actions, newest first, with their actors and targets.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "access",
    params(
        ("actor" = Option<String>, Query, description = "Only entries by this actor"),
        ("act" = Option<String>, Query, description = "Only entries for this action"),
        ("target" = Option<String>, Query, description = "Only entries for this target"),
        ("before" = Option<i64>, Query,
            description = "Only entries with a smaller number; use the last number of the \
                previous page"),
        ("limit" = Option<u32>, Query, description = "Page size, up to 1000 (default 100)"),
    ),
    responses(
        (status = 200, description = "The audit entries", body = AuditAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn audit(
    State(state): State<AppState>,
    params: QueryParams,
) -> Result<Json<AuditAnswer>, ApiError> {
    let text = |name| params.text(name).map(str::to_owned);
    let before = match params.text("before") {
        Some(_) => Some(params.number("before", 0, 0..=i64::MAX as u64)? as i64),
        None => None,
    };
    let limit = params.number("limit", 100, 1..=1000)? as u32;
    let (actor, action, target) = (text("actor"), text("act"), text("target"));
    let filter = AuditFilter { before, actor, action, target, limit };
    let entries = state.access().store().audit(filter).await?;
    Ok(Json(AuditAnswer { entries: entries.into_iter().map(Into::into).collect() }))
}
