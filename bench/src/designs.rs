//! The tables of the five designs that the wake modes come from, measured beside what those
//! designs predict.
//!
//! # Where it sits
//! A part of `wakeline-bench wake`. The designs speak of dispatchers that wait on two queues; here
//! they are parked pops on two queues of real servers, so that their formulas hold as they stand.
//!
//! # Invariants
//! * A table that was not measured is not printed.
//! * Predictions are the designs' own figures or formulas, never adjusted to what was measured.

mod capacity;
mod costs;
mod latency;
mod stage;
mod stress;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use wakeline::{PollGrouping, PollMode, WakeMode};

use crate::setup::Setup;
use crate::wake::WakeArgs;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// From a push to a parked pop's answer, beside a hand-written loop
    Push,
    /// Statements and processor time while nothing happens
    Idle,
    /// Statements and claims of one message
    Events,
    /// How soon a queue, a workflow and a webhook learn of work
    Latency,
    /// Many parked clients on many queues
    Capacity,
    /// The stress set-up of the designs
    Stress,
}

impl Part {
    /// Whether it was asked for: all are, if none was named.
    pub(crate) fn is_in(self, only: &[Self]) -> bool {
        only.is_empty() || only.contains(&self)
    }
}

/// Measures the parts that were asked for.
pub(crate) async fn run(setup: &Setup, args: &WakeArgs) -> Result<()> {
    if Part::Idle.is_in(&args.only) || Part::Events.is_in(&args.only) {
        costs::run(setup, args).await?;
    }
    if Part::Latency.is_in(&args.only) {
        latency::run(setup, args).await?;
    }
    if Part::Capacity.is_in(&args.only) {
        capacity::run(setup, args).await?;
    }
    if Part::Stress.is_in(&args.only) {
        stress::run(setup, args).await?;
    }
    Ok(())
}

/// One way of waiting, as one of the designs describes it.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// What the tables call it.
    name: &'static str,
    /// The title of the design that it is from.
    design: &'static str,
    mode: WakeMode,
    /// Whether every wake starts a minute of polling.
    aggressive: bool,
}

const OPTIMIZED: &str = "Optimized Polling";
const SIMPLE: &str = "Simple Long Polling";
const ADR: &str = "ADR: Polling vs LISTEN/NOTIFY";
const REGISTRY: &str = "Registry of Intentions";

const fn polling(interval_ms: u64, adaptive: bool, grouping: PollGrouping) -> WakeMode {
    let interval = Duration::from_millis(interval_ms);
    WakeMode::Poll(PollMode { interval, batch: 10, adaptive, grouping })
}

const fn way(name: &'static str, design: &'static str, mode: WakeMode) -> Way {
    Way { name, design, mode, aggressive: false }
}

/// All of them, from those that poll most to those that do least.
const WAYS: [Way; 10] = [
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
    /// The flags of a server that waits so.
    fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("--wake-mode={}", self.mode.name())];
        if let WakeMode::Poll(PollMode { interval, batch, adaptive, grouping }) = self.mode {
            let grouping = match grouping {
                PollGrouping::Line => "line",
                PollGrouping::Waiter => "waiter",
            };
            flags.push(format!("--poll-interval-ms={}", interval.as_millis()));
            flags.push(format!("--poll-batch={batch}"));
            flags.push(format!("--poll-adaptive={adaptive}"));
            flags.push(format!("--poll-grouping={grouping}"));
        }
        if self.aggressive {
            flags.push("--aggressive-on=any_wake".to_owned());
        }
        flags
    }

    fn polls(&self) -> bool {
        !self.mode.uses_hints()
    }
}

/// So many nodes, each with so many dispatchers on each of two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    nodes: usize,
    dispatchers: usize,
}

impl Shape {
    /// How the tables call it.
    fn text(self) -> String {
        format!("{} x {}", self.nodes, self.dispatchers)
    }
}
