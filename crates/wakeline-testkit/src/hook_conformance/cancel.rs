//! Rules of cancelling deliveries.

use std::time::Duration;

use wakeline_core::{
    EndpointId, EndpointOptions, EndpointRef, HookLine, HookMessageId, MessageRef,
};
use wakeline_store::hook::{
    AttemptOutcome, DeliveryClaim, DeliveryState, DeliveryVerdict, SettledState,
};

use super::{HookBench, earliest_due, fifo, items, plain, request, secs, uid};

/// Rule 4: a waiting delivery ends.
pub async fn what_waits_is_cancelled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    let item = bench.one().await;
    bench.retry(&item, 60).await;
    assert_eq!(bench.cancel(ids[0]).await, Some(1));
    assert_eq!(bench.cancel(ids[1]).await, Some(1));
    assert_eq!(bench.none().await, None);
    for message in ids {
        let delivery = bench.delivery(message, id).await;
        assert_eq!((delivery.state, delivery.next_attempt_at), (DeliveryState::Cancelled, None));
    }
}

/// Rule 4: cancelling covers all endpoints of a message, or one of them.
pub async fn one_or_all_endpoints_are_cancelled(bench: &HookBench) {
    let (one, other) = (bench.with(plain()).await, bench.with(plain()).await);
    let (first, second) = (bench.emit().await, bench.emit().await);
    let message = MessageRef::Id(first);
    let only = EndpointRef::Id(one);
    let cancelled = bench.hook.cancel(&bench.of_app(), &message, Some(&only)).await;
    assert_eq!(cancelled.expect("answered").map(|(cancelled, _)| cancelled), Some(1));
    assert_eq!(bench.state(first, one).await, DeliveryState::Cancelled);
    assert_eq!(bench.state(first, other).await, DeliveryState::Pending);
    assert_eq!(bench.cancel(second).await, Some(2));
    assert_eq!(bench.taken(9).await, [first]);
}

/// Rule 4: a delivery in flight is cancelled when its attempt ends.
pub async fn what_is_under_way_is_cancelled_when_it_ends(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let verdicts =
        [DeliveryVerdict::Delivered, DeliveryVerdict::Retry(secs(1)), DeliveryVerdict::Failed];
    for verdict in verdicts {
        let message = bench.emit().await;
        let item = bench.one().await;
        assert_eq!(bench.cancel(message).await, Some(1));
        assert_eq!(bench.ends(&item, verdict).await, SettledState::Cancelled);
        assert_eq!(bench.state(message, id).await, DeliveryState::Cancelled);
        assert_eq!(bench.attempts(message).await.len(), 1, "it is in the log");
        bench.advance(2).await;
        assert_eq!(bench.none().await, None);
    }
}

/// Rule 4: deliveries behind a cancelled head become available, and their waiters are notified.
pub async fn cancelling_the_head_releases_the_next_and_notifies(bench: &HookBench) {
    let pull = EndpointOptions { pull: true, ..fifo(1) };
    for (options, pulled) in [(fifo(1), false), (pull, true)] {
        let to = bench.with(options).await;
        let line = if pulled { HookLine::Pull(to) } else { HookLine::Push };
        let claim = || DeliveryClaim::new(line.clone(), vec![request(1)]);
        let ids = bench.emit_many(2).await;
        let mut head = bench.hook.claim_deliveries(vec![claim()]).await.expect("claimed");
        let head = items(&head.remove(0).groups.remove(0)).remove(0);
        assert_eq!(head.message, ids[0]);
        bench.retry(&head, 3_600).await;
        let (message, only) = (MessageRef::Id(ids[0]), EndpointRef::Id(to));
        let cancelled = bench.hook.cancel(&bench.of_app(), &message, Some(&only)).await;
        let (count, changes) = cancelled.expect("answered").expect("it is there");
        assert_eq!(
            (count, earliest_due(&changes, &line)),
            (1, Some(Duration::ZERO)),
            "{changes:?}"
        );
        let mut next = bench.hook.claim_deliveries(vec![claim()]).await.expect("claimed");
        let next = items(&next.remove(0).groups.remove(0)).remove(0);
        assert_eq!(next.message, ids[1]);
        bench.deliver(&next).await;
        bench.switch(to, false).await;
    }
}

/// A cancelled delivery also ends when the lease of its attempt expires.
pub async fn a_cancelled_attempt_may_expire(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    bench.one().await;
    bench.cancel(message).await;
    bench.advance(30).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Cancelled);
    assert_eq!(bench.attempts(message).await[0].outcome, AttemptOutcome::Unknown);
}

/// A cancelled delivery ends when its attempt is released.
pub async fn a_cancelled_attempt_may_be_released(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.cancel(message).await;
    bench.release(&[&item]).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Cancelled);
}

/// Deliveries that have ended do not change.
pub async fn what_has_ended_is_not_cancelled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let delivered = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    let failed = bench.failed().await;
    assert_eq!(bench.cancel(delivered).await, Some(0));
    assert_eq!(bench.cancel(failed).await, Some(0));
    assert_eq!(bench.state(delivered, id).await, DeliveryState::Delivered);
    assert_eq!(bench.state(failed, id).await, DeliveryState::Failed);
}

/// An unknown message is reported as missing.
pub async fn an_unknown_message_cannot_be_cancelled(bench: &HookBench) {
    bench.with(plain()).await;
    assert_eq!(bench.cancel(HookMessageId::generate()).await, None);
    let message = bench.emit().await;
    let unknown = EndpointRef::Id(EndpointId::generate());
    let message = MessageRef::Id(message);
    let cancelled = bench.hook.cancel(&bench.of_app(), &message, Some(&unknown)).await;
    assert_eq!(cancelled.expect("answered"), Some((0, Vec::new())), "no such endpoint");
    let nowhere = wakeline_core::ApplicationRef::Own(uid("unknown"));
    let cancelled = bench.hook.cancel(&nowhere, &message, None).await;
    assert_eq!(cancelled.expect("answered"), None);
    assert_eq!(bench.take(9).await.len(), 1);
}
