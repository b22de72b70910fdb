//! Many parked clients on many queues of one node: the capacity table of the design Registry of
//! Intentions.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wakeline::{PollGrouping, WakeMode};

use super::cluster::{self, store_location};
use super::ways::{REGISTRY, Way, polling, way};
use crate::client::{BenchConnection, get};
use crate::database::ScratchDatabase;
use crate::node::Node;
use crate::plot::{Bar, Chart};
use crate::setup::Setup;
use crate::table::{Table, count, latencies, micros, millis, print_line};
use crate::wake::{WakeBenchArgs, parked};
use crate::wire;

/// Time for which idle statements are counted.
const IDLE: Duration = Duration::from_secs(3);
/// How long to wait after a wake until the node is idle again.
const REST: Duration = Duration::from_millis(50);
/// Flags for waits that are so long that no client repeats its pop during a measurement.
const FLAGS: [&str; 4] = [
    "--hook-slots=0",
    "--default-timeout-ms=600000",
    "--wait-ms-max=600000",
    "--max-wait-time-ms=600000",
];
/// Connections that create the queues.
const CREATORS: usize = 16;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A row of the table in the design.
#[derive(Clone, Copy)]
struct ClientLoad {
    clients: usize,
    groups: usize,
    /// The number of poll workers in the design. Here it is the maximum number of concurrent
    /// claims.
    workers: usize,
    /// The predicted check latency, in milliseconds.
    predicted: Option<u64>,
}

const fn load(clients: usize, groups: usize, workers: usize, predicted: Option<u64>) -> ClientLoad {
    ClientLoad { clients, groups, workers, predicted }
}

const LOADS: [ClientLoad; 9] = [
    load(100, 1, 2, Some(2)),
    load(100, 50, 2, Some(100)),
    load(500, 200, 5, Some(150)),
    load(1_000, 500, 10, Some(200)),
    load(1_000, 1, 2, Some(2)),
    load(1_000, 1_000, 2, Some(2_000)),
    load(5_000, 2_000, 20, Some(300)),
    load(10_000, 1, 2, None),
    load(10_000, 2_000, 20, None),
];

const GROUPED: Way = way("poll 100 ms, grouped", REGISTRY, polling(100, false, PollGrouping::Line));
const APART: Way =
    way("poll 100 ms, each waiter", REGISTRY, polling(100, false, PollGrouping::Waiter));
const FUSED: Way = way("fused (the default)", REGISTRY, WakeMode::Fused);

/// The results of one load.
struct LoadResult {
    way: Way,
    load: ClientLoad,
    idle: f64,
    bytes: u64,
    checks: Histogram<u64>,
    per_wake: f64,
}

/// Measures all loads.
pub(super) async fn run(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
    let template = cluster::template(setup).await?.name;
    let mut all = Vec::new();
    for load in LOADS.into_iter().filter(|load| !args.quick || load.clients <= 500) {
        let ways: &[Way] =
            if load.clients == 100 { &[APART, GROUPED, FUSED] } else { &[GROUPED, FUSED] };
        for way in ways {
            let case = CapacityCase { way: *way, load, wakes: args.wakes };
            let database = setup.database.create_scratch("many", Some(&template)).await?;
            all.push(measure(setup, &database, case).await?);
            setup.database.remove_scratch(&database.name).await?;
            eprintln!("measured: {} clients, {} groups, {}", load.clients, load.groups, way.name);
        }
    }
    setup.database.remove_scratch(&template).await?;
    print(&all, args.wakes);
    args.plots.as_deref().map_or(Ok(()), |folder| chart(&all).write(folder, "wake-capacity.svg"))
}

/// A load that is measured with one way of waiting.
struct CapacityCase {
    way: Way,
    load: ClientLoad,
    wakes: usize,
}

