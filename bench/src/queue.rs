//! `wakeline-bench queue`: pushes, and pops with acks, compared with a bare handler on the same
//! store; pushes compared with raw insertion; and different numbers of groups and partitions.

mod raw;
mod report;
mod shapes;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::cpu::Meter;
use crate::load::{self, Load, LoadMeasurement, LoadTarget};
use crate::node::{BenchStore, Node};
use crate::queue::report::QueueReport;
use crate::queue::shapes::Shapes;
use crate::setup::Setup;

const BATCHES: [usize; 3] = [1, 10, 100];
const PUSH_CONNECTIONS: [usize; 3] = [32, 64, 256];
const POP_CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_millis(300);

/// Settings of the queue benchmark.
#[derive(Args)]
pub(crate) struct QueueBenchArgs {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of measurements of each case, with both sides in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure one round of one second, to check that the benchmark works
    #[arg(long)]
    quick: bool,
    /// Measure only this store
    #[arg(long)]
    only: Option<StoreKind>,
    /// Measure only this kind of load
    #[arg(long)]
    load: Option<LoadKind>,
}

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// PostgreSQL
    Postgres,
    /// SQLite
    Sqlite,
}

/// What the connections of a case do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadKind {
    /// Push
    Push,
    /// Pop and ack
    Pop,
    /// Push, compared with the raw insertion of the same data
    Raw,
    /// Pop and ack by several groups
    Groups,
    /// Push, and pop and ack, with few and with many partitions
    Partitions,
}

/// A case that is measured: a store, a kind of load and its size.
#[derive(Debug, Clone)]
pub(crate) struct QueueCase {
    /// The store's name.
    pub(crate) store: &'static str,
    /// The kind of load.
    pub(crate) load: LoadKind,
    /// Messages per request.
    pub(crate) batch: usize,
    /// Number of connections.
    pub(crate) connections: usize,
}

/// The results of a case, one per round.
#[derive(Default)]
pub(crate) struct QueueRounds {
    /// Results of the server.
    pub(crate) server: Vec<LoadMeasurement>,
    /// Results of the bare handler.
    pub(crate) bare: Vec<LoadMeasurement>,
}

/// The server and the bare handler on one kind of store.
struct ServerPair {
    kind: StoreKind,
    store: &'static str,
    server: Node,
    bare: Node,
    postmaster: Option<u32>,
}

impl ServerPair {
    fn start(setup: &Setup, kind: StoreKind) -> Result<Self> {
        let (own, bare): (BenchStore, BenchStore) = match kind {
            StoreKind::Postgres => (setup.postgres("served"), setup.postgres("bare")),
            StoreKind::Sqlite => (setup.sqlite("served.db"), setup.sqlite("bare.db")),
        };
        let on_postgres = kind == StoreKind::Postgres;
        Ok(Self {
            kind,
            store: own.kind(),
            server: Node::serve(&setup.server, &own, &[])?,
            bare: Node::bare(&bare)?,
            postmaster: setup.database.postmaster.filter(|_| on_postgres),
        })
    }

    fn shapes<'a>(&'a self, setup: &'a Setup, rounds: usize, window: Duration) -> Shapes<'a> {
        Shapes {
            setup,
            kind: self.kind,
            store: self.store,
            server: &self.server,
            postmaster: self.postmaster,
            rounds,
            window,
        }
    }

    fn cases(&self, only: Option<LoadKind>) -> Vec<QueueCase> {
        let store = self.store;
        let case = |load, batch, connections| QueueCase { store, load, batch, connections };
        let mut cases = Vec::new();
        for batch in BATCHES {
            cases.extend(PUSH_CONNECTIONS.map(|many| case(LoadKind::Push, batch, many)));
        }
        cases.extend(BATCHES.map(|batch| case(LoadKind::Pop, batch, POP_CONNECTIONS)));
        cases.retain(|case| only.is_none_or(|only| only == case.load));
        cases
    }
}

/// Runs the benchmark.
pub(crate) async fn run(setup: &Setup, args: &QueueBenchArgs) -> Result<()> {
    let (rounds, seconds) = if args.quick { (1, 1.0) } else { (args.rounds, args.seconds) };
    let window = Duration::try_from_secs_f64(seconds).context("seconds")?;
    setup.print_introduction(
        "Queue over HTTP",
        &format!(
            "{rounds} rounds of {seconds} s per case and side, sides in turn, medians. {} \
             partitions, payloads of 130 bytes, client and servers on the same machine.",
            load::PARTITIONS
        ),
    );
    for kind in [StoreKind::Postgres, StoreKind::Sqlite] {
        if args.only.is_some_and(|only| only != kind) {
            continue;
        }
        let pair = ServerPair::start(setup, kind)?;
        let mut report = QueueReport::default();
        for case in pair.cases(args.load) {
            let mut results = QueueRounds::default();
            for round in 0..rounds.max(1) {
                measure_round(&pair, &case, Round { number: round, window }, &mut results).await?;
            }
            report.add(case, results);
        }
        // Tables are printed after each store, so that an interrupted run has printed some results.
        report.print(pair.store);
        let shapes = pair.shapes(setup, rounds.max(1), window);
        let wanted = |load: LoadKind| args.load.is_none_or(|only| only == load);
        if wanted(LoadKind::Raw) {
            shapes.print_raw().await?;
        }
        if wanted(LoadKind::Groups) {
            shapes.print_groups().await?;
        }
        if wanted(LoadKind::Partitions) {
            shapes.print_partitions().await?;
        }
    }
    Ok(())
}

/// A round of measurements.
#[derive(Clone, Copy)]
struct Round {
    number: usize,
    window: Duration,
}

/// Measures both sides once. The first side changes with each round.
async fn measure_round(
    pair: &ServerPair,
    case: &QueueCase,
    round: Round,
    results: &mut QueueRounds,
) -> Result<()> {
    let Round { number: round, window } = round;
    for turn in 0..2 {
        let own = (round + turn).is_multiple_of(2);
        let node = if own { &pair.server } else { &pair.bare };
        let target = LoadTarget {
            address: node.address(),
            meter: Meter { server: node.pid(), postgres: pair.postmaster },
            warm_up: WARM_UP,
            window,
        };
        let began = Instant::now();
        let measured = measure(&target, case, round).await?;
        let (side, rate) = (if own { "wakeline" } else { "bare" }, measured.messages);
        eprintln!("{:.1?} {case:?} {side} {rate:.0} messages/s", began.elapsed());
        let side = if own { &mut results.server } else { &mut results.bare };
        side.push(measured);
    }
    Ok(())
}

async fn measure(target: &LoadTarget, case: &QueueCase, round: usize) -> Result<LoadMeasurement> {
    let QueueCase { batch, connections, .. } = *case;
    match case.load {
        LoadKind::Push => {
            let queue = format!("push-{batch}-{connections}");
            load::push(target, &Load { queue, batch, connections }).await
        }
        LoadKind::Pop => {
            let queue = format!("pop-{batch}-{round}");
            let seconds = (target.warm_up + target.window).as_secs_f64();
            let backlog = (backlog_per_sec(batch) * seconds) as u64;
            let backlog = load::fill(target.address, &queue, backlog).await?;
            load::pop(target, &Load { queue, batch, connections }, backlog).await
        }
        other => anyhow::bail!("{other:?} is not compared with the bare handler"),
    }
}

/// Number of messages that must be available for each second of popping. A measurement ends early
/// if they are exhausted.
fn backlog_per_sec(batch: usize) -> f64 {
    match batch {
        ..=1 => 30_000.0,
        2..=10 => 80_000.0,
        _ => 150_000.0,
    }
}
