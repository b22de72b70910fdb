//! Rules of applications.

use bytes::Bytes;
use wakeline_core::{ApplicationRef, EndpointRef, MessageRef};
use wakeline_store::hook::{
    Created, EmitOutcome, HookMessageFilter, JobKind, NewApplication, PageOrder, PageRequest,
    UpdateOutcome,
};

use super::{HookBench, application, first, message, plain, uid};

/// Rule 1: an application is found by the id of the server and by the user's own id.
pub async fn an_application_is_found_by_either_id(bench: &HookBench) {
    let new = NewApplication { rate_limit: Some(7), ..application(Some("acme")) };
    let id = bench.application(new.clone()).await;
    let now = bench.now().await;
    for which in [ApplicationRef::Id(id), ApplicationRef::Own(uid("acme"))] {
        let found = bench.hook.application(&which).await.expect("it is read").expect("it is there");
        assert_eq!((found.id, found.name, found.uid), (id, new.name.clone(), new.uid.clone()));
        assert_eq!((found.rate_limit, &found.metadata), (Some(7), &new.metadata));
        assert_eq!((found.created_at, found.updated_at), (now, now));
    }
    let unknown = ApplicationRef::Own(uid("unknown"));
    assert_eq!(bench.hook.application(&unknown).await.expect("it is read"), None);
}

/// Rule 1: creating an application with an own id that is taken changes nothing.
pub async fn a_taken_own_id_is_answered_with_what_has_it(bench: &HookBench) {
    let id = bench.application(application(Some("acme"))).await;
    let second = application(Some("acme"));
    let answer = bench.hook.create_application(second.clone(), None).await.expect("answered");
    assert!(matches!(&answer, Created::Taken(has) if has.id == id), "{answer:?}");
    let found = bench.hook.application(&ApplicationRef::Id(second.id)).await.expect("it is read");
    assert_eq!(found, None);
}

/// Applications without own ids never conflict.
pub async fn applications_without_own_ids_do_not_meet(bench: &HookBench) {
    let one = bench.application(application(None)).await;
    let other = bench.application(application(None)).await;
    assert_ne!(one, other);
}

/// Rule 2: creating an application again with the same id returns the existing one.
pub async fn a_creation_repeated_with_its_id_makes_nothing(bench: &HookBench) {
    let new = application(Some("acme"));
    bench.application(new.clone()).await;
    let again = bench.hook.create_application(new.clone(), None).await.expect("answered");
    assert!(matches!(&again, Created::Repeated(has) if has.id == new.id), "{again:?}");
}

