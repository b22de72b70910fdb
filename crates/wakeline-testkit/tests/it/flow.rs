//! Runs the rules of orchestrations against the oracle.

use std::sync::Arc;

use wakeline_store::hook::HookBackend;
use wakeline_testkit::flow_conformance::{Flow, FlowUnderTest};

use crate::conformance::Oracle;

impl FlowUnderTest for Oracle {
    fn flow(&self) -> Arc<dyn Flow> {
        self.0.clone()
    }

    fn hooks(&self) -> Arc<dyn HookBackend> {
        self.0.clone()
    }
}

wakeline_testkit::flow_conformance_suite!(Oracle::default());

#[test]
fn random_sequences_of_orchestrations_agree_with_the_oracle() {
    wakeline_testkit::flow_differential::run(async || Oracle::default());
}
