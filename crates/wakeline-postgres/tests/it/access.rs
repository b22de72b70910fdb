//! The rules of keys and of the audit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_store::WholeStore;
use wakeline_testkit::access_conformance::AccessUnderTest;
use wakeline_testkit::conformance::StoreUnderTest as _;

use crate::conformance::Fixture;

#[async_trait]
impl AccessUnderTest for Fixture {
    fn whole(&self) -> Arc<dyn WholeStore> {
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
