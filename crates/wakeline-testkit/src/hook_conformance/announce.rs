//! Rules of operational messages, which are stored together with the end of an attempt.

use wakeline_core::{ApplicationId, ApplicationRef, HookMessageId, MessageRef};
use wakeline_store::hook::{Created, DeliveryVerdict, NewMessage, SettleDelivery, SettledState};

use super::{HookBench, application, end, endpoint, failure, key, message, plain, success};

/// Creates an application for operational messages, with one endpoint.
async fn operator(bench: &HookBench) -> ApplicationId {
    let id = bench.application(application(Some("operator"))).await;
    let made = bench.hook.create_endpoint(&ApplicationRef::Id(id), endpoint(plain()), None).await;
    assert!(matches!(made.expect("made"), Created::New(_)));
    id
}

async fn is_stored(bench: &HookBench, app: ApplicationId, id: HookMessageId) -> bool {
    let which = ApplicationRef::Id(app);
    let found = bench.hook.message(&which, &MessageRef::Id(id), false).await;
    found.expect("it is read").is_some()
}

/// Rule 6: an announcement is stored with the end of the attempt and delivered like any other
/// message.
pub async fn announcements_are_stored_with_the_end(bench: &HookBench) {
    bench.with(plain()).await;
    let operator = operator(bench).await;
    bench.emit().await;
    let item = bench.one().await;
    let (one, other) = (message(operator), message(operator));
    let ids = [one.id, other.id];
    let settled =
        bench.settle(SettleDelivery { announce: vec![one, other], ..success(item.token) }).await;
    assert_eq!(settled.state, SettledState::Delivered);
    let due = super::earliest_due(&settled.changes, &wakeline_core::HookLine::Push);
    assert_eq!(due, Some(std::time::Duration::ZERO));
    assert_eq!(bench.taken(5).await, ids);
}

/// Announcements with different keys are different messages, even if one call stores them.
pub async fn announcements_of_one_key_are_stored_once(bench: &HookBench) {
    bench.with(plain()).await;
    let operator = operator(bench).await;
    bench.emit().await;
    let item = bench.one().await;
    let new = || NewMessage { idempotency: key("k", 1), ..message(operator) };
    let announce = vec![new(), new()];
    let first = announce[0].id;
    let settled = bench.settle(SettleDelivery { announce, ..success(item.token) }).await;
    assert_eq!(settled.state, SettledState::Delivered);
    assert_eq!(bench.taken(5).await, [first]);
}

/// Rule 1: an end with a stale token announces nothing.
pub async fn a_stale_end_announces_nothing(bench: &HookBench) {
    bench.with(plain()).await;
    let operator = operator(bench).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.advance(30).await;
    let (new, farewell) = (message(operator), message(operator));
    let ids = [new.id, farewell.id];
    let stale = SettleDelivery {
        gone: true,
        announce: vec![new],
        announce_disabled: Some(farewell),
        ..success(item.token)
    };
    assert_eq!(bench.settle(stale).await.state, SettledState::Stale);
    for id in ids {
        assert!(!is_stored(bench, operator, id).await);
    }
}

/// Rule 6: an announcement to an unknown application is dropped, and the end still counts.
pub async fn announcements_to_unknown_applications_are_dropped(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    let announce = vec![message(ApplicationId::generate())];
    let settled = bench.settle(SettleDelivery { announce, ..success(item.token) }).await;
    assert_eq!(settled.state, SettledState::Delivered);
    assert_eq!(bench.none().await, None);
}

/// Rule 6: the announcement of a disabled endpoint is stored only if this end disabled it.
pub async fn a_farewell_goes_out_with_the_disabling_end(bench: &HookBench) {
    bench.with(plain()).await;
    let operator = operator(bench).await;
    bench.emit_many(2).await;
    let got = bench.take(2).await;
    let farewell = || message(operator);
    let quiet = farewell();
    let id = quiet.id;
    bench.settle(SettleDelivery { announce_disabled: Some(quiet), ..failure(got[0].token) }).await;
    assert!(!is_stored(bench, operator, id).await);
    let said = farewell();
    let id = said.id;
    let gone = SettleDelivery {
        gone: true,
        announce_disabled: Some(said),
        ..end(got[1].token, DeliveryVerdict::Failed)
    };
    assert!(bench.settle(gone).await.disabled.is_some());
    assert!(is_stored(bench, operator, id).await);
    assert_eq!(bench.taken(5).await, [id]);
}

/// Rule 6: an announcement obeys all rules of messages.
pub async fn an_announcement_is_stored_once(bench: &HookBench) {
    bench.with(plain()).await;
    let operator = operator(bench).await;
    bench.emit_many(2).await;
    let event_id = Some(wakeline_core::EventId::parse("once").expect("valid"));
    for item in bench.take(2).await {
        let new = NewMessage { event_id: event_id.clone(), ..message(operator) };
        let settled =
            bench.settle(SettleDelivery { announce: vec![new], ..success(item.token) }).await;
        assert_eq!(settled.state, SettledState::Delivered);
    }
    assert_eq!(bench.take(5).await.len(), 1);
}

/// Rule 4: the end of a cancelled delivery stores its announcements too.
pub async fn the_end_of_a_cancelled_delivery_announces(bench: &HookBench) {
    bench.with(plain()).await;
    let operator = operator(bench).await;
    let cancelled = bench.emit().await;
    let item = bench.one().await;
    assert_eq!(bench.cancel(cancelled).await, Some(1));
    let new = message(operator);
    let id = new.id;
    let settled = bench.settle(SettleDelivery { announce: vec![new], ..success(item.token) }).await;
    assert_eq!(settled.state, SettledState::Cancelled);
    assert!(is_stored(bench, operator, id).await);
}
