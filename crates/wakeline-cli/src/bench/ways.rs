//! The ways of waiting of the designs that the wake modes come from, and what those designs
//! predict of each.
//!
//! # Where it sits
//! A module of `wakeline bench wake` and, by its path, of the benchmarks of a checkout
//! (`bench/src/designs.rs`): both compare with the same source.
//!
//! # Invariants
//! * Predictions are the designs' own figures or formulas, never adjusted to what was measured.

use std::time::Duration;

use super::{PollGrouping, PollMode, WakeMode};

/// One way of waiting, as one of the designs describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// What the tables call it.
    pub(crate) name: &'static str,
    /// The title of the design that it is from.
    pub(crate) design: &'static str,
    pub(crate) mode: WakeMode,
    /// Whether every wake starts a minute of polling.
    pub(crate) aggressive: bool,
}

/// So many nodes, each with so many dispatchers, which wait on two queues each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    pub(crate) dispatchers: usize,
}

impl Shape {
    /// How the tables call it.
    pub(crate) fn text(self) -> String {
        format!("{} x {}", self.nodes, self.dispatchers)
    }
}

const OPTIMIZED: &str = "Optimized Polling";
const SIMPLE: &str = "Simple Long Polling";
const ADR: &str = "ADR: Polling vs LISTEN/NOTIFY";
pub(crate) const REGISTRY: &str = "Registry of Intentions";

pub(crate) const fn polling(interval_ms: u64, adaptive: bool, grouping: PollGrouping) -> WakeMode {
    let interval = Duration::from_millis(interval_ms);
    WakeMode::Poll(PollMode { interval, batch: 10, adaptive, grouping })
}

pub(crate) const fn way(name: &'static str, design: &'static str, mode: WakeMode) -> Way {
    Way { name, design, mode, aggressive: false }
}

/// All of them, from those that poll most to those that do least.
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
    /// Whether it claims at a steady pace while nothing happens.
    pub(crate) fn is_by_the_clock(&self) -> bool {
        self.aggressive || !self.mode.uses_hints()
    }

    /// Statements a second of idle nodes.
    pub(crate) fn idle_predicted(&self, shape: Shape) -> f64 {
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

    /// Claims of one message. Those of ways that poll come by the clock.
    pub(crate) fn claims_predicted(&self, shape: Shape) -> Option<f64> {
        match self.mode {
            WakeMode::Poll(_) => None,
            WakeMode::Broadcast => Some((shape.nodes * shape.dispatchers) as f64),
            WakeMode::Compete | WakeMode::Fused => Some(shape.nodes as f64),
        }
    }

    /// How soon those who wait learn of work.
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
