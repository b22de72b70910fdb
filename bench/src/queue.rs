//! `wakeline-bench queue`: pushes, and pops with acks, beside a bare handler over the same store;
//! pushes beside raw insertion; groups and partitions in numbers.

mod raw;
mod report;
mod shapes;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::cpu::Meter;
use crate::load::{self, Load, Measured, Target};
use crate::node::{Node, StoreAt};
use crate::queue::report::Report;
use crate::queue::shapes::Shapes;
use crate::setup::Setup;

const BATCHES: [usize; 3] = [1, 10, 100];
const PUSH_CONNECTIONS: [usize; 3] = [32, 64, 256];
const POP_CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_millis(300);

/// Settings of the queue benchmark.
#[derive(Args)]
pub(crate) struct QueueArgs {
    /// Seconds of each single measurement
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Times that each case is measured, both sides in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One round of one second: to see that it works
    #[arg(long)]
    quick: bool,
    /// Measure one store only
    #[arg(long)]
    only: Option<StoreKind>,
    /// Measure one kind of load only
    #[arg(long)]
    load: Option<LoadKind>,
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

/// What the connections of a case do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadKind {
    /// Push.
    Push,
    /// Pop and ack.
    Pop,
    /// Push beside the raw insertion of the same data.
    Raw,
    /// Pop and ack by several groups.
    Groups,
    /// Push, and pop and ack, with few partitions and many.
    Partitions,
}

/// What is measured: a store, a kind of load and its size.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The store's name.
    pub(crate) store: &'static str,
    /// What the connections do.
    pub(crate) load: LoadKind,
    /// Messages per request.
    pub(crate) batch: usize,
    /// Connections.
    pub(crate) connections: usize,
}

/// The figures of a case, one per round.
#[derive(Default)]
pub(crate) struct Rounds {
    /// Of the server.
    pub(crate) server: Vec<Measured>,
    /// Of the bare handler.
    pub(crate) bare: Vec<Measured>,
}

/// Both sides on one kind of store.
struct Pair {
    kind: StoreKind,
    store: &'static str,
    server: Node,
    bare: Node,
    postmaster: Option<u32>,
}

impl Pair {
    fn start(setup: &Setup, kind: StoreKind) -> Result<Self> {
        let (own, rival): (StoreAt, StoreAt) = match kind {
            StoreKind::Postgres => (setup.postgres("served"), setup.postgres("bare")),
            StoreKind::Sqlite => (setup.sqlite("served.db"), setup.sqlite("bare.db")),
        };
        let on_postgres = kind == StoreKind::Postgres;
        Ok(Self {
            kind,
            store: own.kind(),
            server: Node::serve(&setup.server, &own, &[])?,
            bare: Node::bare(&rival)?,
            postmaster: setup.database.postmaster.filter(|_| on_postgres),
        })
    }

    fn shapes<'a>(&'a self, setup: &'a Setup, rounds: (usize, Duration)) -> Shapes<'a> {
        Shapes {
            setup,
            kind: self.kind,
            store: self.store,
            server: &self.server,
            postmaster: self.postmaster,
            rounds,
        }
    }

    fn cases(&self, only: Option<LoadKind>) -> Vec<Case> {
        let store = self.store;
        let case = |load, batch, connections| Case { store, load, batch, connections };
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
pub(crate) async fn run(setup: &Setup, args: &QueueArgs) -> Result<()> {
    let (rounds, seconds) = if args.quick { (1, 1.0) } else { (args.rounds, args.seconds) };
    let window = Duration::try_from_secs_f64(seconds).context("seconds")?;
    setup.introduce(
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
        let pair = Pair::start(setup, kind)?;
        let mut report = Report::default();
        for case in pair.cases(args.load) {
            let mut figures = Rounds::default();
            for round in 0..rounds.max(1) {
                measure_round(&pair, &case, (round, window), &mut figures).await?;
            }
            report.add(case, figures);
        }
        // Store by store: a run that is cut short leaves what it has.
        report.print(pair.store);
        let shapes = pair.shapes(setup, (rounds.max(1), window));
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

/// Both sides once; who goes first changes from round to round.
async fn measure_round(
    pair: &Pair,
    case: &Case,
    (round, window): (usize, Duration),
    figures: &mut Rounds,
) -> Result<()> {
    for turn in 0..2 {
        let own = (round + turn).is_multiple_of(2);
        let node = if own { &pair.server } else { &pair.bare };
        let target = Target {
            address: node.address(),
            meter: Meter { server: node.pid(), postgres: pair.postmaster },
            warm_up: WARM_UP,
            window,
        };
        let began = Instant::now();
        let measured = measure(&target, case, round).await?;
        let (side, rate) = (if own { "wakeline" } else { "bare" }, measured.messages);
        eprintln!("{:.1?} {case:?} {side} {rate:.0} messages/s", began.elapsed());
        let side = if own { &mut figures.server } else { &mut figures.bare };
        side.push(measured);
    }
    Ok(())
}

async fn measure(target: &Target, case: &Case, round: usize) -> Result<Measured> {
    let Case { batch, connections, .. } = *case;
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
        other => anyhow::bail!("{other:?} is not measured beside the bare handler"),
    }
}

/// Messages that a second of popping may use up. A measurement ends early if they run out.
fn backlog_per_sec(batch: usize) -> f64 {
    match batch {
        ..=1 => 30_000.0,
        2..=10 => 80_000.0,
        _ => 150_000.0,
    }
}
