//! The rules of the queue, and random sequences beside the oracle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::{Store, StoreAdmin};
use wakeline_testkit::conformance::StoreUnderTest;

use crate::support::{TestSchema, client, url};

/// A store in a schema of its own, whose clock stands still until it is advanced.
pub(crate) struct Fixture {
    pub(crate) store: PostgresStore,
    pub(crate) schema: TestSchema,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        let schema = TestSchema::new();
        // Nothing here is about what a crash leaves behind.
        let url = format!("{}?options=-csynchronous_commit%3Doff", url());
        let options = PostgresOptions { url, test_clock: true, ..schema.options() };
        let store = PostgresStore::connect(options).await.expect("a store");
        let stopped = format!(
            "CREATE OR REPLACE FUNCTION \"{name}\".clock() RETURNS timestamptz
             LANGUAGE plpgsql STABLE AS $$ BEGIN
                 RETURN timestamptz '2026-01-01 00:00:00Z'
                     + (SELECT shift FROM \"{name}\".test_clock);
             END $$",
            name = schema.name
        );
        client().await.batch_execute(&stopped).await.expect("the clock can be stopped");
        Self { store, schema }
    }
}

#[async_trait]
impl StoreUnderTest for Fixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn advance(&self, by: Duration) {
        self.store.advance_clock(by).await.expect("a test clock");
    }

    async fn finish(&self) {
        self.store.close().await;
        let sql = format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.schema.name);
        client().await.batch_execute(&sql).await.expect("dropped");
    }
}

wakeline_testkit::conformance_suite!(Fixture::open().await);

#[test]
fn random_sequences_go_as_on_the_oracle() {
    wakeline_testkit::differential::run(Fixture::open);
}
