//! Tests that runtimes that shut down under load leave nothing leased.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use wakeline::provider::{StoreProvider, StoreProviderOptions, WorkFilter};
use wakeline::{
    ActivityContext, Client, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime,
    RuntimeOptions,
};

use wakeline_testkit::faults::{Fault, FaultingStore};

use crate::support::{Store, eventually, long};

const WAIT_MAX: Duration = Duration::from_secs(30);

async fn echo(_: ActivityContext, n: u32) -> Result<u32, FlowError> {
    Ok(n)
}

async fn twice(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    Ok(ctx.call(echo, n).await? + ctx.call(echo, n).await?)
}

fn registry() -> Registry {
    let builder = Registry::builder().orchestration("twice", twice).activity("echo", echo);
    builder.build().expect("a registry")
}

async fn shutdowns_leave_nothing_leased(store: Store) {
    let rounds = if long() { 100 } else { 15 };
    // The lease is longer than the test, so that an item that is left leased is noticed.
    let lease = Duration::from_secs(600);
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lease,
        worker_lock_timeout: lease,
        ..RuntimeOptions::default()
    };
    let outside = store.node(LongPollConfig::default()).await;
    let client = Client::new(outside.provider());
    for round in 0..rounds {
        let node = store.node(LongPollConfig::default()).await;
        let started = Runtime::start_with_options(node.provider(), registry(), options.clone());
        let runtime = started.await.expect("started");
        for n in 0..5 {
            client.start(&format!("{round}-{n}"), "twice", &n).await.expect("started");
        }
        tokio::time::sleep(Duration::from_millis(round % 10)).await;
        runtime.shutdown(Duration::from_secs(60)).await;
        let depths = client.depths().await.expect("read");
        assert_eq!((depths.leased_turns, depths.leased_work), (0, 0), "round {round}");
    }
    let node = store.node(LongPollConfig::default()).await;
    let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
    for round in 0..rounds {
        for n in 0..5 {
            let id = format!("{round}-{n}");
            let sum: u32 = client.wait(&id, Duration::from_secs(60)).await.expect("completed");
            assert_eq!(sum, 2 * n);
        }
    }
    runtime.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_shutdown_under_load_leaves_nothing_leased_on_sqlite() {
    shutdowns_leave_nothing_leased(Store::sqlite()).await;
}

#[tokio::test]
async fn a_shutdown_under_load_leaves_nothing_leased_on_postgres() {
    shutdowns_leave_nothing_leased(Store::postgres().await).await;
}

/// Reports when it is dropped.
struct Gone(mpsc::UnboundedSender<&'static str>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// An orchestration with one activity that reports what happens to it; with `again` it returns at
/// once.
fn watched(
    report: mpsc::UnboundedSender<&'static str>,
    obeys: bool,
    session: Option<&'static str>,
) -> Registry {
    let activity = move |ctx: ActivityContext, again: bool| {
        let report = report.clone();
        async move {
            if again {
                return Ok::<_, FlowError>(());
            }
            let _gone = Gone(report.clone());
            report.send("begun").expect("the test receives");
            ctx.cancelled().await;
            report.send("cancelled").expect("the test receives");
            if obeys { Ok(()) } else { std::future::pending().await }
        }
    };
    let registry = Registry::builder()
        .orchestration("caller", move |ctx: OrchestrationContext, again: bool| async move {
            let call = ctx.activity::<_, ()>("watched", again);
            match session {
                Some(session) => call.session(session).await,
                None => call.await,
            }
        })
        .activity("watched", activity);
    registry.build().expect("no duplicate names")
}

#[tokio::test]
async fn a_dropped_runtime_cancels_its_activities_and_gives_them_back() {
    for store in Store::both().await {
        for obeys in [true, false] {
            let (report, mut reports) = mpsc::unbounded_channel();
            // The lease is longer than the test, so that an item that is left leased is noticed.
            let options = RuntimeOptions {
                worker_lock_timeout: Duration::from_secs(600),
                cancellation_grace: Duration::from_millis(50),
                ..RuntimeOptions::default()
            };
            let node = store.node(LongPollConfig::default()).await;
            let start = || {
                let registry = watched(report.clone(), obeys, None);
                Runtime::start_with_options(node.provider(), registry, options.clone())
            };
            let runtime = start().await.expect("started");
            let instance = format!("obeys {obeys}");
            runtime.client().start(&instance, "caller", &false).await.expect("started");
            let mut next = async || {
                let report = tokio::time::timeout(WAIT_MAX, reports.recv()).await;
                report.expect("a report arrives").expect("a report arrives")
            };
            assert_eq!(next().await, "begun", "{}", store.name());
            drop(runtime);
            assert_eq!(next().await, "cancelled", "{}", store.name());
            assert_eq!(next().await, "dropped", "{}", store.name());
            let runtime = start().await.expect("started");
            assert_eq!(next().await, "begun", "{}: another runtime takes it", store.name());
            runtime.shutdown(Duration::ZERO).await;
            store.client().await.terminate(&instance, "seen").await.expect("ended");
        }
    }
}

/// Another process takes the activity at once, without waiting for the lease of the session.
#[tokio::test]
async fn a_dropped_runtime_releases_its_sessions() {
    for store in Store::both().await {
        let (report, mut reports) = mpsc::unbounded_channel();
        // The lease is longer than the test, so that an item that is left leased is noticed.
        let start = async || {
            let options = RuntimeOptions {
                worker_lock_timeout: Duration::from_secs(600),
                session_lock_timeout: Duration::from_secs(600),
                ..RuntimeOptions::default()
            };
            let node = store.node(LongPollConfig::default()).await;
            let registry = watched(report.clone(), true, Some("s"));
            let runtime = Runtime::start_with_options(node.provider(), registry, options).await;
            runtime.expect("started")
        };
        let mut next = async || {
            let report = tokio::time::timeout(WAIT_MAX, reports.recv()).await;
            report.expect("a report arrives").expect("a report arrives")
        };
        let first = start().await;
        first.client().start("a", "caller", &false).await.expect("started");
        assert_eq!(next().await, "begun", "{}", store.name());
        let second = start().await;
        drop(first);
        for expected in ["cancelled", "dropped", "begun"] {
            assert_eq!(next().await, expected, "{}", store.name());
        }
        second.shutdown(Duration::ZERO).await;
    }
}

/// Waiters of the same process notice the end of a lease whose holder is gone.
#[tokio::test]
async fn an_expired_lease_of_the_same_process_is_claimed_when_it_ends() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let (report, _reports) = mpsc::unbounded_channel();
        let (lease, filter) = (Duration::from_secs(2), WorkFilter::default());
        let holder = {
            let provider = node.provider();
            tokio::spawn(async move {
                provider.fetch_work_item_for(&filter, lease, Some(WAIT_MAX)).await
            })
        };
        eventually("it waits", async || node.snapshot().waiters == 1).await;
        // Without sessions it waits in the same line, behind the holder.
        let options = RuntimeOptions { session_owner: None, ..RuntimeOptions::default() };
        let registry = watched(report, true, None);
        let runtime = Runtime::start_with_options(node.provider(), registry, options).await;
        let runtime = runtime.expect("started");
        let both_wait = async || {
            let now = node.snapshot();
            now.waiters > 2 && now.claims_in_flight + now.claims_queued == 0
        };
        eventually("both wait", both_wait).await;
        runtime.client().start("a", "caller", &true).await.expect("started");
        let held = holder.await.expect("no panic").expect("fetched").expect("an activity");
        assert_eq!(held.attempt, 1, "{}", store.name());
        let ended = runtime.client().wait::<()>("a", WAIT_MAX).await;
        ended.unwrap_or_else(|error| panic!("{}: {error}", store.name()));
        runtime.shutdown(WAIT_MAX).await;
    }
}

