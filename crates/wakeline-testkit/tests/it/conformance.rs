//! Runs the conformance suite of queues against the oracle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_store::Store;
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::oracle::MemoryStore;

#[derive(Default)]
pub(crate) struct Oracle(pub(crate) Arc<MemoryStore>);

#[async_trait]
impl StoreUnderTest for Oracle {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

wakeline_testkit::conformance_suite!(Oracle::default());
