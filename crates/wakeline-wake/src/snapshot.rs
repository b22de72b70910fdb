//! A look at the hub, for health pages and tests.

use std::time::Duration;

use serde::Serialize;

use crate::config::millis;
use crate::mode::WakeMode;
use crate::poll::Link;

/// The hub at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// How waiters are woken.
    pub mode: WakeMode,
    /// Polls of consumers that are parked or being claimed for.
    pub waiters: usize,
    /// Lines that have such waiters.
    pub lines: usize,
    /// Lines without waiters whose state is still remembered.
    pub lines_remembered: usize,
    /// Claims under way.
    pub claims_in_flight: usize,
    /// Claims that wait for one under way to end.
    pub claims_queued: usize,
    /// Whether hints of other processes arrive.
    pub link: Link,
    /// Set while the hub polls because hints or claims are in trouble.
    pub degraded: Option<Degradation>,
    /// Whether the hub has been told to drain.
    pub draining: bool,
    /// What has happened since the start.
    pub counters: Counters,
}

/// Why the hub polls, and for how long it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Degradation {
    /// What began it, in words.
    pub reason: String,
    /// How long ago it began.
    #[serde(rename = "since_ms", with = "millis")]
    pub since: Duration,
}

/// Totals since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Hints taken in, by source.
    pub hints: HintCounters,
    /// Wakes, by reason: of a line in Fused mode, of single waiters in the others.
    pub wakes: WakeCounters,
    /// Claims made, by outcome.
    pub claims: ClaimCounters,
    /// Sweeps made.
    pub sweeps: u64,
    /// Lines that a sweep found due although no hint or timer had said so.
    pub missed_hints: u64,
    /// Polls that a write served in its own commit, without a claim.
    pub born_leased: u64,
}

/// Hints by source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct HintCounters {
    /// From commits of this process.
    pub in_process: u64,
    /// From other processes.
    pub notify: u64,
}

/// Wakes by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WakeCounters {
    /// A hint of another process.
    pub notify: u64,
    /// A hint of this process.
    pub in_process: u64,
    /// Something became due.
    pub timer: u64,
    /// The safety sweep found something.
    pub fallback: u64,
    /// Hints may have been lost until now.
    pub reconnect: u64,
    /// A hint went unanswered for too long.
    pub delivery_timeout: u64,
    /// Polling because claims fail.
    pub claim_error: u64,
    /// Polling because hints do not arrive.
    pub listener_lost: u64,
    /// The hub drained.
    pub shutdown: u64,
}

/// Claims by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ClaimCounters {
    /// Somebody got something.
    pub found: u64,
    /// Nobody did.
    pub empty: u64,
    /// Every request in it was wrong in itself.
    pub refused: u64,
    /// The store call failed.
    pub error: u64,
}

impl ClaimCounters {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.found + self.empty + self.refused + self.error
    }
}
