//! Endpoints.

use bytes::Bytes;
use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_store::hook::{
    AttemptOutcome, Created, DeliveryState, DeliveryVerdict, DisableReason, EndpointUpdate,
    NewEndpoint, PageOrder, PageRequest, SettledState, UpdateOutcome,
};

use super::{
    HookBench, application, capped, channels, endpoint, fifo, first, patterns, plain, pulled,
    rated, uid,
};

fn named(own: &str) -> NewEndpoint {
    NewEndpoint { uid: Some(uid(own)), ..endpoint(plain()) }
}

/// Rule 1: by the given id and by the own one, within its application.
pub async fn an_endpoint_is_found_by_either_id(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    let other = ApplicationRef::Id(bench.application(application(None)).await);
    for which in [EndpointRef::Id(id), EndpointRef::Own(uid("mine"))] {
        let found = bench.hook.endpoint(&bench.of_app(), &which).await.expect("it is read");
        assert_eq!(found.map(|one| one.id), Some(id));
        let foreign = bench.hook.endpoint(&other, &which).await.expect("it is read");
        assert_eq!(foreign, None, "of another application");
    }
}

/// All that it was made with.
pub async fn an_endpoint_comes_back_as_it_was_made(bench: &HookBench) {
    let mut options = fifo(7);
    options.rate_per_second = Some(9);
    options.breaker = Some(Default::default());
    options.schedule = Some(vec![super::secs(3), super::secs(5)]);
    options.give_up_on = vec![wakeline_core::StatusRange(400, 404)];
    options.header_style = wakeline_core::HeaderStyle::Both;
    let new = NewEndpoint {
        event_types: patterns(&["a.*", "b"]),
        channels: channels(&["x:1", "y"]),
        description: "what it is for".into(),
        metadata: Bytes::from_static(br#"{"k":"v"}"#),
        headers: Bytes::from_static(b"\0\xff"),
        ..NewEndpoint { options, ..named("mine") }
    };
    bench.endpoint(new.clone()).await;
    let (made, now) = (bench.shown(new.id).await, bench.now().await);
    assert_eq!((made.application, &made.uid, &made.url), (bench.app, &new.uid, &new.url));
    assert_eq!((&made.description, &made.metadata), (&new.description, &new.metadata));
    assert_eq!((&made.headers, &made.options), (&new.headers, &new.options));
    assert_eq!((&made.event_types, &made.channels), (&new.event_types, &new.channels));
    assert_eq!((made.version, made.created_at, made.updated_at), (1, now, now));
    assert_eq!((made.disabled, made.failing_since, made.paused_for), (None, None, None));
}

/// An endpoint may begin switched off.
pub async fn an_endpoint_may_be_made_disabled(bench: &HookBench) {
    let new = NewEndpoint { disabled: Some(DisableReason::Asked), ..endpoint(plain()) };
    let id = bench.endpoint(new).await;
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Asked));
}

/// Rule 1: own ids count within their application.
pub async fn own_ids_of_endpoints_count_within_their_application(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    let taken = bench.hook.create_endpoint(&bench.of_app(), named("mine"), None).await;
    let taken = taken.expect("answered");
    assert!(matches!(&taken, Created::Taken(has) if has.id == id), "{taken:?}");
    let other = ApplicationRef::Id(bench.application(application(None)).await);
    let made = bench.hook.create_endpoint(&other, named("mine"), None).await.expect("answered");
    assert!(matches!(made, Created::New(_)), "{made:?}");
}

/// Rule 2: the same id again is the same endpoint.
pub async fn an_endpoint_repeated_with_its_id_makes_nothing(bench: &HookBench) {
    let new = endpoint(plain());
    bench.endpoint(new.clone()).await;
    let again = bench.hook.create_endpoint(&bench.of_app(), new.clone(), None).await;
    let again = again.expect("answered");
    assert!(matches!(&again, Created::Repeated(has) if has.id == new.id), "{again:?}");
}

/// An endpoint has an application.
pub async fn an_endpoint_needs_its_application(bench: &HookBench) {
    let nobody = ApplicationRef::Own(uid("nobody"));
    let made = bench.hook.create_endpoint(&nobody, named("mine"), None).await;
    assert_eq!(made.expect("answered"), Created::NoApplication);
}

/// Rule 3: only what is named changes.
pub async fn an_update_changes_only_what_it_names(bench: &HookBench) {
    let new = NewEndpoint { event_types: patterns(&["a"]), ..named("mine") };
    let id = bench.endpoint(new).await;
    let before = bench.shown(id).await;
    bench.advance(9).await;
    let url = "https://elsewhere.example".to_owned();
    let update = EndpointUpdate { url: Some(url.clone()), ..Default::default() };
    bench.update(id, update).await;
    let after = bench.shown(id).await;
    let expected =
        wakeline_store::hook::Endpoint { url, version: 2, updated_at: bench.now().await, ..before };
    assert_eq!(after, expected);
}

