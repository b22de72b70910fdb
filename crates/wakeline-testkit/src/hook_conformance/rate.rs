//! Rules of rate limits and throttles.

use std::time::Duration;

use wakeline_store::hook::{DeliveryState, DeliveryVerdict, SettleDelivery};

use super::{HookBench, end, fifo, plain, pulled, rated, secs, success};

/// Rule 1: the attempts of one second may be made at once.
pub async fn a_rate_allows_one_seconds_worth_at_once(bench: &HookBench) {
    bench.with(rated(5)).await;
    bench.emit_many(12).await;
    assert_eq!(bench.take(20).await.len(), 5);
    assert_eq!(bench.none().await, Some(Duration::from_millis(200)));
}

/// Rule 1: after that, one attempt is allowed per interval.
pub async fn a_rate_goes_on_by_its_interval(bench: &HookBench) {
    bench.with(rated(5)).await;
    bench.emit_many(12).await;
    bench.take(20).await;
    for _ in 0..3 {
        bench.advance_ms(199).await;
        bench.none().await;
        bench.advance_ms(1).await;
        assert_eq!(bench.take(20).await.len(), 1);
    }
}

/// Rule 1: unused attempts are not saved for longer than a second.
pub async fn an_idle_rate_saves_no_more_than_a_second(bench: &HookBench) {
    bench.with(rated(3)).await;
    bench.emit_many(9).await;
    bench.take(20).await;
    bench.advance(20).await;
    assert_eq!(bench.take(20).await.len(), 3);
}

/// Rule 1: a rate of one allows one attempt per second.
pub async fn a_rate_of_one_is_one_a_second(bench: &HookBench) {
    bench.with(rated(1)).await;
    bench.emit_many(3).await;
    for _ in 0..3 {
        assert_eq!(bench.take(20).await.len(), 1);
        bench.none().await;
        bench.advance(1).await;
    }
}

/// Rule 4: waiting for the rate limit counts no attempt.
pub async fn the_rate_counts_no_attempt(bench: &HookBench) {
    let id = bench.with(rated(1)).await;
    let ids = bench.emit_many(2).await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    bench.none().await;
    let delivery = bench.delivery(ids[1], id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Throttled, 0));
    bench.advance(1).await;
    assert_eq!(bench.state(ids[1], id).await, DeliveryState::Pending);
    assert_eq!(bench.one().await.attempt_no, 1);
}

/// Every endpoint has its own rate limit.
pub async fn a_rate_is_its_endpoints_own(bench: &HookBench) {
    bench.with(rated(1)).await;
    bench.with(plain()).await;
    bench.emit_many(3).await;
    assert_eq!(bench.take(20).await.len(), 4);
}

/// Retries count like first attempts.
pub async fn every_attempt_counts_for_the_rate(bench: &HookBench) {
    bench.with(rated(2)).await;
    bench.emit().await;
    for _ in 0..2 {
        let item = bench.one().await;
        bench.retry(&item, 0).await;
    }
    assert_eq!(bench.none().await, Some(Duration::from_millis(500)));
}

/// Rule 5 of claiming: a group counts as one attempt for the rate limit.
pub async fn a_group_is_one_for_the_rate(bench: &HookBench) {
    let mut options = fifo(3);
    options.rate_per_second = Some(2);
    bench.with(options).await;
    bench.emit_many(9).await;
    for _ in 0..2 {
        let got = bench.take(9).await;
        assert_eq!(got.len(), 3);
        for item in got {
            bench.deliver(&item).await;
        }
    }
    assert_eq!(bench.none().await, Some(Duration::from_millis(500)));
}

/// Pulled deliveries obey the rate limit as well.
pub async fn fetching_keeps_the_rate(bench: &HookBench) {
    let mut options = pulled();
    options.rate_per_second = Some(2);
    let id = bench.with(options).await;
    bench.emit_many(5).await;
    assert_eq!(bench.fetch(id, 9).await.len(), 2);
    assert_eq!(bench.fetch(id, 9).await.len(), 0);
    bench.advance(1).await;
    assert_eq!(bench.fetch(id, 9).await.len(), 2);
}

/// Rule 3: a throttled endpoint gets nothing until the throttle ends.
pub async fn a_throttled_endpoint_gets_nothing(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let item = bench.one().await;
    let throttled = SettleDelivery { throttle: Some(secs(40)), ..success(item.token) };
    bench.settle(throttled).await;
    assert_eq!(bench.none().await, Some(secs(40)));
    let delivery = bench.delivery(ids[1], id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Throttled, 0));
    bench.advance_ms(39_999).await;
    bench.none().await;
    bench.advance_ms(1).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
}

/// Rule 3: of two throttles, the one that ends later counts.
pub async fn a_later_end_of_a_throttle_wins(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(4).await;
    let got = bench.take(3).await;
    for (item, span) in got.iter().zip([20, 50, 10]) {
        let throttle = Some(secs(span));
        let verdict = DeliveryVerdict::Delivered;
        bench.settle(SettleDelivery { throttle, ..end(item.token, verdict) }).await;
    }
    assert_eq!(bench.none().await, Some(secs(50)));
}

/// A throttle concerns its own endpoint only.
pub async fn a_throttle_is_its_endpoints_own(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.settle(SettleDelivery { throttle: Some(secs(40)), ..success(item.token) }).await;
    bench.with(plain()).await;
    bench.emit().await;
    assert_eq!(bench.take(9).await.len(), 1);
}

/// Rule 3: a throttle is still in effect after the store was opened again.
pub async fn what_holds_back_survives_a_restart(bench: &HookBench) {
    bench.with(rated(1)).await;
    bench.emit_many(2).await;
    let item = bench.one().await;
    bench.settle(SettleDelivery { throttle: Some(secs(40)), ..success(item.token) }).await;
    let reopened = bench.fixture.reopened().await;
    let claim = super::push(vec![super::request(1)]);
    let answer = reopened.claim_deliveries(vec![claim]).await.expect("claimed").remove(0);
    assert!(answer.groups[0].is_empty());
    assert_eq!(answer.next_due, Some(secs(40)));
}
