//! The rules of `docs/reference/hook.md`, each by name.

use wakeline_testkit::hook_conformance;

use crate::fixture::Fixture;

wakeline_testkit::hook_conformance_suite!(Fixture::open().await);

#[test]
fn random_webhooks_end_as_the_oracle_says() {
    wakeline_testkit::hook_differential::run(Fixture::open);
}

#[test]
fn nobody_waits_for_anothers_fan_out() {
    wakeline_testkit::rules::block_on(async {
        let rule = hook_conformance::fan_out::nobody_waits_for_anothers_fan_out;
        hook_conformance::hold_to(Box::new(Fixture::open().await), rule).await;
    });
}
