//! Interleavings that only show between sessions: open transactions, groups and partitions that
//! are made at the same time, two nodes that push the same ids, calls of unknown outcome.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use wakeline_core::{GroupName, LeaseToken, MessageId, QueueName, Subscription, Verdict};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::{
    Grant, LineOutcome, PushItem, PushOutcome, QueueAdmin, QueueStore, SettleItem, StoreAdmin,
    TransactCommand, TransactOutcome,
};
use wakeline_testkit::conformance::{Ask, item};

use crate::support::{Proxy, SOON, TestSchema, client, eventually, url};

fn queue() -> QueueName {
    QueueName::new("q").expect("valid")
}

async fn claim(store: &PostgresStore, ask: &Ask) -> LineOutcome {
    store.claim(vec![ask.line_claim(1)]).await.expect("claimed").remove(0)
}

async fn take(store: &PostgresStore, ask: &Ask) -> Grant {
    claim(store, ask).await.grants.remove(0).expect("something to take")
}

fn ids(grant: &Grant) -> Vec<String> {
    let messages = grant.partitions.iter().flat_map(|partition| &partition.messages);
    messages.map(|message| message.transaction_id.to_string()).collect()
}

async fn push(store: &PostgresStore, partition: &str, id: &str) -> PushOutcome {
    let items = vec![item(&queue(), partition, id)];
    store.push(items).await.expect("pushed").outcomes.remove(0)
}

/// Stores one message by the function itself, so that the test decides when it commits.
async fn raw_push(client: &Client, schema: &TestSchema, partition: &str, id: &str) {
    let sql = format!(
        "SELECT state FROM \"{0}\".push(
            ARRAY(SELECT partition_id FROM \"{0}\".partitions WHERE name = '{partition}'),
            '{{1}}', '{{f}}', '{{0}}', '{{0}}', '{{}}', '{{}}', '{{}}', '{{1}}', '{{0}}', '{{1}}',
            '{{1}}', '{{{id}}}', ARRAY['\"x\"'::bytea], ARRAY[gen_random_uuid()], '{{3}}', '{{}}',
            '{{}}', false)",
        schema.name
    );
    let row = client.query_one(&sql, &[]).await.expect("pushed");
    assert_eq!(row.get::<_, i16>(0), 0);
}

#[tokio::test]
async fn a_push_that_commits_late_is_not_skipped() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "p", "first").await;
    let ask = Ask::queue(&queue()).batch(10);
    let first = take(&store, &ask).await;
    store.release(vec![first.lease.expect("leased")]).await.expect("released");

    let open = client().await;
    open.batch_execute("BEGIN").await.expect("begun");
    raw_push(&open, &schema, "p", "early").await;
    let late = {
        let store = store.clone();
        tokio::spawn(async move { push(&store, "p", "late").await })
    };
    eventually("the late push waits for the early one", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
        let row = client().await.query_one(waiting, &[&schema.name]).await.expect("counted");
        row.get::<_, i64>(0) > 0
    })
    .await;
    // Neither is there yet; what was there before is.
    let before = take(&store, &ask).await;
    assert_eq!(ids(&before), ["first"]);
    open.batch_execute("COMMIT").await.expect("committed");
    assert!(matches!(late.await.expect("no panic"), PushOutcome::Queued { .. }));
    store.release(vec![before.lease.expect("leased")]).await.expect("released");
    assert_eq!(ids(&take(&store, &ask).await), ["first", "early", "late"]);
    store.close().await;
}

#[tokio::test]
async fn a_blocked_partition_does_not_stall_the_others() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "blocked", "b").await;
    push(&store, "free", "f").await;
    let open = client().await;
    open.batch_execute("BEGIN").await.expect("begun");
    raw_push(&open, &schema, "blocked", "open").await;

    let waiting = {
        let store = store.clone();
        tokio::spawn(async move { push(&store, "blocked", "waits").await })
    };
    for n in 0..20 {
        let id = format!("f{n}");
        let pushing = push(&store, "free", &id);
        let outcome = tokio::time::timeout(SOON, pushing).await.expect("not stalled");
        assert!(matches!(outcome, PushOutcome::Queued { .. }));
    }
    assert!(!waiting.is_finished());
    open.batch_execute("ROLLBACK").await.expect("undone");
    assert!(matches!(waiting.await.expect("no panic"), PushOutcome::Queued { .. }));
    let ask = Ask::partition(&queue(), "blocked").batch(10);
    assert_eq!(ids(&take(&store, &ask).await), ["b", "waits"]);
    store.close().await;
}

