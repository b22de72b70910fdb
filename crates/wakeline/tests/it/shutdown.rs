//! Runtimes that end under load leave nothing to its lease.

use std::time::Duration;

use wakeline::{
    ActivityContext, Client, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime,
    RuntimeOptions,
};

use crate::support::{Store, long};

async fn echo(_: ActivityContext, n: u32) -> Result<u32, FlowError> {
    Ok(n)
}

async fn twice(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    Ok(ctx.call(echo, n).await? + ctx.call(echo, n).await?)
}

fn registry() -> Registry {
    let builder = Registry::builder().orchestration("twice", twice).activity_fn(echo);
    builder.build().expect("a registry")
}

async fn nothing_is_left_behind(store: Store) {
    let rounds = if long() { 100 } else { 15 };
    // Longer than the test: what is left to its lease is seen.
    let lease = Duration::from_secs(600);
    let options = RuntimeOptions {
        orchestrator_lock_timeout: lease,
        worker_lock_timeout: lease,
        ..RuntimeOptions::default()
    };
    let outside = store.node(LongPollConfig::default()).await;
    let client = Client::new(outside.provider());
    for round in 0..rounds {
        let node = store.node(LongPollConfig::default()).await;
        let started = Runtime::start_with_options(node.provider(), registry(), options.clone());
        let runtime = started.await.expect("started");
        for n in 0..5 {
            client.start(&format!("{round}-{n}"), "twice", &n).await.expect("started");
        }
        tokio::time::sleep(Duration::from_millis(round % 10)).await;
        runtime.shutdown(Duration::from_secs(60)).await;
        let depths = client.depths().await.expect("read");
        assert_eq!((depths.leased_turns, depths.leased_work), (0, 0), "round {round}");
    }
    let node = store.node(LongPollConfig::default()).await;
    let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
    for round in 0..rounds {
        for n in 0..5 {
            let id = format!("{round}-{n}");
            let sum: u32 = client.wait(&id, Duration::from_secs(60)).await.expect("completed");
            assert_eq!(sum, 2 * n);
        }
    }
    runtime.shutdown(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn nothing_is_left_to_its_lease_on_sqlite() {
    nothing_is_left_behind(Store::sqlite()).await;
}

#[tokio::test]
async fn nothing_is_left_to_its_lease_on_postgres() {
    nothing_is_left_behind(Store::postgres().await).await;
}
