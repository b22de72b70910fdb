//! Nodes with older and newer code side by side.

use std::sync::Arc;
use std::time::Duration;

use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_flow::{Client, FlowError, OrchestrationContext, Registry, Runtime};
use wakeline_store::flow::FlowBackend;
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

const LONG: Duration = Duration::from_secs(3600);

async fn versions(ctx: OrchestrationContext, first: bool) -> Result<String, FlowError> {
    if first { ctx.continue_as_new(false).await } else { Ok(ctx.version().to_owned()) }
}

/// A node with this code.
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
async fn a_continued_instance_never_goes_on_with_older_code() {
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
