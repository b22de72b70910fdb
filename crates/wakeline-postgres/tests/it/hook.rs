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
use wakeline_testkit::hook_conformance::{self, HookUnderTest};

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

#[test]
fn nobody_waits_for_anothers_fan_out() {
    wakeline_testkit::rules::block_on(async {
        let rule = hook_conformance::fan_out::nobody_waits_for_anothers_fan_out;
        hook_conformance::hold_to(Box::new(Fixture::open().await), rule).await;
    });
}
