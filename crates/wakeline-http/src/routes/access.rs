//! `/api/v1/keys…` and `/api/v1/audit`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use wakeline_store::{AuditFilter, Deed};

use crate::error::{ApiError, Problem};
use crate::input::{Body, Params, Parted};
use crate::state::AppState;
use crate::wire::access::{AuditAnswer, KeyIn, KeyMade, KeyRevoked, KeyRotateIn, KeysAnswer};

/// How long a former secret is valid if nothing is said.
const OVERLAP_SECS: u64 = 24 * 3600;

/// All API keys by name, ended ones too. No answer has their secrets.
#[utoipa::path(
    get, path = "/api/v1/keys", tag = "access",
    responses((status = 200, description = "The keys", body = KeysAnswer))
)]
pub(crate) async fn keys(State(state): State<AppState>) -> Result<Json<KeysAnswer>, ApiError> {
    let keys = state.access().store().keys().await?;
    Ok(Json(KeysAnswer { keys: keys.into_iter().map(Into::into).collect() }))
}

/// Make an API key. Its secret is in this answer, and in no other.
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "access", request_body = KeyIn,
    responses(
        (status = 201, description = "Made", body = KeyMade),
        (status = 400, description = "Something is wrong with the request", body = Problem),
        (status = 409, description = "A live key has this name", body = Problem),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    body: Body,
) -> Result<(StatusCode, Json<KeyMade>), ApiError> {
    let request = body.parse::<KeyIn>()?.check()?;
    let scopes: Vec<_> = request.scopes.iter().map(ToString::to_string).collect();
    Deed::tell(Some(request.name.clone()), Some(scopes.join(" ")));
    match state.access().create_key(request).await? {
        Some(minted) => Ok((StatusCode::CREATED, Json(minted.into()))),
        None => Err(ApiError::conflict("there is already an active key with this name")),
    }
}

/// End an API key for good: at once on this node, within seconds on others.
#[utoipa::path(
    delete, path = "/api/v1/keys/{id}", tag = "access",
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 200, description = "It has ended", body = KeyRevoked),
        (status = 404, description = "There is no live key of this id", body = Problem),
    )
)]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    Parted(id): Parted<String>,
) -> Result<Json<KeyRevoked>, ApiError> {
    match state.access().revoke_key(plausible(&id)?).await? {
        true => Ok(Json(KeyRevoked { id, revoked: true })),
        false => Err(missing()),
    }
}

/// Give an API key another secret. The one that it has stays valid for a while.
#[utoipa::path(
    post, path = "/api/v1/keys/{id}/rotate", tag = "access",
    params(("id" = String, Path, description = "The key's id")),
    request_body(content = KeyRotateIn, description = "May be omitted"),
    responses(
        (status = 200, description = "The key with its new secret", body = KeyMade),
        (status = 404, description = "There is no live key of this id", body = Problem),
    )
)]
pub(crate) async fn rotate(
    State(state): State<AppState>,
    Parted(id): Parted<String>,
    body: Body,
) -> Result<Json<KeyMade>, ApiError> {
    let overlap = body.parse_or_default::<KeyRotateIn>()?.overlap_seconds.unwrap_or(OVERLAP_SECS);
    let minted = state.access().rotate_key(plausible(&id)?, Duration::from_secs(overlap)).await?;
    Ok(Json(minted.ok_or_else(missing)?.into()))
}

/// What could be the id of a key.
fn plausible(id: &str) -> Result<&str, ApiError> {
    if id.bytes().all(|byte| byte.is_ascii_alphanumeric()) { Ok(id) } else { Err(missing()) }
}

fn missing() -> ApiError {
    ApiError::not_found("there is no active key with this id: GET /api/v1/keys lists all keys")
}

/// Administrative acts, newest first: who did what to what.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "access",
    params(
        ("actor" = Option<String>, Query, description = "Only of this actor"),
        ("act" = Option<String>, Query, description = "Only of this act"),
        ("target" = Option<String>, Query, description = "Only of this target"),
        ("before" = Option<i64>, Query, description = "Only before this number: the next page"),
        ("limit" = Option<u32>, Query, description = "At most so many, up to 1000 (100)"),
    ),
    responses(
        (status = 200, description = "The acts", body = AuditAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn audit(
    State(state): State<AppState>,
    params: Params,
) -> Result<Json<AuditAnswer>, ApiError> {
    let text = |name| params.text(name).map(str::to_owned);
    let before = match params.text("before") {
        Some(_) => Some(params.number("before", 0, 0..=i64::MAX as u64)? as i64),
        None => None,
    };
    let limit = params.number("limit", 100, 1..=1000)? as u32;
    let (actor, act, target) = (text("actor"), text("act"), text("target"));
    let filter = AuditFilter { before, actor, act, target, limit };
    let entries = state.access().store().audit(filter).await?;
    Ok(Json(AuditAnswer { entries: entries.into_iter().map(Into::into).collect() }))
}
