//! Rules of requests that are repeated.

use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_store::hook::{Created, EmitOutcome, EndpointUpdate, NewEndpoint, NewMessage};

use super::{HookBench, application, endpoint, event_type, key, message, plain, secs, uid};

const HOURS_12: u64 = 12 * 60 * 60;

/// Rule 2: a repeated request returns what the first one created.
pub async fn a_creation_repeated_with_its_key_makes_nothing(bench: &HookBench) {
    let (one, other) = (application(None), application(None));
    let made = bench.hook.create_application(one.clone(), key("k", 1)).await.expect("answered");
    assert!(matches!(made, Created::New(_)), "{made:?}");
    let again = bench.hook.create_application(other.clone(), key("k", 1)).await.expect("answered");
    assert!(matches!(&again, Created::Repeated(first) if first.id == one.id), "{again:?}");
    let second = bench.hook.application(&ApplicationRef::Id(other.id)).await.expect("it is read");
    assert_eq!(second, None);
}

/// Rule 2: the answer shows the object as it is now, not as it was created.
pub async fn a_repeated_creation_is_answered_as_it_is_now(bench: &HookBench) {
    let app = bench.of_app();
    let new = endpoint(plain());
    bench.hook.create_endpoint(&app, new.clone(), key("k", 1)).await.expect("made");
    let update = EndpointUpdate { description: Some("changed".into()), ..Default::default() };
    bench.update(new.id, update).await;
    let again = bench.hook.create_endpoint(&app, endpoint(plain()), key("k", 1)).await;
    let Created::Repeated(first) = again.expect("answered") else { panic!("it is repeated") };
    assert_eq!((first.id, first.description.as_str()), (new.id, "changed"));
}

/// Rule 2: a key with another digest belongs to another request.
pub async fn a_key_with_another_print_is_refused(bench: &HookBench) {
    let app = bench.of_app();
    bench.hook.create_application(application(None), key("k", 1)).await.expect("made");
    let reused = bench.hook.create_application(application(None), key("k", 2)).await;
    assert_eq!(reused.expect("answered"), Created::KeyReused);
    bench.hook.create_endpoint(&app, endpoint(plain()), key("k", 1)).await.expect("made");
    let reused = bench.hook.create_endpoint(&app, endpoint(plain()), key("k", 2)).await;
    assert_eq!(reused.expect("answered"), Created::KeyReused);
    bench.hook.create_event_type(event_type("a"), key("k", 1)).await.expect("made");
    let reused = bench.hook.create_event_type(event_type("b"), key("k", 2)).await;
    assert_eq!(reused.expect("answered").0, Created::KeyReused);
    let listed = bench.hook.event_type(&super::event("b")).await.expect("it is read");
    assert_eq!(listed, None);
}

/// Rule 2: keys are kept for 12 hours and no longer.
pub async fn a_key_is_forgotten_after_twelve_hours(bench: &HookBench) {
    let make = async || {
        let made = bench.hook.create_application(application(None), key("k", 1)).await;
        made.expect("answered")
    };
    make().await;
    bench.advance(HOURS_12 - 1).await;
    bench.background(10).await;
    assert!(matches!(make().await, Created::Repeated(_)));
    bench.advance(1).await;
    assert!(matches!(make().await, Created::New(_)), "repeating does not prolong");
    bench.advance(HOURS_12 - 1).await;
    assert!(matches!(make().await, Created::Repeated(_)), "stored again");
}

/// Rule 2: if the created object is gone, the request counts as new.
pub async fn a_key_of_something_gone_counts_as_new(bench: &HookBench) {
    let app = bench.of_app();
    let (one, other) = (endpoint(plain()), endpoint(plain()));
    bench.hook.create_endpoint(&app, one.clone(), key("k", 1)).await.expect("made");
    bench.delete(one.id).await;
    let again = bench.hook.create_endpoint(&app, other.clone(), key("k", 1)).await;
    let again = again.expect("answered");
    assert!(matches!(&again, Created::New(made) if made.id == other.id), "{again:?}");
    let third = bench.hook.create_endpoint(&app, endpoint(plain()), key("k", 1)).await;
    let third = third.expect("answered");
    assert!(matches!(&third, Created::Repeated(made) if made.id == other.id), "{third:?}");
}

