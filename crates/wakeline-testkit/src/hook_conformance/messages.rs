//! Rules of messages and their recipients.

use bytes::Bytes;
use wakeline_core::{ApplicationRef, EndpointId, EndpointOptions, EventId, MessageRef};
use wakeline_store::hook::{
    Created, DeliveryState, DisableReason, EmitOutcome, NewEndpoint, NewMessage, Trigger,
};

use super::{
    HookBench, application, channels, endpoint, event, first, message, patterns, plain, uid,
};

fn own(text: &str) -> EventId {
    EventId::parse(text).expect("a valid id")
}

async fn reached(bench: &HookBench, new: NewMessage) -> Vec<EndpointId> {
    let (stored, count) = bench.stored(new).await;
    let page = bench.hook.deliveries(bench.app, stored.id, first(100)).await.expect("listed");
    let reached: Vec<_> = page.items.iter().map(|delivery| delivery.endpoint).collect();
    assert_eq!(usize::try_from(count).expect("few"), reached.len(), "as the answer says");
    reached
}

/// Rule 1: a message has one delivery for each endpoint.
pub async fn a_message_makes_a_delivery_per_endpoint(bench: &HookBench) {
    let (one, other) = (bench.with(plain()).await, bench.with(plain()).await);
    let other_app = bench.application(application(None)).await;
    let made = bench
        .hook
        .create_endpoint(&ApplicationRef::Id(other_app), endpoint(plain()), None)
        .await
        .expect("made");
    assert!(matches!(made, Created::New(_)));
    assert_eq!(reached(bench, bench.message()).await, [one, other]);
}

/// Rule 1: patterns select types; an endpoint without patterns gets all types.
pub async fn endpoints_get_the_types_they_want(bench: &HookBench) {
    let wants = async |texts: &[&str]| {
        bench.endpoint(NewEndpoint { event_types: patterns(texts), ..endpoint(plain()) }).await
    };
    let all = wants(&[]).await;
    let exact = wants(&["order.paid"]).await;
    let begins = wants(&["invoice.*", "order.*"]).await;
    let star = wants(&["*"]).await;
    let other = wants(&["order", "orders.*", "order.paid.*"]).await;
    assert_eq!(reached(bench, bench.message()).await, [all, exact, begins, star]);
    let longer = NewMessage { event_type: event("order.paid.late"), ..bench.message() };
    assert_eq!(reached(bench, longer).await, [all, begins, star, other]);
    let shorter = NewMessage { event_type: event("order"), ..bench.message() };
    assert_eq!(reached(bench, shorter).await, [all, star, other]);
}

/// Patterns are literal: `_` is no wildcard, and upper and lower case differ.
pub async fn patterns_are_taken_literally(bench: &HookBench) {
    let wants = async |text: &str| {
        bench.endpoint(NewEndpoint { event_types: patterns(&[text]), ..endpoint(plain()) }).await
    };
    let literal = wants("a_b*").await;
    wants("A_B*").await;
    let dot = wants("a.b").await;
    let of = |text: &str| NewMessage { event_type: event(text), ..bench.message() };
    assert_eq!(reached(bench, of("a_b.c")).await, [literal]);
    assert_eq!(reached(bench, of("axb.c")).await, []);
    assert_eq!(reached(bench, of("a.b")).await, [dot]);
}

/// Rule 1: an endpoint with channels gets messages that share one with it.
pub async fn channels_must_have_one_in_common(bench: &HookBench) {
    let wants = async |texts: &[&str]| {
        bench.endpoint(NewEndpoint { channels: channels(texts), ..endpoint(plain()) }).await
    };
    let (all, x, both) = (wants(&[]).await, wants(&["x"]).await, wants(&["x", "y"]).await);
    let of = |texts: &[&str]| NewMessage { channels: channels(texts), ..bench.message() };
    assert_eq!(reached(bench, of(&[])).await, [all]);
    assert_eq!(reached(bench, of(&["x"])).await, [all, x, both]);
    assert_eq!(reached(bench, of(&["z", "y"])).await, [all, both]);
    assert_eq!(reached(bench, of(&["x", "y"])).await, [all, x, both]);
    assert_eq!(reached(bench, of(&["xy"])).await, [all]);
}

