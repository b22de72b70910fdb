//! Tests that a runtime that shuts down waits for its own fetches and for nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wakeline_flow::provider::{Provider, StoreProvider, StoreProviderOptions};
use wakeline_flow::{ActivityContext, Client, FlowError, Registry, Runtime};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

/// The time in which all tasks make the progress that is possible.
const MOMENT: Duration = Duration::from_millis(10);

struct Env {
    store: Arc<FaultingStore>,
    provider: Arc<dyn Provider>,
    client: Client,
}

fn env() -> Env {
    let memory = Arc::new(MemoryStore::with_tokio_clock());
    let store = Arc::new(FaultingStore::new(memory));
    let provider: Arc<dyn Provider> =
        Arc::new(StoreProvider::new(store.clone(), StoreProviderOptions::default()));
    Env { store, client: Client::new(Arc::clone(&provider)), provider }
}

/// Starts a runtime with an activity.
async fn workers(env: &Env) -> Runtime {
    let step = async |_: ActivityContext, (): ()| Ok::<_, FlowError>(());
    let registry = Registry::builder().activity("step", step).build().expect("a registry");
    let runtime = Runtime::start(Arc::clone(&env.provider), registry).await.expect("started");
    tokio::time::sleep(MOMENT).await;
    runtime
}

/// Shuts a runtime down, and returns how long that takes.
async fn shutdown(runtime: Runtime) -> Duration {
    let began = Instant::now();
    runtime.shutdown(Duration::ZERO).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_clients_write() {
    let env = env();
    let runtime = workers(&env).await;
    env.store.fail_operation("enqueue", 1, Fault::HangBefore);
    let client = env.client.clone();
    let starting = tokio::spawn(async move { client.start("i", "any", &()).await });
    tokio::time::sleep(MOMENT).await;
    assert_eq!(env.store.pending(), 0, "the call is in progress");
    assert_eq!(shutdown(runtime).await, Duration::ZERO);
    starting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_clients_wait() {
    let env = env();
    env.client.start("i", "any", &()).await.expect("started");
    let runtime = workers(&env).await;
    env.store.fail_operation("watch", 1, Fault::HangBefore);
    let client = env.client.clone();
    let looking =
        tokio::spawn(async move { client.wait::<()>("i", Duration::from_secs(3600)).await });
    tokio::time::sleep(MOMENT).await;
    assert_eq!(env.store.pending(), 0, "the call is in progress");
    assert_eq!(shutdown(runtime).await, Duration::ZERO);
    looking.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_claims_of_its_own_fetches() {
    let env = env();
    let late = Duration::from_secs(3);
    env.store.delay("claim_work", late);
    let runtime = workers(&env).await;
    assert_eq!(shutdown(runtime).await, late - MOMENT);
}