/// Rule 2: one key can be used for four kinds of objects.
pub async fn keys_of_different_kinds_do_not_meet(bench: &HookBench) {
    let app = bench.of_app();
    let made = bench.hook.create_application(application(None), key("k", 1)).await;
    assert!(matches!(made.expect("answered"), Created::New(_)));
    let made = bench.hook.create_event_type(event_type("a"), key("k", 2)).await;
    assert!(matches!(made.expect("answered").0, Created::New(_)));
    let made = bench.hook.create_endpoint(&app, endpoint(plain()), key("k", 3)).await;
    assert!(matches!(made.expect("answered"), Created::New(_)));
    let new = NewMessage { idempotency: key("k", 4), ..bench.message() };
    bench.stored(new).await;
}

/// Rule 2: keys of endpoints and messages are separate for each application.
pub async fn keys_of_different_applications_do_not_meet(bench: &HookBench) {
    let other = bench.application(application(None)).await;
    for (app, digest) in [(bench.app, 1), (other, 2)] {
        let of_app = ApplicationRef::Id(app);
        let made = bench.hook.create_endpoint(&of_app, endpoint(plain()), key("k", digest)).await;
        assert!(matches!(made.expect("answered"), Created::New(_)));
        bench.stored(NewMessage { idempotency: key("k", digest), ..message(app) }).await;
    }
}

/// Rule 2: the key is checked before anything else.
pub async fn the_key_is_looked_at_before_the_own_id(bench: &HookBench) {
    let app = bench.of_app();
    let new = || NewEndpoint { uid: Some(uid("mine")), ..endpoint(plain()) };
    bench.hook.create_endpoint(&app, new(), key("k", 1)).await.expect("made");
    let again = bench.hook.create_endpoint(&app, new(), key("k", 1)).await.expect("answered");
    assert!(matches!(again, Created::Repeated(_)), "{again:?}");
    let reused = bench.hook.create_endpoint(&app, new(), key("k", 2)).await.expect("answered");
    assert_eq!(reused, Created::KeyReused);
    let found = bench.hook.endpoint(&app, &EndpointRef::Own(uid("mine"))).await;
    assert!(found.expect("it is read").is_some());
}

/// Rule 2: a refused request is not stored.
pub async fn a_refused_creation_is_not_remembered(bench: &HookBench) {
    let taken = bench.hook.create_application(application(Some("main")), key("k", 1)).await;
    assert!(matches!(taken.expect("answered"), Created::Taken(_)));
    let made = bench.hook.create_application(application(Some("free")), key("k", 2)).await;
    assert!(matches!(made.expect("answered"), Created::New(_)));
}

/// Rule 2 holds for messages.
pub async fn a_message_repeated_with_its_key_is_stored_once(bench: &HookBench) {
    bench.with(plain()).await;
    let new = || NewMessage { idempotency: key("k", 1), ..bench.message() };
    let (first, deliveries) = bench.stored(new()).await;
    assert_eq!(deliveries, 1);
    let reply = bench.emitted(new()).await;
    let EmitOutcome::Repeated(again) = &reply.outcome else { panic!("{reply:?}") };
    assert_eq!((again.id, &again.payload), (first.id, &None));
    assert_eq!(bench.taken(5).await, [first.id]);
    bench.advance(HOURS_12).await;
    let reply = bench.emitted(new()).await;
    assert!(matches!(reply.outcome, EmitOutcome::Stored(_, 1)), "{reply:?}");
}

/// Rule 2 for messages: a reused key stores nothing.
pub async fn a_message_with_a_reused_key_is_refused(bench: &HookBench) {
    bench.with(plain()).await;
    let new = |digest| NewMessage { idempotency: key("k", digest), ..bench.message() };
    let first = bench.stored(new(1)).await.0.id;
    let reply = bench.emitted(new(2)).await;
    assert_eq!(reply.outcome, EmitOutcome::KeyReused);
    assert_eq!(bench.taken(5).await, [first]);
    bench.advance_ms(1).await;
    assert!(bench.none().await.is_some_and(|due| due <= secs(30)));
}

/// Rule 2 for event types: a repeated request reports no change.
pub async fn a_repeated_event_type_reports_no_change(bench: &HookBench) {
    let create = async || {
        let made = bench.hook.create_event_type(event_type("a.b"), key("k", 1)).await;
        made.expect("answered")
    };
    assert!(matches!(create().await.0, Created::New(_)));
    let (again, changes) = create().await;
    assert!(matches!(again, Created::Repeated(_)), "{again:?}");
    assert_eq!(changes, []);
}
