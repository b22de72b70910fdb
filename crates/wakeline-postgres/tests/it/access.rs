//! Runs the testkit's rules of keys and of the audit on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{GroupId, PartitionId};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::{
    AccessStore as _, Backend, DeadLetterFilter, Page, QueueDeadLetters as _,
    QueueMaintenance as _, StoreAdmin as _,
};
use wakeline_testkit::access_conformance::AccessUnderTest;
use wakeline_testkit::conformance::StoreUnderTest as _;

use crate::conformance::Fixture;
use crate::support::{TestSchema, eventually};

#[async_trait]
impl AccessUnderTest for Fixture {
    fn whole(&self) -> Arc<dyn Backend> {
        Arc::new(self.store.clone())
    }

    async fn pass(&self, by: Duration) {
        self.advance(by).await;
    }

    async fn end(&self) {
        self.finish().await;
    }
}

wakeline_testkit::access_suite!(Fixture::open().await);

#[tokio::test]
async fn lists_that_use_every_connection_delay_neither_authentication_nor_probes() {
    let schema = TestSchema::new().await;
    let options = PostgresOptions { pool_max: PostgresOptions::POOL_MIN + 2, ..schema.options() };
    let store = PostgresStore::connect(options).await.expect("a store");
    let blocker = schema.client().await;
    let lock = format!("BEGIN; LOCK TABLE \"{}\".dead_letters", schema.name);
    blocker.batch_execute(&lock).await.expect("locked");
    // More than there are connections.
    let lists: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            let page = Page { limit: 1, offset: 0 };
            tokio::spawn(async move { store.dead_letters(DeadLetterFilter::default(), page).await })
        })
        .collect();
    eventually("the lists hold all connections for general use", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let row = schema.client().await.query_one(waiting, &[]).await.expect("counted");
        row.get::<_, i64>(0) >= 3
    })
    .await;
    assert!(store.key("unknown").await.expect("answered").is_none());
    assert_eq!(store.queues_of(vec![PartitionId(1)]).await.expect("answered"), [None]);
    assert_eq!(store.groups_of(vec![GroupId(1)]).await.expect("answered"), [None]);
    store.maintenance().await.expect("answered");
    store.ping().await.expect("answered");
    assert!(lists.iter().all(|list| !list.is_finished()), "they still wait");
    blocker.batch_execute("ROLLBACK").await.expect("unlocked");
    for list in lists {
        list.await.expect("no panic").expect("listed");
    }
    store.close().await;
}
