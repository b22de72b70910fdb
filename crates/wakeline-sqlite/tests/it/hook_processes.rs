//! Webhooks of several stores on one file, as in several processes.

use std::time::Duration;

use wakeline_core::{EndpointOptions, EventTypeName, HookChange, HookChangeKind};
use wakeline_sqlite::SqliteStore;
use wakeline_store::hook::{
    DeliveryVerdict, HookEndpoints as _, HookEventTypes as _, HookStore as _,
};

use crate::fixture::Fixture;
use crate::hook::{application, claim, emit, end, endpoint, items, message, request};
use crate::listening::{Listening, mark, taken_once};

fn push_in(due_in: Duration) -> HookChange {
    HookChange { what: HookChangeKind::Push, due_in }
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_lease_ends_and_retries_are_reported_to_the_other_process() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    endpoint(&here.store, &shop, EndpointOptions::default()).await;
    emit(&here.store, &shop).await;
    claim(&here.store, 1).await;
    let mut listening = Listening::between(&here.store, &there).await;
    emit(&there, &shop).await;
    mark(&there, "emitted").await;
    assert_eq!(listening.hook_until_mark().await, [HookChange::now(HookChangeKind::Push)]);
    let taken = items(claim(&there, 1).await);
    mark(&there, "claimed").await;
    assert_eq!(listening.hook_until_mark().await, [push_in(taken[0].lease_for)]);
    let again = DeliveryVerdict::Retry(Duration::from_secs(5));
    there.settle_deliveries(vec![end(&taken[0], again)]).await.expect("answered");
    mark(&there, "settled").await;
    assert_eq!(listening.hook_until_mark().await, [push_in(Duration::from_secs(5))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_leased_on_insert_are_not_announced() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    endpoint(&here.store, &shop, EndpointOptions::default()).await;
    emit(&here.store, &shop).await;
    let mut listening = Listening::between(&here.store, &there).await;
    claim(&there, 1).await;
    mark(&there, "claimed").await;
    listening.hook_until_mark().await;
    let reply = there.emit(message(&shop), vec![request(1)]).await.expect("answered");
    assert_eq!((reply.leased.len(), reply.changes.len()), (1, 0));
    mark(&there, "emitted").await;
    assert_eq!(listening.hook_until_mark().await, [], "the lease before it ends no later");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_types_and_pulled_deliveries_are_reported_to_the_other_process() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    let options = EndpointOptions { pull: true, ..Default::default() };
    let id = endpoint(&here.store, &shop, options).await;
    emit(&here.store, &shop).await;
    let mut listening = Listening::between(&here.store, &there).await;
    let name = EventTypeName::new("a").expect("valid");
    assert!(!there.delete_event_type(&name).await.expect("answered").0);
    there.delete_endpoint(&shop, &wakeline_core::EndpointRef::Id(id)).await.expect("answered");
    let options = EndpointOptions { pull: true, ..Default::default() };
    let other = endpoint(&there, &shop, options).await;
    emit(&there, &shop).await;
    mark(&there, "emitted").await;
    assert_eq!(listening.hook_until_mark().await, [HookChange::now(HookChangeKind::Pull(other))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_hold_the_same_delivery() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    let options = EndpointOptions { in_flight_max: 1_000, ..Default::default() };
    endpoint(&here.store, &shop, options).await;
    for _ in 0..200 {
        emit(&here.store, &shop).await;
    }
    let take = async |store: SqliteStore| -> Vec<i64> {
        let taken = items(claim(&store, 3).await);
        taken.into_iter().map(|item| item.token.delivery).collect()
    };
    assert_eq!(taken_once([here.store.clone(), there], take).await, 200);
}
