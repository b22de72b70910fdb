//! `wakeline-bench soak`: a constant load with retention, and the size of the store and the memory
//! of the server meanwhile.
//!
//! Messages are pushed at a fixed rate, popped and acked by one consumer, and removed when they are
//! a few seconds old. A store that keeps up neither grows nor accumulates dead rows, and the memory
//! of the server stays constant.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::client::{BenchConnection, post};
use crate::node::{BenchStore, Node};
use crate::setup::Setup;
use crate::table::{Table, count};
use crate::wire;

const QUEUE: &str = "soak";
const PARTITIONS: usize = 20;
const BATCH: usize = 10;
/// Retention of messages, their ids and their ledger, in seconds.
const KEPT_SECS: u32 = 5;
/// How often the sizes are read.
const SAMPLES: u32 = 8;

/// Reads the sizes of tables and indexes and the number of dead rows in the schema of the run.
const SIZES: &str = "
    SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint AS tables,
        coalesce(sum(pg_indexes_size(c.oid)), 0)::bigint AS indexes,
        coalesce(sum(s.n_dead_tup), 0)::bigint AS dead
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE n.nspname = $1 AND c.relkind = 'r'";

/// Settings of the soak benchmark.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Seconds per store
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Messages per second
    #[arg(long, default_value_t = 1000)]
    rate: u64,
}

/// Counts of messages until now.
#[derive(Default)]
struct SoakCounters {
    pushed: AtomicU64,
    acked: AtomicU64,
}

/// Runs the benchmark on both stores, one after the other.
pub(crate) async fn run(setup: &Setup, args: &SoakArgs) -> Result<()> {
    setup.print_introduction(
        "A constant load with retention",
        &format!(
            "{} s per store: {} messages per second in pushes of {BATCH} over {PARTITIONS} \
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

async fn soak(setup: &Setup, store: &BenchStore, args: &SoakArgs) -> Result<()> {
    let node = Node::serve(&setup.server, store, &["--housekeeping-interval-ms=1000"])?;
    let address = node.address();
    let options = format!(
        "{{\"queue\":\"{QUEUE}\",\"options\":{{\"completedRetentionSeconds\":{KEPT_SECS},\
         \"dedupWindowSeconds\":{KEPT_SECS},\"ledgerRetentionSeconds\":{KEPT_SECS}}}}}"
    );
    let mut connection = BenchConnection::open(address).await?;
    connection.call(&post("/api/v1/configure", &options)).await?.expect(200)?;
    let counters = Arc::new(SoakCounters::default());
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let pushing = tokio::spawn(push(address, args.rate, end, Arc::clone(&counters)));
    let popping = tokio::spawn(pop(address, end, Arc::clone(&counters)));
    let mut table =
        Table::new(&["after", "pushed", "acked", "tables", "indexes", "dead rows", "memory"]);
    let began = Instant::now();
    for _ in 0..SAMPLES {
        sleep(Duration::from_secs(args.seconds) / SAMPLES).await;
        let (tables, indexes, dead) = sizes(setup, store).await?;
        table.row(&[
            format!("{:.0} s", began.elapsed().as_secs_f64()),
            count(counters.pushed.load(Ordering::Relaxed) as f64),
            count(counters.acked.load(Ordering::Relaxed) as f64),
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

async fn push(
    address: SocketAddr,
    rate: u64,
    end: Instant,
    counters: Arc<SoakCounters>,
) -> Result<()> {
    let requests: Vec<_> = (0..PARTITIONS).map(|p| wire::push(QUEUE, p, BATCH)).collect();
    let mut connection = BenchConnection::open(address).await?;
    let mut ticks = interval(Duration::from_secs(1) * BATCH as u32 / u32::try_from(rate.max(1))?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for request in requests.iter().cycle() {
        ticks.tick().await;
        if Instant::now() >= end {
            break;
        }
        connection.call(request).await?.expect(201)?;
        counters.pushed.fetch_add(BATCH as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn pop(address: SocketAddr, end: Instant, counters: Arc<SoakCounters>) -> Result<()> {
    let mut connection = BenchConnection::open(address).await?;
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
        counters.acked.fetch_add(len as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the sizes of tables and indexes and the number of dead rows. For SQLite these are the
/// size of the file, the size of its log, and `-`.
async fn sizes(setup: &Setup, store: &BenchStore) -> Result<(String, String, String)> {
    match store {
        BenchStore::Postgres { schema, .. } => {
            let client = setup.database.connect().await?;
            let row = client.query_one(SIZES, &[schema]).await?;
            Ok((kilobytes(row.get(0)), kilobytes(row.get(1)), count(row.get::<_, i64>(2) as f64)))
        }
        BenchStore::Sqlite { path } => {
            let log = path.with_extension("db-wal");
            let none = "-".to_owned();
            Ok((format!("file {}", file(path)?), format!("log {}", file(&log)?), none))
        }
    }
}

/// Returns the resident memory of a process.
fn memory(pid: u32) -> Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident =
        resident.context("the memory of the process is unknown")?.trim().trim_end_matches(" kB");
    Ok(kilobytes(resident.parse::<i64>()? * 1024))
}

fn file(path: &Path) -> Result<String> {
    let len = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    Ok(kilobytes(i64::try_from(len)?))
}

fn kilobytes(bytes: i64) -> String {
    format!("{} kB", count(bytes as f64 / 1024.0))
}
