//! Dispatchers that have nothing to do, and their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::{
    ActivityContext, FlowError, OrchestrationContext, Registry, Runtime, SqliteProvider,
};

use super::{HOUR, fetch, patient, send};
use crate::support::{Database, Store};

fn registry() -> Registry {
    let code = async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(());
    let activity = async |_: ActivityContext, (): ()| Ok::<_, FlowError>(());
    let registry = Registry::builder().orchestration("idle", code).activity("nothing", activity);
    registry.build().expect("no name twice")
}

#[tokio::test]
async fn idle_dispatchers_ask_postgres_nothing() {
    let database = Database::create().await;
    let provider = Arc::new(database.node(patient()).await);
    let runtime = Runtime::start(provider, registry()).await.expect("started");
    database.silent("").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(database.statements().await, []);
    runtime.shutdown(HOUR).await;
}

#[tokio::test]
async fn idle_dispatchers_ask_sqlite_nothing() {
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

#[tokio::test]
async fn a_shutdown_ends_waits_at_once_and_leaves_nothing_leased() {
    for store in Store::both().await {
        let provider = store.node(patient()).await.provider();
        for round in ["a", "b", "c"] {
            let runtime = Runtime::start(Arc::clone(&provider), registry()).await.expect("started");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let started = Instant::now();
            // Sent in the middle of it: taken by nobody, or given back.
            let (sent, ()) = tokio::join!(send(&provider, round, None), runtime.shutdown(HOUR));
            let () = sent;
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
            let item = fetch(&provider, Some(Duration::from_secs(20))).await.expect("free");
            assert_eq!((item.instance.as_str(), item.attempt), (round, 1), "{}", store.name());
        }
    }
}
