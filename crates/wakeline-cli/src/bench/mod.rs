//! `wakeline bench wake`: what each way of waiting costs and how soon it learns of messages, beside
//! what the designs predict that it is from, on the machine and the database of the user.
//!
//! # Where it sits
//! Runs queue services in this process, as so many nodes would: dispatchers wait on all but one of
//! them, and messages are pushed to that one. It needs no server and no rights beyond those of a
//! server.
//!
//! # Invariants
//! * Nothing is read from or written to an existing store: see [`place`].
//! * Claims and sweeps are counted by the services themselves, statements by PostgreSQL where it
//!   does.

mod measure;
mod place;
mod ways;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use wakeline_wake::{PollGrouping, PollMode, WakeMode};

use self::measure::{Measured, Plan};
use self::place::Place;
use self::ways::{Shape, WAYS};
use crate::access::{Common, print};
use crate::complain;
use crate::config::ConfigMistake;

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BenchCommand {
    /// Idle claims, claims of a message and pick-up latency of each way of waiting
    ///
    /// Where PostgreSQL has the extension pg_stat_statements, also the statements of both (STMT/S,
    /// STMTS); and the processor time of this process while idle, in milliseconds for each node and
    /// second (CPU MS/S).
    ///
    /// Measures ten ways of waiting for each number of nodes and of dispatchers, and prints what
    /// the designs predict that they are from beside it. That takes about three minutes; with
    /// `--dispatchers 4,8` six, with `--nodes 1` one.
    ///
    /// Works in a schema of its own on the PostgreSQL of --store (the role must be able to create
    /// schemas), or in a folder of its own beside the SQLite file, and removes it at the end. An
    /// existing store is neither read nor changed, but servers on the same machine are slowed
    /// down meanwhile.
    Wake(WakeArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WakeArgs {
    /// Only ways of this mode: fused, compete, broadcast or poll; can be repeated [default: all]
    #[arg(long = "mode", value_name = "MODE")]
    modes: Vec<WakeMode>,
    /// Numbers of nodes that wait, in one list; each takes up to six connections of PostgreSQL
    #[arg(long, value_delimiter = ',', default_value = "1,3,10", value_name = "COUNTS",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    nodes: Vec<u32>,
    /// Numbers of dispatchers of each node, in one list: each waits on two queues
    #[arg(long, value_delimiter = ',', default_value = "4", value_name = "COUNTS",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    dispatchers: Vec<u32>,
    /// Messages that each way is measured with, one at a time; half of it in ways that poll
    #[arg(long, default_value = "10", value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pushes: u32,
    /// Seconds for which each way is left idle
    #[arg(long, default_value = "2", value_name = "SECONDS", allow_negative_numbers = true)]
    idle_seconds: f64,
    #[command(flatten)]
    common: Common,
}

impl WakeArgs {
    fn plan(&self) -> Result<Plan, ConfigMistake> {
        let wrong = || {
            let text = format!("--idle-seconds must be from 0 to 3600, not {}", self.idle_seconds);
            ConfigMistake(text)
        };
        let idle = Duration::try_from_secs_f64(self.idle_seconds).map_err(|_| wrong())?;
        if idle > Duration::from_secs(3600) {
            return Err(wrong());
        }
        Ok(Plan { pushes: self.pushes, idle })
    }

    fn shapes(&self) -> impl Iterator<Item = Shape> {
        let shape = |nodes| {
            let of = move |dispatchers: &u32| Shape { nodes, dispatchers: *dispatchers as usize };
            self.dispatchers.iter().map(of)
        };
        self.nodes.iter().flat_map(move |nodes| shape(*nodes as usize))
    }
}

/// Runs a benchmark.
pub(crate) fn run(command: BenchCommand) -> anyhow::Result<ExitCode> {
    let BenchCommand::Wake(args) = command;
    let plan = args.plan()?;
    let choice = args.common.place.choice()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let place = Place::make(&choice)?;
        complain(&format!("works in {place}, which is removed at the end"));
        let measured = tokio::select! {
            measured = wake(&place, &args, plan) => measured,
            _ = terminate.recv() => Err(anyhow::anyhow!("interrupted")),
            _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
        };
        let removed = place.remove().await;
        // The first error counts.
        measured.and(removed).map(|()| ExitCode::SUCCESS)
    })
}

