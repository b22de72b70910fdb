//! Tests of idle dispatchers and their shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::{
    ActivityContext, FlowError, OrchestrationContext, PollMode, Registry, Runtime, RuntimeOptions,
    SqliteProvider, WakeMode,
};

use super::fetching::parked;
use super::{HOUR, fetch, patient, send};
use crate::support::{Database, Store, eventually};

fn registry() -> Registry {
    let code = async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(());
    let activity = async |_: ActivityContext, (): ()| Ok::<_, FlowError>(());
    let registry = Registry::builder().orchestration("idle", code).activity("nothing", activity);
    registry.build().expect("no name twice")
}

/// The design's `stress_test_idle_query_load`, with no statement at all.
#[tokio::test]
async fn idle_dispatchers_send_no_statements_to_postgres() {
    let database = Database::create().await;
    let provider = Arc::new(database.node(patient()).await);
    let runtime = Runtime::start(provider, registry()).await.expect("started");
    database.silent("").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(database.statements().await, []);
    runtime.shutdown(HOUR).await;
}

#[tokio::test]
async fn idle_dispatchers_send_no_commands_to_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let provider = SqliteProvider::new_with_options(folder.path().join("i.db"), None, patient());
    let provider = provider.await.expect("opened");
    let runtime = Runtime::start(Arc::new(provider.clone()), registry()).await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let counted = provider.store().counters();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(provider.store().counters(), counted);
    runtime.shutdown(HOUR).await;
}

/// The design's "Test shutdown during long poll", on a store where nothing happens.
#[tokio::test]
async fn a_shutdown_of_waiting_dispatchers_takes_less_than_a_second() {
    for store in Store::both().await {
        let node = store.node(patient()).await;
        let runtime = Runtime::start(node.provider(), registry()).await.expect("started");
        // Four dispatchers of turns and four of activities.
        parked(&node, 8).await;
        let started = Instant::now();
        runtime.shutdown(HOUR).await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(1), "{}: {took:?}", store.name());
    }
}

/// `RuntimeOptions.wake_mode` takes precedence over the provider's mode.
#[tokio::test]
async fn a_runtime_wakes_its_dispatchers_in_the_mode_of_its_options() {
    let database = Database::create().await;
    let provider = Arc::new(database.node(patient()).await);
    let polling = WakeMode::Poll(PollMode::default());
    for (wake_mode, polls) in
        [(None, false), (Some(WakeMode::Compete), false), (Some(polling), true)]
    {
        let options = RuntimeOptions { wake_mode, long_poll: patient(), ..Default::default() };
        let runtime = Runtime::start_with_options(provider.clone(), registry(), options).await;
        let runtime = runtime.expect("started");
        let client = runtime.client();
        let id = format!("{wake_mode:?}");
        client.start(&id, "idle", &()).await.expect("started");
        client.wait::<()>(&id, HOUR).await.expect("completed");
        if polls {
            database.statements().await;
            eventually("it polls", || async {
                let sent = database.statements().await;
                sent.iter().any(|(sql, _)| sql.contains("flow_claim_turns"))
            })
            .await;
        } else {
            database.silent("").await;
        }
        runtime.shutdown(HOUR).await;
    }
}

#[tokio::test]
async fn a_shutdown_ends_waits_at_once_and_leaves_nothing_leased() {
    for store in Store::both().await {
        let provider = store.node(patient()).await.provider();
        for round in ["a", "b", "c"] {
            let runtime = Runtime::start(Arc::clone(&provider), registry()).await.expect("started");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let started = Instant::now();
            // The message is sent during the shutdown: it is not taken, or is given back.
            let (sent, ()) = tokio::join!(send(&provider, round, None), runtime.shutdown(HOUR));
            let () = sent;
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
            let item = fetch(&provider, Some(Duration::from_secs(20))).await.expect("free");
            assert_eq!((item.instance.as_str(), item.attempt), (round, 1), "{}", store.name());
        }
    }
}
