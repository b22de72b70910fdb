//! Runs the testkit's rules of webhooks, and tests that are specific to PostgreSQL.

mod corrupt;
mod deletions;
mod hot;
mod lost;
mod plans;
mod races;
mod stage;

use std::sync::Arc;

use wakeline_store::hook::HookBackend;
use wakeline_testkit::hook_conformance::{self, HookUnderTest};

use crate::conformance::Fixture;

impl HookUnderTest for Fixture {
    fn hook(&self) -> Arc<dyn HookBackend> {
        Arc::new(self.store.clone())
    }
}

wakeline_testkit::hook_conformance_suite!(Fixture::open().await);

#[test]
fn random_webhooks_match_the_oracle() {
    wakeline_testkit::hook_differential::run(Fixture::open);
}

#[test]
fn a_message_does_not_wait_for_the_fan_out_of_another() {
    wakeline_testkit::rules::block_on(async {
        let rule = hook_conformance::fan_out::a_message_does_not_wait_for_the_fan_out_of_another;
        hook_conformance::hold_to(Box::new(Fixture::open().await), rule).await;
    });
}
