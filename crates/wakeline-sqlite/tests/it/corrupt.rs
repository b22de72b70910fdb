//! Corrupt rows are errors that name the row, and are never dropped silently.

use std::time::Duration;

use wakeline_core::{Capabilities, error_chain};
use wakeline_store::flow::{Envelope, FlowStore as _, TurnClaim, Visible};
use wakeline_store::{QueueStore as _, StoreError};
use wakeline_testkit::conformance::item;

use crate::fixture::{Fixture, claim, completions, queue, take};
use crate::flow::{event, first_turn, request, start, turn, work};

/// How long claims skip a corrupt row.
const QUARANTINE: Duration = Duration::from_secs(300);

async fn stored() -> Fixture {
    let fixture = Fixture::open().await;
    fixture.store.push(vec![item(&queue("q"), "Default", "a")]).await.expect("pushed");
    fixture
}

/// Checks that the error of a corrupt row names the row, the cause, and what an operator can do.
fn check_words(error: &StoreError) {
    let StoreError::Corrupt { what, id, source } = error else { return };
    let text = error_chain(error);
    assert!(text.starts_with(&format!("{what} {id} is corrupt")), "{text}");
    assert!(text.contains("restore it from a backup"), "{text}");
    assert!(text.ends_with(&error_chain(&**source)) && !source.to_string().is_empty(), "{text}");
}

fn id_of(error: StoreError, kind: &str) -> String {
    check_words(&error);
    match error {
        StoreError::Corrupt { what, id, .. } if what == kind => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_corrupt_message_is_reported_with_its_offset_and_is_kept() {
    let fixture = stored().await;
    let raw = fixture.raw();
    for damage in [
        "UPDATE messages SET id = x'00'",
        "UPDATE messages SET id = zeroblob(16), trace_id = x'01'",
        "UPDATE messages SET trace_id = NULL, transaction_id = ''",
    ] {
        assert_eq!(raw.execute(damage, []).expect("corrupted"), 1);
        let error = fixture.store.claim(claim("q", 1)).await.expect_err("it is not skipped");
        assert_eq!(id_of(error, "message"), "1/0", "{damage}");
        assert!(take(&fixture.store, "q", 1).await.is_none(), "it is quarantined");
        fixture.clock.advance(QUARANTINE);
    }
    raw.execute("UPDATE messages SET transaction_id = 'a'", []).expect("repaired");
    let claimed = take(&fixture.store, "q", 1).await.expect("nothing was lost");
    assert_eq!(claimed.partitions[0].messages[0].attempt, 1, "and nothing counted");
}

#[tokio::test]
async fn a_corrupt_message_does_not_block_other_partitions() {
    let fixture = stored().await;
    fixture.raw().execute("UPDATE messages SET id = x'00'", []).expect("corrupted");
    fixture.store.push(vec![item(&queue("q"), "whole", "b")]).await.expect("pushed");
    let claimed = take(&fixture.store, "q", 1).await.expect("by the same claim");
    assert_eq!(claimed.partitions[0].messages[0].transaction_id.as_str(), "b");
    fixture.clock.advance(QUARANTINE);
    fixture.raw().execute("UPDATE messages SET id = zeroblob(16)", []).expect("repaired");
    assert!(take(&fixture.store, "q", 1).await.is_some(), "it is looked at again");
}

#[tokio::test]
async fn a_corrupt_lease_is_reported_with_its_cursor() {
    let fixture = stored().await;
    let claimed = take(&fixture.store, "q", 1).await.expect("one message");
    let raw = fixture.raw();
    raw.execute("UPDATE cursors SET lease_set = '9-3'", []).expect("corrupted");
    let error = fixture.store.settle(completions(&claimed)).await.expect_err("it is not settled");
    assert_eq!(id_of(error, "cursor"), "1/1");
    raw.execute("UPDATE cursors SET lease_set = '0'", []).expect("repaired");
    fixture.store.settle(completions(&claimed)).await.expect("settled");
}

#[tokio::test]
async fn a_missing_message_is_an_error_and_not_skipped() {
    let fixture = stored().await;
    let claimed = take(&fixture.store, "q", 1).await.expect("one message");
    fixture.clock.advance(claimed.lease_for);
    assert!(take(&fixture.store, "q", 1).await.is_some(), "the second try");
    fixture.clock.advance(claimed.lease_for);
    fixture.raw().execute("DELETE FROM messages", []).expect("corrupted");
    let error = fixture.store.claim(claim("q", 1)).await.expect_err("its retry is parked");
    assert_eq!(id_of(error, "message"), "1/0");
}

#[tokio::test]
async fn a_corrupt_instance_is_reported_with_its_id_and_does_not_block_others() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    store.enqueue(vec![start("bad")], Vec::new()).await.expect("stored");
    let first = turn(store).await.expect("its first turn");
    store.commit_turn(first_turn(first.token, "bad")).await.expect("answered");
    store.enqueue(vec![event("bad")], Vec::new()).await.expect("stored");
    fixture.raw().execute("UPDATE executions SET state = 'odd'", []).expect("corrupted");
    let (capabilities, requests) = (Capabilities::Any, vec![request()]);
    let line = TurnClaim { capabilities, requests, further: false };
    let error = store.claim_turns(vec![line]).await.expect_err("it is not skipped");
    assert_eq!(id_of(error, "execution"), first.token.lane.to_string());
    assert!(turn(store).await.is_none(), "it is quarantined");
    let visible = Visible::After(QUARANTINE + Duration::from_secs(1));
    let good = Envelope { visible, ..start("good") };
    store.enqueue(vec![good], Vec::new()).await.expect("stored");
    fixture.clock.advance(QUARANTINE + Duration::from_secs(1));
    assert_eq!(turn(store).await.expect("by the same claim").instance.as_str(), "good");
    fixture.clock.advance(QUARANTINE);
    fixture.raw().execute("UPDATE executions SET state = 'running'", []).expect("repaired");
    let again = turn(store).await.expect("nothing was lost");
    assert_eq!((again.instance.as_str(), again.attempt), ("good", 2), "its lease expired");
    let again = turn(store).await.expect("nothing was lost");
    assert_eq!((again.instance.as_str(), again.attempt), ("bad", 1), "and nothing counted");
}

#[tokio::test]
async fn a_corrupt_activity_does_not_block_others() {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    for name in ["bad", "good"] {
        store.enqueue(vec![start(name)], Vec::new()).await.expect("stored");
        let first = turn(store).await.expect("its first turn");
        store.commit_turn(first_turn(first.token, name)).await.expect("answered");
    }
    let damage =
        "UPDATE executions SET state = 'odd' WHERE lane_id = (SELECT min(lane_id) FROM lanes)";
    fixture.raw().execute(damage, []).expect("corrupted");
    assert_eq!(work(store).await.expect("by the same claim").instance.as_str(), "good");
    fixture.raw().execute("UPDATE executions SET state = 'running'", []).expect("repaired");
    assert!(work(store).await.is_none(), "it is quarantined");
    fixture.clock.advance(QUARANTINE);
    assert_eq!(work(store).await.expect("nothing was lost").instance.as_str(), "bad");
}
