//! Repeated pushes: from two nodes concurrently, unknown to one node, after a lost answer, and in a
//! call with an invalid command.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use wakeline_core::MessageId;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::{PushItem, PushOutcome, QueueStore, StoreAdmin, StoreError};
use wakeline_testkit::conformance::{ClaimSpec, item};

use crate::claims::{ids, push, queue, take};
use crate::support::{Proxy, TestSchema, eventually};

#[tokio::test]
async fn two_nodes_never_both_store_an_id() {
    let schema = TestSchema::new().await;
    let (one, two) = (schema.store().await, schema.store().await);
    for round in 0..30 {
        // Overlapping thirds of the ids, in one call and in many, on both nodes concurrently.
        let items = |from: usize| -> Vec<PushItem> {
            (from..from + 9).map(|n| item(&queue(), "p", &format!("{round}-{n}"))).collect()
        };
        let (a, b) = (items(0), items(3));
        let (left, right) = tokio::join!(one.push(a.clone()), async {
            let singles = b.iter().map(|item| two.push(vec![item.clone()]));
            stream::iter(singles).buffered(9).collect::<Vec<_>>().await
        });
        let left = left.expect("pushed").outcomes;
        let right = right.into_iter().map(|reply| reply.expect("pushed").outcomes.remove(0));
        let mut stored: HashMap<String, MessageId> = HashMap::new();
        let mut known: Vec<(String, MessageId)> = Vec::new();
        for (item, outcome) in a.iter().zip(left).chain(b.iter().zip(right)) {
            let txn = item.transaction_id.to_string();
            match outcome {
                PushOutcome::Queued { id, .. } => {
                    assert_eq!(id, item.id);
                    assert_eq!(stored.insert(txn, id), None, "stored twice");
                }
                PushOutcome::Duplicate { id, .. } => known.push((txn, id)),
                PushOutcome::Held { .. } => panic!("nothing holds it back"),
            }
        }
        assert_eq!((stored.len(), known.len()), (12, 6));
        for (txn, id) in known {
            assert_eq!(stored[&txn], id, "a duplicate answers the first message's id");
        }
    }
    let sql = format!(
        "SELECT count(*), count(DISTINCT transaction_id) FROM \"{}\".messages",
        schema.name
    );
    let row = schema.client().await.query_one(&sql, &[]).await.expect("counted");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (30 * 12, 30 * 12));
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_node_that_fell_far_behind_still_recognises_ids() {
    let schema = TestSchema::new().await;
    let (one, two) = (schema.store().await, schema.store().await);
    push(&one, "p", "known").await;
    let queued = push(&two, "p", "first").await;
    let PushOutcome::Queued { id: first, .. } = queued else { panic!("{queued:?}") };
    for n in 0..70 {
        push(&two, "p", &format!("n{n}")).await;
    }
    // More than 64 segments that the first node has not seen.
    for id in ["first", "n0", "n69"] {
        let outcome = push(&one, "p", id).await;
        assert!(matches!(outcome, PushOutcome::Duplicate { .. }), "{id}: {outcome:?}");
    }
    let again = push(&one, "p", "first").await;
    assert!(matches!(again, PushOutcome::Duplicate { id, .. } if id == first), "{again:?}");
    // A node that has seen nothing recognises them too.
    let three = schema.store().await;
    assert!(matches!(push(&three, "p", "first").await, PushOutcome::Duplicate { .. }));
    assert!(matches!(push(&three, "p", "new").await, PushOutcome::Queued { .. }));
    for store in [one, two, three] {
        store.close().await;
    }
}

