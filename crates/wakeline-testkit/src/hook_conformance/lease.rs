//! Rules of leases: how they expire, are extended and released.

use std::time::Duration;

use wakeline_core::{AttemptId, DeliveryToken};
use wakeline_store::hook::{AttemptOutcome, DeliveryState, DeliveryVerdict, SettledState, Trigger};

use super::{HookBench, LEASE, breaking, failure, plain, pulled, rated, scheduled, secs, success};

/// Rule 7: the attempt of an expired lease is logged with an unknown outcome.
pub async fn an_expired_lease_is_logged_as_unknown(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    bench.advance(2).await;
    let (item, began) = (bench.one().await, bench.now().await);
    bench.advance(30).await;
    bench.one().await;
    let attempts = bench.attempts(message).await;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    let attempt = &attempts[0];
    assert_eq!((attempt.id, attempt.message), (item.token.attempt, message));
    assert_eq!((attempt.endpoint, attempt.attempt_no), (id, 1));
    assert_eq!((attempt.outcome, attempt.trigger), (AttemptOutcome::Unknown, Trigger::Scheduled));
    assert_eq!((attempt.began_at, attempt.took), (began, Duration::ZERO));
    assert_eq!(attempt.status, None);
}

/// Rule 7: a delivery whose lease expired is due, and its attempt is counted.
pub async fn an_expired_delivery_is_due_with_its_attempt_counted(bench: &HookBench) {
    bench.with(plain()).await;
    let message = bench.emit().await;
    for n in 1..=3 {
        let item = bench.one().await;
        assert_eq!((item.attempt_no, item.scheduled_no), (n, n));
        bench.advance(30).await;
    }
    let item = bench.one().await;
    bench.deliver(&item).await;
    let attempts = bench.attempts(message).await;
    assert_eq!(attempts.iter().map(|one| one.attempt_no).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// Rule 7: such a delivery is due since its lease ended, which decides its place in the order.
pub async fn an_expired_delivery_is_due_since_its_lease_ended(bench: &HookBench) {
    bench.with(plain()).await;
    let first = bench.emit().await;
    bench.one().await;
    bench.advance(31).await;
    let second = bench.emit().await;
    assert_eq!(bench.taken(5).await, [first, second]);
}

/// Rule 7: if its schedule is used up, the delivery has failed.
pub async fn an_expired_last_attempt_fails_the_delivery(bench: &HookBench) {
    let id = bench.with(scheduled(&[5])).await;
    let message = bench.emit().await;
    bench.one().await;
    bench.advance(30).await;
    assert_eq!(bench.one().await.scheduled_no, 2);
    bench.advance(30).await;
    assert_eq!(bench.none().await, None);
    let delivery = bench.delivery(message, id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Failed, 2));
}

/// A delivery with an empty schedule has one attempt.
pub async fn an_empty_schedule_is_one_attempt(bench: &HookBench) {
    let id = bench.with(scheduled(&[])).await;
    let message = bench.emit().await;
    bench.one().await;
    bench.advance(30).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Failed);
}

/// Rule 7: an expired lease is not a failure of its endpoint.
pub async fn an_expired_lease_is_no_failure(bench: &HookBench) {
    let id = bench.with(breaking(1, 1)).await;
    bench.emit().await;
    for _ in 0..3 {
        bench.one().await;
        bench.advance(30).await;
    }
    let shown = bench.shown(id).await;
    assert_eq!((shown.paused_for, shown.failing_since), (None, None));
}

/// Rule 1 of settling: a lease has expired at the very moment of its end.
pub async fn an_expired_lease_cannot_settle(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.advance(30).await;
    assert_eq!(bench.settle(success(item.token)).await.state, SettledState::Stale);
    assert!(!matches!(bench.state(message, id).await, DeliveryState::Delivered));
    assert_eq!(bench.one().await.attempt_no, 2);
    assert_eq!(bench.settle(success(item.token)).await.state, SettledState::Stale);
}

/// Until its end a lease is valid.
pub async fn a_lease_counts_until_its_end(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.advance_ms(29_999).await;
    bench.none().await;
    bench.deliver(&item).await;
}

/// Rule 7 of settling: an extension moves the end of a lease.
pub async fn an_extension_moves_the_end(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    bench.emit_many(2).await;
    let got = bench.fetch(id, 2).await;
    bench.advance(20).await;
    let extended = bench.hook.extend_deliveries(vec![got[0].token], secs(60)).await;
    assert_eq!(extended.expect("answered"), [true]);
    bench.advance(59).await;
    assert_eq!(bench.fetch(id, 2).await.len(), 1, "the other one is over");
    bench.deliver(&got[0]).await;
}

