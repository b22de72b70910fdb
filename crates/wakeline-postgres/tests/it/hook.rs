//! The rules of webhooks, and what is PostgreSQL's own about them.

mod deletions;
mod hot;
mod lost;
mod plans;
mod races;
mod spoilt;
mod stage;

use std::sync::Arc;

use wakeline_store::hook::HookBackend;
use wakeline_testkit::hook_conformance::HookUnderTest;

use crate::conformance::Fixture;

impl HookUnderTest for Fixture {
    fn hook(&self) -> Arc<dyn HookBackend> {
        Arc::new(self.store.clone())
    }
}

wakeline_testkit::hook_conformance_suite!(Fixture::open().await);

#[test]
fn random_webhooks_go_as_on_the_oracle() {
    wakeline_testkit::hook_differential::run(Fixture::open);
}
