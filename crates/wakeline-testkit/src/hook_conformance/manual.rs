//! Rules of manual attempts.

use std::time::Duration;

use wakeline_core::{ApplicationRef, EndpointId, EndpointRef, HookMessageId, MessageRef};
use wakeline_store::hook::{
    AttemptOutcome, DeliveryItem, DeliveryState, DeliveryVerdict, NewMessage, ResendOutcome,
    SettledState, Trigger,
};

use super::{HookBench, application, plain, secs, uid};

/// Resends a delivery and claims the attempt.
async fn again(bench: &HookBench, message: HookMessageId, to: EndpointId) -> DeliveryItem {
    assert_eq!(bench.resend(message, to).await, ResendOutcome::Due);
    let item = bench.one().await;
    assert_eq!((item.message, item.trigger), (message, Trigger::Manual));
    item
}

/// Rule 1: a resend is one manual attempt, due now.
pub async fn a_resend_is_one_attempt_now(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    let item = again(bench, message, id).await;
    assert_eq!((item.attempt_no, item.scheduled_no), (2, 1), "not of the schedule");
    bench.deliver(&item).await;
    assert_eq!(bench.state(message, id).await, DeliveryState::Delivered);
    let attempts = bench.attempts(message).await;
    let triggers: Vec<_> = attempts.iter().map(|one| one.trigger).collect();
    assert_eq!(triggers, [Trigger::Scheduled, Trigger::Manual]);
    assert_eq!(attempts[1].outcome, AttemptOutcome::Succeeded);
    assert_eq!(bench.none().await, None);
}

/// Rule 3 of settling: a failed delivery stays failed.
pub async fn a_failed_manual_attempt_leaves_a_failed_delivery_failed(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    let item = again(bench, message, id).await;
    assert_eq!(bench.ends(&item, DeliveryVerdict::Failed).await, SettledState::Failed);
    assert_eq!(bench.state(message, id).await, DeliveryState::Failed);
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.attempts(message).await.len(), 2);
}

/// Rule 3 of settling: a delivered delivery stays delivered.
pub async fn a_failed_manual_attempt_leaves_a_delivered_delivery_delivered(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    let item = again(bench, message, id).await;
    assert_eq!(bench.ends(&item, DeliveryVerdict::Failed).await, SettledState::Delivered);
    assert_eq!(bench.state(message, id).await, DeliveryState::Delivered);
    assert_eq!(bench.none().await, None);
}

/// Rule 3 of settling: the planned attempt is made at its time.
pub async fn a_failed_manual_attempt_does_not_touch_the_schedule(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 100).await;
    let planned = bench.delivery(message, id).await.next_attempt_at;
    for verdict in [DeliveryVerdict::Failed, DeliveryVerdict::Retry(secs(5))] {
        bench.advance(10).await;
        let item = again(bench, message, id).await;
        assert_eq!(item.scheduled_no, 1);
        assert_eq!(bench.ends(&item, verdict).await, SettledState::Retrying);
        assert_eq!(bench.delivery(message, id).await.next_attempt_at, planned, "{verdict:?}");
    }
    assert_eq!(bench.none().await, Some(secs(80)));
    bench.advance(80).await;
    let item = bench.one().await;
    assert_eq!((item.attempt_no, item.scheduled_no), (4, 2));
    assert_eq!(item.trigger, Trigger::Scheduled);
}

/// Rule 3 of settling: a delivery without a planned attempt is retried by schedule.
pub async fn a_manual_attempt_may_begin_a_retry(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    let item = again(bench, message, id).await;
    let state = bench.ends(&item, DeliveryVerdict::Retry(secs(7))).await;
    assert_eq!(state, SettledState::Retrying);
    assert_eq!(bench.none().await, Some(secs(7)));
    bench.advance(7).await;
    let item = bench.one().await;
    assert_eq!((item.trigger, item.attempt_no, item.scheduled_no), (Trigger::Scheduled, 3, 2));
}

/// A successful manual attempt ends the schedule.
pub async fn a_successful_manual_attempt_ends_the_delivery(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 100).await;
    let item = again(bench, message, id).await;
    bench.deliver(&item).await;
    bench.advance(200).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Delivered);
}

/// Rule 7 of claiming: after an expired manual attempt, the delivery is as it was before.
pub async fn an_expired_manual_attempt_goes_back(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let failed = bench.failed().await;
    again(bench, failed, id).await;
    bench.advance(30).await;
    assert_eq!(bench.none().await, None);
    let delivery = bench.delivery(failed, id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Failed, 2));
    let attempts = bench.attempts(failed).await;
    assert_eq!(attempts[1].outcome, AttemptOutcome::Unknown);
    assert_eq!((attempts[1].trigger, attempts[1].attempt_no), (Trigger::Manual, 2));
    let waiting = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 100).await;
    again(bench, waiting, id).await;
    bench.advance(30).await;
    assert_eq!(bench.none().await, Some(secs(70)), "back to its plan");
}

/// A released manual attempt is still to be made.
pub async fn a_released_manual_attempt_stays_manual(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    let item = again(bench, message, id).await;
    bench.release(&[&item]).await;
    let item = bench.one().await;
    assert_eq!((item.trigger, item.attempt_no), (Trigger::Manual, 2));
    assert_eq!(bench.ends(&item, DeliveryVerdict::Failed).await, SettledState::Failed);
}

