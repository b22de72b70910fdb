//! `wakeline-bench flow`: orchestrations on both stores, compared with the published providers of
//! duroxide on the same PostgreSQL.

mod drive;
pub(crate) mod ours;
mod report;
mod serial;
mod side;

use anyhow::{Context, Result};
use clap::Args;

use self::drive::{CONCURRENCY, Plan};
pub(crate) use self::drive::{DriveOutcome, Job};
use self::report::FlowReport;
pub(crate) use self::report::at as quantile;
pub(crate) use self::side::outcome_of;
use self::side::{SideName, Sides};
use crate::setup::Setup;

/// One activity without a delay.
const ONE: Plan = Plan { activities: 1, delay_ms: 0 };
/// Five concurrent activities without a delay.
const FIVE: Plan = Plan { activities: 5, delay_ms: 0 };
/// Five concurrent activities of 10 ms, as in the stress test.
pub(crate) const SLOW: Plan = Plan { activities: 5, delay_ms: 10 };
/// Number of concurrent orchestrations in the stress test.
pub(crate) const STRESS_CLIENTS: usize = 20;

/// Number of orchestrations over which commits are counted.
const COST_SAMPLES: usize = 50;
/// Number of orchestrations in the run that is subtracted, because it includes what is done once
/// per process.
const COST_BASE: usize = 10;

/// Settings of the flow benchmark.
#[derive(Args, Clone)]
pub(crate) struct FlowArgs {
    /// Seconds of each measurement of a rate
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of measurements of each rate, with all sides in turn
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Number of concurrent orchestrations while a rate is measured
    #[arg(long, default_value_t = 64)]
    concurrent: usize,
    /// Number of orchestrations for measuring latencies
    #[arg(long, default_value_t = 300)]
    samples: usize,
    /// Maximum seconds for measuring the latencies of a side
    #[arg(long, default_value_t = 8.0)]
    samples_seconds: f64,
    /// Seconds of the stress test
    #[arg(long, default_value_t = 30.0)]
    stress_seconds: f64,
    /// Make only short measurements, to check that the benchmark works
    #[arg(long)]
    quick: bool,
    /// Program that runs the peers [default: it is built]
    #[arg(long, env = "WAKELINE_BENCH_PEERS", value_name = "PATH")]
    peers: Option<std::path::PathBuf>,
}

/// The costs of one orchestration in PostgreSQL if no client waits for it.
#[derive(Debug, Clone, Copy)]
struct FlowCost {
    commits: f64,
    statements: f64,
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &FlowArgs) -> Result<()> {
    let mut args = args.clone();
    if args.quick {
        (args.seconds, args.rounds, args.samples, args.samples_seconds) = (1.0, 1, 30, 1.0);
        args.stress_seconds = 2.0;
    }
    let sides = Sides::ready(setup, args.peers.as_deref())?;
    setup.print_introduction(
        "Orchestrations",
        &format!(
            "{} rounds of {} s per rate and side, sides in turn, medians; {CONCURRENCY} \
             dispatchers of turns and {CONCURRENCY} of activities on each side; each side is a \
             separate process; \"no prefetch\" turns prefetching off, all other settings are the \
             defaults. duroxide 0.1.32 with duroxide-pg 0.1.38 and duroxide-pg-opt 0.1.28.",
            args.rounds.max(1),
            args.seconds,
        ),
    );
    let mut report = FlowReport::default();
    rates(&sides, &args, &mut report).await?;
    for name in SideName::PLAIN {
        let (samples, seconds_max) = (args.samples, args.samples_seconds);
        let outcome = sides.run(name, Job::Latency { plan: ONE, samples, seconds_max }).await?;
        report.latencies.push((name, outcome));
    }
    for name in SideName::ON_POSTGRES {
        let cost = cost(setup, &sides, name, args.samples.min(COST_SAMPLES)).await?;
        report.costs.push((name, cost));
    }
    for name in SideName::PLAIN {
        let (clients, seconds) = (STRESS_CLIENTS, args.stress_seconds);
        let outcome = sides.run(name, Job::Stress { plan: SLOW, clients, seconds }).await?;
        report.stress.push((name, outcome));
    }
    let (url, file) = (setup.database.url(), setup.file("serial.db"));
    report.serial = serial::measure(url, &file, args.rounds).await?;
    report.print(&args);
    Ok(())
}

/// Measures the rates of all sides in turn. The first side changes with each round.
async fn rates(sides: &Sides, args: &FlowArgs, report: &mut FlowReport) -> Result<()> {
    for plan in [ONE, FIVE] {
        for round in 0..args.rounds.max(1) {
            let mut order = SideName::ALL;
            let count = order.len();
            order.rotate_left(round % count);
            for name in order {
                let (concurrent, seconds) = (args.concurrent.max(1), args.seconds);
                let job = Job::Rate { plan, concurrent, warm_up_s: 0.5, seconds };
                let outcome = sides.run(name, job).await?;
                report.rates.push((name, plan, outcome));
            }
        }
    }
    Ok(())
}

/// Measures the costs of an orchestration as the difference of a run with many orchestrations and a
/// run with few.
async fn cost(setup: &Setup, sides: &Sides, name: SideName, samples: usize) -> Result<FlowCost> {
    let mut used = Vec::new();
    for samples in [COST_BASE, COST_BASE + samples] {
        let before = (setup.database.commits().await?, setup.database.statements().await?);
        sides.run(name, Job::Unwatched { plan: ONE, samples }).await?;
        setup.database.wait_until_unused().await.context("a side is still connected")?;
        let after = (setup.database.commits().await?, setup.database.statements().await?);
        used.push((after.0 - before.0, after.1.since(&before.1).total));
    }
    let each = |with: i64, without: i64| (with - without) as f64 / samples.max(1) as f64;
    Ok(FlowCost { commits: each(used[1].0, used[0].0), statements: each(used[1].1, used[0].1) })
}
