//! The conformance rules of `docs/reference/queue.md`, one test per rule.

use crate::fixture::Fixture;

wakeline_testkit::conformance_suite!(Fixture::open().await);

#[test]
fn random_sequences_end_as_the_oracle_says() {
    wakeline_testkit::differential::run(Fixture::open);
}
