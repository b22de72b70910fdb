//! `wakeline-bench hook`: webhooks on both stores, to a local receiver.

mod latency;
mod rate;
mod report;
pub(crate) mod sink;
pub(crate) mod stage;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use self::latency::COMPANIES;
use self::rate::{Cost, Load};
use self::report::Report;
use self::stage::{Place, Sink, subscribe};
use crate::setup::Setup;

/// Endpoints of the applications whose rates are measured.
const FANS: [usize; 3] = [1, 10, 1_000];
/// Messages that the cost of one that comes alone is measured with.
const COST_SAMPLES: u64 = 100;

/// Settings of the hook benchmark.
#[derive(Args, Clone)]
pub(crate) struct HookArgs {
    /// Seconds of each measurement of a rate
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Times that each rate is measured, all sides in turn
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Messages that idle latencies are measured with
    #[arg(long, default_value_t = 300)]
    samples: usize,
    /// Seconds for which a server is left idle
    #[arg(long, default_value_t = 8.0)]
    idle_seconds: f64,
    /// Half seconds for which each side is measured with neighbours and alone
    #[arg(long, default_value_t = 28)]
    neighbour_turns: usize,
    /// Measure only this: rates, latencies or neighbours
    #[arg(long, value_name = "WHAT")]
    only: Option<String>,
    /// Short measurements of each kind: to see that it works
    #[arg(long)]
    quick: bool,
}

impl HookArgs {
    fn wants(&self, what: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == what)
    }
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &HookArgs) -> Result<()> {
    let mut args = args.clone();
    if args.quick {
        (args.seconds, args.rounds, args.samples) = (1.0, 1, 20);
        (args.idle_seconds, args.neighbour_turns) = (2.0, 2);
    }
    setup.introduce(
        "Webhooks",
        &format!(
            "{} rounds of {} s per rate and side, sides in turn, medians; one node with default \
             settings; the receiver is a bare hyper server in a process of its own, on the same \
             machine as everything else.",
            args.rounds.max(1),
            args.seconds,
        ),
    );
    let mut sink = Sink::start().await?;
    let places = [
        Place::make(setup, setup.postgres("hook"), "postgres")?,
        Place::make(setup, setup.sqlite("hook.db"), "sqlite")?,
    ];
    let mut report = Report::default();
    for place in &places {
        let node = place.start(&[])?;
        for fan in FANS {
            subscribe(&node, &format!("fan-{fan}"), &sink.urls("rate", fan)).await?;
        }
        node.stop()?;
    }
    let nothing = Cost::of_nothing(setup, &places[0]).await?;
    if args.wants("latencies") {
        report.latencies = latency::idle(setup, &places, &mut sink, args.samples).await?;
        let alone = latency::cost_alone(setup, (&places[0], &nothing), &mut sink, COST_SAMPLES);
        report.cost_alone = Some(alone.await?);
        report.idle = Some(idle(setup, &places[0], args.idle_seconds).await?);
    }
    if args.wants("rates") {
        rates((setup, &args), (&places, &nothing), &mut sink, &mut report).await?;
    }
    if args.wants("neighbours") {
        for at_postgres in [true, false] {
            let place = |company: usize| {
                let store = match at_postgres {
                    true => setup.postgres(&format!("company_{company}")),
                    false => setup.sqlite(&format!("company-{company}.db")),
                };
                let name = format!("{}-{company}", store.kind());
                Place::make(setup, store, &name)
            };
            let places = (0..COMPANIES.len()).map(place).collect::<Result<Vec<_>>>()?;
            let found = latency::neighbours(&places, &mut sink, args.neighbour_turns).await?;
            report.neighbours.push((places[0].store.kind(), found));
        }
    }
    report.print();
    Ok(())
}

/// Measures the rates, all sides in turn; who goes first changes from round to round.
async fn rates(
    (setup, args): (&Setup, &HookArgs),
    (places, nothing): (&[Place], &Cost),
    sink: &mut Sink,
    report: &mut Report,
) -> Result<()> {
    for round in 0..args.rounds.max(1) {
        for fan in FANS {
            report.ceilings.push(rate::ceiling(sink, Duration::from_secs(1)).await?);
            for turn in 0..places.len() {
                let place = &places[(round + turn) % places.len()];
                let load = Load {
                    uid: format!("fan-{fan}"),
                    endpoints: fan as u64,
                    warm_up: Duration::from_secs_f64(args.seconds / 4.0),
                    window: Duration::from_secs_f64(args.seconds),
                };
                let rate = rate::measure(setup, (place, nothing), sink, &load).await?;
                eprintln!("{}, {fan} endpoints: {rate:?}", place.store.kind());
                report.rates.push((place.store.kind(), fan, rate));
                sink.take("rate").await?;
            }
        }
    }
    Ok(())
}

/// Statements a second of a server with endpoints and nothing to do.
async fn idle(setup: &Setup, place: &Place, seconds: f64) -> Result<f64> {
    let node = place.start(&[])?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = setup.database.statements().await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let after = setup.database.statements().await?;
    node.stop()?;
    Ok(after.since(&before).total as f64 / seconds)
}
