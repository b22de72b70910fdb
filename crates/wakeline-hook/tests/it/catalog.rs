//! Validation, encryption and display of applications, event types and endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use wakeline_core::{EndpointOptions, EndpointRef, IdempotencyKey, Timestamp, Uid};
use wakeline_hook::{
    ApplicationIn, Emit, EndpointIn, EndpointPatch, HookError, HookService, HookServiceOptions,
};
use wakeline_store::hook::{Created, EmitOutcome, EventType};
use wakeline_testkit::oracle::MemoryStore;

use crate::support::{Bench, event_type, options, other_keys};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn typed(schemas: &str, enforced: bool) -> EventType {
    EventType {
        name: event_type("user.signup"),
        description: String::new(),
        schemas: Some(Bytes::copy_from_slice(schemas.as_bytes())),
        enforced,
        archived: false,
        deprecated: false,
        feature_flag: None,
        group_name: None,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }
}

async fn emit(bench: &Bench, payload: &'static str) -> Result<EmitOutcome, HookError> {
    let payload = Bytes::from_static(payload.as_bytes());
    bench.service.emit(Emit::new(bench.app(), event_type("user.signup"), payload)).await
}

#[tokio::test]
async fn without_encryption_keys_no_endpoint_is_created() {
    let store = Arc::new(MemoryStore::with_real_clock());
    let bench = Bench::over(store, HookServiceOptions { keys: None, ..options() }).await;
    let endpoint = EndpointIn { url: "https://example.com/".to_owned(), ..EndpointIn::default() };
    let refused = bench.service.create_endpoint(&bench.app(), endpoint, None).await;
    assert!(matches!(refused, Err(HookError::NoEncryptionKeys)));
    bench.stop().await;
}

#[tokio::test]
async fn secrets_and_headers_reach_the_store_encrypted() {
    let bench = Bench::start().await;
    let headers = BTreeMap::from([("x-team".to_owned(), "confidential".to_owned())]);
    let endpoint = bench
        .make(EndpointIn {
            url: "https://example.com/".to_owned(),
            secret: Some(SECRET.to_owned()),
            headers,
            ..EndpointIn::default()
        })
        .await;
    let which = EndpointRef::Id(endpoint);
    let kept = bench.store.secrets(&bench.app(), &which).await.expect("read");
    let holds = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(!holds(&kept[0].encrypted, &SECRET.as_bytes()[6..]));
    assert!(!holds(&bench.look(endpoint).await.headers, b"confidential"));
    let shown = bench.service.secret(&bench.app(), &which).await.expect("read");
    assert_eq!(shown.as_deref(), Some(SECRET));
    bench.stop().await;
}

#[tokio::test]
async fn headers_are_set_changed_removed_and_masked() {
    let bench = Bench::start().await;
    let endpoint = bench.endpoint("https://example.com/", EndpointOptions::default()).await;
    let which = EndpointRef::Id(endpoint);
    let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let all = BTreeMap::from([entry("X-One", "1"), entry("Authorization", "Bearer x")]);
    assert!(bench.service.set_headers(&bench.app(), &which, all).await.expect("stored"));
    let patch =
        BTreeMap::from([("x-two".to_owned(), Some("2".to_owned())), ("X-ONE".to_owned(), None)]);
    assert!(bench.service.patch_headers(&bench.app(), &which, patch).await.expect("stored"));
    let shown = bench.service.headers(&bench.app(), &which).await.expect("read").expect("one");
    assert_eq!(shown.headers, BTreeMap::from([entry("x-two", "2")]));
    assert_eq!(shown.sensitive, ["authorization"]);
    let ours = BTreeMap::from([entry("webhook-id", "x")]);
    let refused = bench.service.set_headers(&bench.app(), &which, ours).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "headers", .. })));
    bench.stop().await;
}

#[tokio::test]
async fn replacing_headers_does_not_need_the_key_of_the_old_ones() {
    let bench = Bench::start().await;
    let endpoint = bench.endpoint("https://example.com/", EndpointOptions::default()).await;
    let which = EndpointRef::Id(endpoint);
    let options = HookServiceOptions { keys: Some(Arc::new(other_keys())), ..options() };
    let newer = HookService::start(bench.store.clone(), options);
    let unreadable = newer.headers(&bench.app(), &which).await;
    assert!(matches!(unreadable, Err(HookError::Encryption { .. })), "{unreadable:?}");
    let all = BTreeMap::from([("x-one".to_owned(), "1".to_owned())]);
    assert!(newer.set_headers(&bench.app(), &which, all.clone()).await.expect("stored"));
    let shown = newer.headers(&bench.app(), &which).await.expect("read").expect("one");
    assert_eq!(shown.headers, all);
    bench.stop().await;
}

