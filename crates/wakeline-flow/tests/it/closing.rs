//! Tests of the relation between a child and its parent.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::InstanceId;
use wakeline_flow::provider::{Provider, ProviderAdmin, StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    Client, EventKind, FailureKind, FlowError, OrchestrationContext, Parent, Registry, Runtime,
};
use wakeline_testkit::oracle::MemoryStore;

async fn idler(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.event("go on").await
}

async fn parent(ctx: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    ctx.child::<_, ()>("idler", ()).id("child").await
}

/// Whether the instance is a child of this parent, and whether it can be terminated as its child.
async fn answers(admin: &dyn ProviderAdmin, parent: &Parent) -> (bool, bool) {
    let child = InstanceId::new("child").expect("valid");
    let error = FlowError::new(FailureKind::Terminated, "because");
    let is_child = admin.is_child_of(&child, parent).await.expect("answered");
    (is_child, admin.terminate(&child, error, Some(parent)).await.expect("answered"))
}

#[tokio::test(start_paused = true)]
async fn a_child_belongs_to_one_event_of_one_execution_of_one_instance() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let provider = Arc::new(StoreProvider::new(store, StoreProviderOptions::default()));
    let registry = Registry::builder().orchestration("parent", parent);
    let registry = registry.orchestration("idler", idler).build().expect("no duplicate names");
    let runtime = Runtime::start(provider.clone(), registry).await.expect("started");
    let client = Client::new(provider.clone());
    client.start("p", "parent", &()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let history = client.history("child", None).await.expect("read");
    let Some(EventKind::Started { parent: Some(own), .. }) = history.first().map(|e| &e.kind)
    else {
        panic!("{history:?}");
    };
    let admin = provider.admin().expect("the store provider has management functions");
    let instance = InstanceId::new("q").expect("valid");
    for other in [
        Parent { instance, ..own.clone() },
        Parent { execution: 2, ..own.clone() },
        Parent { event: own.event + 1, ..own.clone() },
        Parent { identity: Some("another identity".to_owned()), ..own.clone() },
    ] {
        assert_eq!(answers(admin, &other).await, (false, false), "{other:?}");
    }
    // An earlier program wrote no identity.
    let earlier = Parent { identity: None, ..own.clone() };
    assert_eq!(answers(admin, &earlier).await, (true, true));
    runtime.shutdown(Duration::ZERO).await;
}
