//! Rules of the next due time.

use std::time::Duration;

use wakeline_core::{EndpointOptions, HookLine};
use wakeline_store::hook::{
    BreakerSample, DeliveryClaim, DeliveryVerdict, NewMessage, SettleDelivery,
};

use super::{
    HookBench, LEASE, breaking, end, failure, items, messages_of, plain, pull, pulled, push, rated,
    request, request_fresh, secs, success,
};

/// Checks that claims and sweeps return the same wait, and that something is due at its end.
async fn due_after(bench: &HookBench, wait: Duration) {
    assert_eq!(bench.none().await, Some(wait));
    assert_eq!(bench.sweep(HookLine::Push).await, Some(wait));
    let ms = u64::try_from(wait.as_millis()).expect("a short time");
    bench.advance_ms(ms - 1).await;
    bench.none().await;
    bench.advance_ms(1).await;
    assert_eq!(bench.sweep(HookLine::Push).await, Some(Duration::ZERO));
    bench.one().await;
}

/// Rule 9: a line without deliveries has no next due time.
pub async fn an_empty_line_has_nothing_in_sight(bench: &HookBench) {
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.sweep(HookLine::Push).await, None);
    let id = bench.with(pulled()).await;
    assert_eq!(bench.sweep(HookLine::Pull(id)).await, None);
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    assert_eq!(bench.none().await, None, "all is done");
}

/// Rule 9: the next due time is that of a retry.
pub async fn a_retry_is_in_sight(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 17).await;
    due_after(bench, secs(17)).await;
}

/// Rule 9: the next due time is the end of a lease.
pub async fn the_end_of_a_lease_is_in_sight(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    bench.one().await;
    due_after(bench, LEASE).await;
}

/// Rule 9: the next due time is the end of a throttle.
pub async fn the_end_of_a_throttle_is_in_sight(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    let throttle = Some(secs(20));
    let verdict = DeliveryVerdict::Retry(secs(5));
    bench.settle(SettleDelivery { throttle, ..end(item.token, verdict) }).await;
    due_after(bench, secs(20)).await;
}

/// Rule 9: the next due time is the end of a breaker's pause.
pub async fn the_end_of_a_pause_is_in_sight(bench: &HookBench) {
    bench.with(breaking(1, 1)).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.settle(failure(item.token)).await;
    due_after(bench, secs(60)).await;
}

/// Rule 9: the next due time is when the rate limit allows the next attempt.
pub async fn the_rate_is_in_sight(bench: &HookBench) {
    bench.with(rated(4)).await;
    bench.emit_many(5).await;
    for item in bench.take(5).await {
        bench.deliver(&item).await;
    }
    due_after(bench, Duration::from_millis(250)).await;
}

/// Rule 9: of several obstacles, the one that ends last decides.
pub async fn the_latest_obstacle_decides(bench: &HookBench) {
    bench.with(EndpointOptions { rate_per_second: Some(1), ..breaking(1, 1) }).await;
    bench.emit().await;
    let item = bench.one().await;
    let verdict = DeliveryVerdict::Retry(secs(70));
    let sample = BreakerSample::Failure;
    let throttle = Some(secs(65));
    bench.settle(SettleDelivery { sample, throttle, ..end(item.token, verdict) }).await;
    due_after(bench, secs(70)).await;
}

/// Rule 9: of several endpoints, the one that is due first decides.
pub async fn the_first_endpoint_decides(bench: &HookBench) {
    bench.with(plain()).await;
    bench.with(plain()).await;
    bench.emit().await;
    let got = bench.take(2).await;
    bench.retry(&got[0], 40).await;
    bench.retry(&got[1], 25).await;
    due_after(bench, secs(25)).await;
    assert_eq!(bench.none().await, Some(secs(15)));
}

/// Every line has its own next due time.
pub async fn each_line_has_its_own_time(bench: &HookBench) {
    bench.with(plain()).await;
    let id = bench.with(pulled()).await;
    let other = bench.with(pulled()).await;
    let only = Some(id);
    bench.stored(NewMessage { only, ..bench.message() }).await;
    let lines = vec![HookLine::Push, HookLine::Pull(id), HookLine::Pull(other)];
    let due = bench.hook.sweep_hook(lines.clone()).await.expect("swept");
    assert_eq!(due, [None, Some(Duration::ZERO), None]);
    let item = bench.fetch(id, 1).await.remove(0);
    bench.retry(&item, 9).await;
    let due = bench.hook.sweep_hook(lines).await.expect("swept");
    assert_eq!(due, [None, Some(secs(9)), None]);
    let answer = bench.claim(pull(id, vec![request(1)])).await;
    assert_eq!(answer.next_due, Some(secs(9)));
}

