//! `wakeline bench wake` measures, on the user's machine and database, what each way of waiting
//! costs and how soon it picks up messages, and prints the predictions of the designs beside it.
//!
//! # Where it sits
//! Runs one queue service for each node in this process. Dispatchers wait on all of them but one,
//! which the messages are pushed to. It needs neither a server nor more privileges than a server.
//!
//! # Invariants
//! * Nothing is read from or written to an existing store: see [`temporary_store`].
//! * Claims and sweeps are counted by the services themselves, statements by PostgreSQL if it has
//!   the extension pg_stat_statements.

mod measure;
mod temporary_store;
mod ways;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use wakeline_wake::{PollGrouping, PollMode, WakeMode};

use self::measure::{BenchPlan, Measured};
use self::temporary_store::TemporaryStore;
use self::ways::{ClusterShape, WAYS};
use crate::access::{StoreCommandArgs, print};
use crate::config::UsageError;
use crate::print_error;

/// Subcommands of `wakeline bench`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure idle claims, claims per message and pick-up latency of each wake mode
    ///
    /// The table also has the processor time of this process while idle, in milliseconds per second
    /// and node (CPU MS/S), and, if PostgreSQL has the extension pg_stat_statements, the number of
    /// statements while idle (STMT/S) and per message (STMTS).
    ///
    /// Measures ten ways of waiting (wake modes with different settings) for each number of nodes
    /// and of dispatchers (waiting consumers), and prints beside the results what the published
    /// designs of these ways predict (docs/reference/designs.md). That takes about three minutes,
    /// with `--dispatchers 4,8` about six, and with `--nodes 1` about one.
    ///
    /// Works in a temporary schema on the PostgreSQL server of --store (the role must be able to
    /// create schemas), or in a temporary folder beside the SQLite file, and removes it at the end.
    /// An existing store is neither read nor changed, but servers on the same machine are slowed
    /// down while the benchmark runs.
    Wake(WakeArgs),
}

/// Arguments of `wakeline bench wake`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WakeArgs {
    /// Only ways of this mode: fused, compete, broadcast or poll; can be repeated [default: all]
    #[arg(long = "mode", value_name = "MODE")]
    modes: Vec<WakeMode>,
    /// Numbers of nodes to measure with, like 1,3,10; each node uses up to six connections to
    /// PostgreSQL
    #[arg(long, value_delimiter = ',', default_value = "1,3,10", value_name = "COUNTS",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    nodes: Vec<u32>,
    /// Numbers of dispatchers per node to measure with, like 4,8; each waits on two queues
    #[arg(long, value_delimiter = ',', default_value = "4", value_name = "COUNTS",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    dispatchers: Vec<u32>,
    /// Messages per way of waiting, pushed one at a time; half as many for ways that poll
    #[arg(long, default_value = "10", value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pushes: u32,
    /// Seconds for which each way is measured while idle
    #[arg(long, default_value = "2", value_name = "SECONDS", allow_negative_numbers = true)]
    idle_seconds: f64,
    #[command(flatten)]
    common: StoreCommandArgs,
}

impl WakeArgs {
    fn plan(&self) -> Result<BenchPlan, UsageError> {
        let wrong = || {
            let text = format!("--idle-seconds must be from 0 to 3600, not {}", self.idle_seconds);
            UsageError(text)
        };
        let idle = Duration::try_from_secs_f64(self.idle_seconds).map_err(|_| wrong())?;
        if idle > Duration::from_secs(3600) {
            return Err(wrong());
        }
        Ok(BenchPlan { pushes: self.pushes, idle })
    }

    fn shapes(&self) -> impl Iterator<Item = ClusterShape> {
        let shape = |nodes| {
            let of =
                move |dispatchers: &u32| ClusterShape { nodes, dispatchers: *dispatchers as usize };
            self.dispatchers.iter().map(of)
        };
        self.nodes.iter().flat_map(move |nodes| shape(*nodes as usize))
    }
}

/// Runs `wakeline bench`.
pub(crate) fn run(command: BenchCommand) -> anyhow::Result<ExitCode> {
    let BenchCommand::Wake(args) = command;
    let plan = args.plan()?;
    let choice = args.common.location.choice()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let temporary = TemporaryStore::create(&choice)?;
        print_error(&format!("working in {temporary}, which is removed at the end"));
        let measured = tokio::select! {
            measured = wake(&temporary, &args, plan) => measured,
            _ = terminate.recv() => Err(anyhow::anyhow!("interrupted")),
            _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
        };
        let removed = temporary.remove().await;
        // If both failed, report the error of the measurement.
        measured.and(removed).map(|()| ExitCode::SUCCESS)
    })
}

/// Measures all ways and shapes of the arguments, and prints each row as soon as it is complete.
async fn wake(temporary: &TemporaryStore, args: &WakeArgs, plan: BenchPlan) -> anyhow::Result<()> {
    let wanted = |mode: &WakeMode| args.modes.iter().any(|one| one.name() == mode.name());
    let ways = WAYS.into_iter().filter(|way| args.modes.is_empty() || wanted(&way.mode));
    let mut title = Some(line(TITLE));
    for way in ways {
        for shape in args.shapes() {
            let measured = measure::way(temporary, way, shape, plan).await?;
            let lines = title.take().into_iter().chain([row(&measured)]);
            print(&args.common, [value(&measured)], lines);
            if let Some(reason) = &measured.degraded {
                let shape = shape.text();
                print_error(&format!(
                    "{} ({shape}): a node was degraded and polled, so that the result is not that \
                     of its mode: {reason}",
                    way.name
                ));
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
/// Widths of the columns between the first and the last.
const WIDTHS: [usize; COLUMNS - 2] = [6, 7, 9, 7, 8, 7, 12, 7, 10, 10, 10];

fn line(cells: [&str; COLUMNS]) -> String {
    let [way, numbers @ .., predicted] = cells;
    let numbers = numbers.iter().zip(WIDTHS);
    let line =
        numbers.fold(format!("{way:34}"), |line, (cell, width)| format!("{line}  {cell:>width$}"));
    format!("{line}  {predicted}")
}

fn row(one: &Measured) -> String {
    let number = |number: f64| match number {
        0.0 => "0".to_owned(),
        number if number < 10.0 => format!("{number:.2}"),
        number => format!("{number:.0}"),
    };
    let millis = |quantile| format!("{:.2}ms", one.quantile(quantile) as f64 / 1000.0);
    let known = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let idle = one.idle.as_ref();
    let cells = [
        one.shape.text(),
        known(idle.map(|idle| idle.calls)),
        number(one.way.idle_predicted(one.shape)),
        known(idle.and_then(|idle| idle.statements)),
        known(idle.map(|idle| idle.processor_ms)),
        number(one.claims_per_event()),
        one.way.claims_predicted(one.shape).map_or("by interval".to_owned(), number),
        known(one.statements_per_event),
        millis(0.5),
        millis(0.99),
        millis(1.0),
    ];
    let mut row = [""; COLUMNS];
    row[0] = one.way.name;
    row[COLUMNS - 1] = one.way.latency_predicted();
    for (slot, cell) in row[1..].iter_mut().zip(&cells) {
        *slot = cell;
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