async fn measure(
    setup: &Setup,
    database: &ScratchDatabase,
    case: CapacityCase,
) -> Result<LoadResult> {
    let CapacityCase { way, load, wakes } = case;
    let statements = async || setup.database.statements_in(&database.name).await;
    let workers = format!("--claims-in-flight-max={}", load.workers);
    // The pool has a connection for each claim, and the connections that are reserved for other
    // work.
    let pool = format!("--pg-pool-max={}", load.workers + 8);
    let flags = way.flags();
    let flags = flags.iter().map(String::as_str).chain(FLAGS).chain([&*workers, &*pool]);
    let node =
        Node::serve(&setup.server, &store_location(&database.url), &flags.collect::<Vec<_>>())?;
    let mut watcher = BenchConnection::open(node.address()).await?;
    let mut pusher = BenchConnection::open(node.address()).await?;
    create_queues(&node, load.groups).await?;
    let empty = resident_bytes(node.pid())?;
    let (mut clients, mut answers) = park(&node, load).await?;
    parked(&mut watcher, load.clients).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let bytes = resident_bytes(node.pid())?.saturating_sub(empty) / load.clients as u64;

    let (before, began) = (statements().await?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let idle = statements().await?.since(&before).total as f64;
    let idle = idle / began.elapsed().as_secs_f64();

    let mut checks = latencies();
    let mut counted = 0;
    for wake in 0..wakes {
        let group = (wake * 7_919) % load.groups;
        let before = statements().await?;
        let sent = Instant::now();
        pusher.call(&wire::push(&queue(group), 0, 1)).await?.expect(201)?;
        let answered = tokio::select! {
            answered = answers.recv() => answered,
            ended = clients.join_next() => ended.context("no client")??.map(|()| None)?,
            () = tokio::time::sleep(ANSWER_TIMEOUT) => None,
        };
        let had = answered.context("no parked pop was answered")?;
        parked(&mut watcher, load.clients).await?;
        // Waits for an arbitrary point of the interval.
        tokio::time::sleep(REST + REST.mul_f64((wake as f64 * 0.618_034).fract() * 2.0)).await;
        checks.saturating_record(micros(had - sent));
        counted += statements().await?.since(&before).total;
    }
    let per_wake = counted as f64 / wakes as f64;
    Ok(LoadResult { way, load, idle, bytes, checks, per_wake })
}

/// Creates the queues, and uses each once, because the first message of a queue wakes all waiters.
async fn create_queues(node: &Node, groups: usize) -> Result<()> {
    let mut creators = JoinSet::new();
    for first in 0..CREATORS {
        let mut connection = BenchConnection::open(node.address()).await?;
        creators.spawn(async move {
            for group in (first..groups).step_by(CREATORS) {
                connection.call(&wire::push(&queue(group), 0, 1)).await?.expect(201)?;
                let pop = get(&format!("/api/v1/pop/queue/{}?autoAck=true", queue(group)));
                connection.call(&pop).await?.expect(200)?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(made) = creators.join_next().await {
        made??;
    }
    Ok(())
}

fn queue(group: usize) -> String {
    format!("q{group}")
}

/// Starts clients that pop repeatedly, and report when they got a message.
async fn park(
    node: &Node,
    load: ClientLoad,
) -> Result<(JoinSet<Result<()>>, mpsc::UnboundedReceiver<Instant>)> {
    let (answered, answers) = mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    for client in 0..load.clients {
        let mut connection = BenchConnection::open_small(node.address()).await?;
        let queue = queue(client % load.groups);
        let pop = get(&format!("/api/v1/pop/queue/{queue}?wait=true&timeout=600000&autoAck=true"));
        connection.send(&pop).await?;
        let answered = answered.clone();
        clients.spawn(async move {
            loop {
                let got = connection.receive().await?.status == 200;
                let had = Instant::now();
                connection.send(&pop).await?;
                if got && answered.send(had).is_err() {
                    return Ok(());
                }
            }
        });
    }
    Ok((clients, answers))
}

/// Returns the resident memory of a process.
fn resident_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.context("the memory of the process is unknown")? * 1024)
}

fn print(all: &[LoadResult], wakes: usize) {
    let mut table = Table::new(&[
        "clients",
        "groups",
        "way of waiting",
        "claims at once",
        "check latency predicted",
        "p50",
        "p99",
        "max",
        "idle statements/s",
        "statements per wake",
        "memory per client",
    ]);
    for measured in all {
        let LoadResult { way, load, checks, .. } = measured;
        let at = |quantile: f64| millis(checks.value_at_quantile(quantile));
        let per_wake = format!("{:.1}", measured.per_wake);
        table.row(&[
            count(load.clients as f64),
            count(load.groups as f64),
            way.name.to_owned(),
            load.workers.to_string(),
            load.predicted.map_or("none".to_owned(), |millis| format!("{millis} ms")),
            at(0.5),
            at(0.99),
            millis(checks.max()),
            count(measured.idle),
            if way.polls() { "at intervals".to_owned() } else { per_wake },
            format!("{:.1} KiB", measured.bytes as f64 / 1024.0),
        ]);
    }
    table.print("Capacity: parked clients on one node");
    print_line(&format!(
        "\nPredicted by the Registry of Intentions. Measured from sending a push to the answer of \
         a parked pop of its group, including the commit of the push, with {wakes} wakes each \
         and autoAck. A group is a queue with one consumer group. Memory is the growth of the \
         resident memory of the server, including the connections."
    ));
}

fn chart(all: &[LoadResult]) -> Chart {
    let rows = LOADS.into_iter().filter_map(|load| {
        let of = |way: Way, predicted| {
            let same = |one: &&LoadResult| {
                (one.load.clients, one.load.groups) == (load.clients, load.groups)
                    && one.way.name == way.name
            };
            let micros = all.iter().find(same)?.checks.value_at_quantile(0.5);
            Some(Bar { measured: micros as f64 / 1_000.0, up_to: None, predicted })
        };
        let predicted = load.predicted.map(|millis| millis as f64);
        let noun = if load.groups == 1 { "group" } else { "groups" };
        let (clients, groups) = (count(load.clients as f64), count(load.groups as f64));
        let label = format!("{clients} clients, {groups} {noun}");
        Some((label, vec![of(GROUPED, predicted)?, of(FUSED, None)?]))
    });
    Chart {
        title: "From sending a push to the answer of a parked client, p50".to_owned(),
        unit: "milliseconds",
        floor: 1.0,
        series: [GROUPED, FUSED].map(|way| way.name.to_owned()).to_vec(),
        rows: rows.collect(),
    }
}
