//! The conformance rules of API keys and of the audit log.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_store::{Backend, StoreAdmin as _};
use wakeline_testkit::access_conformance::AccessUnderTest;

use crate::fixture::Fixture;

#[async_trait]
impl AccessUnderTest for Fixture {
    fn whole(&self) -> Arc<dyn Backend> {
        Arc::new(self.store.clone())
    }

    async fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn end(&self) {
        self.store.close().await;
    }
}

wakeline_testkit::access_suite!(Fixture::open().await);
