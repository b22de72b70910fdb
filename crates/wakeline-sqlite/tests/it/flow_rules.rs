//! The conformance rules of `docs/reference/flow.md`, one test per rule.

use crate::fixture::Fixture;

wakeline_testkit::flow_conformance_suite!(Fixture::open().await);

#[test]
fn random_orchestrations_end_as_the_oracle_says() {
    wakeline_testkit::flow_differential::run(Fixture::open);
}
