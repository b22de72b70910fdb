//! Measures the tables of the five designs that the wake modes come from, and prints the
//! predictions of those designs beside the results.
//!
//! # Where it sits
//! A part of `wakeline-bench wake`. In the designs, a dispatcher waits on two queues. Here it is a
//! parked pop on each of two queues of real servers, so that the formulas apply unchanged.
//!
//! # Invariants
//! * A table that was not measured is not printed.
//! * Predictions are in [`ways`], which `wakeline bench wake` shares.

mod capacity;
mod cluster;
mod costs;
mod latency;
mod stress;
#[path = "../../crates/wakeline-cli/src/bench/ways.rs"]
mod ways;

use anyhow::Result;
use clap::ValueEnum;
use wakeline::{PollGrouping, PollMode, WakeMode};

use self::ways::{ClusterShape, WAYS, Way};
use crate::setup::Setup;
use crate::wake::WakeBenchArgs;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Time from a push to the answer of a parked pop, compared with a hand-written loop
    Push,
    /// Statements and processor time while there are no messages
    Idle,
    /// Statements and claims for one message
    Events,
    /// Time from a commit to the answer of a pop, the start of a workflow and the receipt of a
    /// webhook
    Latency,
    /// Many parked clients on many queues
    Capacity,
    /// The stress test of the designs
    Stress,
}

impl Part {
    /// Whether the part is selected. All parts are selected if `only` is empty.
    pub(crate) fn is_in(self, only: &[Self]) -> bool {
        only.is_empty() || only.contains(&self)
    }
}

/// Measures the selected parts.
pub(crate) async fn run(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
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
    /// The flags of a server that waits in this way.
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
