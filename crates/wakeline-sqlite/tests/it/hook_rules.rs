//! The conformance rules of `docs/reference/hook.md`, one test per rule.

use wakeline_testkit::hook_conformance;

use crate::fixture::Fixture;

wakeline_testkit::hook_conformance_suite!(Fixture::open().await);

#[test]
fn random_webhooks_end_as_the_oracle_says() {
    wakeline_testkit::hook_differential::run(Fixture::open);
}

#[test]
fn a_message_does_not_wait_for_the_fan_out_of_another() {
    wakeline_testkit::rules::block_on(async {
        let rule = hook_conformance::fan_out::a_message_does_not_wait_for_the_fan_out_of_another;
        hook_conformance::hold_to(Box::new(Fixture::open().await), rule).await;
    });
}
