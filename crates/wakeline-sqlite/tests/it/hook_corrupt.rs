//! Corrupt rows of webhooks: they are errors that name the row, and do not block other deliveries.

use std::time::Duration;

use wakeline_core::{
    ApplicationRef, Channel, EndpointId, EndpointOptions, EndpointRef, FifoOptions, HookLine,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    DeliveryClaim, DeliveryVerdict, EmitOutcome, EndpointUpdate, HookAdmin as _,
    HookApplications as _, HookEndpoints as _, HookStore as _, NewMessage, SettledState,
    UpdateOutcome,
};

use crate::fixture::Fixture;
use crate::hook::{application, claim, emit, end, endpoint, items, message, request};

/// Just longer than claims skip a corrupt row.
const QUARANTINE: Duration = Duration::from_secs(301);

/// Changes rows without the store.
fn write(fixture: &Fixture, sql: &str) {
    assert!(fixture.raw().execute(sql, []).expect("written") > 0, "{sql}");
}

fn count(fixture: &Fixture, what: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM hook_deliveries WHERE {what}");
    fixture.raw().query_row(&sql, [], |row| row.get(0)).expect("counted")
}

/// Creates an application with an endpoint.
async fn shop(fixture: &Fixture, options: EndpointOptions) -> (ApplicationRef, EndpointId) {
    let shop = application(&fixture.store).await;
    let id = endpoint(&fixture.store, &shop, options).await;
    (shop, id)
}

fn in_order() -> EndpointOptions {
    EndpointOptions { fifo: Some(FifoOptions { batch: 3 }), ..EndpointOptions::default() }
}

#[tokio::test]
async fn a_corrupt_message_does_not_block_others() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let shop = application(store).await;
    endpoint(store, &shop, EndpointOptions::default()).await;
    emit(store, &shop).await;
    emit(store, &shop).await;
    let damage = "UPDATE hook_messages SET event_type = 'a b' WHERE message_no = 1";
    fixture.raw().execute(damage, []).expect("written");
    let taken = items(claim(store, 2).await);
    assert_eq!(taken.len(), 1, "the other one goes");
    let settled = store.settle_deliveries(vec![end(&taken[0], DeliveryVerdict::Delivered)]).await;
    assert_eq!(settled.expect("answered")[0].state, SettledState::Delivered);
    assert!(items(claim(store, 2).await).is_empty(), "it is quarantined");
    fixture.clock.advance(QUARANTINE);
    let line = DeliveryClaim::new(HookLine::Push, vec![request(1)]);
    let refused = store.claim_deliveries(vec![line]).await;
    assert!(matches!(refused, Err(StoreError::Corrupt { what: "webhook message", .. })));
    let repair = "UPDATE hook_messages SET event_type = 'a' WHERE message_no = 1";
    fixture.raw().execute(repair, []).expect("written");
    fixture.clock.advance(QUARANTINE);
    assert_eq!(items(claim(store, 1).await).len(), 1);
}

#[tokio::test]
async fn a_quarantined_message_does_not_block_later_ones() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, _) = shop(&fixture, EndpointOptions::default()).await;
    emit(store, &shop).await;
    write(&fixture, "UPDATE hook_messages SET event_type = 'a b'");
    let line = DeliveryClaim::new(HookLine::Push, vec![request(1)]);
    store.claim_deliveries(vec![line]).await.expect_err("it is quarantined");
    emit(store, &shop).await;
    emit(store, &shop).await;
    let taken = items(claim(store, 9).await);
    let sent: Vec<_> = taken.iter().map(|item| item.token.delivery).collect();
    assert_eq!(sent, [2, 3]);
}

