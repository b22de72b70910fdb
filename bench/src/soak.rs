//! `wakeline-bench soak`: a steady load with retention, and how large the store and the memory of
//! the server are meanwhile.
//!
//! Messages are pushed at a fixed rate, read by one consumer and acked, and go once they are a few
//! seconds old. A store that keeps up neither grows nor collects dead rows; the server's memory is
//! flat.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::client::{Connection, post};
use crate::node::{Node, StoreAt};
use crate::setup::Setup;
use crate::table::{Table, count};
use crate::wire;

const QUEUE: &str = "soak";
const PARTITIONS: usize = 20;
const BATCH: usize = 10;
/// How long messages, their ids and their ledger are kept, in seconds.
const KEPT_SECS: u32 = 5;
/// How often the size is read.
const SAMPLES: u32 = 8;

/// Tables with their indexes and dead rows, in the run's schema.
const SIZES: &str = "
    SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint AS tables,
        coalesce(sum(pg_indexes_size(c.oid)), 0)::bigint AS indexes,
        coalesce(sum(s.n_dead_tup), 0)::bigint AS dead
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE n.nspname = $1 AND c.relkind = 'r'";

/// Settings of the soak.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Seconds per store
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Messages a second
    #[arg(long, default_value_t = 1000)]
    rate: u64,
}

/// Counts of the run so far.
#[derive(Default)]
struct Tally {
    pushed: AtomicU64,
    acked: AtomicU64,
}

/// Runs the soak on both stores, one after the other.
pub(crate) async fn run(setup: &Setup, args: &SoakArgs) -> Result<()> {
    setup.introduce(
        "A steady load with retention",
        &format!(
            "{} s per store: {} messages a second in pushes of {BATCH} over {PARTITIONS} \
             partitions, one consumer that acks. completedRetentionSeconds, dedupWindowSeconds and \
             ledgerRetentionSeconds {KEPT_SECS}, housekeeping_interval_ms 1000.",
            args.seconds, args.rate
        ),
    );
    for store in [setup.postgres("soak"), setup.sqlite("soak.db")] {
        soak(setup, &store, args).await?;
    }
    Ok(())
}

async fn soak(setup: &Setup, store: &StoreAt, args: &SoakArgs) -> Result<()> {
    let node = Node::serve(&setup.server, store, &["--housekeeping-interval-ms=1000"])?;
    let address = node.address();
    let options = format!(
        "{{\"queue\":\"{QUEUE}\",\"options\":{{\"completedRetentionSeconds\":{KEPT_SECS},\
         \"dedupWindowSeconds\":{KEPT_SECS},\"ledgerRetentionSeconds\":{KEPT_SECS}}}}}"
    );
    let mut connection = Connection::open(address).await?;
    connection.call(&post("/api/v1/configure", &options)).await?.expect(200)?;
    let tally = Arc::new(Tally::default());
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let pushing = tokio::spawn(push(address, args.rate, end, Arc::clone(&tally)));
    let popping = tokio::spawn(pop(address, end, Arc::clone(&tally)));
    let mut table =
        Table::new(&["after", "pushed", "acked", "tables", "indexes", "dead rows", "memory"]);
    let began = Instant::now();
    for _ in 0..SAMPLES {
        sleep(Duration::from_secs(args.seconds) / SAMPLES).await;
        let (tables, indexes, dead) = sizes(setup, store).await?;
        table.row(&[
            format!("{:.0} s", began.elapsed().as_secs_f64()),
            count(tally.pushed.load(Ordering::Relaxed) as f64),
            count(tally.acked.load(Ordering::Relaxed) as f64),
            tables,
            indexes,
            dead,
            memory(node.pid())?,
        ]);
    }
    pushing.await??;
    popping.await??;
    table.print(store.kind());
    node.stop()
}

async fn push(address: SocketAddr, rate: u64, end: Instant, tally: Arc<Tally>) -> Result<()> {
    let requests: Vec<_> = (0..PARTITIONS).map(|p| wire::push(QUEUE, p, BATCH)).collect();
    let mut connection = Connection::open(address).await?;
    let mut ticks = interval(Duration::from_secs(1) * BATCH as u32 / u32::try_from(rate.max(1))?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for request in requests.iter().cycle() {
        ticks.tick().await;
        if Instant::now() >= end {
            break;
        }
        connection.call(request).await?.expect(201)?;
        tally.pushed.fetch_add(BATCH as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn pop(address: SocketAddr, end: Instant, tally: Arc<Tally>) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let request =
        crate::client::get(&format!("/api/v1/pop/queue/{QUEUE}?batch=100&wait=true&timeout=1000"));
    while Instant::now() < end {
        let Ok(answer) = timeout_at(end + Duration::from_secs(5), connection.call(&request)).await
        else {
            break;
        };
        let answer = answer?;
        if answer.status == 204 {
            continue;
        }
        let popped = wire::Popped::parse(answer.expect(200)?)?;
        let (len, ack) = (popped.len(), popped.ack());
        let answer = connection.call(&ack).await?;
        ensure!(wire::all_acked(answer.expect(200)?), "an ack was refused");
        tally.acked.fetch_add(len as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Tables, indexes, dead rows; of SQLite the file, its log, and nothing.
async fn sizes(setup: &Setup, store: &StoreAt) -> Result<(String, String, String)> {
    match store {
        StoreAt::Postgres { schema, .. } => {
            let client = setup.database.connect().await?;
            let row = client.query_one(SIZES, &[schema]).await?;
            Ok((kilobytes(row.get(0)), kilobytes(row.get(1)), count(row.get::<_, i64>(2) as f64)))
        }
        StoreAt::Sqlite { path } => {
            let log = path.with_extension("db-wal");
            let none = "-".to_owned();
            Ok((format!("file {}", file(path)?), format!("log {}", file(&log)?), none))
        }
    }
}

/// Resident memory of a process.
fn memory(pid: u32) -> Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.context("no resident memory")?.trim().trim_end_matches(" kB");
    Ok(kilobytes(resident.parse::<i64>()? * 1024))
}

fn file(path: &Path) -> Result<String> {
    let len = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    Ok(kilobytes(i64::try_from(len)?))
}

fn kilobytes(bytes: i64) -> String {
    format!("{} kB", count(bytes as f64 / 1024.0))
}
