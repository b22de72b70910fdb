//! How this node is.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::Maintenance;

use super::maintenance::Mode;

/// How this node is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthAnswer {
    /// `healthy`, `draining` or `unhealthy`.
    pub(crate) status: &'static str,
    /// `connected` or `unavailable`.
    pub(crate) database: &'static str,
    pub(crate) server: &'static str,
    pub(crate) version: &'static str,
    /// `sqlite` or `postgres`.
    pub(crate) store: &'static str,
    pub(crate) wake: WakeHealth,
    /// What of queues is suspended, for all nodes; absent if the store does not answer.
    pub(crate) maintenance: Option<MaintenanceHealth>,
    /// `on`, or `off` and why, if this node sends no webhooks.
    pub(crate) webhooks: String,
}

/// What of queues is suspended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaintenanceHealth {
    /// What becomes of pushes: `open`, `hold` (stored, and delivered after the end) or `refuse`.
    pub(crate) pushes: &'static str,
    /// Whether pops get nothing.
    pub(crate) pops_paused: bool,
}

impl From<Maintenance> for MaintenanceHealth {
    fn from(maintenance: Maintenance) -> Self {
        let pushes = Mode::of(maintenance.pushes).map_or("open", Mode::word);
        Self { pushes, pops_paused: maintenance.pops_paused }
    }
}

/// How waiting consumers learn of work at the moment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WakeHealth {
    /// The wake mode.
    pub(crate) mode: String,
    /// Pops that are parked.
    pub(crate) waiters: usize,
    /// Lines that this node remembers.
    pub(crate) lines: usize,
    /// Whether hints of other processes arrive.
    pub(crate) link: String,
    /// Why this node polls, if it does although its mode does not.
    pub(crate) degraded: Option<String>,
}
