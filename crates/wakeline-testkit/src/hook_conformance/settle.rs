//! Rules of settling attempts.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::EndpointOptions;
use wakeline_store::hook::{
    Attempt, AttemptOutcome, AttemptRecord, BreakerSample, DeliveryState, DeliveryVerdict,
    DisableReason, SettleDelivery, SettledState, Trigger,
};

use super::{HookBench, before, breaking, end, failure, plain, secs, success};

/// Rule 2: an attempt is logged as the caller reported it.
pub async fn an_attempt_is_logged_as_it_was_reported(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.advance(4).await;
    let record = AttemptRecord {
        began_ago: Duration::from_millis(3_500),
        took: Duration::from_millis(3_250),
        status: Some(503),
        response: Bytes::from_static(b"\0\xffbusy"),
        error: Some("said so".into()),
        url: "https://called.example/x".into(),
    };
    let verdict = DeliveryVerdict::Retry(secs(5));
    bench.settle(SettleDelivery { record: record.clone(), ..end(item.token, verdict) }).await;
    let expected = Attempt {
        id: item.token.attempt,
        message,
        endpoint: id,
        attempt_no: 1,
        outcome: AttemptOutcome::Failed,
        trigger: Trigger::Scheduled,
        began_at: before(bench.now().await, record.began_ago),
        took: record.took,
        status: record.status,
        response: Some(record.response),
        error: record.error,
        url: record.url,
    };
    assert_eq!(bench.attempt(item.token.attempt).await, Some(expected.clone()));
    assert_eq!(bench.attempts(message).await, vec![expected]);
}

/// Rule 3: a delivered delivery has ended.
pub async fn a_delivered_delivery_is_done(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    let delivery = bench.delivery(message, id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Delivered, 1));
    assert_eq!(delivery.next_attempt_at, None);
    bench.advance(86_400).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.attempts(message).await[0].outcome, AttemptOutcome::Succeeded);
}

/// Rule 3: a retry is due at its time and never before.
pub async fn a_retry_is_due_at_its_time(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    for n in 1..=3 {
        let item = bench.one().await;
        assert_eq!((item.attempt_no, item.scheduled_no), (n, n));
        let now = bench.now().await;
        bench.retry(&item, 100).await;
        let delivery = bench.delivery(message, id).await;
        assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Retrying, n));
        assert_eq!(delivery.next_attempt_at, Some(now.plus(secs(100))));
        bench.advance_ms(99_999).await;
        bench.none().await;
        bench.advance_ms(1).await;
    }
}

/// Rule 3: a failed delivery has ended.
pub async fn a_failed_delivery_is_over(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    let delivery = bench.delivery(message, id).await;
    assert_eq!((delivery.state, delivery.next_attempt_at), (DeliveryState::Failed, None));
    assert_eq!(bench.none().await, None);
}

/// Every settlement of a call has its own answer.
pub async fn several_ends_have_answers_of_their_own(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(4).await;
    let got = bench.take(4).await;
    bench.deliver(&got[3]).await;
    let verdicts = [
        DeliveryVerdict::Delivered,
        DeliveryVerdict::Retry(secs(1)),
        DeliveryVerdict::Failed,
        DeliveryVerdict::Failed,
    ];
    let ends = got.iter().zip(verdicts).map(|(item, verdict)| end(item.token, verdict)).collect();
    let settled = bench.hook.settle_deliveries(ends).await.expect("answered");
    let states: Vec<_> = settled.iter().map(|one| one.state).collect();
    use SettledState::{Delivered, Failed, Retrying, Stale};
    assert_eq!(states, [Delivered, Retrying, Failed, Stale]);
}

/// Rule 1: an attempt is settled once.
pub async fn an_attempt_ends_once(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 60).await;
    assert_eq!(bench.settle(success(item.token)).await.state, SettledState::Stale);
    assert_eq!(bench.state(message, id).await, DeliveryState::Retrying);
    assert_eq!(bench.attempts(message).await.len(), 1);
}

/// Rule 1: a settlement with a stale token does not affect the endpoint either.
pub async fn a_stale_end_changes_nothing(bench: &HookBench) {
    let id = bench.with(breaking(1, 1)).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.advance(30).await;
    let stale = SettleDelivery { gone: true, throttle: Some(secs(99)), ..failure(item.token) };
    let settled = bench.settle(stale).await;
    assert_eq!((settled.state, settled.disabled), (SettledState::Stale, None));
    assert_eq!(settled.changes, []);
    let shown = bench.shown(id).await;
    assert_eq!((shown.disabled, shown.paused_for, shown.failing_since), (None, None, None));
    bench.one().await;
}