/// Rule 3: everything can change.
pub async fn an_update_may_change_everything(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    let update = EndpointUpdate {
        expected_version: Some(1),
        uid: Some(Some(uid("yours"))),
        url: Some("https://b.example".into()),
        description: Some("d".into()),
        event_types: Some(patterns(&["x.*"])),
        channels: Some(channels(&["c"])),
        disabled: Some(true),
        metadata: Some(Bytes::from_static(b"{\"n\":1}")),
        headers: Some(Bytes::from_static(b"h")),
        options: Some(rated(3)),
    };
    bench.update(id, update.clone()).await;
    let shown = bench.shown(id).await;
    assert_eq!((Some(shown.uid), Some(shown.url)), (update.uid, update.url));
    assert_eq!(Some(shown.description), update.description);
    assert_eq!(Some(shown.event_types), update.event_types);
    assert_eq!(Some(shown.channels), update.channels);
    assert_eq!(Some(shown.metadata), update.metadata);
    assert_eq!(Some(shown.headers), update.headers);
    assert_eq!(Some(shown.options), update.options);
    assert_eq!(shown.disabled, Some(DisableReason::Asked));
    bench.update(id, EndpointUpdate { uid: Some(None), ..Default::default() }).await;
    assert_eq!(bench.shown(id).await.uid, None, "an own id can be given up");
}

/// An own id that another has is not taken away from it.
pub async fn an_endpoint_cannot_take_anothers_own_id(bench: &HookBench) {
    bench.endpoint(named("mine")).await;
    let id = bench.endpoint(named("yours")).await;
    let update = EndpointUpdate {
        uid: Some(Some(uid("mine"))),
        description: Some("changed".into()),
        ..Default::default()
    };
    let which = EndpointRef::Id(id);
    let outcome = bench.hook.update_endpoint(&bench.of_app(), &which, update.clone()).await;
    assert_eq!(outcome.expect("answered").0, UpdateOutcome::Taken);
    let shown = bench.shown(id).await;
    assert_eq!((shown.uid, shown.version), (Some(uid("yours")), 1));
    assert_eq!(shown.description, "");
    let nobody = EndpointRef::Own(uid("nobody"));
    let outcome = bench.hook.update_endpoint(&bench.of_app(), &nobody, update).await;
    assert_eq!(outcome.expect("answered").0, UpdateOutcome::Missing);
}

/// Rule 3: of two who change what they both read, the second is told.
pub async fn an_update_of_an_endpoint_that_changed_is_stale(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    let update = |text: &str| EndpointUpdate {
        expected_version: Some(1),
        description: Some(text.into()),
        ..Default::default()
    };
    bench.update(id, update("first")).await;
    let which = EndpointRef::Id(id);
    let outcome = bench.hook.update_endpoint(&bench.of_app(), &which, update("second")).await;
    assert_eq!(outcome.expect("answered"), (UpdateOutcome::Stale, Vec::new()));
    let shown = bench.shown(id).await;
    assert_eq!((shown.description.as_str(), shown.version), ("first", 2));
}

/// New filters are for new messages.
pub async fn changed_filters_are_for_new_messages(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let old = bench.emit().await;
    let event_types = Some(patterns(&["other"]));
    bench.update(id, EndpointUpdate { event_types, ..Default::default() }).await;
    assert_eq!(bench.stored(bench.message()).await.1, 0);
    assert_eq!(bench.taken(5).await, [old]);
}

/// By age, in pages, both ways.
pub async fn endpoints_are_listed_by_age(bench: &HookBench) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.with(plain()).await);
    }
    let other = bench.application(application(None)).await;
    let foreign = ApplicationRef::Id(other);
    bench.hook.create_endpoint(&foreign, endpoint(plain()), None).await.expect("made");
    let list = async |request| {
        let page = bench.hook.endpoints(&bench.of_app(), request).await.expect("listed");
        let page = page.expect("there is the application");
        (page.items.iter().map(|one| one.id).collect::<Vec<_>>(), page.done)
    };
    assert_eq!(list(first(10)).await, (ids.clone(), true));
    assert_eq!(list(first(2)).await, (ids[..2].to_vec(), false));
    let back = PageRequest { after: Some(ids[2]), backwards: true, ..first(2) };
    assert_eq!(list(back).await, (ids[..2].to_vec(), true));
    let down = PageRequest { after: Some(ids[3]), order: PageOrder::Descending, ..first(2) };
    assert_eq!(list(down).await, (vec![ids[2], ids[1]], false));
    bench.delete(ids[1]).await;
    assert_eq!(list(first(2)).await, (vec![ids[0], ids[2]], false));
}

