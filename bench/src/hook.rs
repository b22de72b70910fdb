//! `wakeline-bench hook`: webhooks on both stores, to a local receiver.

mod latency;
mod rate;
mod report;
pub(crate) mod server;
pub(crate) mod sink;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use self::latency::NEIGHBOUR_CASES;
use self::rate::{HookCost, HookLoad};
use self::report::HookReport;
use self::server::{Sink, WebhookServer, subscribe};
use crate::setup::Setup;

/// Numbers of endpoints of the applications whose rates are measured.
const FAN_OUTS: [usize; 3] = [1, 10, 1_000];
/// Number of messages for measuring the cost of a single message.
const COST_SAMPLES: u64 = 100;

/// Settings of the hook benchmark.
#[derive(Args, Clone)]
pub(crate) struct HookBenchArgs {
    /// Seconds of each measurement of a rate
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Number of measurements of each rate, with all sides in turn
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Number of messages for measuring idle latencies
    #[arg(long, default_value_t = 300)]
    samples: usize,
    /// Seconds for which an idle server is measured
    #[arg(long, default_value_t = 8.0)]
    idle_seconds: f64,
    /// Half seconds for which each side is measured, alone and with other endpoints
    #[arg(long, default_value_t = 28)]
    neighbour_turns: usize,
    /// Measure only this: rates, latencies or neighbours
    #[arg(long, value_name = "WHAT")]
    only: Option<String>,
    /// Make only short measurements, to check that the benchmark works
    #[arg(long)]
    quick: bool,
}

impl HookBenchArgs {
    fn wants(&self, what: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == what)
    }
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &HookBenchArgs) -> Result<()> {
    let mut args = args.clone();
    if args.quick {
        (args.seconds, args.rounds, args.samples) = (1.0, 1, 20);
        (args.idle_seconds, args.neighbour_turns) = (2.0, 2);
    }
    setup.print_introduction(
        "Webhooks",
        &format!(
            "{} rounds of {} s per rate and side, sides in turn, medians; one node with default \
             settings; the receiver is a bare hyper server in a separate process on the same \
             machine.",
            args.rounds.max(1),
            args.seconds,
        ),
    );
    let mut sink = Sink::start().await?;
    let servers = [
        WebhookServer::create(setup, setup.postgres("hook"), "postgres")?,
        WebhookServer::create(setup, setup.sqlite("hook.db"), "sqlite")?,
    ];
    let mut report = HookReport::default();
    for server in &servers {
        let node = server.start(&[])?;
        for fan in FAN_OUTS {
            subscribe(&node, &format!("fan-{fan}"), &sink.urls("rate", fan)).await?;
        }
        node.stop()?;
    }
    let idle_cost = HookCost::of_idle_server(setup, &servers[0]).await?;
    if args.wants("latencies") {
        report.latencies = latency::idle(setup, &servers, &mut sink, args.samples).await?;
        let subject = rate::Subject { server: &servers[0], idle_cost: &idle_cost };
        let alone = latency::cost_alone(setup, &subject, &mut sink, COST_SAMPLES).await?;
        report.cost_alone = Some(alone);
        report.idle = Some(idle(setup, &servers[0], args.idle_seconds).await?);
    }
    if args.wants("rates") {
        let run = RateRun { setup, args: &args, servers: &servers, idle_cost: &idle_cost };
        rates(&run, &mut sink, &mut report).await?;
    }
    if args.wants("neighbours") {
        for at_postgres in [true, false] {
            let server = |case: usize| {
                let store = if at_postgres {
                    setup.postgres(&format!("neighbours_{case}"))
                } else {
                    setup.sqlite(&format!("neighbours-{case}.db"))
                };
                let name = format!("{}-{case}", store.kind());
                WebhookServer::create(setup, store, &name)
            };
            let servers = (0..NEIGHBOUR_CASES.len()).map(server).collect::<Result<Vec<_>>>()?;
            let found = latency::neighbours(&servers, &mut sink, args.neighbour_turns).await?;
            report.neighbours.push((servers[0].store.kind(), found));
        }
    }
    report.print();
    Ok(())
}

/// What the measurement of rates needs.
struct RateRun<'a> {
    setup: &'a Setup,
    args: &'a HookBenchArgs,
    servers: &'a [WebhookServer],
    /// The costs of an idle server, which are subtracted.
    idle_cost: &'a HookCost,
}

/// Measures the rates of all sides in turn. The first side changes with each round.
async fn rates(run: &RateRun<'_>, sink: &mut Sink, report: &mut HookReport) -> Result<()> {
    let RateRun { setup, args, servers, idle_cost } = *run;
    for round in 0..args.rounds.max(1) {
        for fan in FAN_OUTS {
            report.ceilings.push(rate::ceiling(sink, Duration::from_secs(1)).await?);
            for turn in 0..servers.len() {
                let server = &servers[(round + turn) % servers.len()];
                let load = HookLoad {
                    uid: format!("fan-{fan}"),
                    endpoints: fan as u64,
                    warm_up: Duration::from_secs_f64(args.seconds / 4.0),
                    window: Duration::from_secs_f64(args.seconds),
                };
                let subject = rate::Subject { server, idle_cost };
                let rate = rate::measure(setup, &subject, sink, &load).await?;
                eprintln!("{}, {fan} endpoints: {rate:?}", server.store.kind());
                report.rates.push((server.store.kind(), fan, rate));
                sink.take("rate").await?;
            }
        }
    }
    Ok(())
}

/// Returns the statements per second of an idle server with endpoints.
async fn idle(setup: &Setup, server: &WebhookServer, seconds: f64) -> Result<f64> {
    let node = server.start(&[])?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = setup.database.statements().await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let after = setup.database.statements().await?;
    node.stop()?;
    Ok(after.since(&before).total as f64 / seconds)
}
