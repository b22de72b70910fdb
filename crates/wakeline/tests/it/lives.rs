//! Executions of an instance, and lives of an instance id: what one of them did is not taken for
//! what another one does.

use std::time::Duration;

use wakeline::{FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime};

use crate::support::Store;

const PATIENCE: Duration = Duration::from_secs(30);

async fn child(_: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    Ok(n * 10)
}

/// A child that is awaited and a detached one in each of three executions.
async fn generations(ctx: OrchestrationContext, sum: u32) -> Result<u32, FlowError> {
    let n = u32::try_from(ctx.execution()).expect("few");
    let detached = ctx.child::<_, u32>("child", n).detached()?;
    ctx.kv_set(&format!("detached-{n}"), detached)?;
    let sum = sum + ctx.child::<_, u32>("child", n).await?;
    if n == 3 { Ok(sum) } else { ctx.continue_as_new(sum).await }
}

/// The same id for the child of each execution: the second is refused.
async fn repeated(ctx: OrchestrationContext, (): ()) -> Result<String, FlowError> {
    match ctx.child::<_, u32>("child", 1).id("the-child").await {
        Ok(_) => ctx.continue_as_new(()).await,
        Err(error) => Ok(error.message),
    }
}

fn registry() -> Registry {
    let registry = Registry::builder()
        .orchestration("child", child)
        .orchestration("generations", generations)
        .orchestration("repeated", repeated);
    registry.build().expect("no name twice")
}

async fn started(store: &Store) -> Runtime {
    let node = store.node(LongPollConfig::default()).await;
    Runtime::start(node.provider(), registry()).await.expect("started")
}

#[tokio::test]
async fn children_run_in_every_execution() {
    for store in Store::both().await {
        let runtime = started(&store).await;
        let client = runtime.client();
        client.start("g", "generations", &0).await.expect("started");
        let sum: u32 = client.wait("g", PATIENCE).await.expect("completed");
        assert_eq!(sum, 60, "{}", store.name());
        for n in 1..=3 {
            let detached: Option<String> =
                client.kv_get("g", &format!("detached-{n}")).await.expect("read");
            let detached = detached.expect("it was started");
            let output: u32 = client.wait(&detached, PATIENCE).await.expect("completed");
            assert_eq!(output, n * 10, "{} {detached}", store.name());
        }
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn child_of_a_taken_id_fails_in_a_later_execution_as_well() {
    for store in Store::both().await {
        let runtime = started(&store).await;
        let client = runtime.client();
        client.start("r", "repeated", &()).await.expect("started");
        let refusal: String = client.wait("r", PATIENCE).await.expect("completed");
        assert_eq!(refusal, "an instance the-child exists already", "{}", store.name());
        runtime.shutdown(Duration::from_secs(5)).await;
    }
}