/// Measures all that was asked for; shows each row as soon as it is there.
async fn wake(place: &Place, args: &WakeArgs, plan: Plan) -> anyhow::Result<()> {
    let wanted = |mode: &WakeMode| args.modes.iter().any(|one| one.name() == mode.name());
    let ways = WAYS.into_iter().filter(|way| args.modes.is_empty() || wanted(&way.mode));
    let mut title = Some(line(TITLE));
    for way in ways {
        for shape in args.shapes() {
            let measured = measure::way(place, (way, shape), plan).await?;
            let lines = title.take().into_iter().chain([row(&measured)]);
            print(&args.common, [value(&measured)], lines);
            if let Some(reason) = &measured.degraded {
                let shape = shape.text();
                complain(&format!("{} ({shape}) was degraded, and polled: {reason}", way.name));
            }
        }
    }
    Ok(())
}

const COLUMNS: usize = 13;

const TITLE: [&str; COLUMNS] = [
    "WAY OF WAITING",
    "NODES",
    "IDLE/S",
    "PREDICTED",
    "STMT/S",
    "CPU MS/S",
    "CLAIMS",
    "PREDICTED",
    "STMTS",
    "P50",
    "P99",
    "MAX",
    "PREDICTED",
];
/// Of the columns between the first and the last.
const WIDTHS: [usize; COLUMNS - 2] = [6, 7, 9, 7, 8, 7, 12, 7, 10, 10, 10];

fn line(cells: [&str; COLUMNS]) -> String {
    let [way, figures @ .., predicted] = cells;
    let figures = figures.iter().zip(WIDTHS);
    let line =
        figures.fold(format!("{way:34}"), |line, (cell, width)| format!("{line}  {cell:>width$}"));
    format!("{line}  {predicted}")
}

fn row(one: &Measured) -> String {
    let figure = |figure: f64| match figure {
        0.0 => "0".to_owned(),
        figure if figure < 10.0 => format!("{figure:.2}"),
        figure => format!("{figure:.0}"),
    };
    let millis = |quantile| format!("{:.2}ms", one.quantile(quantile) as f64 / 1000.0);
    let known = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let idle = one.idle.as_ref();
    let cells = [
        one.shape.text(),
        known(idle.map(|idle| idle.calls)),
        figure(one.way.idle_predicted(one.shape)),
        known(idle.and_then(|idle| idle.statements)),
        known(idle.map(|idle| idle.processor_ms)),
        figure(one.claims_per_event()),
        one.way.claims_predicted(one.shape).map_or("by the clock".to_owned(), figure),
        known(one.statements_per_event),
        millis(0.5),
        millis(0.99),
        millis(1.0),
    ];
    let mut row = [""; COLUMNS];
    row[0] = one.way.name;
    row[COLUMNS - 1] = one.way.latency_predicted();
    for (place, cell) in row[1..].iter_mut().zip(&cells) {
        *place = cell;
    }
    line(row)
}

fn value(one: &Measured) -> Value {
    let idle = one.idle.as_ref();
    json!({
        "way": one.way.name,
        "design": one.way.design,
        "mode": one.way.mode.name(),
        "nodes": one.shape.nodes,
        "dispatchers": one.shape.dispatchers,
        "pushes": one.pick_ups.len(),
        "idlePerSecond": {
            "measured": idle.map(|idle| idle.calls),
            "predicted": one.way.idle_predicted(one.shape),
            "statements": idle.and_then(|idle| idle.statements),
        },
        "idleProcessorMillisPerNodeAndSecond": idle.map(|idle| idle.processor_ms),
        "claimsPerPush": {
            "measured": one.claims_per_event(),
            "predicted": one.way.claims_predicted(one.shape),
        },
        "statementsPerPush": one.statements_per_event,
        "pickUpMicros": {
            "p50": one.quantile(0.5),
            "p99": one.quantile(0.99),
            "max": one.quantile(1.0),
            "predicted": one.way.latency_predicted(),
        },
        "degraded": one.degraded,
    })
}
