//! Tests that instances waiting for their first turn are listed and can be terminated.

use std::time::Duration;

use wakeline::{Client, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime};
use wakeline_store::flow::{InstanceState, ListInstances};

use crate::support::{Store, eventually};

const WAIT_MAX: Duration = Duration::from_secs(30);

/// Waits for a child that no runtime has code for.
async fn parent(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    match ctx.child::<_, ()>("unknown", ()).id("the-child").await {
        Ok(()) => Ok("completed".to_owned()),
        Err(error) => Ok(format!("{:?}: {}", error.kind, error.message)),
    }
}

async fn pending(client: &Client) -> Vec<String> {
    let states = vec![InstanceState::Pending];
    let filter = ListInstances { states, limit: 10, ..ListInstances::default() };
    let (instances, _) = client.list(filter).await.expect("listed");
    let reported = instances.iter().map(|one| {
        let reason = one.suspended.as_deref().unwrap_or("free");
        format!("{} {} {reason}", one.instance, one.name)
    });
    reported.collect()
}

#[tokio::test]
async fn pending_instance_is_listed_with_the_reason_of_its_suspension() {
    for store in Store::both().await {
        let client = store.client().await;
        client.start("a", "unknown", &()).await.expect("started");
        assert_eq!(pending(&client).await, ["a unknown free"], "{}", store.name());
        assert!(client.suspend("a", "for a look").await.expect("answered"));
        assert_eq!(pending(&client).await, ["a unknown for a look"], "{}", store.name());
        let status = client.status("a").await.expect("read");
        assert_eq!(status.name(), "suspended", "{}", store.name());
        let instance = status.instance().expect("it is there");
        assert_eq!(instance.suspended.as_deref(), Some("for a look"));
    }
}

#[tokio::test]
async fn terminating_a_pending_instance_ends_it_and_notifies_its_waiters() {
    for store in Store::both().await {
        let client = store.client().await;
        client.start("a", "unknown", &()).await.expect("started");
        let waiting = {
            let client = client.clone();
            tokio::spawn(async move { client.wait::<()>("a", WAIT_MAX).await })
        };
        assert!(client.terminate("a", "no runtime has the code").await.expect("answered"));
        let status = client.status("a").await.expect("read");
        assert_eq!(status.name(), "terminated", "{}", store.name());
        assert!(pending(&client).await.is_empty(), "{}", store.name());
        let error = waiting.await.expect("no panic").expect_err("it was ended");
        assert!(error.to_string().contains("no runtime has the code"), "{}: {error}", store.name());
        assert!(!client.terminate("a", "again").await.expect("answered"));
    }
}

#[tokio::test]
async fn the_parent_of_a_terminated_pending_child_is_notified() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let registry = Registry::builder().orchestration("parent", parent);
        let registry = registry.orchestration_elsewhere("unknown");
        let registry = registry.build().expect("no name twice");
        let runtime = Runtime::start(node.provider(), registry).await.expect("started");
        let client = runtime.client();
        client.start("p", "parent", &()).await.expect("started");
        let child = ["the-child unknown free"];
        eventually("the child is pending", async || pending(&client).await == child).await;
        assert!(client.terminate("the-child", "no runtime has the code").await.expect("answered"));
        let reported: String = client.wait("p", WAIT_MAX).await.expect("completed");
        assert_eq!(reported, "Terminated: no runtime has the code", "{}", store.name());
        let tree = client.tree("p").await.expect("read");
        assert_eq!(tree.len(), 2, "{}: {tree:?}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}
