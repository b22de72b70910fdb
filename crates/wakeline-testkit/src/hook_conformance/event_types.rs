//! Rules of event types.

use bytes::Bytes;
use wakeline_core::{HookChange, HookChangeKind};
use wakeline_store::hook::{Created, EventType, PageOrder, PageRequest, UpdateOutcome};

use super::{HookBench, event, event_type, first};

fn reports_event_types(changes: &[HookChange]) -> bool {
    changes.iter().any(|change| change.what == HookChangeKind::EventTypes)
}

fn full(name: &str) -> EventType {
    EventType {
        schemas: Some(Bytes::from_static(br#"{"1":{}}"#)),
        enforced: true,
        deprecated: true,
        feature_flag: Some("beta".into()),
        group_name: Some("orders".into()),
        ..event_type(name)
    }
}

/// Rule 6: creating an event type that exists is refused.
pub async fn an_event_type_is_created_once(bench: &HookBench) {
    let (made, changes) = bench.hook.create_event_type(full("a.b"), None).await.expect("answered");
    let Created::New(made) = made else { panic!("{made:?}") };
    assert!(reports_event_types(&changes), "{changes:?}");
    let now = bench.now().await;
    assert_eq!(made, EventType { created_at: now, updated_at: now, ..full("a.b") });
    let (again, changes) =
        bench.hook.create_event_type(event_type("a.b"), None).await.expect("answered");
    assert_eq!(again, Created::Taken(made.clone()));
    assert_eq!(changes, []);
    let found = bench.hook.event_type(&event("a.b")).await.expect("it is read");
    assert_eq!(found, Some(made));
}

/// Rule 6: a put creates or replaces an event type.
pub async fn putting_replaces_all_but_the_creation_time(bench: &HookBench) {
    let (put, changes) = bench.hook.put_event_type(full("a.b")).await.expect("it is put");
    assert!(reports_event_types(&changes));
    bench.advance(5).await;
    let (again, changes) = bench.hook.put_event_type(event_type("a.b")).await.expect("it is put");
    assert!(reports_event_types(&changes));
    let now = bench.now().await;
    let expected = EventType { created_at: put.created_at, updated_at: now, ..event_type("a.b") };
    assert_eq!(again, expected);
    assert_eq!(bench.hook.event_type(&event("a.b")).await.expect("it is read"), Some(expected));
}

/// Rule 6: a replacement requires that the event type is still as it was read.
pub async fn replacing_an_event_type_that_changed_is_stale(bench: &HookBench) {
    let (read, _) = bench.hook.put_event_type(full("a.b")).await.expect("it is put");
    bench.advance(5).await;
    let first = EventType { description: "first".into(), ..read.clone() };
    let (outcome, changes) = bench.hook.replace_event_type(first).await.expect("answered");
    let UpdateOutcome::Updated(first) = outcome else { panic!("{outcome:?}") };
    assert_eq!((first.created_at, first.updated_at), (read.created_at, bench.now().await));
    assert!(reports_event_types(&changes), "{changes:?}");
    bench.advance(5).await;
    let second = EventType { description: "second".into(), ..read };
    let (outcome, changes) = bench.hook.replace_event_type(second).await.expect("answered");
    assert_eq!((outcome, changes), (UpdateOutcome::Stale, Vec::new()));
    assert_eq!(bench.hook.event_type(&event("a.b")).await.expect("it is read"), Some(first));
    let missing = bench.hook.replace_event_type(event_type("unknown")).await.expect("answered");
    assert_eq!(missing, (UpdateOutcome::Missing, Vec::new()));
    assert_eq!(bench.hook.event_type(&event("unknown")).await.expect("it is read"), None);
}

/// Archived event types exist, but are listed only on request.
pub async fn archived_types_are_listed_on_request(bench: &HookBench) {
    bench.hook.put_event_type(event_type("a")).await.expect("it is put");
    let archived = EventType { archived: true, ..event_type("b") };
    bench.hook.put_event_type(archived).await.expect("it is put");
    let names = async |archived| -> Vec<String> {
        let page = bench.hook.event_types(first(10), archived).await.expect("listed");
        page.items.iter().map(|one| one.name.to_string()).collect()
    };
    assert_eq!(names(false).await, ["a"]);
    assert_eq!(names(true).await, ["a", "b"]);
    assert!(bench.hook.event_type(&event("b")).await.expect("it is read").is_some());
}

/// Event types are listed by name, in pages and in both directions.
pub async fn event_types_are_listed_by_name(bench: &HookBench) {
    for name in ["b", "a.b", "c", "a", "a-b"] {
        bench.hook.put_event_type(event_type(name)).await.expect("it is put");
    }
    let list = async |request| {
        let page = bench.hook.event_types(request, false).await.expect("listed");
        let names: Vec<_> = page.items.iter().map(|one| one.name.to_string()).collect();
        (names.join(" "), page.done)
    };
    assert_eq!(list(first(3)).await, ("a a-b a.b".to_owned(), false), "byte by byte");
    let rest = PageRequest { after: Some(event("a.b")), ..first(3) };
    assert_eq!(list(rest).await, ("b c".to_owned(), true));
    let last = PageRequest { order: PageOrder::Descending, ..first(2) };
    assert_eq!(list(last).await, ("c b".to_owned(), false));
    let back = PageRequest { after: Some(event("b")), backwards: true, ..first(2) };
    assert_eq!(list(back).await, ("a-b a.b".to_owned(), false));
}

/// A deleted event type is gone for good.
pub async fn a_deleted_event_type_is_gone(bench: &HookBench) {
    bench.hook.put_event_type(full("a")).await.expect("it is put");
    let (gone, changes) = bench.hook.delete_event_type(&event("a")).await.expect("answered");
    assert!(gone && reports_event_types(&changes), "{changes:?}");
    assert_eq!(bench.hook.event_type(&event("a")).await.expect("it is read"), None);
    let (gone, changes) = bench.hook.delete_event_type(&event("a")).await.expect("answered");
    assert!(!gone && changes.is_empty(), "{changes:?}");
}

/// A store accepts messages of any type.
pub async fn a_message_needs_no_known_type(bench: &HookBench) {
    let found = bench.hook.event_type(&event(super::PAID)).await.expect("it is read");
    assert_eq!(found, None);
    bench.emit().await;
}