#[tokio::test]
async fn credentials_of_a_url_are_encrypted_and_removed_from_the_url() {
    let bench = Bench::start().await;
    let url = "https://user:pass@example.com/x".to_owned();
    let one = |value: &str| BTreeMap::from([("Authorization".to_owned(), value.to_owned())]);
    let both = EndpointIn { url: url.clone(), headers: one("Bearer x"), ..EndpointIn::default() };
    let refused = bench.service.create_endpoint(&bench.app(), both, None).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "url", .. })), "{refused:?}");

    let endpoint = bench.make(EndpointIn { url: url.clone(), ..EndpointIn::default() }).await;
    let which = EndpointRef::Id(endpoint);
    assert_eq!(bench.look(endpoint).await.url, "https://example.com/x");
    let shown = bench.service.headers(&bench.app(), &which).await.expect("read").expect("one");
    assert_eq!(shown.sensitive, ["authorization"]);

    let called = bench.endpoint("https://example.com/", EndpointOptions::default()).await;
    let which = EndpointRef::Id(called);
    let team = BTreeMap::from([("x-team".to_owned(), "blue".to_owned())]);
    bench.service.set_headers(&bench.app(), &which, team.clone()).await.expect("stored");
    let both = EndpointPatch {
        url: Some(url.clone()),
        headers: Some(one("Bearer x")),
        ..EndpointPatch::default()
    };
    let refused = bench.service.update_endpoint(&bench.app(), &which, both).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "url", .. })), "{refused:?}");
    let patch = EndpointPatch { url: Some(url), ..EndpointPatch::default() };
    bench.service.update_endpoint(&bench.app(), &which, patch).await.expect("stored");
    assert_eq!(bench.look(called).await.url, "https://example.com/x");
    let shown = bench.service.headers(&bench.app(), &which).await.expect("read").expect("one");
    assert_eq!((shown.headers, shown.sensitive), (team, vec!["authorization".to_owned()]));
    bench.stop().await;
}

#[tokio::test]
async fn an_endpoint_with_a_new_url_keeps_its_headers_unless_they_are_replaced() {
    let bench = Bench::start().await;
    let url = "https://user:pass@example.com/x".to_owned();
    let endpoint = bench.make(EndpointIn { url, ..EndpointIn::default() }).await;
    let which = EndpointRef::Id(endpoint);
    let moved = |host: &str, headers| EndpointPatch {
        url: Some(format!("https://{host}/")),
        headers,
        ..EndpointPatch::default()
    };
    let (app, service) = (bench.app(), &bench.service);
    service.update_endpoint(&app, &which, moved("other.example", None)).await.expect("stored");
    let shown = service.headers(&app, &which).await.expect("read").expect("one");
    assert_eq!(shown.sensitive, ["authorization"]);
    let none = moved("third.example", Some(BTreeMap::new()));
    service.update_endpoint(&app, &which, none).await.expect("stored");
    let shown = service.headers(&app, &which).await.expect("read").expect("one");
    assert!(shown.sensitive.is_empty() && shown.headers.is_empty(), "{shown:?}");
    bench.stop().await;
}

#[tokio::test]
async fn an_enforced_schema_is_checked_and_its_changes_take_effect_at_once() {
    let bench = Bench::start().await;
    assert!(emit(&bench, r#"{"age": "old"}"#).await.is_ok());
    let schema = r#"{"1": {"properties": {"age": {"type": "integer"}}, "required": ["age"]}}"#;
    bench.service.put_event_type(typed(schema, true)).await.expect("stored");
    assert!(matches!(emit(&bench, r#"{"age": "old"}"#).await, Err(HookError::Schema { .. })));
    assert!(matches!(emit(&bench, "{}").await, Err(HookError::Schema { .. })));
    assert!(emit(&bench, r#"{"age": 7}"#).await.is_ok());
    bench.service.put_event_type(typed(schema, false)).await.expect("stored");
    assert!(emit(&bench, r#"{"age": "old"}"#).await.is_ok());
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_node_takes_effect_after_a_minute_without_a_hint() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let bench = Bench::over(store.clone(), options()).await;
    let elsewhere = HookService::start(store, options());
    assert!(emit(&bench, "{}").await.is_ok());
    let schema = r#"{"1": {"required": ["age"]}}"#;
    elsewhere.put_event_type(typed(schema, true)).await.expect("stored");
    assert!(emit(&bench, "{}").await.is_ok());
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    assert!(matches!(emit(&bench, "{}").await, Err(HookError::Schema { .. })));
    bench.stop().await;
}

#[tokio::test]
async fn a_payload_that_is_not_json_is_refused() {
    let bench = Bench::start().await;
    for payload in ["", "{", "nope", "{} {}"] {
        let refused = emit(&bench, payload).await;
        assert!(matches!(refused, Err(HookError::Invalid { field: "payload", .. })), "{payload}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_repeated_request_creates_one_object_and_another_with_its_key_none() {
    let bench = Bench::start().await;
    let key = || Some(IdempotencyKey::new("key-1").expect("valid"));
    let made = |name: &str| ApplicationIn { name: name.to_owned(), ..ApplicationIn::default() };
    let first = bench.service.create_application(made("a"), key()).await.expect("stored");
    let Created::New(first) = first else { panic!("{first:?}") };
    let again = bench.service.create_application(made("a"), key()).await.expect("answered");
    assert!(matches!(again, Created::Repeated(again) if again.id == first.id));
    let other = bench.service.create_application(made("b"), key()).await.expect("answered");
    assert_eq!(other, Created::KeyReused);
    bench.stop().await;
}

#[tokio::test]
async fn uids_of_the_server_cannot_be_taken() {
    let bench = Bench::start().await;
    let uid = Some(Uid::parse("wakeline.mine").expect("valid"));
    let application = ApplicationIn { uid, ..ApplicationIn::default() };
    let refused = bench.service.create_application(application, None).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "uid", .. })));
    bench.stop().await;
}
