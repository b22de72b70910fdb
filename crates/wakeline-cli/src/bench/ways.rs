//! The ways of waiting in the designs that the wake modes come from, and what those designs
//! predict for each.
//!
//! # Where it sits
//! A module of `wakeline bench wake` and, by its path, of the benchmarks in the repository
//! (`bench/src/designs.rs`), so that both compare with the same predictions.
//!
//! # Invariants
//! * Predictions are the designs' own numbers or formulas, never adjusted to what was measured.

use std::time::Duration;

use super::{PollGrouping, PollMode, WakeMode};

/// One way of waiting, as one of the designs describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// Its name in the tables.
    pub(crate) name: &'static str,
    /// The title of the design that describes it.
    pub(crate) design: &'static str,
    pub(crate) mode: WakeMode,
    /// Whether every wake starts a minute of polling.
    pub(crate) aggressive: bool,
}

/// A number of nodes and of dispatchers per node. Each dispatcher waits on two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClusterShape {
    pub(crate) nodes: usize,
    pub(crate) dispatchers: usize,
}

impl ClusterShape {
    /// The shape as the tables show it.
    pub(crate) fn text(self) -> String {
        format!("{} x {}", self.nodes, self.dispatchers)
    }
}

const OPTIMIZED: &str = "Optimized Polling";
const SIMPLE: &str = "Simple Long Polling";
const ADR: &str = "ADR: Polling vs LISTEN/NOTIFY";
pub(crate) const REGISTRY: &str = "Registry of Intentions";

/// A mode that polls at this interval.
pub(crate) const fn polling(interval_ms: u64, adaptive: bool, grouping: PollGrouping) -> WakeMode {
    let interval = Duration::from_millis(interval_ms);
    WakeMode::Poll(PollMode { interval, batch: 10, adaptive, grouping })
}

/// A way of waiting that does not start a minute of polling at every wake.
pub(crate) const fn way(name: &'static str, design: &'static str, mode: WakeMode) -> Way {
    Way { name, design, mode, aggressive: false }
}

/// All ways, from those that poll most to those that poll least.
pub(crate) const WAYS: [Way; 10] = [
    way("short polling, 50 ms", OPTIMIZED, polling(50, false, PollGrouping::Waiter)),
    way("short polling, 1 s", OPTIMIZED, polling(1_000, false, PollGrouping::Waiter)),
    way("poll 100 ms, each waiter", ADR, polling(100, false, PollGrouping::Waiter)),
    way("poll 100 ms, each waiter, adaptive", ADR, polling(100, true, PollGrouping::Waiter)),
    way("poll 100 ms, grouped", REGISTRY, polling(100, false, PollGrouping::Line)),
    way("poll 100 ms, grouped, adaptive", REGISTRY, polling(100, true, PollGrouping::Line)),
    way("broadcast", SIMPLE, WakeMode::Broadcast),
    Way { aggressive: true, ..way("compete, aggressive", OPTIMIZED, WakeMode::Compete) },
    way("compete", OPTIMIZED, WakeMode::Compete),
    way("fused (the default)", REGISTRY, WakeMode::Fused),
];

impl Way {
    /// Whether it claims at regular intervals while there are no messages.
    pub(crate) fn claims_regularly(&self) -> bool {
        self.aggressive || !self.mode.uses_hints()
    }

    /// Statements per second of all nodes while they are idle.
    pub(crate) fn idle_predicted(&self, shape: ClusterShape) -> f64 {
        let (nodes, waiters) = (shape.nodes as f64, (shape.dispatchers * 2) as f64);
        match self.mode {
            WakeMode::Poll(poll) => {
                // Intervals grow to five times their length while nothing is found.
                let slower = if poll.adaptive { 5.0 } else { 1.0 };
                let a_second = 1.0 / poll.interval.as_secs_f64() / slower;
                let claimers = match poll.grouping {
                    PollGrouping::Waiter => waiters,
                    PollGrouping::Line => 2.0,
                };
                nodes * claimers * a_second
            }
            // One dispatcher of each node was woken, and polls ten times a second.
            _ if self.aggressive => nodes * 10.0,
            // Each dispatcher looks once a minute.
            WakeMode::Broadcast => nodes * waiters / 60.0,
            WakeMode::Compete | WakeMode::Fused => nodes * 0.01,
        }
    }

    /// Claims caused by one message. `None` for ways that poll: they claim at regular intervals.
    pub(crate) fn claims_predicted(&self, shape: ClusterShape) -> Option<f64> {
        match self.mode {
            WakeMode::Poll(_) => None,
            WakeMode::Broadcast => Some((shape.nodes * shape.dispatchers) as f64),
            WakeMode::Compete | WakeMode::Fused => Some(shape.nodes as f64),
        }
    }

    /// How soon a waiting dispatcher gets a message.
    pub(crate) fn latency_predicted(&self) -> &'static str {
        match self.mode {
            WakeMode::Poll(poll) if poll.adaptive => "at most 500 ms (Registry of Intentions)",
            WakeMode::Poll(poll) => match poll.interval.as_millis() {
                50 => "0 to 50 ms (Optimized Polling)",
                1_000 => "0 to 1,000 ms (Optimized Polling)",
                _ => "50 ms, at most 100 ms (ADR); 100 to 200 ms (Registry of Intentions)",
            },
            WakeMode::Broadcast => "near zero (Long Polling Behavior Plan)",
            WakeMode::Compete | WakeMode::Fused => "below 5 ms (Optimized Polling)",
        }
    }
}