/// Rule 1: type and channel must both match.
pub async fn types_and_channels_must_both_fit(bench: &HookBench) {
    let new = NewEndpoint {
        event_types: patterns(&["a"]),
        channels: channels(&["x"]),
        ..endpoint(plain())
    };
    let id = bench.endpoint(new).await;
    let of = |event_type: &str, channel: &str| NewMessage {
        event_type: event(event_type),
        channels: channels(&[channel]),
        ..bench.message()
    };
    assert_eq!(reached(bench, of("a", "y")).await, []);
    assert_eq!(reached(bench, of("b", "x")).await, []);
    assert_eq!(reached(bench, of("a", "x")).await, [id]);
}

/// Rule 1: a disabled endpoint gets no new messages.
pub async fn disabled_endpoints_get_no_new_messages(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.switch(id, false).await;
    assert_eq!(reached(bench, bench.message()).await, []);
    bench.switch(id, true).await;
    assert_eq!(bench.none().await, None, "what came meanwhile is not for it");
}

/// Rule 2: a message for one endpoint is delivered to it whatever its filters are, and to no other.
pub async fn a_message_for_one_endpoint_reaches_it_whatever_its_filters(bench: &HookBench) {
    bench.with(plain()).await;
    let new = NewEndpoint {
        event_types: patterns(&["other"]),
        channels: channels(&["x"]),
        ..endpoint(plain())
    };
    let id = bench.endpoint(new).await;
    assert_eq!(reached(bench, NewMessage { only: Some(id), ..bench.message() }).await, [id]);
}

/// Rule 2: if that endpoint is disabled, the delivery waits.
pub async fn a_message_for_one_disabled_endpoint_waits(bench: &HookBench) {
    let disabled = Some(DisableReason::Requested);
    let id = bench.endpoint(NewEndpoint { disabled, ..endpoint(plain()) }).await;
    let new = NewMessage { only: Some(id), ..bench.message() };
    let message = new.id;
    assert_eq!(reached(bench, new).await, [id]);
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Throttled);
    bench.switch(id, true).await;
    assert_eq!(bench.taken(1).await, [message]);
}

/// Rule 2: if that endpoint does not exist, no endpoint gets the message.
pub async fn a_message_for_one_unknown_endpoint_has_no_delivery(bench: &HookBench) {
    bench.with(plain()).await;
    let gone = bench.with(plain()).await;
    bench.delete(gone).await;
    let other_app = bench.application(application(None)).await;
    let of_other = endpoint(plain());
    let theirs = of_other.id;
    let other_app = ApplicationRef::Id(other_app);
    bench.hook.create_endpoint(&other_app, of_other, None).await.expect("made");
    for only in [EndpointId::generate(), gone, theirs] {
        let new = NewMessage { only: Some(only), ..bench.message() };
        assert_eq!(reached(bench, new).await, []);
    }
    assert_eq!(bench.none().await, None);
}

/// Rule 3: an event id is unique within its application.
pub async fn an_event_id_is_unique_within_its_application(bench: &HookBench) {
    bench.with(plain()).await;
    let new = || NewMessage { event_id: Some(own("e-1")), ..bench.message() };
    let (stored, _) = bench.stored(new()).await;
    let reply = bench.emitted(new()).await;
    assert_eq!(reply.outcome, EmitOutcome::Taken(stored.clone()));
    assert_eq!(bench.taken(5).await, [stored.id]);
    let other = bench.application(application(None)).await;
    bench.stored(NewMessage { event_id: Some(own("e-1")), ..message(other) }).await;
}

/// Rule 3: an event id identifies its message.
pub async fn a_message_is_found_by_either_id(bench: &HookBench) {
    let new = NewMessage {
        event_id: Some(own("e-1")),
        channels: channels(&["x", "y"]),
        ..bench.message()
    };
    let (stored, _) = bench.stored(new.clone()).await;
    assert_eq!((stored.id, stored.application), (new.id, bench.app));
    assert_eq!(stored.created_at, bench.now().await);
    for which in [MessageRef::Id(new.id), MessageRef::Own(own("e-1"))] {
        let found = bench.hook.message(&bench.of_app(), &which, false).await.expect("it is read");
        assert_eq!(found, Some(stored.clone()), "without its payload");
        let found = bench.hook.message(&bench.of_app(), &which, true).await.expect("it is read");
        assert_eq!(found.expect("it is there").payload, Some(new.payload.clone()));
    }
    let other = ApplicationRef::Id(bench.application(application(None)).await);
    let found = bench.hook.message(&other, &MessageRef::Id(new.id), false).await;
    assert_eq!(found.expect("it is read"), None);
}

