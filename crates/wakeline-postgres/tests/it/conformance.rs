//! Runs the testkit's rules of the queue, and random sequences that are compared with the oracle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_postgres::PostgresStore;
use wakeline_store::{Store, StoreAdmin};
use wakeline_testkit::conformance::StoreUnderTest;

use crate::support::TestSchema;

/// A store in a schema of its own, whose clock stands still until it is advanced.
pub(crate) struct Fixture {
    pub(crate) store: PostgresStore,
    pub(crate) schema: TestSchema,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        let schema = TestSchema::with_stopped_clock().await;
        let store = schema.store().await;
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
    }
}

wakeline_testkit::conformance_suite!(Fixture::open().await);

#[test]
fn random_sequences_match_the_oracle() {
    wakeline_testkit::differential::run(Fixture::open);
}