/// Rule 4: gone for everybody who asks.
pub async fn a_deleted_endpoint_is_gone_for_everybody(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    bench.delete(id).await;
    let (app, which) = (bench.of_app(), EndpointRef::Id(id));
    assert_eq!(bench.hook.endpoint(&app, &which).await.expect("it is read"), None);
    assert_eq!(bench.hook.secrets(&app, &which).await.expect("read"), []);
    let update = bench.hook.update_endpoint(&app, &which, EndpointUpdate::default()).await;
    assert_eq!(update.expect("answered").0, UpdateOutcome::Missing);
    assert!(!bench.hook.delete_endpoint(&app, &which).await.expect("answered").0);
    assert_eq!(bench.stored(bench.message()).await.1, 0, "and gets nothing");
    bench.endpoint(named("mine")).await;
}

/// Rule 4: what waits is cancelled.
pub async fn deleting_an_endpoint_cancels_what_waits(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let (retried, fresh) = (bench.emit().await, bench.emit().await);
    let item = bench.one().await;
    bench.retry(&item, 60).await;
    bench.delete(id).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(retried, id).await, DeliveryState::Cancelled);
    assert_eq!(bench.state(fresh, id).await, DeliveryState::Cancelled);
    assert_eq!(bench.delivery(fresh, id).await.next_attempt_at, None);
    a_long_queue_is_cancelled(bench).await;
}

/// More than one transaction cancels.
async fn a_long_queue_is_cancelled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let first = bench.emit().await;
    for _ in 0..1_100 {
        bench.emit().await;
    }
    let last = bench.emit().await;
    bench.delete(id).await;
    assert_eq!(bench.none().await, None);
    for chores in [false, true] {
        while chores && bench.hook.do_chores(500).await.expect("a piece is done").rows > 0 {}
        assert_eq!(bench.state(first, id).await, DeliveryState::Cancelled);
        assert_eq!(bench.state(last, id).await, DeliveryState::Cancelled);
    }
}

/// Rule 4: an attempt under way still reaches the log.
pub async fn an_attempt_at_a_deleted_endpoint_reaches_the_log(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.delete(id).await;
    let state = bench.ends(&item, DeliveryVerdict::Retry(super::secs(1))).await;
    assert_eq!(state, SettledState::Cancelled);
    let attempts = bench.attempts(message).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome, AttemptOutcome::Failed);
    bench.advance(5).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Cancelled);
}

/// Rule 4: what was is readable by message.
pub async fn deliveries_of_a_deleted_endpoint_stay_readable(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    bench.delete(id).await;
    let page = bench.hook.deliveries(bench.app, message, first(10)).await.expect("listed");
    assert_eq!(page.items.len(), 1);
    assert_eq!((page.items[0].endpoint, page.items[0].state), (id, DeliveryState::Delivered));
    assert_eq!(bench.attempts(message).await.len(), 1);
}

/// What came before is not for new endpoints.
pub async fn a_new_endpoint_gets_only_what_comes(bench: &HookBench) {
    bench.emit().await;
    bench.with(plain()).await;
    assert_eq!(bench.none().await, None);
}

/// Raising a limit makes more available.
pub async fn changed_options_count_at_once(bench: &HookBench) {
    let id = bench.with(capped(1)).await;
    bench.emit_many(3).await;
    assert_eq!(bench.take(3).await.len(), 1);
    let options = Some(capped(2));
    bench.update(id, EndpointUpdate { options, ..Default::default() }).await;
    assert_eq!(bench.take(3).await.len(), 1, "two under way in all");
    let options = Some(pulled());
    bench.update(id, EndpointUpdate { options, ..Default::default() }).await;
    assert!(bench.take(3).await.is_empty(), "now its owner fetches");
    assert_eq!(bench.fetch(id, 3).await.len(), 1);
}

/// Switching it off holds back, switching it on lets go.
pub async fn a_disabled_endpoint_waits_until_it_is_switched_on(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    bench.switch(id, false).await;
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Asked));
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Throttled);
    bench.switch(id, true).await;
    assert_eq!(bench.shown(id).await.disabled, None);
    assert_eq!(bench.taken(1).await, [message]);
}

/// Switching off what is off leaves the reason.
pub async fn switching_off_again_leaves_the_reason(bench: &HookBench) {
    let new = NewEndpoint { disabled: Some(DisableReason::Gone), ..endpoint(plain()) };
    let id = bench.endpoint(new).await;
    bench.switch(id, false).await;
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Gone));
}
