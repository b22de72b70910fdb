//! Corrupt rows of webhooks cause an error with their id and delay no other deliveries.

use std::time::Duration;

use wakeline_core::{EndpointId, HookLine, error_chain};
use wakeline_store::StoreError;
use wakeline_store::hook::{DeliveryState, EmitOutcome};
use wakeline_testkit::hook_conformance::{fifo, items, messages_of, plain, push, request};

use super::stage::Stage;

/// Seconds, slightly more than the time for which claims skip corrupt rows.
const QUARANTINE: u64 = 301;

impl Stage {
    /// Makes a claim that finds only corrupt rows, and returns its error.
    async fn refused(&self) -> StoreError {
        let claimed = self.bench.hook.claim_deliveries(vec![push(vec![request(9)])]).await;
        let error = claimed.expect_err("it is an error with its id");
        let text = error_chain(&error);
        let StoreError::Corrupt { what, id, source } = &error else { panic!("{text}") };
        assert!(text.starts_with(&format!("{what} {id} is corrupt")), "{text}");
        assert!(text.contains("restore it from a backup"), "{text}");
        assert!(text.ends_with(&error_chain(&**source)), "{text}");
        error
    }

    /// Changes the options of an endpoint directly in its table.
    async fn set_options(&self, id: EndpointId, sql: &str) {
        let sql =
            format!("UPDATE hook_endpoints SET options = {sql} WHERE endpoint_id = '{}'", id.0);
        self.run(&sql).await;
    }
}

#[tokio::test]
async fn a_corrupt_message_delays_no_other() {
    for spoil in [
        "UPDATE hook_messages SET event_type = 'a b'",
        "UPDATE hook_messages SET channels = ARRAY['a b']",
        "UPDATE hook_messages SET message_id = gen_random_uuid()",
    ] {
        let stage = Stage::open().await;
        let bench = &stage.bench;
        let id = bench.with(plain()).await;
        let ids = bench.emit_many(2).await;
        stage.run("CREATE TABLE kept AS SELECT * FROM hook_messages").await;
        stage.run(&format!("{spoil} WHERE message_id = '{}'", ids[0].0)).await;
        let got = bench.take(2).await;
        assert_eq!(messages_of(&got), [ids[1]], "{spoil}: the other one goes");
        bench.deliver(&got[0]).await;
        assert!(bench.take(2).await.is_empty(), "it is left alone for a while");
        let due = bench.sweep(HookLine::Push).await.expect("it comes again");
        assert!(due > Duration::from_secs(200), "{due:?}");
        bench.advance(QUARANTINE).await;
        let refused = stage.refused().await;
        assert!(matches!(refused, StoreError::Corrupt { what: "delivery", .. }), "{refused:?}");
        stage.run("DELETE FROM hook_messages; INSERT INTO hook_messages SELECT * FROM kept").await;
        bench.advance(QUARANTINE).await;
        let repaired = bench.one().await;
        assert_eq!(
            (repaired.message, repaired.attempt_no),
            (ids[0], 1),
            "{spoil}: none is used up"
        );
        assert!(bench.attempts(ids[0]).await.is_empty(), "{spoil}");
        assert_eq!(bench.shown(id).await.id, id);
        stage.close().await;
    }
}

#[tokio::test]
async fn a_quarantined_message_delays_no_later_one() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(plain()).await;
    bench.emit().await;
    stage.run("UPDATE hook_messages SET event_type = 'a b'").await;
    stage.refused().await;
    let ids = bench.emit_many(2).await;
    assert_eq!(messages_of(&bench.take(9).await), ids);
    stage.close().await;
}

#[tokio::test]
async fn a_corrupt_head_blocks_its_own_ordered_endpoint_and_no_other() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let ordered = bench.with(fifo(3)).await;
    let ids = bench.emit_many(3).await;
    let other = bench.with(plain()).await;
    let last = bench.emit().await;
    let spoil = |word: &str, n: usize| {
        let id = ids[n].0;
        format!("UPDATE hook_messages SET event_type = '{word}' WHERE message_id = '{id}'")
    };
    stage.run(&spoil("a b", 1)).await;
    let claimed = bench.claim(push(vec![request(9)])).await;
    let mut groups = claimed.groups[0].iter();
    let whole = |endpoint| groups.clone().find(|group| group.target.endpoint == endpoint);
    let (first, free) = (whole(ordered).expect("its head"), whole(other).expect("the other's"));
    assert_eq!(messages_of(&first.items), [ids[0]], "up to the corrupt one");
    assert_eq!(messages_of(&free.items), [last]);
    assert_eq!(groups.by_ref().count(), 2);
    bench.deliver(&first.items[0]).await;
    bench.deliver(&free.items[0]).await;
    assert!(bench.take(9).await.is_empty(), "nothing overtakes it");
    assert!(bench.take(9).await.is_empty(), "nor later");
    for id in [ids[1], ids[2]] {
        let shown = bench.delivery(id, ordered).await;
        assert_eq!((shown.state, shown.attempts), (DeliveryState::Pending, 0), "{shown:?}");
    }
    stage.run(&spoil("order.paid", 1)).await;
    bench.advance(QUARANTINE).await;
    let rest = bench.take(9).await;
    assert_eq!(messages_of(&rest), [ids[1], ids[2], last]);
    assert!(rest.iter().all(|item| item.attempt_no == 1), "{rest:?}");
    stage.close().await;
}

