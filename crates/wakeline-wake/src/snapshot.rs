//! The state of a hub at one moment, for health pages and tests.

use std::time::Duration;

use serde::Serialize;

use crate::config::millis;
use crate::mode::WakeMode;
use crate::poll::Link;

/// The state of a hub at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// How waiters are woken.
    pub mode: WakeMode,
    /// The number of polls of consumers that are parked or have a claim in flight.
    pub waiters: usize,
    /// The number of lines that have such waiters.
    pub lines: usize,
    /// The number of lines without waiters whose state is still remembered.
    pub lines_remembered: usize,
    /// The number of claims in flight.
    pub claims_in_flight: usize,
    /// The number of claims that wait for one in flight to end.
    pub claims_queued: usize,
    /// Whether hints of other processes arrive.
    pub link: Link,
    /// Set while the hub polls because hints do not arrive or claims fail.
    pub degraded: Option<Degradation>,
    /// Whether [`crate::Hub::drain`] was called.
    pub draining: bool,
    /// What has happened since the start.
    pub counters: HubCounters,
}

/// Why the hub polls, and for how long it has done so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Degradation {
    /// What started it, in words.
    pub reason: String,
    /// How long ago it started.
    #[serde(rename = "since_ms", with = "millis")]
    pub since: Duration,
}

/// Totals since the start of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct HubCounters {
    /// The hints received, by source.
    pub hints: HintCounters,
    /// The wakes, by reason: of a line in Fused mode, of single waiters in the other modes.
    pub wakes: WakeCounters,
    /// The claims made, by outcome.
    pub claims: ClaimCounters,
    /// The number of sweeps.
    pub sweeps: u64,
    /// The number of lines that a sweep found due although no hint or timer had reported them.
    pub missed_hints: u64,
    /// The number of polls that a write served in its own commit, without a claim.
    pub leased_on_insert: u64,
}

/// The number of hints by source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct HintCounters {
    /// Hints from commits of this process.
    pub in_process: u64,
    /// Hints from other processes.
    pub notify: u64,
}

/// The number of wakes by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WakeCounters {
    /// Wakes by a hint of another process.
    pub notify: u64,
    /// Wakes by a hint of this process.
    pub in_process: u64,
    /// Wakes because something became due.
    pub timer: u64,
    /// Wakes because the safety sweep found something.
    pub fallback: u64,
    /// Wakes after a reconnect: hints may have been lost until then.
    pub reconnect: u64,
    /// Wakes because a hint was not answered within the delivery timeout.
    pub delivery_timeout: u64,
    /// Wakes by polling, because claims fail.
    pub claim_error: u64,
    /// Wakes by polling, because hints do not arrive.
    pub listener_lost: u64,
    /// Polls that ended because the hub drained.
    pub shutdown: u64,
}

/// The number of claims by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ClaimCounters {
    /// Claims in which at least one waiter got something.
    pub found: u64,
    /// Claims in which no waiter got anything.
    pub empty: u64,
    /// Claims in which every request was refused as invalid.
    pub refused: u64,
    /// Claims whose store call failed.
    pub error: u64,
}

impl ClaimCounters {
    /// Returns the sum over all outcomes.
    pub fn total(&self) -> u64 {
        self.found + self.empty + self.refused + self.error
    }
}