/// A sweep leases nothing.
pub async fn a_sweep_takes_nothing(bench: &HookBench) {
    bench.with(rated(1)).await;
    let message = bench.emit().await;
    for _ in 0..3 {
        assert_eq!(bench.sweep(HookLine::Push).await, Some(Duration::ZERO));
    }
    assert_eq!(bench.taken(1).await, [message]);
}

/// A disabled endpoint has no next due time.
pub async fn a_disabled_endpoint_is_not_in_sight(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    bench.switch(id, false).await;
    assert_eq!(bench.sweep(HookLine::Push).await, None);
    assert_eq!(bench.none().await, None);
    bench.switch(id, true).await;
    assert_eq!(bench.sweep(HookLine::Push).await, Some(Duration::ZERO));
}

/// An endpoint with the maximal number of attempts in flight is not due.
pub async fn a_full_endpoint_is_not_due(bench: &HookBench) {
    bench.with(super::capped(1)).await;
    bench.emit_many(2).await;
    let item = bench.one().await;
    assert_eq!(bench.none().await, Some(LEASE));
    assert_eq!(bench.sweep(HookLine::Push).await, Some(LEASE));
    bench.settle(success(item.token)).await;
    assert_eq!(bench.sweep(HookLine::Push).await, Some(Duration::ZERO));
}

/// First attempts have a line of their own, which neither returns nor reports retries.
pub async fn first_attempts_are_a_line_with_times_of_its_own(bench: &HookBench) {
    let fresh = || DeliveryClaim::new(HookLine::PushFresh, vec![request_fresh(1, 1)]);
    let lines = || vec![HookLine::Push, HookLine::PushFresh];
    let due = async || bench.hook.sweep_hook(lines()).await.expect("swept");
    bench.with(plain()).await;
    let late = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 7).await;
    assert_eq!(due().await, [Some(secs(7)), None]);
    bench.advance_ms(7_000).await;
    assert_eq!(due().await, [Some(Duration::ZERO), None]);
    let answer = bench.claim(fresh()).await;
    assert!(answer.groups[0].is_empty(), "got {:?}", answer.groups);
    assert_eq!(answer.next_due, None);
    let new = bench.emit().await;
    assert_eq!(due().await, [Some(Duration::ZERO); 2]);
    // Both lines are in one call: each gets what it can take.
    let both = vec![fresh(), push(vec![request(1)])];
    let answers = bench.hook.claim_deliveries(both).await.expect("claimed");
    let got = answers.iter().map(|answer| messages_of(&items(&answer.groups[0])));
    assert_eq!(got.collect::<Vec<_>>(), [[new], [late]]);
}

/// A claim that is partly filled reports when more is due.
pub async fn a_partly_filled_claim_reports_when_there_is_more(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(2).await;
    let item = bench.one().await;
    bench.retry(&item, 8).await;
    let answer = bench.claim(push(vec![request(3)])).await;
    assert_eq!((answer.groups[0].len(), answer.next_due), (1, Some(secs(8))));
}

/// A claim that looks further reports what is next for the other waiters of its line, even if it is
/// filled.
pub async fn a_claim_that_looks_further_says_what_is_next_though_it_is_filled(bench: &HookBench) {
    let filled = async |claim: DeliveryClaim, further: bool| {
        let answer = bench.claim(DeliveryClaim { further, ..claim }).await;
        assert_eq!(answer.groups[0].len(), 1);
        answer.next_due
    };
    let id = bench.with(pulled()).await;
    bench.emit_many(3).await;
    let fetch = || pull(id, vec![request(1)]);
    assert_eq!(filled(fetch(), true).await, Some(Duration::ZERO));
    assert_eq!(filled(fetch(), false).await, None, "it was not requested");
    assert_eq!(filled(fetch(), true).await, Some(LEASE));
    for options in [plain(), plain()] {
        bench.with(options).await;
    }
    bench.emit_many(2).await;
    let send = || push(vec![request(1)]);
    for _ in 0..3 {
        assert_eq!(filled(send(), true).await, Some(Duration::ZERO));
    }
    assert_eq!(filled(send(), true).await, Some(LEASE));
}
