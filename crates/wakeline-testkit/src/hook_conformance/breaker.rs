//! Rules of the circuit breaker and of all its state changes.

use std::time::Duration;

use wakeline_core::{EndpointId, EndpointOptions};
use wakeline_store::hook::{
    BreakerSample, DeliveryState, DeliveryVerdict, DisableReason, SettleDelivery,
};

use super::{HookBench, breaking, end, failure, plain, secs, success};

/// Lets attempts fail in a way that the breaker counts.
async fn fail(bench: &HookBench, times: usize) {
    for _ in 0..times {
        let item = bench.one().await;
        bench.settle(failure(item.token)).await;
    }
}

async fn paused(bench: &HookBench, id: EndpointId) -> Option<Duration> {
    bench.shown(id).await.paused_for
}

/// Creates an endpoint whose breaker has opened and whose pause is over.
async fn half_open(bench: &HookBench, probes: u32, messages: usize) -> EndpointId {
    let id = bench.with(breaking(1, probes)).await;
    bench.emit_many(messages).await;
    fail(bench, 1).await;
    bench.advance(60).await;
    id
}

/// Rule 2: the configured number of consecutive failures opens the breaker.
pub async fn consecutive_failures_open_the_breaker(bench: &HookBench) {
    let id = bench.with(breaking(3, 1)).await;
    bench.emit().await;
    fail(bench, 2).await;
    assert_eq!(paused(bench, id).await, None);
    fail(bench, 1).await;
    assert_eq!(paused(bench, id).await, Some(secs(60)));
    assert_eq!(bench.none().await, Some(secs(60)));
}

/// The answer to an attempt reports whether that attempt opened the breaker, each time and for no
/// other.
pub async fn the_attempt_that_opens_the_breaker_is_reported(bench: &HookBench) {
    bench.with(breaking(2, 2)).await;
    bench.emit_many(4).await;
    let held = bench.take(3).await;
    let mut opened = Vec::new();
    for item in &held {
        opened.push(bench.settle(failure(item.token)).await.opened);
    }
    assert_eq!(opened, [false, true, false], "the last one ends while it is open");
    bench.advance(60).await;
    let probe = bench.one().await;
    assert!(bench.settle(failure(probe.token)).await.opened, "a failed probe opens it again");
    bench.advance(60).await;
    let probe = bench.one().await;
    assert!(!bench.settle(success(probe.token)).await.opened);
    assert!(!bench.settle(failure(probe.token)).await.opened, "stale");
}

/// Rule 2: a success resets the count of failures.
pub async fn a_success_resets_the_failure_count(bench: &HookBench) {
    let id = bench.with(breaking(2, 1)).await;
    bench.emit_many(3).await;
    fail(bench, 1).await;
    let item = bench.one().await;
    bench.settle(success(item.token)).await;
    fail(bench, 1).await;
    assert_eq!(paused(bench, id).await, None);
    fail(bench, 1).await;
    assert!(paused(bench, id).await.is_some());
}

/// Rule 2: an attempt without a sample counts neither as a success nor as a failure.
pub async fn an_attempt_without_a_breaker_sample_is_not_counted(bench: &HookBench) {
    let id = bench.with(breaking(2, 1)).await;
    bench.emit().await;
    fail(bench, 1).await;
    for _ in 0..3 {
        let item = bench.one().await;
        bench.retry(&item, 0).await;
    }
    assert_eq!(paused(bench, id).await, None);
    fail(bench, 1).await;
    assert!(paused(bench, id).await.is_some(), "the failure before still counts");
}

/// Rule 2: the breaker stays open for its configured time.
pub async fn an_open_breaker_gives_nothing_for_its_time(bench: &HookBench) {
    let id = bench.with(breaking(1, 1)).await;
    let ids = bench.emit_many(2).await;
    fail(bench, 1).await;
    bench.advance_ms(59_999).await;
    bench.none().await;
    assert_eq!(paused(bench, id).await, Some(Duration::from_millis(1)));
    assert_eq!(bench.state(ids[1], id).await, DeliveryState::Throttled);
    bench.advance_ms(1).await;
    assert_eq!(paused(bench, id).await, None);
    assert_eq!(bench.take(9).await.len(), 1);
}

