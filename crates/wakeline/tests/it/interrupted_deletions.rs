//! Tests that a runtime without a server finishes interrupted deletions.

use std::sync::Arc;
use std::time::Duration;

use wakeline::provider::{StoreProvider, StoreProviderOptions};
use wakeline::{Client, Json, Registry, Runtime, SqliteOptions};
use wakeline_core::{InstanceId, Timestamp};
use wakeline_sqlite::{SqliteStore, TestClock};
use wakeline_store::Backend;
use wakeline_store::flow::{DeleteInstances, FlowAdmin as _};

use crate::support::{Database, eventually};

const EVENTS: u64 = 5_000;

async fn messages(store: &dyn Backend) -> u64 {
    store.depths().await.expect("counted").messages
}

/// Starts a runtime without any code, and waits until nothing is left.
async fn is_finished(store: Arc<dyn Backend>) {
    assert!(messages(&*store).await > 0, "one piece removes only a part");
    let provider = StoreProvider::new(store.clone(), StoreProviderOptions::default());
    let registry = Registry::builder().build().expect("a registry");
    let runtime = Runtime::start(Arc::new(provider), registry).await.expect("started");
    eventually("the deletion is finished", async || messages(&*store).await == 0).await;
    runtime.shutdown(Duration::from_secs(30)).await;
    assert_eq!(store.clear_deleted().await.expect("answered"), None);
    store.close().await;
}

async fn raise_events(store: &dyn Backend) {
    let event = |_| Client::event_envelope("large", "go", Json::null()).expect("valid");
    store.enqueue((0..EVENTS).map(event).collect(), Vec::new()).await.expect("stored");
}

#[tokio::test]
async fn a_runtime_on_sqlite_finishes_an_interrupted_deletion() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = TestClock::new(Timestamp(1_767_225_600_000_000));
    let options = SqliteOptions {
        clock: Some(clock.clone()),
        ..SqliteOptions::new(folder.path().join("w.db"))
    };
    let store = SqliteStore::open(options).await.expect("opened");
    raise_events(&store).await;
    let instances = vec![InstanceId::new("large").expect("an id")];
    let deletion = store.delete_instances(DeleteInstances { instances, force: true });
    // The caller goes away while the first command is in progress.
    assert!(tokio::time::timeout(Duration::ZERO, deletion).await.is_err());
    eventually("the first piece is gone", async || messages(&store).await < EVENTS).await;
    clock.advance(Duration::from_secs(61));
    is_finished(Arc::new(store)).await;
}

#[tokio::test]
async fn a_runtime_on_postgres_finishes_an_interrupted_deletion() {
    let database = Database::create().await;
    let store = wakeline_postgres::PostgresStore::connect(database.options()).await;
    let store = store.expect("connected");
    raise_events(&store).await;
    // The state that the first transaction of a deletion leaves, a minute later.
    let unlink = "INSERT INTO wakeline.flow_leftovers (deletion, lane_id, deleted_at, due_at)
        SELECT gen_random_uuid(), lane_id, now() - interval '2 min', now() - interval '1 min'
        FROM wakeline.flow_lanes;
        DELETE FROM wakeline.flow_lanes";
    database.0.client().await.batch_execute(unlink).await.expect("unlinked");
    is_finished(Arc::new(store)).await;
}