/// Two resends in a row cause one attempt.
pub async fn resending_twice_is_one_attempt(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    assert_eq!(bench.resend(message, id).await, ResendOutcome::Due);
    let item = again(bench, message, id).await;
    assert_eq!(bench.ends(&item, DeliveryVerdict::Failed).await, SettledState::Failed);
    assert_eq!(bench.none().await, None);
}

/// Rule 1: a cancelled delivery can be resent.
pub async fn a_cancelled_delivery_can_be_resent(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    assert_eq!(bench.cancel(message).await, Some(1));
    let item = again(bench, message, id).await;
    assert_eq!(bench.ends(&item, DeliveryVerdict::Failed).await, SettledState::Cancelled);
    let item = again(bench, message, id).await;
    bench.deliver(&item).await;
    assert_eq!(bench.state(message, id).await, DeliveryState::Delivered);
}

/// A delivery has one attempt in flight at a time.
pub async fn a_delivery_under_way_cannot_be_resent(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    assert_eq!(bench.resend(message, id).await, ResendOutcome::InFlight);
    bench.deliver(&item).await;
    assert_eq!(bench.none().await, None, "nothing changed");
}

/// Rule 1: the payload must still exist.
pub async fn a_message_without_its_payload_cannot_be_resent(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    let which = MessageRef::Id(message);
    assert!(bench.hook.expunge_payload(&bench.of_app(), &which).await.expect("answered"));
    assert_eq!(bench.resend(message, id).await, ResendOutcome::Expired);
    assert_eq!(bench.state(message, id).await, DeliveryState::Failed);
}

/// Rule 1: the endpoint must exist and be enabled.
pub async fn a_resend_needs_its_endpoint(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.failed().await;
    bench.switch(id, false).await;
    assert_eq!(bench.resend(message, id).await, ResendOutcome::Disabled);
    assert_eq!(bench.state(message, id).await, DeliveryState::Failed);
    bench.delete(id).await;
    assert_eq!(bench.resend(message, id).await, ResendOutcome::Missing);
}

/// A message that was never to be delivered to an endpoint is not resent to it.
pub async fn a_resend_needs_a_delivery(bench: &HookBench) {
    let message = bench.emit().await;
    let id = bench.with(plain()).await;
    assert_eq!(bench.resend(message, id).await, ResendOutcome::Missing);
    let unknown = HookMessageId::generate();
    assert_eq!(bench.resend(unknown, id).await, ResendOutcome::Missing);
    let known = bench.failed().await;
    assert_eq!(bench.resend(known, EndpointId::generate()).await, ResendOutcome::Missing);
    let other = ApplicationRef::Id(bench.application(application(None)).await);
    let (message, to) = (MessageRef::Id(known), EndpointRef::Id(id));
    let outcome = bench.hook.resend(&other, &message, &to).await.expect("answered");
    assert_eq!(outcome.0, ResendOutcome::Missing, "of another application");
    let unknown = ApplicationRef::Own(uid("unknown"));
    let outcome = bench.hook.resend(&unknown, &message, &to).await.expect("answered");
    assert_eq!(outcome.0, ResendOutcome::Missing);
}

/// Rule 3 of claiming: manual attempts are claimed after all others.
pub async fn manual_attempts_come_after_all_others(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let failed = bench.failed().await;
    bench.resend(failed, id).await;
    bench.advance(1).await;
    let retried = bench.emit().await;
    let item = bench.one().await;
    assert_eq!(item.message, retried);
    bench.retry(&item, 1).await;
    bench.advance(1).await;
    let fresh = bench.emit().await;
    assert_eq!(bench.taken(5).await, [retried, fresh, failed]);
}

/// A waiting delivery that is resent is due now.
pub async fn a_retry_can_be_brought_forward(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 3_600).await;
    let now = bench.now().await;
    bench.resend(message, id).await;
    let delivery = bench.delivery(message, id).await;
    assert_eq!(delivery.next_attempt_at, Some(now));
    assert_eq!(delivery.state, DeliveryState::Retrying);
    again(bench, message, id).await;
}

/// A resend accepts the user's own ids.
pub async fn a_resend_may_use_own_ids(bench: &HookBench) {
    let new =
        wakeline_store::hook::NewEndpoint { uid: Some(uid("mine")), ..super::endpoint(plain()) };
    bench.endpoint(new).await;
    let event_id = wakeline_core::EventId::parse("e-1").expect("valid");
    bench.stored(NewMessage { event_id: Some(event_id.clone()), ..bench.message() }).await;
    let item = bench.one().await;
    bench.fail(&item).await;
    let (message, to) = (MessageRef::Own(event_id), EndpointRef::Own(uid("mine")));
    let app = ApplicationRef::Own(uid("main"));
    let (outcome, changes) = bench.hook.resend(&app, &message, &to).await.expect("answered");
    assert_eq!(outcome, ResendOutcome::Due);
    let due = super::earliest_due(&changes, &wakeline_core::HookLine::Push);
    assert_eq!(due, Some(Duration::ZERO));
    bench.one().await;
}
