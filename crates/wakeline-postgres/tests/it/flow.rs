//! Runs the testkit's rules of orchestrations, and tests that are specific to PostgreSQL.

mod calls;
mod deletions;
mod hot;
mod pages;
mod plans;
mod slow;
mod views;

use std::sync::Arc;

use wakeline_store::hook::HookBackend;
use wakeline_testkit::flow_conformance::{Flow, FlowUnderTest};

use crate::conformance::Fixture;

impl FlowUnderTest for Fixture {
    fn flow(&self) -> Arc<dyn Flow> {
        Arc::new(self.store.clone())
    }

    fn hooks(&self) -> Arc<dyn HookBackend> {
        Arc::new(self.store.clone())
    }
}

wakeline_testkit::flow_conformance_suite!(Fixture::open().await);

#[test]
fn random_orchestrations_match_the_oracle() {
    wakeline_testkit::flow_differential::run(Fixture::open);
}
