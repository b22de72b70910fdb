//! Many parked clients on many queues, on one node: the table of the registry's design.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wakeline::{PollGrouping, WakeMode};

use super::stage::{self, store_at};
use super::ways::{REGISTRY, Way, polling, way};
use crate::client::{Connection, get};
use crate::database::Another;
use crate::node::Node;
use crate::plot::{Bar, Chart};
use crate::setup::Setup;
use crate::table::{Table, count, latencies, micros, millis, say};
use crate::wake::{WakeArgs, parked};
use crate::wire;

/// Time for which idle statements are counted.
const IDLE: Duration = Duration::from_secs(3);
/// Time for what a wake sets off to come to rest.
const REST: Duration = Duration::from_millis(50);
/// Clients wait so long that none comes back while something is measured.
const FLAGS: [&str; 4] = [
    "--hook-slots=0",
    "--default-timeout-ms=600000",
    "--wait-ms-max=600000",
    "--max-wait-time-ms=600000",
];
/// Connections that make the queues.
const MAKERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);

/// A row of the design's table.
#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    groups: usize,
    /// The design's poll workers; here the claims that may be under way at once.
    workers: usize,
    /// The check latency, in milliseconds.
    predicted: Option<u64>,
}

const fn load(clients: usize, groups: usize, workers: usize, predicted: Option<u64>) -> Load {
    Load { clients, groups, workers, predicted }
}

const LOADS: [Load; 9] = [
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

/// What was measured of one load.
struct Measured {
    way: Way,
    load: Load,
    idle: f64,
    bytes: u64,
    checks: Histogram<u64>,
    per_wake: f64,
}

/// Measures all loads.
pub(super) async fn run(setup: &Setup, args: &WakeArgs) -> Result<()> {
    let template = stage::template(setup).await?.name;
    let mut all = Vec::new();
    for load in LOADS.into_iter().filter(|load| !args.quick || load.clients <= 500) {
        let ways: &[Way] =
            if load.clients == 100 { &[APART, GROUPED, FUSED] } else { &[GROUPED, FUSED] };
        for way in ways {
            let place = setup.database.another("many", Some(&template)).await?;
            all.push(measure(setup, &place, (*way, load, args.wakes)).await?);
            setup.database.remove_another(&place.name).await?;
            eprintln!("measured: {} clients, {} groups, {}", load.clients, load.groups, way.name);
        }
    }
    setup.database.remove_another(&template).await?;
    print(&all, args.wakes);
    args.plots.as_deref().map_or(Ok(()), |folder| chart(&all).write(folder, "wake-capacity.svg"))
}

async fn measure(
    setup: &Setup,
    place: &Another,
    (way, load, wakes): (Way, Load, usize),
) -> Result<Measured> {
    let statements = async || setup.database.statements_in(&place.name).await;
    let workers = format!("--claims-in-flight-max={}", load.workers);
    // A connection for each, and those that are kept for other work.
    let pool = format!("--pg-pool-max={}", load.workers + 8);
    let flags = way.flags();
    let flags = flags.iter().map(String::as_str).chain(FLAGS).chain([&*workers, &*pool]);
    let node = Node::serve(&setup.server, &store_at(&place.url), &flags.collect::<Vec<_>>())?;
    let mut watcher = Connection::open(node.address()).await?;
    let mut pusher = Connection::open(node.address()).await?;
    make_queues(&node, load.groups).await?;
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
            () = tokio::time::sleep(PATIENCE) => None,
        };
        let had = answered.context("no parked pop was answered")?;
        parked(&mut watcher, load.clients).await?;
        // At any moment of the interval.
        tokio::time::sleep(REST + REST.mul_f64((wake as f64 * 0.618_034).fract() * 2.0)).await;
        checks.saturating_record(micros(had - sent));
        counted += statements().await?.since(&before).total;
    }
    let per_wake = counted as f64 / wakes as f64;
    Ok(Measured { way, load, idle, bytes, checks, per_wake })
}

/// Makes the queues, and uses each once: the first message of a queue concerns all who wait.
async fn make_queues(node: &Node, groups: usize) -> Result<()> {
    let mut makers = JoinSet::new();
    for first in 0..MAKERS {
        let mut connection = Connection::open(node.address()).await?;
        makers.spawn(async move {
            for group in (first..groups).step_by(MAKERS) {
                connection.call(&wire::push(&queue(group), 0, 1)).await?.expect(201)?;
                let pop = get(&format!("/api/v1/pop/queue/{}?autoAck=true", queue(group)));
                connection.call(&pop).await?.expect(200)?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

fn queue(group: usize) -> String {
    format!("q{group}")
}

/// Clients that pop, again and again, and tell when they got something.
async fn park(
    node: &Node,
    load: Load,
) -> Result<(JoinSet<Result<()>>, mpsc::UnboundedReceiver<Instant>)> {
    let (answered, answers) = mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    for client in 0..load.clients {
        let mut connection = Connection::lean(node.address()).await?;
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

/// The memory of a process.
fn resident_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.context("the process shows no memory")? * 1024)
}

fn print(all: &[Measured], wakes: usize) {
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
        let Measured { way, load, checks, .. } = measured;
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
            if way.polls() { "by the clock".to_owned() } else { per_wake },
            format!("{:.1} KiB", measured.bytes as f64 / 1024.0),
        ]);
    }
    table.print("Capacity: parked clients on one node");
    say(&format!(
        "\nPredicted by the Registry of Intentions. From sending a push to the answer of a parked \
         pop of its group: the commit of the push is in it. {wakes} wakes each, with autoAck. A \
         group is a queue with one consumer group. Memory is the growth of the server's resident \
         memory, with the connections."
    ));
}

fn chart(all: &[Measured]) -> Chart {
    let rows = LOADS.into_iter().filter_map(|load| {
        let of = |way: Way, predicted| {
            let same = |one: &&Measured| {
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
