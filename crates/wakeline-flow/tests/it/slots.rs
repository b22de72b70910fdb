//! Tests that slots are occupied only by users' code and not by commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wakeline_flow::provider::{Provider, StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    ActivityContext, Client, FlowError, OrchestrationContext, Prefetch, Registry, Runtime,
    RuntimeOptions,
};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

/// Starts two instances with one slot each for turns and activities. Returns how many turns and
/// activities have run if calls of this operation never return.
async fn ran(stuck: &'static str) -> (u32, u32) {
    let store = FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock()));
    for nth in [1, 2] {
        store.fail_operation(stuck, nth, Fault::HangBefore);
    }
    let provider: Arc<dyn Provider> =
        Arc::new(StoreProvider::new(Arc::new(store), StoreProviderOptions::default()));
    let (turns, activities) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (turn, activity) = (Arc::clone(&turns), Arc::clone(&activities));
    let registry = Registry::builder()
        .orchestration("one", move |ctx: OrchestrationContext, (): ()| {
            turn.fetch_add(1, Ordering::SeqCst);
            async move { ctx.activity::<_, ()>("step", ()).await }
        })
        .activity("step", move |_: ActivityContext, (): ()| {
            activity.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, FlowError>(()) }
        })
        .build()
        .expect("a registry");
    let options = RuntimeOptions {
        orchestration_concurrency: 1,
        worker_concurrency: 1,
        prefetch: Prefetch::Fixed(1),
        ..RuntimeOptions::default()
    };
    let client = Client::new(Arc::clone(&provider));
    let runtime = Runtime::start_with_options(provider, registry, options).await;
    let runtime = runtime.expect("the options are valid");
    for instance in ["a", "b"] {
        client.start(instance, "one", &()).await.expect("started");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(runtime);
    (turns.load(Ordering::SeqCst), activities.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_being_committed_holds_no_slot() {
    assert_eq!(ran("commit_turn").await, (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_is_being_settled_holds_no_slot() {
    assert_eq!(ran("complete_work").await, (2, 2));
}
