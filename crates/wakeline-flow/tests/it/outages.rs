//! Tests that outages of the store that last longer than leases only delay results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    ActivityContext, Client, FlowError, OrchestrationContext, Registry, Runtime, RuntimeOptions,
};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

const LONG: Duration = Duration::from_secs(24 * 3600);

struct Env {
    store: Arc<FaultingStore>,
    client: Client,
    runtime: Runtime,
    /// The number of times that the activity ran.
    runs: Arc<AtomicU32>,
}

impl Env {
    /// The activity takes 20 seconds.
    async fn new() -> Self {
        Self::with_job(1, |run| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(run)
        })
        .await
    }

    /// The activity has this number of attempts, and gets the number of the run.
    async fn with_job<R>(attempts: u32, job: fn(u32) -> R) -> Self
    where
        R: Future<Output = Result<u32, FlowError>> + Send + 'static,
    {
        let memory = Arc::new(MemoryStore::with_tokio_clock());
        let store = Arc::new(FaultingStore::new(memory));
        let provider = Arc::new(StoreProvider::new(store.clone(), StoreProviderOptions::default()));
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        let job = move |_: ActivityContext, (): ()| job(counted.fetch_add(1, Ordering::SeqCst) + 1);
        let flow = move |ctx: OrchestrationContext, (): ()| async move {
            ctx.activity::<_, u32>("job", ()).attempts(attempts).await
        };
        let registry = Registry::builder().orchestration("flow", flow).activity("job", job);
        let registry = registry.build().expect("a registry");
        let options = RuntimeOptions::default();
        let runtime = Runtime::start_with_options(provider.clone(), registry, options);
        let runtime = runtime.await.expect("started");
        Self { store, client: Client::new(provider), runtime, runs }
    }

    /// Fails the next `calls` calls of an operation, which takes about as many seconds.
    fn fail(&self, operation: &'static str, calls: u64) {
        (1..=calls).for_each(|nth| self.store.fail_operation(operation, nth, Fault::Before));
    }

    /// Starts the flow and waits for its result. Returns the result and how long it took.
    async fn run(&self) -> (Result<u32, wakeline_flow::ClientError>, Duration) {
        let began = Instant::now();
        self.client.start("f", "flow", &()).await.expect("started");
        (self.client.wait("f", LONG).await, began.elapsed())
    }
}

/// Waits until the instance is suspended, and returns the reason.
async fn suspension_reason(env: &Env) -> String {
    loop {
        let status = env.client.status("f").await.expect("a status");
        let instance = status.instance().expect("it was started");
        assert!(!instance.state.is_ended(), "it was never suspended");
        if let Some(reason) = &instance.suspended {
            return reason.clone();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_always_takes_too_long_suspends_its_instance() {
    let env = Env::new().await;
    (1..=10).for_each(|nth| env.store.fail_operation("commit_turn", nth, Fault::TooLong));
    env.client.start("f", "flow", &()).await.expect("started");
    let reason = suspension_reason(&env).await;
    assert!(reason.contains("cannot be committed") && reason.contains("too long"), "{reason}");
    assert!(reason.ends_with("resume the instance"), "{reason}");
    // After a resume, it is suspended only after as many slow commits again.
    (1..=9).for_each(|nth| env.store.fail_operation("commit_turn", nth, Fault::TooLong));
    assert!(env.client.resume("f").await.expect("answered"));
    assert_eq!(env.client.wait::<u32>("f", LONG).await.expect("completed"), 1);
    assert_eq!(env.store.pending(), 0);
    env.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn slow_commits_during_failing_renewals_do_not_suspend_the_instance() {
    let env = Env::new().await;
    (1..=500).for_each(|nth| env.store.fail_operation("commit_turn", nth, Fault::TooLong));
    env.fail("renew", 2_000);
    let (result, _) = env.run().await;
    assert_eq!(result.expect("completed"), 1);
    env.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn slow_commits_mixed_with_other_failures_do_not_suspend_the_instance() {
    let env = Env::new().await;
    for nth in 1..=200 {
        let fault = if nth % 10 == 0 { Fault::Before } else { Fault::TooLong };
        env.store.fail_operation("commit_turn", nth, fault);
    }
    let (result, _) = env.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert_eq!(env.store.pending(), 0);
    env.runtime.shutdown(Duration::ZERO).await;
}

/// Twenty minutes are much longer than ten leases of a turn, which take five minutes.
#[tokio::test(start_paused = true)]
async fn commits_that_fail_for_twenty_minutes_do_not_end_the_instance() {
    let env = Env::new().await;
    env.fail("commit_turn", 1_200);
    let (result, took) = env.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert!(took > Duration::from_secs(1_000), "the outage was too short: {took:?}");
    assert_eq!(env.store.pending(), 0);
    env.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn leases_that_end_while_only_claims_succeed_do_not_end_the_instance() {
    let env = Env::new().await;
    env.fail("commit_turn", 3_000);
    env.fail("renew", 1_000);
    let (result, took) = env.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert!(took > Duration::from_secs(400), "the outage was too short: {took:?}");
    env.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_repeated_as_long_as_its_lease_can_be_renewed() {
    let env = Env::new().await;
    env.fail("complete_work", 300);
    let (result, took) = env.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert!(took > Duration::from_secs(250), "the outage was too short: {took:?}");
    assert_eq!(env.runs.load(Ordering::SeqCst), 1, "the activity ran again");
    env.runtime.shutdown(Duration::ZERO).await;
}

/// The lease of the first attempt ends during the outage, so it is lost. The second one fails.
#[tokio::test(start_paused = true)]
async fn an_outage_uses_up_no_attempt_of_an_activity() {
    let env = Env::with_job(2, |run| async move {
        match run {
            1 => tokio::time::sleep(Duration::from_secs(300)).await,
            2 => return Err(FlowError::application("not yet")),
            _ => {}
        }
        Ok(run)
    });
    let env = env.await;
    env.client.start("f", "flow", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(5)).await;
    env.store.fail_from(1, Fault::Before);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(env.store.end_outage());
    assert_eq!(env.client.wait::<u32>("f", LONG).await.expect("completed"), 3);
    env.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_shuts_down_stops_repeating_completions() {
    let env = Env::new().await;
    env.fail("commit_turn", 1_000_000);
    env.client.start("f", "flow", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(90)).await;
    let shutdown = env.runtime.shutdown(Duration::from_secs(1));
    tokio::time::timeout(Duration::from_secs(60), shutdown).await.expect("it ends");
}
