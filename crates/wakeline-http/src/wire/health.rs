//! How this node is.

use serde::Serialize;
use utoipa::ToSchema;

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