/// Rule 2: a half-open breaker lets at most the configured number of probes be in flight.
pub async fn a_half_open_breaker_lets_probes_through(bench: &HookBench) {
    half_open(bench, 2, 5).await;
    let got = bench.take(9).await;
    assert_eq!(got.len(), 2);
    assert!(bench.none().await.is_some());
    bench.settle(success(got[0].token)).await;
    assert_eq!(bench.take(9).await.len(), 1, "one more probe");
}

/// Rule 2: the configured number of consecutive successes closes the breaker.
pub async fn successful_probes_close_the_breaker(bench: &HookBench) {
    half_open(bench, 2, 6).await;
    for item in bench.take(9).await {
        bench.settle(success(item.token)).await;
    }
    assert_eq!(bench.take(9).await.len(), 4, "no more than probes before");
}

/// Rule 2: after it has closed, the count of failures begins at zero.
pub async fn a_closed_breaker_counts_from_zero(bench: &HookBench) {
    let id = bench.with(breaking(2, 1)).await;
    bench.emit_many(3).await;
    fail(bench, 2).await;
    bench.advance(60).await;
    let item = bench.one().await;
    bench.settle(success(item.token)).await;
    fail(bench, 1).await;
    assert_eq!(paused(bench, id).await, None);
    fail(bench, 1).await;
    assert_eq!(paused(bench, id).await, Some(secs(60)));
}

/// Rule 2: one failed probe opens it again for its whole time.
pub async fn a_failed_probe_opens_it_again(bench: &HookBench) {
    let id = half_open(bench, 3, 5).await;
    let got = bench.take(9).await;
    assert_eq!(got.len(), 3);
    bench.settle(success(got[0].token)).await;
    bench.settle(failure(got[1].token)).await;
    assert_eq!(paused(bench, id).await, Some(secs(60)));
    bench.advance(10).await;
    bench.settle(success(got[2].token)).await;
    assert_eq!(paused(bench, id).await, Some(secs(50)), "too late to matter");
    bench.advance(50).await;
    for n in 0..3 {
        let item = bench.one().await;
        assert!(bench.shown(id).await.paused_for.is_none(), "probe {n}");
        bench.settle(success(item.token)).await;
    }
}

/// Rule 2: the successes must be consecutive.
pub async fn probes_must_succeed_in_a_row(bench: &HookBench) {
    let id = half_open(bench, 2, 6).await;
    let item = bench.one().await;
    bench.settle(success(item.token)).await;
    fail(bench, 1).await;
    bench.advance(60).await;
    let item = bench.one().await;
    bench.settle(success(item.token)).await;
    assert_eq!(bench.take(9).await.len(), 2, "still half-open: the first success is forgotten");
    assert_eq!(paused(bench, id).await, None);
}

/// Rule 2: attempts that end while the breaker is open change nothing.
pub async fn ends_while_open_change_nothing(bench: &HookBench) {
    let id = bench.with(breaking(1, 1)).await;
    bench.emit_many(4).await;
    let got = bench.take(3).await;
    bench.settle(failure(got[0].token)).await;
    let failing = bench.shown(id).await.failing_since;
    assert!(failing.is_some());
    bench.advance(20).await;
    bench.settle(failure(got[1].token)).await;
    let shown = bench.shown(id).await;
    assert_eq!((shown.paused_for, shown.failing_since), (Some(secs(40)), failing));
    bench.settle(success(got[2].token)).await;
    let shown = bench.shown(id).await;
    assert_eq!(shown.paused_for, Some(secs(40)), "not closed");
    assert_eq!(shown.failing_since, None, "but it does not only fail");
}

