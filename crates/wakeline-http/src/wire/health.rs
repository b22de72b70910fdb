//! Wire types of the health report.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::Maintenance;

use super::maintenance::MaintenanceMode;

/// The health of this node.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HealthAnswer {
    /// `healthy`, `draining` or `unhealthy`.
    pub(crate) status: &'static str,
    /// `connected` or `unavailable`.
    pub(crate) database: &'static str,
    /// Always `wakeline`.
    pub(crate) server: &'static str,
    /// The version of the server.
    pub(crate) version: &'static str,
    /// The kind of the store: `sqlite` or `postgres`.
    pub(crate) store: &'static str,
    /// How waiting consumers of this node are notified.
    pub(crate) wake: WakeHealth,
    /// The maintenance state, which is the same for all nodes; null if the store is unreachable.
    pub(crate) maintenance: Option<MaintenanceHealth>,
    /// `on`, or `off` with the reason if this node sends no webhooks.
    pub(crate) webhooks: String,
}

/// The maintenance state of queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaintenanceHealth {
    /// How pushes are treated: `open` (as usual), `hold` (stored, and delivered when maintenance
    /// ends) or `refuse`.
    pub(crate) pushes: &'static str,
    /// Whether pops are paused and return no messages.
    pub(crate) pops_paused: bool,
}

impl From<Maintenance> for MaintenanceHealth {
    fn from(maintenance: Maintenance) -> Self {
        let mode = MaintenanceMode::of(maintenance.pushes);
        let pushes = mode.map_or("open", MaintenanceMode::as_str);
        Self { pushes, pops_paused: maintenance.pops_paused }
    }
}

/// How waiting consumers are notified at the moment.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WakeHealth {
    /// The wake mode.
    pub(crate) mode: String,
    /// The number of waiting pops.
    pub(crate) waiters: usize,
    /// The number of lines that this node tracks. A line is a selection of partitions that
    /// consumers wait for.
    pub(crate) lines: usize,
    /// The state of the connection that receives notifications from other processes: `up`, `down`
    /// or `off`.
    pub(crate) link: String,
    /// Why this node polls although its wake mode does not, if it does.
    pub(crate) degraded: Option<String>,
}
