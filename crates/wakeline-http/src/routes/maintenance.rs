//! `/api/v1/system/maintenance…`: holding or refusing pushes, and pausing pops.

use axum::Json;
use axum::extract::State;
use wakeline_store::{AuditAction, PushGate, SetMaintenance};

use crate::error::{ApiError, Problem};
use crate::input::JsonBody;
use crate::state::AppState;
use crate::wire::maintenance::{
    MaintenanceAnswer, MaintenanceIn, MaintenanceMode, PauseAnswer, PauseIn,
};

/// Get the maintenance state and the number of buffered messages.
#[utoipa::path(
    get, path = "/api/v1/system/maintenance", tag = "operation",
    responses((status = 200, description = "The maintenance state", body = MaintenanceAnswer))
)]
pub(crate) async fn maintenance(
    State(state): State<AppState>,
) -> Result<Json<MaintenanceAnswer>, ApiError> {
    answer(&state).await.map(Json)
}

async fn answer(state: &AppState) -> Result<MaintenanceAnswer, ApiError> {
    let now = state.queue().maintenance().await?;
    let held = state.queue().held_messages().await?;
    Ok(MaintenanceAnswer::new(now, state.settings().maintenance_pushes, held))
}

/// Begin or end maintenance, during which pushes are buffered or refused.
///
/// Buffered messages are durable. When maintenance ends, they are delivered in the order in which
/// they were accepted, before messages that are pushed later. The change applies to all nodes
/// immediately.
#[utoipa::path(
    post, path = "/api/v1/system/maintenance", tag = "operation", request_body = MaintenanceIn,
    responses(
        (status = 200, description = "The new maintenance state", body = MaintenanceAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn set_maintenance(
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Json<MaintenanceAnswer>, ApiError> {
    let MaintenanceIn { enabled, mode } = body.parse()?;
    let preset = state.settings().maintenance_pushes;
    let gate = if enabled { mode.map_or(preset, MaintenanceMode::gate) } else { PushGate::Open };
    let detail = MaintenanceMode::of(gate).map_or("off", MaintenanceMode::as_str);
    AuditAction::amend(Some("pushes".to_owned()), Some(detail.to_owned()));
    let set = SetMaintenance { pushes: Some(gate), pops_paused: None };
    state.set_maintenance(set).await?;
    Ok(Json(answer(&state).await.map_err(ApiError::after_write)?.with_message()))
}

/// Get whether pops are paused.
#[utoipa::path(
    get, path = "/api/v1/system/maintenance/pop", tag = "operation",
    responses((status = 200, description = "Whether pops are paused", body = PauseAnswer))
)]
pub(crate) async fn pause(State(state): State<AppState>) -> Result<Json<PauseAnswer>, ApiError> {
    Ok(Json(state.queue().maintenance().await?.into()))
}

/// Pause or resume pops.
///
/// While pops are paused, they return no messages. Existing leases can still be settled and
/// extended.
#[utoipa::path(
    post, path = "/api/v1/system/maintenance/pop", tag = "operation", request_body = PauseIn,
    responses(
        (status = 200, description = "Whether pops are paused now", body = PauseAnswer),
        (status = 400, description = "The request is invalid", body = Problem),
    )
)]
pub(crate) async fn set_pause(
    State(state): State<AppState>,
    body: JsonBody,
) -> Result<Json<PauseAnswer>, ApiError> {
    let PauseIn { enabled } = body.parse()?;
    let detail = if enabled { "pause" } else { "off" };
    AuditAction::amend(Some("pops".to_owned()), Some(detail.to_owned()));
    let set = SetMaintenance { pushes: None, pops_paused: Some(enabled) };
    Ok(Json(state.set_maintenance(set).await?.now.into()))
}
