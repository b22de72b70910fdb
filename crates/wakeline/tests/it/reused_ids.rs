//! Tests that executions of an instance, and instances with the same id, do not affect each other.

use std::time::Duration;

use wakeline::core::QueueName;
use wakeline::{
    ActivityContext, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime,
};
use wakeline_store::QueueStore;
use wakeline_testkit::conformance::ClaimSpec;

use crate::support::{Node, Store};

const WAIT_MAX: Duration = Duration::from_secs(30);

async fn child(_: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    Ok(n * 10)
}

/// Starts an awaited and a detached child in each of three executions.
async fn generations(ctx: OrchestrationContext, sum: u32) -> Result<u32, FlowError> {
    let n = u32::try_from(ctx.execution()).expect("few");
    let detached = ctx.child::<_, u32>("child", n).detached()?;
    ctx.kv_set(&format!("detached-{n}"), detached)?;
    let sum = sum + ctx.child::<_, u32>("child", n).await?;
    if n == 3 { Ok(sum) } else { ctx.continue_as_new(sum).await }
}

/// Uses the same id for the child of each execution: the second one is refused.
async fn repeated(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    match ctx.child::<_, u32>("child", 1).id("the-child").await {
        Ok(_) => ctx.continue_as_new(()).await,
        Err(error) => Ok(error.message),
    }
}

/// Fails with its key in the first attempt, and returns its key in the second.
async fn key(ctx: ActivityContext, (): ()) -> Result<String, FlowError> {
    if ctx.attempt() == 1 {
        return Err(FlowError::application(ctx.idempotency_key()));
    }
    Ok(ctx.idempotency_key())
}

/// Sends a message to a queue, and returns the idempotency key of its activity.
async fn push_and_key(ctx: OrchestrationContext, life: u32) -> Result<String, FlowError> {
    ctx.push("out", life)?;
    let first: Result<String, _> = ctx.call(key, ()).await;
    let second: String = ctx.call(key, ()).attempts(2).await?;
    let first = first.expect_err("one attempt").message;
    assert_ne!(first, second);
    Ok(second)
}

fn registry() -> Registry {
    let registry = Registry::builder()
        .orchestration("child", child)
        .orchestration("generations", generations)
        .orchestration("repeated", repeated)
        .orchestration("push_and_key", push_and_key)
        .activity("key", key);
    registry.build().expect("no duplicate names")
}

async fn started(store: &Store) -> Runtime {
    started_on(&store.node(LongPollConfig::default()).await).await
}

async fn started_on(node: &Node) -> Runtime {
    Runtime::start(node.provider(), registry()).await.expect("started")
}

/// Returns the messages in the queue `out`.
async fn queued(node: &Node) -> Vec<String> {
    let store: &dyn QueueStore = match node {
        Node::Sqlite(provider) => &**provider.store(),
        Node::Postgres(provider) => &**provider.store(),
    };
    let queue = QueueName::new("out").expect("valid");
    let all = ClaimSpec::queue(&queue).batch(100).partitions(100);
    let mut claimed = store.claim(vec![all.line_claim(1)]).await.expect("claimed");
    let batch = claimed.remove(0).results.remove(0).expect("something was pushed");
    let messages = batch.partitions.iter().flat_map(|partition| &partition.messages);
    messages.map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

#[tokio::test]
async fn children_run_in_every_execution() {
    for store in Store::both().await {
        let runtime = started(&store).await;
        let client = runtime.client();
        client.start("g", "generations", &0).await.expect("started");
        let sum: u32 = client.wait("g", WAIT_MAX).await.expect("completed");
        assert_eq!(sum, 60, "{}", store.name());
        for n in 1..=3 {
            let detached: Option<String> =
                client.kv_get("g", &format!("detached-{n}")).await.expect("read");
            let detached = detached.expect("it was started");
            let output: u32 = client.wait(&detached, WAIT_MAX).await.expect("completed");
            assert_eq!(output, n * 10, "{} {detached}", store.name());
        }
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn a_child_with_an_id_in_use_fails_in_a_later_execution_too() {
    for store in Store::both().await {
        let runtime = started(&store).await;
        let client = runtime.client();
        client.start("r", "repeated", &()).await.expect("started");
        let refusal: String = client.wait("r", WAIT_MAX).await.expect("completed");
        assert_eq!(
            refusal,
            "an instance with the id the-child exists already: give the child another id",
            "{}",
            store.name()
        );
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn every_instance_with_a_reused_id_pushes_its_messages_and_has_its_own_keys() {
    for store in Store::both().await {
        let node = store.node(LongPollConfig::default()).await;
        let runtime = started_on(&node).await;
        let client = runtime.client();
        let mut keys = std::collections::BTreeSet::new();
        for life in 1..=3 {
            client.start("reused", "push_and_key", &life).await.expect("started");
            let key: String = client.wait("reused", WAIT_MAX).await.expect("completed");
            keys.insert(key);
            client.delete("reused", false).await.expect("deleted");
        }
        assert_eq!(queued(&node).await, ["1", "2", "3"], "{}", store.name());
        assert_eq!(keys.len(), 3, "{}: {keys:?}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}