/// Rule 3: an update replaces all fields.
pub async fn an_update_replaces_an_application(bench: &HookBench) {
    let id = bench.application(application(Some("acme"))).await;
    let made = bench.now().await;
    bench.advance(5).await;
    let metadata = Bytes::from_static(br#"{"a":1}"#);
    let new = NewApplication {
        name: "new name".into(),
        metadata: metadata.clone(),
        ..application(Some("acme-2"))
    };
    let which = ApplicationRef::Own(uid("acme"));
    let outcome = bench.hook.update_application(&which, new, None).await.expect("answered");
    let UpdateOutcome::Updated(updated) = outcome else { panic!("{outcome:?}") };
    assert_eq!((updated.id, updated.name.as_str()), (id, "new name"));
    assert_eq!((updated.uid, updated.metadata), (Some(uid("acme-2")), metadata));
    assert_eq!((updated.created_at, updated.updated_at), (made, bench.now().await));
    assert_eq!(bench.hook.application(&which).await.expect("it is read"), None);
}

/// An application keeps its own id through an update.
pub async fn an_update_may_keep_the_own_id(bench: &HookBench) {
    bench.application(application(Some("acme"))).await;
    let which = ApplicationRef::Own(uid("acme"));
    let same = application(Some("acme"));
    let outcome = bench.hook.update_application(&which, same, None).await.expect("answered");
    assert!(matches!(outcome, UpdateOutcome::Updated(_)), "{outcome:?}");
}

/// An own id cannot be taken from the application that has it.
pub async fn an_update_to_a_taken_own_id_changes_nothing(bench: &HookBench) {
    let id = bench.application(application(Some("acme"))).await;
    let new = NewApplication { name: "changed".into(), ..application(Some("main")) };
    let which = ApplicationRef::Id(id);
    let outcome = bench.hook.update_application(&which, new, None).await.expect("answered");
    assert_eq!(outcome, UpdateOutcome::Taken);
    let found = bench.hook.application(&which).await.expect("it is read").expect("it is there");
    assert_eq!((found.name.as_str(), found.uid), ("acme", Some(uid("acme"))));
}

/// Rule 3: if two callers change what both have read, the second one gets an error.
pub async fn an_update_of_an_application_that_changed_is_stale(bench: &HookBench) {
    let id = bench.application(application(Some("acme"))).await;
    let (which, read) = (ApplicationRef::Id(id), bench.now().await);
    bench.advance(5).await;
    let first = NewApplication { name: "first".into(), ..application(Some("acme")) };
    let outcome = bench.hook.update_application(&which, first, Some(read)).await;
    assert!(matches!(outcome.expect("answered"), UpdateOutcome::Updated(_)));
    bench.advance(5).await;
    // The result is the same where the own id is taken: the update is based on outdated data.
    let second = NewApplication { name: "second".into(), ..application(Some("main")) };
    let outcome = bench.hook.update_application(&which, second, Some(read)).await;
    assert_eq!(outcome.expect("answered"), UpdateOutcome::Stale);
    let found = bench.hook.application(&which).await.expect("it is read").expect("it is there");
    assert_eq!((found.name.as_str(), found.uid), ("first", Some(uid("acme"))));
}

/// An application that does not exist can be neither changed nor deleted.
pub async fn an_unknown_application_is_missing(bench: &HookBench) {
    let which = ApplicationRef::Own(uid("unknown"));
    let outcome = bench.hook.update_application(&which, application(None), None).await;
    assert_eq!(outcome.expect("answered"), UpdateOutcome::Missing);
    assert!(!bench.hook.delete_application(&which).await.expect("answered").0);
    assert_eq!(bench.hook.endpoints(&which, first(10)).await.expect("answered"), None);
}

/// Applications are listed by age, in both directions and in pages.
pub async fn applications_are_listed_by_age(bench: &HookBench) {
    let mut ids = vec![bench.app];
    for _ in 0..4 {
        ids.push(bench.application(application(None)).await);
    }
    let page = bench.hook.applications(first(3), "wakeline-").await.expect("listed");
    let got = |page: &wakeline_store::hook::HookPage<wakeline_store::hook::Application>| -> Vec<_> {
        page.items.iter().map(|one| one.id).collect()
    };
    assert_eq!((got(&page), page.done), (ids[..3].to_vec(), false));
    let rest = PageRequest { after: Some(ids[2]), ..first(3) };
    let page = bench.hook.applications(rest, "wakeline-").await.expect("listed");
    assert_eq!((got(&page), page.done), (ids[3..].to_vec(), true));
    let newest = PageRequest { order: PageOrder::Descending, ..first(2) };
    let page = bench.hook.applications(newest, "wakeline-").await.expect("listed");
    assert_eq!((got(&page), page.done), (vec![ids[4], ids[3]], false));
}

/// Applications of the server itself are not listed.
pub async fn reserved_applications_are_left_out(bench: &HookBench) {
    let own = bench.application(application(Some("wakeline-ops"))).await;
    let page = bench.hook.applications(first(10), "wakeline-").await.expect("listed");
    assert_eq!(page.items.iter().map(|one| one.id).collect::<Vec<_>>(), [bench.app]);
    let found = bench.hook.application(&ApplicationRef::Id(own)).await.expect("it is read");
    assert!(found.is_some(), "but it is there");
}

/// Rule 4: a deleted application disappears at once, with everything that belongs to it.
pub async fn a_deleted_application_is_gone_with_all_its_own(bench: &HookBench) {
    let to = bench.with(plain()).await;
    let id = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    bench.emit().await;
    let job = bench.start(JobKind::Recover, Default::default()).await;
    let (deleted, _) = bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    assert!(deleted);
    let app = bench.of_app();
    assert_eq!(bench.hook.application(&app).await.expect("it is read"), None);
    let found = bench.hook.endpoint(&app, &EndpointRef::Id(to)).await.expect("it is read");
    assert_eq!(found, None);
    let found = bench.hook.message(&app, &MessageRef::Id(id), true).await.expect("it is read");
    assert_eq!(found, None);
    let all = HookMessageFilter::default();
    let page = bench.hook.messages(bench.app, all, first(10)).await.expect("listed");
    assert!(page.items.is_empty() && page.done, "{page:?}");
    assert!(bench.attempts(id).await.is_empty());
    assert_eq!(bench.attempt(item.token.attempt).await, None);
    assert_eq!(bench.hook.job(job).await.expect("it is read"), None);
    assert_eq!(bench.none().await, None);
    let reply = bench.emitted(message(bench.app)).await;
    assert_eq!(reply.outcome, EmitOutcome::NoApplication);
}

/// Rule 4: the own id of a deleted application is free at once.
pub async fn the_own_id_of_a_deleted_application_is_free(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    let again = bench.application(application(Some("main"))).await;
    let found = bench.hook.application(&ApplicationRef::Own(uid("main"))).await;
    assert_eq!(found.expect("it is read").map(|one| one.id), Some(again));
    assert_eq!(bench.none().await, None, "nothing of the old one");
    bench.background(3).await;
    let found = bench.hook.application(&ApplicationRef::Own(uid("main"))).await;
    assert_eq!(found.expect("it is read").map(|one| one.id), Some(again));
}

/// Deleting an application does not affect others, also while its rows are removed.
pub async fn deleting_an_application_leaves_others_alone(bench: &HookBench) {
    let other = bench.application(application(Some("other"))).await;
    let made = bench
        .hook
        .create_endpoint(&ApplicationRef::Id(other), super::endpoint(plain()), None)
        .await
        .expect("made");
    assert!(matches!(made, Created::New(_)));
    let kept = bench.stored(message(other)).await.0.id;
    bench.with(plain()).await;
    bench.emit_many(3).await;
    bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    bench.background(2).await;
    let item = bench.one().await;
    assert_eq!(item.message, kept);
    assert!(item.payload.is_some());
    assert!(bench.none().await.is_some(), "only its lease is in sight");
}