/// A message that matches no endpoint is stored.
pub async fn a_message_without_endpoints_is_stored(bench: &HookBench) {
    let (stored, deliveries) = bench.stored(bench.message()).await;
    assert_eq!(deliveries, 0);
    let which = MessageRef::Id(stored.id);
    let found = bench.hook.message(&bench.of_app(), &which, false).await.expect("it is read");
    assert_eq!(found, Some(stored));
}

/// A message requires an existing application.
pub async fn a_message_to_an_unknown_application_is_refused(bench: &HookBench) {
    let application = ApplicationRef::Own(uid("unknown"));
    let reply = bench.emitted(NewMessage { application, ..bench.message() }).await;
    assert_eq!(reply.outcome, EmitOutcome::NoApplication);
}

/// Rule 4: the first message may create the application.
pub async fn an_application_is_made_with_its_first_message(bench: &HookBench) {
    let new = application(Some("acme"));
    let which = ApplicationRef::Own(uid("acme"));
    let emit = async |create_application| {
        let application = which.clone();
        bench.stored(NewMessage { application, create_application, ..bench.message() }).await.0
    };
    let stored = emit(Some(new.clone())).await;
    assert_eq!(stored.application, new.id);
    let found = bench.hook.application(&which).await.expect("it is read").expect("it is there");
    assert_eq!((found.id, found.name), (new.id, new.name));
    let second = emit(Some(application(Some("acme")))).await;
    assert_eq!(second.application, new.id, "it is made once");
}

/// Rule 4: if the own id is taken, the message goes to the application that has it.
pub async fn a_taken_own_id_names_the_application_of_a_message(bench: &HookBench) {
    let to = bench.with(plain()).await;
    let new = NewMessage {
        application: ApplicationRef::Id(wakeline_core::ApplicationId::generate()),
        create_application: Some(application(Some("main"))),
        ..bench.message()
    };
    assert_eq!(reached(bench, new).await, [to]);
}

/// Rule 2 of applications: the same id again stores nothing.
pub async fn a_message_repeated_with_its_id_is_stored_once(bench: &HookBench) {
    bench.with(plain()).await;
    let new = bench.message();
    let (stored, _) = bench.stored(new.clone()).await;
    let reply = bench.emitted(new).await;
    assert_eq!(reply.outcome, EmitOutcome::Repeated(stored.clone()));
    assert_eq!(bench.taken(5).await, [stored.id]);
}

/// Payloads are returned byte for byte.
pub async fn payloads_come_back_identical(bench: &HookBench) {
    bench.with(plain()).await;
    let large = Bytes::from(vec![b'x'; 1 << 20]);
    for payload in [Bytes::new(), Bytes::from_static(b"\0\xff\xfe{]"), large] {
        let new = NewMessage { payload: payload.clone(), ..bench.message() };
        bench.stored(new).await;
        let item = bench.one().await;
        assert!(item.payload == Some(payload), "the payload is the same");
        bench.deliver(&item).await;
    }
}

/// A claimed delivery has all details of its message.
pub async fn a_delivery_has_all_details_of_its_message(bench: &HookBench) {
    let options = EndpointOptions { timeout: super::secs(7), ..plain() };
    let id = bench.with(options.clone()).await;
    let new = NewMessage {
        event_id: Some(own("e-1")),
        channels: channels(&["x", "y"]),
        ..bench.message()
    };
    let (stored, _) = bench.stored(new.clone()).await;
    bench.advance(3).await;
    let answer = bench.claim(super::push(vec![super::request(1)])).await;
    let group = &answer.groups[0][0];
    let target = &group.target;
    assert_eq!((target.endpoint, target.application), (id, bench.app));
    assert_eq!((target.url.as_str(), &target.options), (super::URL, &options));
    assert_eq!(target.headers.as_ref(), b"encrypted headers");
    assert_eq!(group.items.len(), 1);
    let item = &group.items[0];
    assert_eq!((item.message, item.created_at), (new.id, stored.created_at));
    assert_eq!((&item.event_type, &item.event_id), (&new.event_type, &new.event_id));
    assert_eq!((&item.channels, &item.payload), (&new.channels, &Some(new.payload.clone())));
    assert_eq!((item.attempt_no, item.scheduled_no), (1, 1));
    assert_eq!((item.trigger, item.now), (Trigger::Scheduled, bench.now().await));
    assert_eq!(item.lease_for, super::LEASE);
}