#[tokio::test]
async fn a_corrupt_endpoint_delays_no_other() {
    for options in [plain(), fifo(2)] {
        let stage = Stage::open().await;
        let bench = &stage.bench;
        let bad = bench.with(options).await;
        let ids = bench.emit_many(2).await;
        let good = bench.with(plain()).await;
        stage.set_options(bad, "'{\"timeout\":' || options").await;
        let both = bench.emit().await;
        let got = bench.take(9).await;
        assert_eq!(messages_of(&got), [both], "the other endpoint's");
        bench.deliver(&got[0]).await;
        // Messages that arrive meanwhile do not make claims read it again.
        bench.emit().await;
        let got = bench.take(9).await;
        assert_eq!(got.len(), 1);
        bench.deliver(&got[0]).await;
        assert!(bench.take(9).await.is_empty());
        bench.delete(good).await;
        bench.advance(QUARANTINE).await;
        let refused = stage.refused().await;
        assert!(matches!(refused, StoreError::Corrupt { what: "endpoint", .. }), "{refused:?}");
        stage.set_options(bad, "substr(options, 12)").await;
        bench.advance(QUARANTINE).await;
        let got = bench.take(9).await;
        assert_eq!(messages_of(&got)[..2], ids[..]);
        assert!(got.iter().all(|item| item.attempt_no == 1), "none is used up: {got:?}");
        stage.close().await;
    }
}

#[tokio::test]
async fn a_message_for_a_corrupt_endpoint_is_stored_and_waits() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let (bad, good) = (bench.with(plain()).await, bench.with(plain()).await);
    stage.set_options(bad, "'{'").await;
    let new = bench.message();
    let reply = bench.hook.emit(new.clone(), vec![request(5)]).await.expect("it is stored");
    assert!(matches!(reply.outcome, EmitOutcome::Stored(_, 2)), "{reply:?}");
    let leased = items(&reply.leased[0].1);
    assert_eq!(messages_of(&leased), [new.id]);
    assert_eq!(reply.leased[0].1[0].target.endpoint, good);
    let shown = bench.delivery(new.id, bad).await;
    assert_eq!((shown.state, shown.attempts), (DeliveryState::Pending, 0), "{shown:?}");
    assert!(bench.take(9).await.is_empty(), "it is left alone for a while");
    stage.close().await;
}

#[tokio::test]
async fn a_request_that_finds_a_corrupt_message_gets_the_next_one() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let corrupt = format!("WHERE message_id = '{}'", ids[0].0);
    stage.run(&format!("UPDATE hook_messages SET event_type = 'a b' {corrupt}")).await;
    let claimed = bench.claim(push(vec![request(1), request(1)])).await;
    let got = claimed.groups.iter().map(|groups| messages_of(&items(groups)));
    let mut got: Vec<_> = got.flatten().collect();
    got.sort_unstable();
    assert_eq!(got, ids[1..], "{claimed:?}");
    stage.close().await;
}

#[tokio::test]
async fn a_class_of_deliveries_that_no_claim_searches_cannot_be_written() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(plain()).await;
    let id = bench.emit().await;
    for class in [-1, 4] {
        let sql = format!("UPDATE hook_deliveries SET class = {class}");
        let refused = stage.try_run(&sql).await.expect_err("it would wait for ever");
        assert!(refused.contains("hook_deliveries_class"), "{refused}");
    }
    assert_eq!(bench.one().await.message, id);
    stage.close().await;
}

#[tokio::test]
async fn an_existing_delivery_of_an_unknown_class_becomes_an_ordinary_one() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(plain()).await;
    let id = bench.emit().await;
    stage.run("ALTER TABLE hook_deliveries DROP CONSTRAINT hook_deliveries_class").await;
    stage.run("UPDATE hook_deliveries SET class = 9").await;
    assert!(bench.take(9).await.is_empty(), "no claim looks for it");
    let migration = include_str!("../../../sql/migrations/0019_delivery_class.sql");
    stage.run(&migration.replace("@schema@.", "")).await;
    assert_eq!(bench.one().await.message, id);
    stage.close().await;
}
