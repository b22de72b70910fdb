//! Outages of the store that last longer than leases: they cost time, and nothing else.

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

struct House {
    store: Arc<FaultingStore>,
    client: Client,
    runtime: Runtime,
    /// How often the activity ran.
    runs: Arc<AtomicU32>,
}

impl House {
    /// Its activity takes 20 seconds.
    async fn new() -> Self {
        Self::with_job(1, |run| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(run)
        })
        .await
    }

    /// Its activity is tried so often; it is told which run it is.
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

    /// Fails the next calls of an operation: about so many seconds.
    fn fail(&self, operation: &'static str, calls: u64) {
        (1..=calls).for_each(|nth| self.store.fail_operation(operation, nth, Fault::Before));
    }

    /// Starts the flow, and waits for its result. Returns how long that took.
    async fn run(&self) -> (Result<u32, wakeline_flow::ClientError>, Duration) {
        let began = Instant::now();
        self.client.start("f", "flow", &()).await.expect("started");
        (self.client.wait("f", LONG).await, began.elapsed())
    }
}

/// Why the instance is held back; waits until it is.
async fn held_back(house: &House) -> String {
    loop {
        let status = house.client.status("f").await.expect("a status");
        let instance = status.instance().expect("it was started");
        assert!(!instance.state.is_ended(), "it was never held back");
        if let Some(reason) = &instance.suspended {
            return reason.clone();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_always_takes_too_long_holds_its_instance_back_until_it_is_resumed() {
    let house = House::new().await;
    (1..=10).for_each(|nth| house.store.fail_operation("commit_turn", nth, Fault::TooLong));
    house.client.start("f", "flow", &()).await.expect("started");
    let reason = held_back(&house).await;
    assert!(reason.contains("cannot be committed") && reason.contains("too long"), "{reason}");
    assert!(reason.ends_with("resume the instance"), "{reason}");
    // Once more, it is not held back before it took too long as often.
    (1..=9).for_each(|nth| house.store.fail_operation("commit_turn", nth, Fault::TooLong));
    assert!(house.client.resume("f").await.expect("answered"));
    assert_eq!(house.client.wait::<u32>("f", LONG).await.expect("completed"), 1);
    assert_eq!(house.store.pending(), 0);
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn commits_that_take_too_long_while_renewals_fail_hold_no_instance_back() {
    let house = House::new().await;
    (1..=500).for_each(|nth| house.store.fail_operation("commit_turn", nth, Fault::TooLong));
    house.fail("renew", 2_000);
    let (result, _) = house.run().await;
    assert_eq!(result.expect("completed"), 1);
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn commits_that_fail_for_other_reasons_in_between_hold_no_instance_back() {
    let house = House::new().await;
    for nth in 1..=200 {
        let fault = if nth % 10 == 0 { Fault::Before } else { Fault::TooLong };
        house.store.fail_operation("commit_turn", nth, fault);
    }
    let (result, _) = house.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert_eq!(house.store.pending(), 0);
    house.runtime.shutdown(Duration::ZERO).await;
}

/// Ten leases of a turn take five minutes.
#[tokio::test(start_paused = true)]
async fn commits_that_fail_for_twenty_minutes_end_no_instance() {
    let house = House::new().await;
    house.fail("commit_turn", 1_200);
    let (result, took) = house.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert!(took > Duration::from_secs(1_000), "the outage was too short: {took:?}");
    assert_eq!(house.store.pending(), 0);
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn leases_that_end_while_only_claims_succeed_end_no_instance() {
    let house = House::new().await;
    house.fail("commit_turn", 3_000);
    house.fail("renew", 1_000);
    let (result, took) = house.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert!(took > Duration::from_secs(400), "the outage was too short: {took:?}");
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_is_offered_for_as_long_as_its_lease_can_be_renewed() {
    let house = House::new().await;
    house.fail("complete_work", 300);
    let (result, took) = house.run().await;
    assert_eq!(result.expect("completed"), 1);
    assert!(took > Duration::from_secs(250), "the outage was too short: {took:?}");
    assert_eq!(house.runs.load(Ordering::SeqCst), 1, "the activity ran again");
    house.runtime.shutdown(Duration::ZERO).await;
}

/// The lease of the first try ends during the outage, so it is lost. The second one fails.
#[tokio::test(start_paused = true)]
async fn an_outage_uses_up_no_try_of_an_activity() {
    let house = House::with_job(2, |run| async move {
        match run {
            1 => tokio::time::sleep(Duration::from_secs(300)).await,
            2 => return Err(FlowError::application("not yet")),
            _ => {}
        }
        Ok(run)
    });
    let house = house.await;
    house.client.start("f", "flow", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(5)).await;
    house.store.fail_from(1, Fault::Before);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(house.store.end_outage());
    assert_eq!(house.client.wait::<u32>("f", LONG).await.expect("completed"), 3);
    house.runtime.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_shuts_down_stops_offering() {
    let house = House::new().await;
    house.fail("commit_turn", 1_000_000);
    house.client.start("f", "flow", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(90)).await;
    let shutdown = house.runtime.shutdown(Duration::from_secs(1));
    tokio::time::timeout(Duration::from_secs(60), shutdown).await.expect("it ends");
}
