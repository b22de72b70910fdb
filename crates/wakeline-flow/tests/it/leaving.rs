//! A runtime that ends waits for what is left of its own fetches, and for nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wakeline_flow::provider::{Provider, StoreProvider, StoreProviderOptions};
use wakeline_flow::{ActivityContext, Client, FlowError, Registry, Runtime};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

/// A moment in which everybody does what can be done.
const MOMENT: Duration = Duration::from_millis(10);

struct House {
    store: Arc<FaultingStore>,
    provider: Arc<dyn Provider>,
    client: Client,
}

fn house() -> House {
    let memory = Arc::new(MemoryStore::with_tokio_clock());
    let store = Arc::new(FaultingStore::new(memory));
    let provider: Arc<dyn Provider> =
        Arc::new(StoreProvider::new(store.clone(), StoreProviderOptions::default()));
    House { store, client: Client::new(Arc::clone(&provider)), provider }
}

/// A runtime of activities.
async fn workers(house: &House) -> Runtime {
    let step = async |_: ActivityContext, (): ()| Ok::<_, FlowError>(());
    let registry = Registry::builder().activity("step", step).build().expect("a registry");
    let runtime = Runtime::start(Arc::clone(&house.provider), registry).await.expect("started");
    tokio::time::sleep(MOMENT).await;
    runtime
}

/// How long a shutdown takes.
async fn shutdown(runtime: Runtime) -> Duration {
    let began = Instant::now();
    runtime.shutdown(Duration::ZERO).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_clients_write() {
    let house = house();
    let runtime = workers(&house).await;
    house.store.fail_operation("enqueue", 1, Fault::HangBefore);
    let client = house.client.clone();
    let starting = tokio::spawn(async move { client.start("i", "any", &()).await });
    tokio::time::sleep(MOMENT).await;
    assert_eq!(house.store.pending(), 0, "it is under way");
    assert_eq!(shutdown(runtime).await, Duration::ZERO);
    starting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_what_others_look_at() {
    let house = house();
    house.client.start("i", "any", &()).await.expect("started");
    let runtime = workers(&house).await;
    house.store.fail_operation("watch", 1, Fault::HangBefore);
    let client = house.client.clone();
    let looking =
        tokio::spawn(async move { client.wait::<()>("i", Duration::from_secs(3600)).await });
    tokio::time::sleep(MOMENT).await;
    assert_eq!(house.store.pending(), 0, "it is under way");
    assert_eq!(shutdown(runtime).await, Duration::ZERO);
    looking.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_claim_that_was_made_for_it() {
    let house = house();
    let late = Duration::from_secs(3);
    house.store.delay("claim_work", late);
    let runtime = workers(&house).await;
    assert_eq!(shutdown(runtime).await, late - MOMENT);
}
