//! The rules of `docs/reference/flow.md`, each by name.

use crate::fixture::Fixture;

wakeline_testkit::flow_conformance_suite!(Fixture::open().await);

#[test]
fn random_orchestrations_end_as_the_oracle_says() {
    wakeline_testkit::flow_differential::run(Fixture::open);
}