#[tokio::test]
async fn a_group_and_a_partition_made_at_once_see_each_other() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "old", "o").await;
    let open = client().await;
    for (group, group_first) in [("g1", false), ("g2", true)] {
        let partition = format!("new-{group}");
        let name = &schema.name;
        let make_partition = format!(
            "SELECT FROM \"{name}\".partition_create('{{q}}', '{{NULL}}', '{{NULL}}', '{{{partition}}}')"
        );
        let begin_group = format!(
            "SELECT \"{name}\".group_begin(0::smallint, 'q', NULL, NULL, '{group}', 0::smallint, NULL)"
        );
        let (first, second) = match group_first {
            true => (begin_group, make_partition),
            false => (make_partition, begin_group),
        };
        open.batch_execute(&format!("BEGIN; {first}")).await.expect("begun");
        let rival = tokio::spawn(async move {
            client().await.batch_execute(&second).await.expect("made");
        });
        eventually("one waits for the other", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
            let row = client().await.query_one(waiting, &[&schema.name]).await.expect("counted");
            row.get::<_, i64>(0) > 0
        })
        .await;
        open.batch_execute("COMMIT").await.expect("committed");
        rival.await.expect("no panic");
        push(&store, &partition, "n").await;
        let group = GroupName::new(group).expect("valid");
        let ask = Ask::partition(&queue(), &partition).group(&group);
        assert_eq!(ids(&take(&store, &ask).await), ["n"], "group first: {group_first}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_large_group_begins_in_steps_and_goes_on_where_it_stopped() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "p0", "a").await;
    let sql = format!(
        "INSERT INTO \"{0}\".partitions (queue_id, name)
         SELECT (SELECT queue_id FROM \"{0}\".queues), 'x' || n FROM generate_series(1, 4500) AS n",
        schema.name
    );
    let client = client().await;
    client.batch_execute(&sql).await.expect("made");
    // A node that dies after the first step.
    let step = format!(
        "SELECT \"{}\".group_begin(0::smallint, 'q', NULL, NULL, 'g', 1::smallint, NULL)",
        schema.name
    );
    client.batch_execute(&step).await.expect("begun");
    push(&store, "x4500", "new").await;
    let group = GroupName::new("g").expect("valid");
    let ask = Ask::queue(&queue()).group(&group).subscribe(Subscription::New).batch(10);
    assert_eq!(ids(&take(&store, &ask).await), ["new"]);
    let groups = store.groups(Some(&group)).await.expect("listed");
    assert_eq!((groups[0].partitions, groups[0].lag), (4502, 1));
    store.close().await;
}

#[tokio::test]
async fn two_nodes_never_both_store_an_id() {
    let schema = TestSchema::new();
    let (one, two) = (schema.store().await, schema.store().await);
    for round in 0..30 {
        // Overlapping thirds, in one call and in many, on both nodes at once.
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
    let row = client().await.query_one(&sql, &[]).await.expect("counted");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (30 * 12, 30 * 12));
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_node_that_fell_far_behind_still_recognises_ids() {
    let schema = TestSchema::new();
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
    // So does one that has seen nothing at all.
    let three = schema.store().await;
    assert!(matches!(push(&three, "p", "first").await, PushOutcome::Duplicate { .. }));
    assert!(matches!(push(&three, "p", "new").await, PushOutcome::Queued { .. }));
    for store in [one, two, three] {
        store.close().await;
    }
}

#[tokio::test]
async fn a_push_of_unknown_outcome_is_repeated_and_stored_once() {
    let schema = TestSchema::new();
    let proxy = Proxy::start().await;
    let through = PostgresOptions { url: proxy.url(), ..schema.options() };
    let store = PostgresStore::connect(through).await.expect("a store");
    push(&store, "p", "warm").await;
    let mut lost = 0;
    for round in 0..25 {
        let items: Vec<PushItem> = (0..3)
            .map(|n| {
                let mut item = item(&queue(), &format!("p{n}"), &format!("{round}-{n}"));
                if n == 2 {
                    // As a node does for producers that give no id.
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
    let row = client().await.query_one(&sql, &[]).await.expect("counted");
    let (all, distinct) = (row.get::<_, i64>(0), row.get::<_, i64>(1));
    assert_eq!(all, distinct, "a message was stored twice");
    assert!(all > 3 * (25 - lost), "{all} messages, {lost} pushes without an answer");
    store.close().await;
}

#[tokio::test]
async fn a_claim_of_unknown_outcome_can_be_asked_again() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "p", "a").await;
    push(&store, "p", "b").await;
    let token = LeaseToken::generate();
    let ask = Ask::queue(&queue()).token(token);
    let first = take(&store, &ask).await;
    let again = take(&store, &ask).await;
    assert_eq!(first.partitions, again.partitions);
    assert_eq!(first.lease, again.lease);
    assert_eq!(ids(&again), ["a"]);
    store.close().await;
}

#[tokio::test]
async fn a_claim_that_meets_only_rivals_waits_for_them_a_little() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "p", "a").await;
    let ask = Ask::queue(&queue());
    let grant = take(&store, &ask).await;
    store.release(vec![grant.lease.expect("leased")]).await.expect("released");
    let rival = client().await;
    let lock = format!("BEGIN; SELECT FROM \"{}\".cursors FOR NO KEY UPDATE", schema.name);
    rival.batch_execute(&lock).await.expect("locked");
    let outcome = claim(&store, &ask).await;
    assert_eq!(outcome.grants, [None]);
    let next_due = outcome.next_due.expect("a rival is in the way, so it is not nothing");
    assert!(next_due <= Duration::from_millis(100), "{next_due:?}");
    let claiming = tokio::spawn({
        let (store, ask) = (store.clone(), ask.clone());
        async move {
            loop {
                if let Some(grant) = claim(&store, &ask).await.grants.remove(0) {
                    return grant;
                }
            }
        }
    });
    rival.batch_execute("ROLLBACK").await.expect("let go");
    assert_eq!(ids(&claiming.await.expect("no panic")), ["a"]);
    store.close().await;
}

#[tokio::test]
async fn one_bad_command_of_a_fused_call_fails_alone() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "p", "first").await;
    // PostgreSQL cannot keep a NUL in a text, and nothing before the store refuses it here.
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
    let ask = Ask::queue(&queue()).batch(100);
    let mut stored = ids(&take(&store, &ask).await);
    stored.sort_unstable();
    let mut expected: Vec<String> = (0..20).filter(|n| *n != 7).map(|n| format!("n{n}")).collect();
    expected.push("first".to_owned());
    expected.sort_unstable();
    assert_eq!(stored, expected);
    store.close().await;
}

