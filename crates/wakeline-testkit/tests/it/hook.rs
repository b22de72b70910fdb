//! Runs the rules of webhooks against the oracle.

use std::sync::Arc;

use async_trait::async_trait;
use wakeline_store::hook::HookBackend;
use wakeline_testkit::hook_conformance::HookUnderTest;

use crate::conformance::Oracle;

#[async_trait]
impl HookUnderTest for Oracle {
    fn hook(&self) -> Arc<dyn HookBackend> {
        self.0.clone()
    }
}

wakeline_testkit::hook_conformance_suite!(Oracle::default());

#[test]
fn random_sequences_of_webhooks_agree_with_the_oracle() {
    wakeline_testkit::hook_differential::run_at_least(300, async || Oracle::default());
}
