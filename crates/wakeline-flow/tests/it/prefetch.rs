//! Tests that many items are fetched ahead while the code is fast, but none that other processes
//! could begin sooner.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wakeline_flow::provider::{Provider, StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    ActivityContext, Client, FlowError, OrchestrationContext, Prefetch, Registry, Runtime,
    RuntimeOptions, join_all,
};
use wakeline_testkit::faults::FaultingStore;
use wakeline_testkit::oracle::MemoryStore;
use wakeline_wake::{PollMode, WakeMode};

const LONG: Duration = Duration::from_secs(3600);

/// Creates a registry that counts the activities that it runs.
fn registry(ran: &Arc<AtomicU32>) -> Registry {
    let ran = Arc::clone(ran);
    Registry::builder()
        .orchestration("many", async |ctx: OrchestrationContext, (count, ms): (u32, u64)| {
            let all = (0..count).map(|_| ctx.activity::<_, u32>("wait", ms).start());
            join_all(all).await.into_iter().sum::<Result<u32, FlowError>>()
        })
        .activity("wait", move |ctx: ActivityContext, ms: u64| {
            ran.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok::<_, FlowError>(ctx.attempt())
            }
        })
        .build()
        .expect("a registry")
}

fn provider() -> Arc<dyn Provider> {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    Arc::new(StoreProvider::new(store, StoreProviderOptions::default()))
}

async fn process(provider: &Arc<dyn Provider>, prefetch: Prefetch) -> (Runtime, Arc<AtomicU32>) {
    let ran = Arc::new(AtomicU32::new(0));
    let options = RuntimeOptions { prefetch, ..RuntimeOptions::default() };
    let runtime = Runtime::start_with_options(Arc::clone(provider), registry(&ran), options).await;
    (runtime.expect("the options are valid"), ran)
}

async fn run(client: &Client, instance: &str, count: u32, ms: u64) {
    client.start(instance, "many", &(count, ms)).await.expect("started");
    let attempts: u32 = client.wait(instance, LONG).await.expect("completed");
    assert_eq!(attempts, count, "each had one attempt: items given back are not counted");
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_code_became_slow_leaves_items_to_an_idle_one() {
    let provider = provider();
    let (first, first_ran) = process(&provider, Prefetch::default()).await;
    let client = first.client();
    run(&client, "fast", 100, 1).await;
    assert_eq!(first_ran.swap(0, Ordering::SeqCst), 100);
    let began = Instant::now();
    client.start("slow", "many", &(12_u32, 10_000_u64)).await.expect("started");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let depths = client.depths().await.expect("read");
    assert_eq!((depths.leased_work, depths.work), (12, 0), "they were fast: all are in flight");
    let (second, second_ran) = process(&provider, Prefetch::default()).await;
    client.wait::<u32>("slow", LONG).await.expect("completed");
    // Each process runs four at a time: twelve take two rounds. The first one alone would take
    // three.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(first_ran.load(Ordering::SeqCst) + second_ran.load(Ordering::SeqCst), 12);
    assert!(second_ran.load(Ordering::SeqCst) >= 4);
    first.shutdown(Duration::ZERO).await;
    second.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_runtime_waits_with_one_fetch_per_slot() {
    let poll = WakeMode::Poll(PollMode::default());
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast, poll] {
        for prefetch in [Prefetch::default(), Prefetch::Fixed(100)] {
            let store = Arc::new(MemoryStore::with_tokio_clock());
            let options = StoreProviderOptions { mode, ..StoreProviderOptions::default() };
            let inner = StoreProvider::new(store, options);
            let provider: Arc<dyn Provider> = Arc::new(inner.clone());
            let (runtime, _) = process(&provider, prefetch).await;
            run(&runtime.client(), "busy", 200, 1).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let before = inner.snapshot();
            assert_eq!(before.waiters, 4 + 4, "{mode}, {prefetch:?}");
            tokio::time::sleep(Duration::from_secs(10)).await;
            let claims = inner.snapshot().counters.claims.total() - before.counters.claims.total();
            let paced = if mode == poll { 8 * 10 * 10 } else { 0 };
            assert!(claims <= paced, "{mode}, {prefetch:?}: {claims} claims");
            runtime.shutdown(Duration::ZERO).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_activities_are_not_fetched_ahead() {
    let provider = provider();
    let (runtime, _) = process(&provider, Prefetch::default()).await;
    let client = runtime.client();
    run(&client, "first", 4, 5_000).await;
    client.start("slow", "many", &(12_u32, 5_000_u64)).await.expect("started");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let depths = client.depths().await.expect("read");
    assert_eq!((depths.leased_work, depths.work), (4, 8), "other processes may take the rest");
    runtime.shutdown(Duration::ZERO).await;
}

/// Returns how long 400 activities of 1 ms take if a round trip to the store takes 10 ms.
async fn span(prefetch: Prefetch) -> Duration {
    let store = FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock()));
    for operation in ["claim_work", "complete_work"] {
        store.delay(operation, Duration::from_millis(10));
    }
    let provider: Arc<dyn Provider> =
        Arc::new(StoreProvider::new(Arc::new(store), StoreProviderOptions::default()));
    let (runtime, _) = process(&provider, prefetch).await;
    let client = runtime.client();
    run(&client, "first", 20, 1).await;
    let began = Instant::now();
    run(&client, "many", 400, 1).await;
    runtime.shutdown(Duration::ZERO).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn fast_activities_do_not_wait_for_each_others_fetches() {
    let (ahead, never) = (span(Prefetch::default()).await, span(Prefetch::Fixed(0)).await);
    // Four at a time with 11 ms each take 1.1 s. With prefetched items it is little more than 100
    // ms.
    assert!(ahead * 4 < never, "{never:?} without, {ahead:?} with");
}
