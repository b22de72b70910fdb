//! The rules of `docs/reference/hook.md`, each by name.

use crate::fixture::Fixture;

wakeline_testkit::hook_conformance_suite!(Fixture::open().await);

#[test]
fn random_webhooks_end_as_the_oracle_says() {
    wakeline_testkit::hook_differential::run(Fixture::open);
}
