//! Webhooks on this store: snapshots and caching, and helpers for other tests.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointOptions, EventTypeName, HookLine,
    HookMessageId, MESSAGE_RETENTION_DEFAULT,
};
use wakeline_sqlite::SqliteStore;
use wakeline_store::hook::{
    AttemptRecord, BreakerSample, Created, DeliveryClaim, DeliveryClaimed, DeliveryItem,
    DeliveryRequest, DeliveryVerdict, EmitOutcome, EmitReply, HookAdmin as _,
    HookApplications as _, HookEndpoints as _, HookReader as _, HookStore as _, NewApplication,
    NewEndpoint, NewMessage, SettleDelivery,
};

use crate::fixture::Fixture;

/// Creates an application.
pub(crate) async fn application(store: &SqliteStore) -> ApplicationRef {
    let id = ApplicationId::generate();
    let (name, metadata) = ("shop".to_owned(), Bytes::from_static(b"{}"));
    let new = NewApplication { id, name, uid: None, rate_limit: None, metadata };
    let made = store.create_application(new, None).await.expect("answered");
    assert!(matches!(made, Created::New(_)));
    ApplicationRef::Id(id)
}

/// Creates an endpoint that receives all messages.
pub(crate) async fn endpoint(
    store: &SqliteStore,
    application: &ApplicationRef,
    options: EndpointOptions,
) -> EndpointId {
    let id = EndpointId::generate();
    let new = NewEndpoint {
        id,
        uid: None,
        url: "https://example.com/hook".to_owned(),
        description: String::new(),
        event_types: Vec::new(),
        channels: Vec::new(),
        disabled: None,
        metadata: Bytes::from_static(b"{}"),
        headers: Bytes::new(),
        secret: Bytes::from_static(b"encrypted"),
        options,
    };
    let made = store.create_endpoint(application, new, None).await.expect("answered");
    assert!(matches!(made, Created::New(_)));
    id
}

/// A new message.
pub(crate) fn message(application: &ApplicationRef) -> NewMessage {
    NewMessage {
        id: HookMessageId::generate(),
        application: application.clone(),
        create_application: None,
        event_type: EventTypeName::new("invoice.paid").expect("valid"),
        event_id: None,
        channels: Vec::new(),
        payload: Bytes::from_static(b"{\"total\":7}"),
        retention: MESSAGE_RETENTION_DEFAULT,
        only: None,
        idempotency: None,
    }
}

/// Stores a message without leasing its deliveries.
pub(crate) async fn emit(store: &SqliteStore, application: &ApplicationRef) -> EmitReply {
    let reply = store.emit(message(application), Vec::new()).await.expect("answered");
    assert!(matches!(reply.outcome, EmitOutcome::Stored(..)));
    reply
}

/// A request for a number of attempts.
pub(crate) fn request(len: usize) -> DeliveryRequest {
    let attempts = (0..len).map(|_| AttemptId::generate()).collect();
    DeliveryRequest { attempts, fresh_only: 0, lease: None }
}

/// Claims a number of deliveries that are sent.
pub(crate) async fn claim(store: &SqliteStore, len: usize) -> DeliveryClaimed {
    let claims = vec![DeliveryClaim::new(HookLine::Push, vec![request(len)])];
    store.claim_deliveries(claims).await.expect("answered").remove(0)
}

/// The deliveries that a claim got.
pub(crate) fn items(claimed: DeliveryClaimed) -> Vec<DeliveryItem> {
    claimed.groups.into_iter().flatten().flat_map(|group| group.items).collect()
}

/// A settlement of an attempt with a verdict.
pub(crate) fn end(item: &DeliveryItem, verdict: DeliveryVerdict) -> SettleDelivery {
    let record = AttemptRecord {
        began_ago: Duration::from_millis(20),
        took: Duration::from_millis(20),
        status: Some(200),
        response: Bytes::from_static(b"ok"),
        error: None,
        url: "https://example.com/hook".to_owned(),
    };
    SettleDelivery {
        token: item.token,
        record,
        verdict,
        sample: BreakerSample::None,
        throttle: None,
        gone: false,
        announce: Vec::new(),
        announce_disabled: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_claim_of_deliveries_neither_writes_nor_waits_for_a_writer() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let shop = application(store).await;
    endpoint(store, &shop, EndpointOptions::default()).await;
    emit(store, &shop).await;
    assert_eq!(items(claim(store, 1).await).len(), 1);
    let lock = fixture.raw();
    lock.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let before = store.counters();
    let empty = claim(store, 3).await;
    assert_eq!(empty.next_due, Some(EndpointOptions::default().lease()));
    assert!(items(empty).is_empty());
    let report = store.run_background(10).await.expect("answered");
    assert_eq!((report.rows, report.next_due), (0, Some(MESSAGE_RETENTION_DEFAULT)));
    let after = store.counters();
    assert_eq!((after.commits, after.peeked), (before.commits, before.peeked + 2));
    lock.execute_batch("ROLLBACK").expect("the lock is held");
}

#[tokio::test]
async fn an_endpoint_change_of_another_process_applies_at_once() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    let id = endpoint(&here.store, &shop, EndpointOptions::default()).await;
    emit(&here.store, &shop).await;
    assert_eq!(items(claim(&here.store, 1).await).len(), 1);
    let which = wakeline_core::EndpointRef::Id(id);
    assert!(there.delete_endpoint(&shop, &which).await.expect("answered").0);
    let reply = emit(&here.store, &shop).await;
    assert!(matches!(reply.outcome, EmitOutcome::Stored(_, 0)), "{:?}", reply.outcome);
    let stats = |application| here.store.endpoint_stats(application, id, None);
    let ApplicationRef::Id(application) = shop else { panic!("named by its id") };
    assert_eq!(stats(application).await.expect("answered").in_flight, 1);
}