#[tokio::test]
async fn a_push_of_unknown_outcome_is_repeated_and_stored_once() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    let through = PostgresOptions { url: proxy.url(&schema.database.url()), ..schema.options() };
    let store = PostgresStore::connect(through).await.expect("a store");
    push(&store, "p", "warm").await;
    let mut lost = 0;
    for round in 0..25 {
        let items: Vec<PushItem> = (0..3)
            .map(|n| {
                let mut item = item(&queue(), &format!("p{n}"), &format!("{round}-{n}"));
                if n == 2 {
                    // A node does the same for producers that give no id.
                    item.transaction_id =
                        wakeline_core::TransactionId::new(item.id.to_string()).expect("valid");
                }
                item
            })
            .collect();
        let pushing = tokio::spawn({
            let store = store.clone();
            async move { store.push(items).await }
        });
        tokio::time::sleep(Duration::from_micros(200 * (round % 7))).await;
        proxy.cut();
        match pushing.await.expect("no panic") {
            Ok(reply) => {
                for outcome in reply.outcomes {
                    assert!(matches!(outcome, PushOutcome::Queued { .. }), "{outcome:?}");
                }
            }
            Err(error) => {
                assert!(error.is_transient(), "{error:?}");
                lost += 1;
            }
        }
    }
    let sql = format!(
        "SELECT count(*), count(DISTINCT transaction_id) FROM \"{}\".messages",
        schema.name
    );
    let row = schema.client().await.query_one(&sql, &[]).await.expect("counted");
    let (all, distinct) = (row.get::<_, i64>(0), row.get::<_, i64>(1));
    assert_eq!(all, distinct, "a message was stored twice");
    assert!(all > 3 * (25 - lost), "{all} messages, {lost} pushes without an answer");
    store.close().await;
}

#[tokio::test]
async fn one_bad_command_of_a_fused_call_fails_alone() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "first").await;
    // PostgreSQL cannot store NUL in a text, and nothing before the store refuses it here.
    let bad = PushItem { producer: Some("a\0b".to_owned()), ..item(&queue(), "p", "bad") };
    let pushes = (0..20).map(|n| {
        let store = store.clone();
        let item = if n == 7 { bad.clone() } else { item(&queue(), "p", &format!("n{n}")) };
        async move { store.push(vec![item]).await }
    });
    let replies = futures_util::future::join_all(pushes).await;
    for (n, reply) in replies.iter().enumerate() {
        assert_eq!(reply.is_err(), n == 7, "{n}: {reply:?}");
    }
    let spec = ClaimSpec::queue(&queue()).batch(100);
    let mut stored = ids(&take(&store, &spec).await);
    stored.sort_unstable();
    let mut expected: Vec<String> = (0..20).filter(|n| *n != 7).map(|n| format!("n{n}")).collect();
    expected.push("first".to_owned());
    expected.sort_unstable();
    assert_eq!(stored, expected);
    store.close().await;
}

#[tokio::test]
async fn an_auto_ack_claim_whose_answer_was_lost_is_not_answered_as_empty() {
    let schema = TestSchema::new().await;
    let proxy = Proxy::start().await;
    let through = PostgresOptions { url: proxy.url(&schema.database.url()), ..schema.options() };
    let store = PostgresStore::connect(through).await.expect("a store");
    push(&store, "p", "a").await;
    // The group exists already, so that the claim is a single call.
    let taken = take(&store, &ClaimSpec::queue(&queue())).await;
    store.release(vec![taken.lease.expect("leased")]).await.expect("released");
    // The claim waits for this lock at its end; it commits after its connection was cut.
    let rival = schema.client().await;
    let lock = format!("BEGIN; LOCK TABLE \"{}\".ledger_entries IN SHARE MODE", schema.name);
    rival.batch_execute(&lock).await.expect("locked");
    let claiming = tokio::spawn({
        let store = store.clone();
        async move { store.claim(vec![ClaimSpec::queue(&queue()).auto_ack().line_claim(1)]).await }
    });
    let watcher = schema.client().await;
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
    eventually("the claim waits", async || {
        watcher.query_one(waits, &[]).await.expect("read").get(0)
    })
    .await;
    proxy.cut();
    let outcome = claiming.await.expect("no panic");
    assert!(matches!(outcome, Err(StoreError::Transient { .. })), "{outcome:?}");
    rival.batch_execute("ROLLBACK").await.expect("let go");
    let settled = format!("SELECT count(*) = 2 FROM \"{}\".ledger_entries", schema.name);
    eventually("the lost claim has settled the message", async || {
        watcher.query_one(&settled, &[]).await.expect("read").get(0)
    })
    .await;
    store.close().await;
}