/// Rule 5: an endpoint that answers that it is gone is disabled.
pub async fn an_endpoint_that_is_gone_is_disabled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    let item = bench.one().await;
    let gone = SettleDelivery { gone: true, ..end(item.token, DeliveryVerdict::Failed) };
    let settled = bench.settle(gone).await;
    assert_eq!(settled.state, SettledState::Failed);
    assert_eq!(settled.disabled, Some(DisableReason::Gone));
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Gone));
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(ids[1], id).await, DeliveryState::Throttled, "it waits");
    bench.switch(id, true).await;
    assert_eq!(bench.taken(5).await, ids[1..]);
}

/// Rule 5: an endpoint is disabled once.
pub async fn a_disabled_endpoint_is_not_disabled_again(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.switch(id, false).await;
    let gone = SettleDelivery { gone: true, ..end(item.token, DeliveryVerdict::Failed) };
    assert_eq!(bench.settle(gone).await.disabled, None);
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Requested));
}

/// Rule 5: an endpoint shows the time since which all its attempts have failed.
pub async fn failing_since_is_the_first_failure(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    let since = bench.now().await;
    bench.settle(failure(item.token)).await;
    bench.advance(10).await;
    let item = bench.one().await;
    bench.settle(failure(item.token)).await;
    assert_eq!(bench.shown(id).await.failing_since, Some(since), "the first one counts");
    let item = bench.one().await;
    let verdict = DeliveryVerdict::Retry(Duration::ZERO);
    bench.settle(end(item.token, verdict)).await;
    assert_eq!(bench.shown(id).await.failing_since, Some(since), "nothing was said");
    let item = bench.one().await;
    bench.settle(success(item.token)).await;
    assert_eq!(bench.shown(id).await.failing_since, None);
}

/// Rule 5: an endpoint whose attempts have all failed for too long is disabled.
pub async fn failing_for_too_long_disables(bench: &HookBench) {
    let id = bench.with(EndpointOptions { disable_after: Some(secs(100)), ..plain() }).await;
    bench.emit().await;
    let item = bench.one().await;
    assert_eq!(bench.settle(failure(item.token)).await.disabled, None);
    bench.advance_ms(99_999).await;
    let item = bench.one().await;
    assert_eq!(bench.settle(failure(item.token)).await.disabled, None);
    bench.advance_ms(1).await;
    let item = bench.one().await;
    let settled = bench.settle(failure(item.token)).await;
    assert_eq!(settled.disabled, Some(DisableReason::Failing));
    assert_eq!(settled.state, SettledState::Retrying, "the delivery waits");
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Failing));
    assert_eq!(bench.none().await, None);
}

/// Rule 5: a success restarts that time.
pub async fn a_success_restarts_the_time_of_failing(bench: &HookBench) {
    bench.with(EndpointOptions { disable_after: Some(secs(100)), ..plain() }).await;
    bench.emit_many(2).await;
    let item = bench.one().await;
    bench.settle(failure(item.token)).await;
    bench.advance(60).await;
    let item = bench.one().await;
    bench.settle(success(item.token)).await;
    bench.advance(60).await;
    let item = bench.one().await;
    assert_eq!(bench.settle(failure(item.token)).await.disabled, None);
}

/// Rule 5: enabling an endpoint resets its failures.
pub async fn enabling_resets_the_failures(bench: &HookBench) {
    let options = EndpointOptions { disable_after: Some(secs(100)), ..plain() };
    let id = bench.with(options).await;
    bench.emit().await;
    for wait in [100, 0] {
        let item = bench.one().await;
        bench.settle(failure(item.token)).await;
        bench.advance(wait).await;
    }
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Failing));
    bench.switch(id, true).await;
    assert_eq!(bench.shown(id).await.failing_since, None);
    let item = bench.one().await;
    assert_eq!(bench.settle(failure(item.token)).await.disabled, None);
}

/// Rule 5: attempts without a sample do not disable an endpoint.
pub async fn an_attempt_without_a_breaker_sample_does_not_disable(bench: &HookBench) {
    let id = bench.with(EndpointOptions { disable_after: Some(secs(10)), ..plain() }).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.settle(failure(item.token)).await;
    bench.advance(20).await;
    let item = bench.one().await;
    let verdict = DeliveryVerdict::Retry(Duration::ZERO);
    let quiet = SettleDelivery { sample: BreakerSample::None, ..end(item.token, verdict) };
    assert_eq!(bench.settle(quiet).await.disabled, None);
    assert_eq!(bench.shown(id).await.disabled, None);
}