/// Rule 7 of settling: only unexpired leases are extended.
pub async fn an_expired_lease_cannot_be_extended(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(3).await;
    let got = bench.take(3).await;
    bench.deliver(&got[1]).await;
    let unknown = DeliveryToken { delivery: got[0].token.delivery, attempt: AttemptId::generate() };
    let tokens = vec![got[1].token, got[0].token, unknown];
    let extended = bench.hook.extend_deliveries(tokens, secs(60)).await.expect("answered");
    assert_eq!(extended, [false, true, false]);
    bench.advance(30).await;
    let extended = bench.hook.extend_deliveries(vec![got[2].token], secs(60)).await;
    assert_eq!(extended.expect("answered"), [false]);
}

/// Rule 7 of settling: a release undoes the claim.
pub async fn a_release_is_as_if_the_claim_had_not_been(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    let before = bench.delivery(ids[0], id).await;
    let item = bench.one().await;
    bench.advance(3).await;
    bench.release(&[&item]).await;
    let after = bench.delivery(ids[0], id).await;
    assert_eq!((after.state, after.attempts), (DeliveryState::Pending, 0));
    assert_eq!(after.next_attempt_at, before.next_attempt_at);
    let again = bench.take(2).await;
    assert_eq!((again[0].message, again[0].attempt_no, again[0].scheduled_no), (ids[0], 1, 1));
    assert_eq!(bench.attempts(ids[0]).await, []);
}

/// A released retry keeps its attempt number and due time.
pub async fn a_released_retry_keeps_number_and_time(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 5).await;
    let planned = bench.delivery(message, id).await.next_attempt_at;
    bench.advance(6).await;
    let item = bench.one().await;
    bench.release(&[&item]).await;
    let delivery = bench.delivery(message, id).await;
    assert_eq!((delivery.state, delivery.next_attempt_at), (DeliveryState::Retrying, planned));
    let item = bench.one().await;
    assert_eq!((item.attempt_no, item.scheduled_no), (2, 2));
}

/// Releases with stale tokens are ignored.
pub async fn a_stale_release_is_passed_over(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    let got = bench.take(2).await;
    bench.deliver(&got[0]).await;
    bench.release(&[&got[0], &got[1]]).await;
    assert_eq!(bench.state(ids[0], id).await, DeliveryState::Delivered);
    let again = bench.one().await;
    assert_eq!(again.message, ids[1]);
    bench.release(&[&got[1]]).await;
    bench.deliver(&again).await;
}

/// A released lease has ended.
pub async fn a_released_lease_cannot_settle(bench: &HookBench) {
    bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.release(&[&item]).await;
    assert_eq!(bench.settle(success(item.token)).await.state, SettledState::Stale);
    assert_eq!(bench.taken(1).await, [message]);
}

/// A token is valid for its own delivery only.
pub async fn tokens_are_not_exchanged(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(2).await;
    let got = bench.take(2).await;
    let crossed = DeliveryToken { delivery: got[0].token.delivery, attempt: got[1].token.attempt };
    assert_eq!(bench.settle(success(crossed)).await.state, SettledState::Stale);
    bench.deliver(&got[0]).await;
    bench.deliver(&got[1]).await;
    let unknown = DeliveryToken { delivery: i64::MAX, attempt: AttemptId::generate() };
    assert_eq!(bench.settle(failure(unknown)).await.state, SettledState::Stale);
}

/// A released attempt still counts for the rate limit.
pub async fn a_release_does_not_give_the_rate_back(bench: &HookBench) {
    bench.with(rated(1)).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.release(&[&item]).await;
    assert_eq!(bench.none().await, Some(secs(1)));
    bench.advance(1).await;
    assert_eq!(bench.one().await.attempt_no, 1);
}

/// Reading a leased delivery shows that an attempt is in flight.
pub async fn a_leased_delivery_is_in_flight(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    assert_eq!(bench.state(message, id).await, DeliveryState::Pending);
    let item = bench.one().await;
    let delivery = bench.delivery(message, id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::InFlight, 0));
    assert_eq!(delivery.next_attempt_at, None);
    assert_eq!(item.lease_for, LEASE);
    let state = bench.ends(&item, DeliveryVerdict::Retry(secs(1))).await;
    assert_eq!(state, SettledState::Retrying);
    assert_eq!(bench.state(message, id).await, DeliveryState::Retrying);
}
