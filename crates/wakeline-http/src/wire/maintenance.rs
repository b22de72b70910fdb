//! Wire types of maintenance.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_store::{Maintenance, PushGate};

/// How pushes are treated during maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Mode)]
pub(crate) enum MaintenanceMode {
    /// Pushes are stored, and delivered when maintenance ends.
    Hold,
    /// Pushes are refused.
    Refuse,
}

impl MaintenanceMode {
    pub(crate) fn of(gate: PushGate) -> Option<Self> {
        match gate {
            PushGate::Open => None,
            PushGate::Hold => Some(Self::Hold),
            PushGate::Refuse => Some(Self::Refuse),
        }
    }

    pub(crate) fn gate(self) -> PushGate {
        match self {
            Self::Hold => PushGate::Hold,
            Self::Refuse => PushGate::Refuse,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Refuse => "refuse",
        }
    }
}

/// A change of the maintenance state.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct MaintenanceIn {
    /// True to begin maintenance, false to end it.
    pub(crate) enabled: bool,
    /// How pushes are treated: `hold` (stored for later delivery) or `refuse`. If omitted, the
    /// value of the server's setting `maintenance_pushes`.
    pub(crate) mode: Option<MaintenanceMode>,
}

/// A change of whether pops are paused.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PauseIn {
    /// True to pause pops, false to resume them.
    pub(crate) enabled: bool,
}

/// The maintenance state.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaintenanceAnswer {
    /// Whether pushes are held or refused.
    maintenance_mode: bool,
    /// Whether pops are paused.
    pop_maintenance_mode: bool,
    /// How pushes are treated during maintenance, whether or not it is active.
    mode: MaintenanceMode,
    /// The number of messages that were stored during maintenance and are not delivered to their
    /// partitions yet.
    buffered_messages: u64,
    /// Always true: held messages are in the store.
    buffer_healthy: bool,
    /// The number of held messages again, for clients that read this field.
    buffer_stats: BufferStats,
    /// A description of the change for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// The held messages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BufferStats {
    /// The number of held messages.
    pending: u64,
}

impl MaintenanceAnswer {
    pub(crate) fn new(now: Maintenance, preset: PushGate, held: u64) -> Self {
        let mode = MaintenanceMode::of(now.pushes);
        Self {
            maintenance_mode: mode.is_some(),
            pop_maintenance_mode: now.pops_paused,
            mode: mode.or(MaintenanceMode::of(preset)).unwrap_or(MaintenanceMode::Hold),
            buffered_messages: held,
            buffer_healthy: true,
            buffer_stats: BufferStats { pending: held },
            message: None,
        }
    }

    /// Adds a description of the state, for the response to a change.
    pub(crate) fn with_message(self) -> Self {
        let message = match (self.maintenance_mode, self.mode) {
            (false, _) => "pushes are accepted; messages that were held back are delivered first",
            (true, MaintenanceMode::Hold) => "pushes are stored and held back",
            (true, MaintenanceMode::Refuse) => "pushes are refused",
        };
        Self { message: Some(message), ..self }
    }
}

/// Whether pops are paused.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PauseAnswer {
    /// Whether pops are paused.
    pop_maintenance_mode: bool,
    /// A description of the state for people.
    message: &'static str,
}

impl From<Maintenance> for PauseAnswer {
    fn from(now: Maintenance) -> Self {
        let message = if now.pops_paused {
            "pops are paused and return no messages; leases can be settled and extended"
        } else {
            "pops are not paused"
        };
        Self { pop_maintenance_mode: now.pops_paused, message }
    }
}