#[tokio::test]
async fn a_corrupt_head_blocks_its_own_order_and_no_other_endpoint() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (bad, _) = shop(&fixture, in_order()).await;
    let (good, _) = shop(&fixture, EndpointOptions::default()).await;
    for shop in [&bad, &bad, &bad, &good] {
        emit(store, shop).await;
    }
    write(&fixture, "UPDATE hook_messages SET event_type = 'a b' WHERE message_no = 1");
    let sent = items(claim(store, 9).await);
    assert_eq!(sent.len(), 1, "the other endpoint's");
    assert_eq!(count(&fixture, "state = 'waiting' AND attempts = 0"), 3, "none is used up");
    assert!(items(claim(store, 9).await).is_empty(), "nothing overtakes it");
    let settled = store.settle_deliveries(vec![end(&sent[0], DeliveryVerdict::Delivered)]).await;
    assert_eq!(settled.expect("answered")[0].state, SettledState::Delivered);
    write(&fixture, "UPDATE hook_messages SET event_type = 'a' WHERE message_no = 1");
    fixture.clock.advance(QUARANTINE);
    let sent = items(claim(store, 9).await);
    let group: Vec<_> = sent.iter().map(|item| item.token.delivery).collect();
    assert_eq!(group, [1, 2, 3]);
    assert!(sent.iter().all(|item| item.attempt_no == 1), "{sent:?}");
}

#[tokio::test]
async fn a_message_for_a_corrupt_endpoint_is_stored_and_waits() {
    let corrupted = [
        ("hook_endpoints", "options = '{' || options", "options = substr(options, 2)"),
        ("hook_endpoints", "channels = '{'", "channels = '[]'"),
        ("hook_endpoints", "url = CAST(x'ff' AS TEXT)", "url = 'https://example.com/'"),
        ("hook_lanes", "failures = -1", "failures = 0"),
    ];
    for (options, (table, damage, repair)) in
        [EndpointOptions::default(), in_order()].iter().flat_map(|o| corrupted.map(|s| (o, s)))
    {
        let fixture = Fixture::open().await;
        let store = &fixture.store;
        let (shop, bad) = shop(&fixture, options.clone()).await;
        let good = endpoint(store, &shop, EndpointOptions::default()).await;
        let sql = |set| format!("UPDATE {table} SET {set} WHERE endpoint_no = 1");
        write(&fixture, &sql(damage));
        let new = message(&shop);
        let reply = store.emit(new.clone(), vec![request(5)]).await.expect("it is stored");
        assert!(matches!(reply.outcome, EmitOutcome::Stored(_, 2)), "{damage}: {reply:?}");
        let leased = &reply.leased[0].1;
        assert_eq!((leased.len(), leased[0].target.endpoint), (1, good), "{damage}");
        emit(store, &shop).await;
        assert_eq!(items(claim(store, 9).await).len(), 1, "{damage}: the other one's");
        assert!(items(claim(store, 9).await).is_empty(), "{damage}: quarantined");
        write(&fixture, &sql(repair));
        fixture.clock.advance(QUARANTINE);
        let line = DeliveryClaim::new(HookLine::Push, vec![request(9)]);
        let claimed = store.claim_deliveries(vec![line]).await.expect("answered").remove(0);
        let repaired = claimed.groups.into_iter().flatten().filter(|g| g.target.endpoint == bad);
        let got: Vec<_> = repaired.flat_map(|group| group.items).collect();
        assert_eq!(got.len(), 2, "{repair}: nothing was lost");
        assert_eq!((got[0].message, got[0].attempt_no), (new.id, 1), "{repair}");
    }
}

#[tokio::test]
async fn a_corrupt_endpoint_gets_only_messages_that_match_its_channels() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, _) = shop(&fixture, EndpointOptions::default()).await;
    write(&fixture, "UPDATE hook_endpoints SET options = '{', channels = '[\"eu\"]'");
    for (channel, wanted) in [("us", 0), ("eu", 1)] {
        let channels = vec![Channel::new(channel).expect("a channel")];
        let new = NewMessage { channels, ..message(&shop) };
        let reply = store.emit(new, Vec::new()).await.expect("it is stored");
        assert!(matches!(reply.outcome, EmitOutcome::Stored(_, n) if n == wanted), "{channel}");
    }
    write(&fixture, "UPDATE hook_endpoints SET disabled = 'asked'");
    let reply = store.emit(message(&shop), Vec::new()).await.expect("it is stored");
    assert!(matches!(reply.outcome, EmitOutcome::Stored(_, 0)), "it is switched off");
}

#[tokio::test]
async fn a_request_that_met_a_corrupt_row_gets_the_next_delivery() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, _) = shop(&fixture, EndpointOptions::default()).await;
    for _ in 0..3 {
        emit(store, &shop).await;
    }
    write(&fixture, "UPDATE hook_messages SET event_type = 'a b' WHERE message_no = 1");
    let line = DeliveryClaim::new(HookLine::Push, vec![request(1), request(1)]);
    let claimed = store.claim_deliveries(vec![line]).await.expect("answered").remove(0);
    let got = claimed.groups.iter().filter(|groups| !groups.is_empty()).count();
    assert!(got == 2 || claimed.next_due == Some(Duration::ZERO), "{claimed:?}");
}

