//! Runs the rules of keys and of the audit log against the oracle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_store::Backend;
use wakeline_testkit::access_conformance::AccessUnderTest;

use crate::conformance::Oracle;

#[async_trait]
impl AccessUnderTest for Oracle {
    fn whole(&self) -> Arc<dyn Backend> {
        self.0.clone()
    }

    async fn pass(&self, by: Duration) {
        self.0.advance(by);
    }
}

wakeline_testkit::access_suite!(Oracle::default());
