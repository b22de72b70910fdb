//! `/api/v1/system/maintenance…`

use axum::Json;
use axum::extract::State;
use wakeline_store::{Deed, PushGate, SetMaintenance};

use crate::error::{ApiError, Problem};
use crate::input::Body;
use crate::state::AppState;
use crate::wire::maintenance::{MaintenanceAnswer, MaintenanceIn, Mode, PauseAnswer, PauseIn};

/// What is suspended, and how much is held back.
#[utoipa::path(
    get, path = "/api/v1/system/maintenance", tag = "operation",
    responses((status = 200, description = "What is suspended", body = MaintenanceAnswer))
)]
pub(crate) async fn maintenance(
    State(state): State<AppState>,
) -> Result<Json<MaintenanceAnswer>, ApiError> {
    answer(&state).await.map(Json)
}

async fn answer(state: &AppState) -> Result<MaintenanceAnswer, ApiError> {
    let stands = state.queue().maintenance().await?;
    let held = state.queue().held_messages().await?;
    Ok(MaintenanceAnswer::new(stands, state.settings().maintenance_pushes, held))
}

/// Begin or end a maintenance: pushes are held back or refused meanwhile.
///
/// What is held back is durable. After the end it is delivered in the order in which it was
/// accepted, before what is pushed then. All nodes obey at once.
#[utoipa::path(
    post, path = "/api/v1/system/maintenance", tag = "operation", request_body = MaintenanceIn,
    responses(
        (status = 200, description = "What is suspended now", body = MaintenanceAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn set_maintenance(
    State(state): State<AppState>,
    body: Body,
) -> Result<Json<MaintenanceAnswer>, ApiError> {
    let MaintenanceIn { enabled, mode } = body.parse()?;
    let preset = state.settings().maintenance_pushes;
    let gate = match enabled {
        true => mode.map_or(preset, Mode::gate),
        false => PushGate::Open,
    };
    let detail = Mode::of(gate).map_or("off", Mode::word);
    Deed::tell(Some("pushes".to_owned()), Some(detail.to_owned()));
    let set = SetMaintenance { pushes: Some(gate), pops_paused: None };
    state.set_maintenance(set).await?;
    Ok(Json(answer(&state).await.map_err(ApiError::after_write)?.saying()))
}

/// Whether pops pause.
#[utoipa::path(
    get, path = "/api/v1/system/maintenance/pop", tag = "operation",
    responses((status = 200, description = "Whether they do", body = PauseAnswer))
)]
pub(crate) async fn pause(State(state): State<AppState>) -> Result<Json<PauseAnswer>, ApiError> {
    Ok(Json(state.queue().maintenance().await?.into()))
}

/// Pause pops, or end that. Meanwhile they get nothing; who holds a lease may settle and extend it.
#[utoipa::path(
    post, path = "/api/v1/system/maintenance/pop", tag = "operation", request_body = PauseIn,
    responses(
        (status = 200, description = "Whether they pause now", body = PauseAnswer),
        (status = 400, description = "Something is wrong with the request", body = Problem),
    )
)]
pub(crate) async fn set_pause(
    State(state): State<AppState>,
    body: Body,
) -> Result<Json<PauseAnswer>, ApiError> {
    let PauseIn { enabled } = body.parse()?;
    let detail = if enabled { "pause" } else { "off" };
    Deed::tell(Some("pops".to_owned()), Some(detail.to_owned()));
    let set = SetMaintenance { pushes: None, pops_paused: Some(enabled) };
    Ok(Json(state.set_maintenance(set).await?.now.into()))
}
