//! Rules of endpoints.

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

/// Rule 1: an endpoint is found by either id, within its application.
pub async fn an_endpoint_is_found_by_either_id(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    let other = ApplicationRef::Id(bench.application(application(None)).await);
    for which in [EndpointRef::Id(id), EndpointRef::Own(uid("mine"))] {
        let found = bench.hook.endpoint(&bench.of_app(), &which).await.expect("it is read");
        assert_eq!(found.map(|one| one.id), Some(id));
        let found = bench.hook.endpoint(&other, &which).await.expect("it is read");
        assert_eq!(found, None, "of another application");
    }
}

/// An endpoint is read with everything that it was created with.
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

/// An endpoint can be created disabled.
pub async fn an_endpoint_may_be_made_disabled(bench: &HookBench) {
    let new = NewEndpoint { disabled: Some(DisableReason::Requested), ..endpoint(plain()) };
    let id = bench.endpoint(new).await;
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Requested));
}

/// Rule 1: own ids are unique within their application.
pub async fn own_ids_of_endpoints_count_within_their_application(bench: &HookBench) {
    let id = bench.endpoint(named("mine")).await;
    let taken = bench.hook.create_endpoint(&bench.of_app(), named("mine"), None).await;
    let taken = taken.expect("answered");
    assert!(matches!(&taken, Created::Taken(has) if has.id == id), "{taken:?}");
    let other = ApplicationRef::Id(bench.application(application(None)).await);
    let made = bench.hook.create_endpoint(&other, named("mine"), None).await.expect("answered");
    assert!(matches!(made, Created::New(_)), "{made:?}");
}

/// Rule 2: creating an endpoint again with the same id returns the existing one.
pub async fn an_endpoint_repeated_with_its_id_makes_nothing(bench: &HookBench) {
    let new = endpoint(plain());
    bench.endpoint(new.clone()).await;
    let again = bench.hook.create_endpoint(&bench.of_app(), new.clone(), None).await;
    let again = again.expect("answered");
    assert!(matches!(&again, Created::Repeated(has) if has.id == new.id), "{again:?}");
}

/// An endpoint cannot be created without an application.
pub async fn an_endpoint_needs_its_application(bench: &HookBench) {
    let unknown = ApplicationRef::Own(uid("unknown"));
    let made = bench.hook.create_endpoint(&unknown, named("mine"), None).await;
    assert_eq!(made.expect("answered"), Created::NoApplication);
}

/// Rule 3: only the given fields change.
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

/// Rule 3: every field can be changed.
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
    assert_eq!(shown.disabled, Some(DisableReason::Requested));
    bench.update(id, EndpointUpdate { uid: Some(None), ..Default::default() }).await;
    assert_eq!(bench.shown(id).await.uid, None, "an own id can be given up");
}

/// An own id cannot be taken from the endpoint that has it.
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
    let unknown = EndpointRef::Own(uid("unknown"));
    let outcome = bench.hook.update_endpoint(&bench.of_app(), &unknown, update).await;
    assert_eq!(outcome.expect("answered").0, UpdateOutcome::Missing);
}

/// Rule 3: if two callers change what both have read, the second one gets an error.
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

/// Changed filters apply to new messages only.
pub async fn changed_filters_are_for_new_messages(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let old = bench.emit().await;
    let event_types = Some(patterns(&["other"]));
    bench.update(id, EndpointUpdate { event_types, ..Default::default() }).await;
    assert_eq!(bench.stored(bench.message()).await.1, 0);
    assert_eq!(bench.taken(5).await, [old]);
}

/// Endpoints are listed by age, in pages and in both directions.
pub async fn endpoints_are_listed_by_age(bench: &HookBench) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bench.with(plain()).await);
    }
    let other = bench.application(application(None)).await;
    let other_app = ApplicationRef::Id(other);
    bench.hook.create_endpoint(&other_app, endpoint(plain()), None).await.expect("made");
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

/// Rule 4: no call finds a deleted endpoint.
pub async fn a_deleted_endpoint_is_gone_everywhere(bench: &HookBench) {
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

/// Rule 4: waiting deliveries are cancelled.
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

/// Cancels more deliveries than one transaction does.
async fn a_long_queue_is_cancelled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let first = bench.emit().await;
    for _ in 0..1_100 {
        bench.emit().await;
    }
    let last = bench.emit().await;
    bench.delete(id).await;
    assert_eq!(bench.none().await, None);
    for background in [false, true] {
        while background && bench.hook.run_background(500).await.expect("a piece is done").rows > 0
        {
        }
        assert_eq!(bench.state(first, id).await, DeliveryState::Cancelled);
        assert_eq!(bench.state(last, id).await, DeliveryState::Cancelled);
    }
}

/// Rule 4: an attempt in flight is still logged.
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

/// Rule 4: existing deliveries stay readable by message.
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

/// Messages stored before an endpoint was created are not delivered to it.
pub async fn a_new_endpoint_gets_only_what_comes(bench: &HookBench) {
    bench.emit().await;
    bench.with(plain()).await;
    assert_eq!(bench.none().await, None);
}

/// Raising a limit makes more deliveries available at once.
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

/// Disabling holds deliveries back, enabling makes them available.
pub async fn a_disabled_endpoint_waits_until_it_is_enabled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    bench.switch(id, false).await;
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Requested));
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Throttled);
    bench.switch(id, true).await;
    assert_eq!(bench.shown(id).await.disabled, None);
    assert_eq!(bench.taken(1).await, [message]);
}

/// Disabling a disabled endpoint does not change the reason.
pub async fn disabling_again_keeps_the_reason(bench: &HookBench) {
    let new = NewEndpoint { disabled: Some(DisableReason::Gone), ..endpoint(plain()) };
    let id = bench.endpoint(new).await;
    bench.switch(id, false).await;
    assert_eq!(bench.shown(id).await.disabled, Some(DisableReason::Gone));
}
