//! `wakeline-bench flow`: orchestrations on both stores, beside the published providers of
//! duroxide on the same PostgreSQL.

mod drive;
pub(crate) mod ours;
mod report;
mod serial;
mod side;

use anyhow::{Context, Result};
use clap::Args;

use self::drive::{CONCURRENCY, Plan};
pub(crate) use self::drive::{Job, Outcome};
use self::report::Report;
pub(crate) use self::report::at as quantile;
pub(crate) use self::side::outcome_of;
use self::side::{SideName, Sides};
use crate::setup::Setup;

/// One activity, which takes no time.
const ONE: Plan = Plan { activities: 1, delay_ms: 0 };
/// Five at once, which take no time.
const FIVE: Plan = Plan { activities: 5, delay_ms: 0 };
/// Five at once, of 10 ms each: the plan of the stress set-up.
pub(crate) const SLOW: Plan = Plan { activities: 5, delay_ms: 10 };
/// Orchestrations at once in the stress set-up.
pub(crate) const STRESS_CLIENTS: usize = 20;

/// Orchestrations that commits are counted with.
const COST_SAMPLES: usize = 50;
/// Those of the run that they are compared with: what is done once per process is done there too.
const COST_BASE: usize = 10;

/// Settings of the flow benchmark.
#[derive(Args, Clone)]
pub(crate) struct FlowArgs {
    /// Seconds of each measurement of a rate
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Times that each rate is measured, all sides in turn
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Orchestrations under way while a rate is measured
    #[arg(long, default_value_t = 64)]
    under_way: usize,
    /// Orchestrations that latencies are measured with
    #[arg(long, default_value_t = 300)]
    samples: usize,
    /// Seconds after which a side has given enough latencies
    #[arg(long, default_value_t = 8.0)]
    samples_seconds: f64,
    /// Seconds of the stress set-up
    #[arg(long, default_value_t = 30.0)]
    stress_seconds: f64,
    /// Short measurements of each kind: to see that it works
    #[arg(long)]
    quick: bool,
    /// The program that drives the peers; built if it is not given
    #[arg(long, env = "WAKELINE_BENCH_PEERS", value_name = "PATH")]
    peers: Option<std::path::PathBuf>,
}

/// What one orchestration costs PostgreSQL if no client waits for it.
#[derive(Debug, Clone, Copy)]
struct Cost {
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
    setup.introduce(
        "Orchestrations",
        &format!(
            "{} rounds of {} s per rate and side, sides in turn, medians; {CONCURRENCY} \
             dispatchers of turns and {CONCURRENCY} of activities on each side; each side is a \
             process of its own; \"no prefetch\" fetches nothing ahead, all other settings are \
             the defaults. duroxide 0.1.32 with duroxide-pg 0.1.38 and duroxide-pg-opt 0.1.28.",
            args.rounds.max(1),
            args.seconds,
        ),
    );
    let mut report = Report::default();
    rates(&sides, &args, &mut report).await?;
    for name in SideName::PLAIN {
        let (samples, seconds_max) = (args.samples, args.samples_seconds);
        let outcome = sides.run(name, Job::Latency { plan: ONE, samples, seconds_max }).await?;
        report.latencies.push((name, outcome));
    }
    for name in SideName::ON_POSTGRES {
        let cost = cost(setup, &sides, (name, args.samples.min(COST_SAMPLES))).await?;
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

/// Measures the rates, all sides in turn; who goes first changes from round to round.
async fn rates(sides: &Sides, args: &FlowArgs, report: &mut Report) -> Result<()> {
    for plan in [ONE, FIVE] {
        for round in 0..args.rounds.max(1) {
            let mut order = SideName::ALL;
            let count = order.len();
            order.rotate_left(round % count);
            for name in order {
                let (under_way, seconds) = (args.under_way.max(1), args.seconds);
                let job = Job::Rate { plan, under_way, warm_up_s: 0.5, seconds };
                let outcome = sides.run(name, job).await?;
                report.rates.push((name, plan, outcome));
            }
        }
    }
    Ok(())
}

/// What an orchestration costs: a run with many of them, less a run with a few.
async fn cost(setup: &Setup, sides: &Sides, (name, samples): (SideName, usize)) -> Result<Cost> {
    let mut used = Vec::new();
    for samples in [COST_BASE, COST_BASE + samples] {
        let before = (setup.database.commits().await?, setup.database.statements().await?);
        sides.run(name, Job::Unwatched { plan: ONE, samples }).await?;
        setup.database.left().await.context("a side is still connected")?;
        let after = (setup.database.commits().await?, setup.database.statements().await?);
        used.push((after.0 - before.0, after.1.since(&before.1).total));
    }
    let each = |with: i64, without: i64| (with - without) as f64 / samples.max(1) as f64;
    Ok(Cost { commits: each(used[1].0, used[0].0), statements: each(used[1].1, used[0].1) })
}
