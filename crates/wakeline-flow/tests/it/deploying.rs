//! Tests with nodes that run older and newer code at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wakeline_core::{Capabilities, InstanceId};
use wakeline_flow::provider::{Provider as _, StoreProvider, StoreProviderOptions};
use wakeline_flow::{Client, FlowError, OrchestrationContext, Registry, Runtime};
use wakeline_store::flow::{FlowAdmin as _, FlowBackend, Suspension};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

const LONG: Duration = Duration::from_secs(3600);

async fn versions(ctx: OrchestrationContext, first: bool) -> Result<String, FlowError> {
    if first { ctx.continue_as_new(false).await } else { Ok(ctx.version().to_owned()) }
}

/// Starts a node with these versions of the code.
async fn node(store: Arc<dyn FlowBackend>, known: &[&str]) -> (Runtime, Client) {
    let mut builder = Registry::builder();
    for version in known {
        builder = builder.orchestration_versioned("versions", version, versions);
    }
    let provider = Arc::new(StoreProvider::new(store, StoreProviderOptions::default()));
    let registry = builder.build().expect("a registry");
    let runtime = Runtime::start(provider.clone(), registry).await.expect("started");
    (runtime, Client::new(provider))
}

#[tokio::test(start_paused = true)]
async fn a_continued_instance_never_runs_older_code() {
    let memory = Arc::new(MemoryStore::with_tokio_clock());
    let store = Arc::new(FaultingStore::new(memory.clone()));
    store.fail_operation("commit_turn", 2, Fault::HangBefore);
    let (new, client) = node(store.clone(), &["2.0.0"]).await;
    client.start("v", "versions", &true).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.pending(), 0, "it has continued, and its second turn hangs");
    drop(new);
    let (old, client) = node(memory.clone(), &["1.0.0"]).await;
    let waited = client.wait::<String>("v", Duration::from_secs(300)).await;
    assert!(waited.is_err(), "{waited:?}");
    let (newer, client) = node(memory, &["1.0.0", "2.1.0"]).await;
    let version: String = client.wait("v", LONG).await.expect("completed");
    assert_eq!(version, "2.1.0");
    old.shutdown(Duration::ZERO).await;
    newer.shutdown(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_starts_while_mismatched_instances_are_retried() {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    store.fail_operation("retry_mismatched", 1, Fault::HangBefore);
    let started = tokio::time::timeout(LONG, node(store.clone(), &["1.0.0"]));
    let (runtime, client) = started.await.expect("it does not wait for the retry");
    client.start("v", "versions", &false).await.expect("started");
    let version: String = client.wait("v", LONG).await.expect("completed");
    assert_eq!(version, "1.0.0");
    assert_eq!(store.pending(), 0, "the retry hangs");
    runtime.shutdown(Duration::ZERO).await;
}

/// Waiting dispatchers are notified after each batch.
#[tokio::test(start_paused = true)]
async fn instances_resumed_before_a_retry_failed_run_at_once() {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    let (other, elsewhere) = node(store.clone(), &["2.0.0"]).await;
    other.shutdown(Duration::ZERO).await;
    let registry = Registry::builder().orchestration_versioned("versions", "1.0.0", versions);
    let provider = Arc::new(StoreProvider::new(store.clone(), StoreProviderOptions::default()));
    let registry = registry.build().expect("a registry");
    let runtime = Runtime::start(provider.clone(), registry).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for instance in ["a", "b"] {
        elsewhere.start_version(instance, "versions", "1.0.0", &false).await.expect("started");
        let suspension = Suspension::Mismatch { reason: "changed".to_owned() };
        let id = InstanceId::new(instance).expect("an id");
        assert!(store.suspend(&id, suspension).await.expect("suspended"));
    }
    store.fail_operation("retry_mismatched", 2, Fault::Before);
    let began = Instant::now();
    let admin = provider.admin().expect("it has management functions");
    assert!(admin.retry_mismatched(Capabilities::Any).await.is_err());
    let client = Client::new(provider.clone());
    let version: String = client.wait("a", LONG).await.expect("completed");
    assert_eq!((version.as_str(), began.elapsed()), ("1.0.0", Duration::ZERO));
    let waited = client.wait::<String>("b", Duration::from_secs(300)).await;
    assert!(waited.is_err(), "its batch failed: {waited:?}");
    runtime.shutdown(Duration::ZERO).await;
}
