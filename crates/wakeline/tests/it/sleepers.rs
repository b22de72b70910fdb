//! Tests that many sleeping orchestrations cost no statements, and that their timers fire on time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::core::Timestamp;
use wakeline::provider::Provider;
use wakeline::{
    Client, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime, RuntimeOptions,
    SqliteProvider,
};
use wakeline_store::flow::{InstanceState, ListInstances};

use crate::support::{Database, long};

const HOUR: Duration = Duration::from_secs(3600);
/// The number of concurrent starts.
const STARTERS: usize = 64;

/// The number of sleepers, the time over which they wake, and how long they are watched.
struct Size {
    sleepers: usize,
    spread: Duration,
    watch: Duration,
}

fn size() -> Size {
    let (sleepers, spread, watch) = if long() { (100_000, 60, 20) } else { (1_000, 2, 2) };
    let secs = Duration::from_secs;
    Size { sleepers, spread: secs(spread), watch: secs(watch) }
}

/// Sleeps until a time, and returns by how many microseconds it woke too late.
async fn sleeper(ctx: OrchestrationContext, at: i64) -> Result<i64, FlowError> {
    ctx.sleep_until(Timestamp(at)).await;
    Ok(ctx.now().0 - at)
}

async fn runtime(provider: Arc<dyn Provider>) -> Runtime {
    let registry = Registry::builder().orchestration("sleeper", sleeper).build();
    let options = RuntimeOptions {
        // Hundreds wake in a second, and many share a commit.
        orchestration_concurrency: 64,
        // The hub looks once at the end of every lease. The leases are long, so that this is not
        // counted.
        orchestrator_lock_timeout: HOUR,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(provider, registry.expect("no name twice"), options).await;
    runtime.expect("valid")
}

fn patient() -> LongPollConfig {
    LongPollConfig {
        fallback_poll_interval: HOUR,
        notify_delivery_timeout: HOUR,
        ..LongPollConfig::default()
    }
}

/// Starts sleepers that wake at these times, and waits until all are asleep.
async fn put_to_sleep(client: &Client, prefix: &str, times: Vec<i64>) {
    let asleep = client.depths().await.expect("read").delayed + times.len() as u64;
    let mut starting = tokio::task::JoinSet::new();
    for (n, at) in times.into_iter().enumerate() {
        if starting.len() == STARTERS {
            starting.join_next().await.expect("some").expect("started");
        }
        let (client, id) = (client.clone(), format!("{prefix}-{n}"));
        starting.spawn(async move {
            client.start(&id, "sleeper", &at).await.expect("started");
        });
    }
    starting.join_all().await;
    while client.depths().await.expect("read").delayed < asleep {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.expect("after 1970").as_micros()).expect("before 292277")
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).expect("a short time")
}

/// Starts all sleepers. Returns the time at which the first one wakes, which is a while from now.
async fn all_asleep(client: &Client, size: &Size) -> i64 {
    // The speed of this machine decides how far away the first timer has to be.
    let started = Instant::now();
    put_to_sleep(client, "warm", vec![now() + micros(HOUR); 200]).await;
    let each = started.elapsed() / 200;
    let lead = 2 * each * u32::try_from(size.sleepers).expect("few") + size.watch * 3;
    let first = now() + micros(lead);
    let step = micros(size.spread) / i64::try_from(size.sleepers).expect("few");
    let times = (0..size.sleepers).map(|n| first + step * i64::try_from(n).expect("few"));
    put_to_sleep(client, "s", times.collect()).await;
    assert!(now() + micros(size.watch) < first, "the machine became slower than it had been");
    first
}

/// Waits until all have woken; prints and checks by how much they were late.
async fn all_awake(client: &Client, store: &str, first: i64, size: &Size) {
    // Counting a hundred thousand instances is expensive, so it is not done while they wake.
    let last = first + micros(size.spread);
    tokio::time::sleep(Duration::from_micros(u64::try_from(last - now()).unwrap_or(0))).await;
    let done = size.sleepers as u64;
    let completed = InstanceState::ALL.iter().position(|s| *s == InstanceState::Completed);
    let completed = completed.expect("one of all");
    while client.depths().await.expect("read").instances[completed] < done {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut late: Vec<i64> = Vec::with_capacity(size.sleepers);
    let mut filter =
        ListInstances { id_prefix: Some("s-".into()), limit: 1_000, ..ListInstances::default() };
    loop {
        let (page, next) = client.list(filter.clone()).await.expect("listed");
        let lateness_of = |output: wakeline::Json| output.to::<i64>().expect("a number");
        late.extend(page.into_iter().map(|one| lateness_of(one.result.expect("completed"))));
        match next {
            Some(_) => filter.after = next,
            None => break,
        }
    }
    late.sort_unstable();
    assert_eq!(late.len(), size.sleepers);
    let at = |share: f64| {
        Duration::from_micros(late[((late.len() - 1) as f64 * share) as usize].unsigned_abs())
    };
    eprintln!(
        "{store}: {} timers over {:?}: late p50 {:?}, p99 {:?}, max {:?}",
        late.len(),
        size.spread,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    assert!(late[0] >= 0, "a timer was {} us early", -late[0]);
}

/// Returns the resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    let kilobytes = line.split_whitespace().nth(1).expect("a field");
    kilobytes.parse::<u64>().expect("a number") * 1024
}

fn print_memory(store: &str, before: u64, size: &Size) {
    let grown = resident().saturating_sub(before);
    eprintln!("{store}: {} asleep: {} bytes each", size.sleepers, grown / size.sleepers as u64);
}

#[tokio::test]
async fn sleeping_instances_cost_no_statement_on_postgres_and_wake_on_time() {
    let size = size();
    let database = Database::create().await;
    let provider = Arc::new(database.node(patient()).await);
    let runtime = runtime(provider).await;
    let client = runtime.client();
    let before = resident();
    let first = all_asleep(&client, &size).await;
    print_memory("PostgreSQL", before, &size);
    database.statements().await;
    tokio::time::sleep(size.watch).await;
    assert_eq!(database.statements().await, [], "statements while all are asleep");
    all_awake(&client, "PostgreSQL", first, &size).await;
    runtime.shutdown(HOUR).await;
}

#[tokio::test]
async fn sleeping_instances_cost_no_command_on_sqlite_and_wake_on_time() {
    let size = size();
    let folder = tempfile::tempdir().expect("a folder");
    let provider = SqliteProvider::new_with_options(folder.path().join("s.db"), None, patient());
    let provider = provider.await.expect("opened");
    let runtime = runtime(Arc::new(provider.clone())).await;
    let client = runtime.client();
    let before = resident();
    let first = all_asleep(&client, &size).await;
    print_memory("SQLite", before, &size);
    let counted = provider.store().counters();
    tokio::time::sleep(size.watch).await;
    assert_eq!(provider.store().counters(), counted, "commands while all are asleep");
    all_awake(&client, "SQLite", first, &size).await;
    runtime.shutdown(HOUR).await;
}