/// Rule 2: a failure while the breaker is open does not disable the endpoint.
pub async fn failures_while_open_do_not_disable(bench: &HookBench) {
    let options = EndpointOptions { disable_after: Some(secs(10)), ..breaking(1, 1) };
    let id = bench.with(options).await;
    bench.emit_many(2).await;
    let got = bench.take(2).await;
    bench.settle(failure(got[0].token)).await;
    bench.advance(20).await;
    assert_eq!(bench.settle(failure(got[1].token)).await.disabled, None);
    bench.advance(40).await;
    let item = bench.one().await;
    let settled = bench.settle(failure(item.token)).await;
    assert_eq!(settled.disabled, Some(DisableReason::Failing), "a probe does");
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Failing));
}

/// Rule 2: attempts that began before the breaker opened count as in flight.
pub async fn attempts_from_before_count_as_under_way(bench: &HookBench) {
    bench.with(breaking(1, 2)).await;
    bench.emit_many(6).await;
    let got = bench.take(3).await;
    let tokens = got[1..].iter().map(|item| item.token).collect();
    bench.hook.extend_deliveries(tokens, secs(600)).await.expect("extended");
    bench.settle(failure(got[0].token)).await;
    bench.advance(60).await;
    bench.none().await;
    bench.deliver(&got[1]).await;
    assert_eq!(bench.take(9).await.len(), 1);
}

/// An endpoint without a breaker is never paused.
pub async fn an_endpoint_without_a_breaker_is_never_paused(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    fail(bench, 30).await;
    assert_eq!(paused(bench, id).await, None);
    bench.one().await;
}

/// Rule 4: waiting counts no attempt. The next one is reported for the end of the pause.
pub async fn an_open_breaker_counts_no_attempt(bench: &HookBench) {
    let id = bench.with(breaking(1, 1)).await;
    let message = bench.emit().await;
    let now = bench.now().await;
    fail(bench, 1).await;
    bench.none().await;
    let delivery = bench.delivery(message, id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Throttled, 1));
    assert_eq!(delivery.next_attempt_at, Some(now.plus(secs(60))));
    bench.advance(60).await;
    assert_eq!(bench.one().await.attempt_no, 2);
}

/// Every endpoint has its own breaker.
pub async fn a_breaker_is_its_endpoints_own(bench: &HookBench) {
    let broken = bench.with(breaking(1, 1)).await;
    bench.emit().await;
    fail(bench, 1).await;
    let fine = bench.with(breaking(1, 1)).await;
    bench.emit().await;
    let got = bench.take(9).await;
    assert_eq!(got.len(), 1);
    assert_eq!(paused(bench, fine).await, None);
    assert!(paused(bench, broken).await.is_some());
}

/// Enabling an endpoint closes its breaker.
pub async fn enabling_closes_the_breaker(bench: &HookBench) {
    let id = bench.with(breaking(2, 1)).await;
    bench.emit().await;
    fail(bench, 2).await;
    bench.switch(id, true).await;
    assert_eq!(paused(bench, id).await, Some(secs(60)), "it was on");
    bench.switch(id, false).await;
    bench.switch(id, true).await;
    assert_eq!(paused(bench, id).await, None);
    fail(bench, 1).await;
    assert_eq!(paused(bench, id).await, None, "and its failures are forgotten");
}

/// An attempt that fails its delivery with a failure sample counts.
pub async fn a_failed_delivery_counts_for_the_breaker(bench: &HookBench) {
    let id = bench.with(breaking(2, 1)).await;
    bench.emit_many(2).await;
    for item in bench.take(2).await {
        let sample = BreakerSample::Failure;
        bench.settle(SettleDelivery { sample, ..end(item.token, DeliveryVerdict::Failed) }).await;
    }
    assert_eq!(paused(bench, id).await, Some(secs(60)));
}

/// Rule 3: a pause is still in effect after the store was opened again.
pub async fn a_pause_survives_a_restart(bench: &HookBench) {
    let id = bench.with(breaking(1, 1)).await;
    bench.emit().await;
    fail(bench, 1).await;
    let reopened = bench.fixture.reopened().await;
    let shown = reopened.endpoint(&bench.of_app(), &wakeline_core::EndpointRef::Id(id)).await;
    let shown = shown.expect("it is read").expect("it is there");
    assert_eq!(shown.paused_for, Some(secs(60)));
}
