//! The tables of the five designs that the wake modes come from, measured beside what those
//! designs predict.
//!
//! # Where it sits
//! A part of `wakeline-bench wake`. The designs speak of dispatchers that wait on two queues; here
//! they are parked pops on two queues of real servers, so that their formulas hold as they stand.
//!
//! # Invariants
//! * A table that was not measured is not printed.
//! * Predictions are in [`ways`], which `wakeline bench wake` shares.

mod capacity;
mod costs;
mod latency;
mod stage;
mod stress;
#[path = "../../crates/wakeline-cli/src/bench/ways.rs"]
mod ways;

use anyhow::Result;
use clap::ValueEnum;
use wakeline::{PollGrouping, PollMode, WakeMode};

use self::ways::{Shape, WAYS, Way};
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