#[tokio::test]
async fn a_transaction_wakes_a_cursor_that_it_puts_to_sleep_itself() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    push(&store, "p", "a").await;
    let ask = Ask::queue(&queue());
    let grant = take(&store, &ask).await;
    let settle = SettleItem {
        partition: grant.partitions[0].partition_id,
        group: GroupName::queue_mode(),
        token: grant.lease.map(|lease| lease.token),
        transaction_id: grant.partitions[0].messages[0].transaction_id.clone(),
        verdict: Verdict::Completed,
        error: None,
    };
    let pushes = vec![item(&queue(), "p", "b")];
    let command = TransactCommand { pushes, settles: vec![settle] };
    let reply = store.transact(command).await.expect("answered");
    assert!(matches!(reply.outcome, TransactOutcome::Committed { .. }), "{reply:?}");
    assert_eq!(ids(&take(&store, &ask).await), ["b"]);
    store.close().await;
}

#[tokio::test]
async fn no_notification_rides_on_a_commit_of_ours() {
    let schema = TestSchema::new();
    let store = schema.store().await;
    let digest = Sha256::digest(schema.name.as_bytes());
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let channel = format!("wakeline_{hash}");
    let (listener, mut connection) = tokio_postgres::connect(&url(), NoTls).await.expect("open");
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = heard.send(notification.payload().to_owned());
            }
        }
    });
    listener.batch_execute(&format!("LISTEN {channel}")).await.expect("listening");
    for n in 0..3 {
        push(&store, "p", &n.to_string()).await;
        let grant = take(&store, &Ask::queue(&queue())).await;
        store.release(vec![grant.lease.expect("leased")]).await.expect("released");
    }
    // What was notified before this would be heard before this.
    client().await.batch_execute(&format!("NOTIFY {channel}, 'the end'")).await.expect("sent");
    let first = tokio::time::timeout(SOON, hears.recv()).await.expect("soon").expect("heard");
    assert_eq!(first, "the end");
    store.close().await;
}