/// Checks that an expired lease with a corrupt row does not block a delivery of another endpoint.
async fn check_that_an_expired_lease_does_not_block_others(
    options: EndpointOptions,
    damage: &str,
    repair: &str,
) {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (bad, _) = shop(&fixture, options).await;
    emit(store, &bad).await;
    let lost = items(claim(store, 1).await);
    write(&fixture, damage);
    fixture.clock.advance(lost[0].lease_for);
    let line = DeliveryClaim::new(HookLine::Push, vec![request(1)]);
    let refused = store.claim_deliveries(vec![line.clone()]).await;
    assert!(matches!(refused, Err(StoreError::Corrupt { .. })), "{damage}: {refused:?}");
    let (good, _) = shop(&fixture, EndpointOptions::default()).await;
    for _ in 0..2 {
        emit(store, &good).await;
        let sent = items(claim(store, 2).await);
        assert_eq!(sent.len(), 1, "{damage}");
        let settled = store.settle_deliveries(vec![end(&sent[0], DeliveryVerdict::Delivered)]);
        assert_eq!(settled.await.expect("answered")[0].state, SettledState::Delivered);
        fixture.clock.advance(QUARANTINE);
    }
    write(&fixture, repair);
    fixture.clock.advance(QUARANTINE);
    let again = items(claim(store, 1).await);
    assert_eq!(again[0].attempt_no, 2, "{repair}: nothing was lost");
}

#[tokio::test]
async fn a_corrupt_expired_lease_does_not_block_others() {
    for (options, damage, repair) in [
        (EndpointOptions::default(), "lease_key = x'00'", "lease_key = zeroblob(16)"),
        (EndpointOptions::default(), "class = 9", "class = 0"),
        (EndpointOptions::default(), "attempts = -1", "attempts = 0"),
        (in_order(), "class = 9", "class = 0"),
    ] {
        let sql = |set| format!("UPDATE hook_deliveries SET {set} WHERE delivery_no = 1");
        check_that_an_expired_lease_does_not_block_others(options, &sql(damage), &sql(repair))
            .await;
    }
}

#[tokio::test]
async fn an_expired_lease_of_a_corrupt_endpoint_does_not_block_others() {
    let damage = "UPDATE hook_endpoints SET options = '{\"timeout\":' || options";
    let repair = "UPDATE hook_endpoints SET options = substr(options, 12) WHERE endpoint_no = 1";
    check_that_an_expired_lease_does_not_block_others(EndpointOptions::default(), damage, repair)
        .await;
}

#[tokio::test]
async fn a_corrupt_lease_of_a_group_lets_the_other_leases_expire() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, _) = shop(&fixture, in_order()).await;
    for _ in 0..3 {
        emit(store, &shop).await;
    }
    let group = items(claim(store, 3).await);
    assert_eq!(group.len(), 3);
    write(&fixture, "UPDATE hook_deliveries SET class = 9 WHERE delivery_no = 1");
    fixture.clock.advance(group[0].lease_for);
    let line = DeliveryClaim::new(HookLine::Push, vec![request(1)]);
    assert!(store.claim_deliveries(vec![line]).await.is_err(), "it is an error once");
    assert_eq!(count(&fixture, "state = 'waiting'"), 2, "and nothing is undone for it");
    assert!(items(claim(store, 3).await).is_empty(), "but its order holds");
    emit(store, &shop).await;
    write(&fixture, "UPDATE hook_deliveries SET class = 0 WHERE delivery_no = 1");
    fixture.clock.advance(QUARANTINE);
    let again = items(claim(store, 4).await);
    assert_eq!(again[0].token.delivery, 1);
}

