//! Maintenance.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_store::{Maintenance, PushGate};

/// What becomes of pushes during a maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// They are stored, and delivered afterwards.
    Hold,
    /// They are refused.
    Refuse,
}

impl Mode {
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

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Refuse => "refuse",
        }
    }
}

/// Begins or ends a maintenance.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct MaintenanceIn {
    /// Whether it is to be.
    pub(crate) enabled: bool,
    /// What becomes of pushes: hold or refuse; as configured, if it is not given.
    pub(crate) mode: Option<Mode>,
}

/// Pauses pops, or ends that.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PauseIn {
    /// Whether they are to pause.
    pub(crate) enabled: bool,
}

/// What is suspended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MaintenanceAnswer {
    /// Whether pushes are held back or refused.
    maintenance_mode: bool,
    /// Whether pops pause.
    pop_maintenance_mode: bool,
    /// How pushes are treated now, or would be.
    mode: Mode,
    /// How many messages are held back, or were and are not in their partitions yet.
    buffered_messages: u64,
    /// Always true: they are in the store itself.
    buffer_healthy: bool,
    /// The same once more.
    buffer_stats: BufferStats,
    /// What was done, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

/// What is held back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BufferStats {
    /// Messages that are held back.
    pending: u64,
}

impl MaintenanceAnswer {
    pub(crate) fn new(stands: Maintenance, preset: PushGate, held: u64) -> Self {
        let mode = Mode::of(stands.pushes);
        Self {
            maintenance_mode: mode.is_some(),
            pop_maintenance_mode: stands.pops_paused,
            mode: mode.or(Mode::of(preset)).unwrap_or(Mode::Hold),
            buffered_messages: held,
            buffer_healthy: true,
            buffer_stats: BufferStats { pending: held },
            message: None,
        }
    }

    pub(crate) fn saying(self) -> Self {
        let message = match (self.maintenance_mode, self.mode) {
            (false, _) => "pushes go through; what was held back is delivered first",
            (true, Mode::Hold) => "pushes are stored and held back",
            (true, Mode::Refuse) => "pushes are refused",
        };
        Self { message: Some(message), ..self }
    }
}

/// Whether pops pause.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PauseAnswer {
    /// Whether they do.
    pop_maintenance_mode: bool,
    /// The same in words.
    message: &'static str,
}

impl From<Maintenance> for PauseAnswer {
    fn from(stands: Maintenance) -> Self {
        let message = match stands.pops_paused {
            true => "pops pause: they get nothing; leases can be settled and extended",
            false => "pops go on",
        };
        Self { pop_maintenance_mode: stands.pops_paused, message }
    }
}