/// The program ends right after the start, so nothing could send the hint later.
#[tokio::test]
async fn a_start_by_a_program_that_ends_at_once_wakes_other_processes() {
    for store in Store::both().await {
        // Nothing else would notice the start within the test.
        let hour = Duration::from_secs(3600);
        let long_poll = LongPollConfig {
            fallback_poll_interval: hour,
            max_wait_time: hour,
            ..LongPollConfig::default()
        };
        let options = RuntimeOptions {
            dispatcher_long_poll_timeout: Some(hour),
            ..RuntimeOptions::default()
        };
        let node = store.node(long_poll).await;
        let runtime = Runtime::start_with_options(node.provider(), registry(), options).await;
        let runtime = runtime.expect("started");
        let client = runtime.client();
        // A start may be noticed by chance without its hint, but not twenty times in a row.
        let deadline = Instant::now() + WAIT_MAX;
        for round in 0..20 {
            let id = format!("{round}");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut program = tokio::runtime::Builder::new_current_thread();
                    let program = program.enable_all().build().expect("a runtime");
                    program.block_on(async {
                        let client = store.client().await;
                        client.start(&id, "twice", &round).await.expect("started");
                    });
                    program.shutdown_background();
                });
            });
            let left = deadline.saturating_duration_since(Instant::now());
            let sum = client.wait::<u32>(&id, left).await;
            assert_eq!(sum.expect("completed"), 2 * round, "{}", store.name());
        }
        runtime.shutdown(WAIT_MAX).await;
    }
}

/// During a deployment the process with the new code may start before an old one takes another
/// turn.
#[tokio::test]
async fn a_process_that_ends_resumes_instances_that_mismatched_its_code() {
    for store in Store::both().await {
        let faulting = Arc::new(FaultingStore::new(store.open().await));
        let options = StoreProviderOptions::default();
        let new = Arc::new(StoreProvider::new(faulting.clone(), options));
        let new = Runtime::start(new, registry()).await.expect("started");
        faulting.fail_from(1, Fault::Before);
        let node = store.node(LongPollConfig::default()).await;
        // The old code lacks the activity.
        let old = Registry::builder().orchestration("twice", twice).build().expect("a registry");
        let old = Runtime::start(node.provider(), old).await.expect("started");
        let client = Client::new(node.provider());
        client.start("i", "twice", &2).await.expect("started");
        eventually("the old process suspends it", async || {
            let status = client.status("i").await.expect("a status");
            status.instance().is_some_and(|instance| instance.suspended.is_some())
        })
        .await;
        faulting.end_outage();
        old.shutdown(WAIT_MAX).await;
        let sum: u32 = client.wait("i", WAIT_MAX).await.expect("completed");
        assert_eq!(sum, 4, "{}", store.name());
        new.shutdown(WAIT_MAX).await;
    }
}