#[tokio::test]
async fn a_corrupt_pulled_endpoint_does_not_block_other_lines() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let pull = EndpointOptions { pull: true, ..EndpointOptions::default() };
    let (bad, id) = shop(&fixture, pull).await;
    emit(store, &bad).await;
    write(&fixture, "UPDATE hook_endpoints SET options = '{'");
    let (good, _) = shop(&fixture, EndpointOptions::default()).await;
    emit(store, &good).await;
    let line = |line| DeliveryClaim::new(line, vec![request(1)]);
    let lines = || vec![line(HookLine::Pull(id)), line(HookLine::Push)];
    let mut claimed = store.claim_deliveries(lines()).await.expect("one of them has something");
    assert_eq!(items(claimed.remove(1)).len(), 1);
    assert!(items(claimed.remove(0)).is_empty());
    let refused = store.claim_deliveries(lines()).await;
    assert!(matches!(refused, Err(StoreError::Corrupt { .. })), "{refused:?}");
}

#[tokio::test]
async fn waiting_deliveries_of_a_deleted_endpoint_are_cancelled_without_reading_them() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, id) = shop(&fixture, in_order()).await;
    for _ in 0..5 {
        emit(store, &shop).await;
    }
    let taken = items(claim(store, 1).await);
    write(&fixture, "UPDATE hook_deliveries SET class = 9 WHERE delivery_no > 3");
    assert!(store.delete_endpoint(&shop, &EndpointRef::Id(id)).await.expect("deleted").0);
    assert_eq!(count(&fixture, "state = 'cancelled' AND due_at IS NULL AND in_order IS NULL"), 4);
    assert_eq!(count(&fixture, "state = 'leased' AND cancelled = 1"), 1);
    let ended = store.settle_deliveries(vec![end(&taken[0], DeliveryVerdict::Failed)]).await;
    assert_eq!(ended.expect("answered")[0].state, SettledState::Cancelled);
}

#[tokio::test]
async fn waiting_deliveries_change_their_order_without_being_read() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, id) = shop(&fixture, EndpointOptions::default()).await;
    for _ in 0..3 {
        emit(store, &shop).await;
    }
    claim(store, 1).await;
    write(&fixture, "UPDATE hook_deliveries SET class = 9 WHERE delivery_no = 3");
    let pull = EndpointOptions { pull: true, ..in_order() };
    for (options, ordered, pulled) in [(pull, 3, 1), (EndpointOptions::default(), 0, 0)] {
        let update = EndpointUpdate { options: Some(options), ..EndpointUpdate::default() };
        let updated = store.update_endpoint(&shop, &EndpointRef::Id(id), update).await;
        assert!(matches!(updated.expect("answered").0, UpdateOutcome::Updated(_)));
        assert_eq!(count(&fixture, "in_order = 1"), ordered);
        assert_eq!(count(&fixture, "state = 'leased' AND pulled = 1"), pulled);
    }
}

#[tokio::test]
async fn waiting_deliveries_of_a_deleted_application_are_removed_by_background_work() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (shop, _) = shop(&fixture, EndpointOptions::default()).await;
    for _ in 0..3 {
        emit(store, &shop).await;
    }
    claim(store, 1).await;
    assert!(store.delete_application(&shop).await.expect("deleted").0);
    assert_eq!(count(&fixture, "state = 'waiting'"), 2);
    assert!(items(claim(store, 9).await).is_empty());
    while store.run_background(2).await.expect("answered").next_due.is_some() {}
    assert_eq!(count(&fixture, "true"), 0);
}

#[tokio::test]
async fn a_fan_out_of_a_corrupt_message_does_not_block_others() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let (bad, good) = (application(store).await, application(store).await);
    for shop in [&bad, &bad, &good] {
        emit(store, shop).await;
    }
    for shop in [&bad, &good] {
        endpoint(store, shop, EndpointOptions::default()).await;
    }
    // As if the messages were for very many endpoints, including these.
    let fan_outs = "INSERT INTO hook_fan_outs (application_no, message_no, place, last) \
                    SELECT application_no, message_no, 0, 9 FROM hook_messages";
    write(&fixture, fan_outs);
    write(&fixture, "UPDATE hook_messages SET event_type = 'a b' WHERE message_no = 1");
    while store.run_background(100).await.expect("a piece is done").rows > 0 {}
    assert_eq!(count(&fixture, "message_no IN (2, 3)"), 2, "the others are made");
    assert_eq!(count(&fixture, "message_no = 1"), 0);
    assert_eq!(items(claim(store, 9).await).len(), 2);
}
