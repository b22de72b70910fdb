//! Interleavings of several sessions: open transactions, groups and partitions that are created
//! concurrently, and locked rows.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use wakeline_core::{GroupName, LeaseToken, QueueName, Subscription, Verdict};
use wakeline_postgres::PostgresStore;
use wakeline_store::{
    LineOutcome, PushOutcome, QueueClaimResult, QueueGroups, QueueStore, SettleItem, StoreAdmin,
    TransactCommand, TransactOutcome,
};
use wakeline_testkit::conformance::{ClaimSpec, item};

use crate::support::{SOON, TestSchema, eventually};

pub(crate) fn queue() -> QueueName {
    QueueName::new("q").expect("valid")
}

async fn claim(store: &PostgresStore, spec: &ClaimSpec) -> LineOutcome {
    store.claim(vec![spec.line_claim(1)]).await.expect("claimed").remove(0)
}

pub(crate) async fn take(store: &PostgresStore, spec: &ClaimSpec) -> QueueClaimResult {
    claim(store, spec).await.results.remove(0).expect("something to take")
}

pub(crate) fn ids(result: &QueueClaimResult) -> Vec<String> {
    let messages = result.partitions.iter().flat_map(|partition| &partition.messages);
    messages.map(|message| message.transaction_id.to_string()).collect()
}

pub(crate) async fn push(store: &PostgresStore, partition: &str, id: &str) -> PushOutcome {
    let items = vec![item(&queue(), partition, id)];
    store.push(items).await.expect("pushed").outcomes.remove(0)
}

/// Stores one message by calling the SQL function, so that the test decides when it commits.
async fn raw_push(client: &Client, schema: &TestSchema, partition: &str, id: &str) {
    let sql = format!(
        "SELECT state FROM \"{1}\".push_slots(
            ARRAY(SELECT partition_id FROM \"{0}\".partitions WHERE name = '{partition}'),
            '{{1}}', '{{f}}', '{{0}}', '{{0}}', '{{}}', '{{}}', '{{}}', '{{1}}', '{{0}}', '{{1}}',
            '{{1}}', '{{{id}}}', ARRAY['\"x\"'::bytea], ARRAY[gen_random_uuid()], '{{3}}', '{{}}',
            '{{}}', '{{f}}', false)",
        schema.name,
        schema.functions().await
    );
    let row = client.query_one(&sql, &[]).await.expect("pushed");
    assert_eq!(row.get::<_, i16>(0), 0);
}

#[tokio::test]
async fn a_push_that_commits_late_is_not_skipped() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "first").await;
    let spec = ClaimSpec::queue(&queue()).batch(10);
    let first = take(&store, &spec).await;
    store.release(vec![first.lease.expect("leased")]).await.expect("released");

    let open = schema.client().await;
    open.batch_execute("BEGIN").await.expect("begun");
    raw_push(&open, &schema, "p", "early").await;
    let late = {
        let store = store.clone();
        tokio::spawn(async move { push(&store, "p", "late").await })
    };
    eventually("the late push waits for the early one", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let row = schema.client().await.query_one(waiting, &[]).await.expect("counted");
        row.get::<_, i64>(0) > 0
    })
    .await;
    // Neither is there yet; what was there before is.
    let before = take(&store, &spec).await;
    assert_eq!(ids(&before), ["first"]);
    open.batch_execute("COMMIT").await.expect("committed");
    assert!(matches!(late.await.expect("no panic"), PushOutcome::Queued { .. }));
    store.release(vec![before.lease.expect("leased")]).await.expect("released");
    assert_eq!(ids(&take(&store, &spec).await), ["first", "early", "late"]);
    store.close().await;
}

/// The server continues a statement whose client has stopped waiting. The messages that it leases
/// then are found by their token, although the repetition found nothing.
#[tokio::test]
async fn the_lease_of_a_claim_that_was_given_up_is_found_by_its_token() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "m").await;
    let spec = ClaimSpec::queue(&queue());
    let first = take(&store, &spec).await;
    store.release(vec![first.lease.expect("leased")]).await.expect("released");
    // The first lease takes longer than a claim waits for its answer.
    let slow = format!(
        "CREATE SEQUENCE \"{0}\".leased;
         CREATE FUNCTION \"{0}\".slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.lease_token IS NOT NULL AND nextval('\"{0}\".leased') = 1 THEN
                 PERFORM pg_sleep(3);
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER slow BEFORE UPDATE ON \"{0}\".cursors
             FOR EACH ROW EXECUTE FUNCTION \"{0}\".slow()",
        schema.name
    );
    schema.client().await.batch_execute(&slow).await.expect("slowed down");
    let request = spec.line_claim(1);
    eventually("the lease is found by its token", async || {
        let claimed = store.claim(vec![request.clone()]).await.expect("claimed").remove(0);
        claimed.results[0].as_ref().is_some_and(|result| ids(result) == ["m"])
    })
    .await;
    store.close().await;
}

/// The messages that an autoAck claim settles could not be found if it was given up, because it
/// leaves no token.
#[tokio::test]
async fn a_slow_auto_ack_claim_delivers_the_messages_that_it_settles() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "m").await;
    let spec = ClaimSpec::queue(&queue());
    let first = take(&store, &spec).await;
    store.release(vec![first.lease.expect("leased")]).await.expect("released");
    let slow = format!(
        "CREATE FUNCTION \"{0}\".slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM pg_sleep(3);
             RETURN NULL;
         END $$;
         CREATE TRIGGER slow AFTER UPDATE ON \"{0}\".cursors
             FOR EACH STATEMENT EXECUTE FUNCTION \"{0}\".slow()",
        schema.name
    );
    schema.client().await.batch_execute(&slow).await.expect("slowed down");
    let claimed = claim(&store, &spec.auto_ack()).await.results.remove(0);
    assert_eq!(claimed.as_ref().map(ids), Some(vec!["m".to_owned()]));
    store.close().await;
}

#[tokio::test]
async fn a_blocked_partition_does_not_stall_the_others() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "blocked", "b").await;
    push(&store, "free", "f").await;
    let open = schema.client().await;
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
    let spec = ClaimSpec::partition(&queue(), "blocked").batch(10);
    assert_eq!(ids(&take(&store, &spec).await), ["b", "waits"]);
    store.close().await;
}

#[tokio::test]
async fn a_group_and_a_partition_created_concurrently_see_each_other() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "old", "o").await;
    let open = schema.client().await;
    for (group, group_first) in [("g1", false), ("g2", true)] {
        let partition = format!("new-{group}");
        let name = schema.functions().await;
        let make_partition = format!(
            "SELECT FROM \"{name}\".partition_create(
                '{{q}}', '{{NULL}}', '{{NULL}}', '{{{partition}}}', true)"
        );
        let begin_group = format!(
            "SELECT \"{name}\".group_begin(
                0::smallint, 'q', NULL, NULL, '{group}', 0::smallint, NULL)"
        );
        let (first, second) =
            if group_first { (begin_group, make_partition) } else { (make_partition, begin_group) };
        open.batch_execute(&format!("BEGIN; {first}")).await.expect("begun");
        let client = schema.client().await;
        let rival = tokio::spawn(async move {
            client.batch_execute(&second).await.expect("made");
        });
        eventually("one waits for the other", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                WHERE wait_event_type = 'Lock' AND datname = current_database()";
            let row = schema.client().await.query_one(waiting, &[]).await.expect("counted");
            row.get::<_, i64>(0) > 0
        })
        .await;
        open.batch_execute("COMMIT").await.expect("committed");
        rival.await.expect("no panic");
        push(&store, &partition, "n").await;
        let group = GroupName::new(group).expect("valid");
        let spec = ClaimSpec::partition(&queue(), &partition).group(&group);
        assert_eq!(ids(&take(&store, &spec).await), ["n"], "group first: {group_first}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_large_group_is_created_in_steps_and_continues_after_an_interruption() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p0", "a").await;
    let sql = format!(
        "INSERT INTO \"{0}\".partitions (queue_id, name)
         SELECT (SELECT queue_id FROM \"{0}\".queues), 'x' || n FROM generate_series(1, 4500) AS n",
        schema.name
    );
    let client = schema.client().await;
    client.batch_execute(&sql).await.expect("made");
    // A node that dies after the first step.
    let step = format!(
        "SELECT \"{}\".group_begin(0::smallint, 'q', NULL, NULL, 'g', 1::smallint, NULL)",
        schema.functions().await
    );
    client.batch_execute(&step).await.expect("begun");
    push(&store, "x4500", "new").await;
    let group = GroupName::new("g").expect("valid");
    let spec = ClaimSpec::queue(&queue()).group(&group).subscribe(Subscription::New).batch(10);
    assert_eq!(ids(&take(&store, &spec).await), ["new"]);
    let groups = store.groups(Some(&group)).await.expect("listed");
    assert_eq!((groups[0].partitions, groups[0].lag), (4502, 1));
    store.close().await;
}

#[tokio::test]
async fn a_claim_of_unknown_outcome_can_be_repeated() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "a").await;
    push(&store, "p", "b").await;
    let token = LeaseToken::generate();
    let spec = ClaimSpec::queue(&queue()).token(token);
    let first = take(&store, &spec).await;
    let again = take(&store, &spec).await;
    assert_eq!(first.partitions, again.partitions);
    assert_eq!(first.lease, again.lease);
    assert_eq!(ids(&again), ["a"]);
    store.close().await;
}

#[tokio::test]
async fn a_claim_that_finds_only_locked_rows_waits_briefly() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "a").await;
    let spec = ClaimSpec::queue(&queue());
    let result = take(&store, &spec).await;
    store.release(vec![result.lease.expect("leased")]).await.expect("released");
    let rival = schema.client().await;
    let lock = format!("BEGIN; SELECT FROM \"{}\".cursors FOR NO KEY UPDATE", schema.name);
    rival.batch_execute(&lock).await.expect("locked");
    let outcome = claim(&store, &spec).await;
    assert_eq!(outcome.results, [None]);
    let next_due = outcome.next_due.expect("a rival is in the way, so it is not nothing");
    assert!(next_due <= Duration::from_millis(100), "{next_due:?}");
    let claiming = tokio::spawn({
        let (store, spec) = (store.clone(), spec.clone());
        async move {
            loop {
                if let Some(result) = claim(&store, &spec).await.results.remove(0) {
                    return result;
                }
            }
        }
    });
    rival.batch_execute("ROLLBACK").await.expect("let go");
    assert_eq!(ids(&claiming.await.expect("no panic")), ["a"]);
    store.close().await;
}

#[tokio::test]
async fn a_transaction_wakes_a_cursor_that_it_puts_to_sleep_itself() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    push(&store, "p", "a").await;
    let spec = ClaimSpec::queue(&queue());
    let result = take(&store, &spec).await;
    let settle = SettleItem {
        partition: result.partitions[0].partition_id,
        group: GroupName::queue_mode(),
        token: result.lease.map(|lease| lease.token),
        transaction_id: result.partitions[0].messages[0].transaction_id.clone(),
        verdict: Verdict::Completed,
        error: None,
    };
    let pushes = vec![item(&queue(), "p", "b")];
    let command = TransactCommand { pushes, settles: vec![settle], ..TransactCommand::default() };
    let reply = store.transact(command).await.expect("answered");
    assert!(matches!(reply.outcome, TransactOutcome::Committed(_)), "{reply:?}");
    assert_eq!(ids(&take(&store, &spec).await), ["b"]);
    store.close().await;
}

#[tokio::test]
async fn no_notification_is_part_of_a_writing_transaction() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let digest = Sha256::digest(schema.name.as_bytes());
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let channel = format!("wakeline_{hash}");
    let (listener, mut connection) =
        tokio_postgres::connect(&schema.database.url(), NoTls).await.expect("open");
    let (received, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = received.send(notification.payload().to_owned());
            }
        }
    });
    listener.batch_execute(&format!("LISTEN {channel}")).await.expect("listening");
    for n in 0..3 {
        push(&store, "p", &n.to_string()).await;
        let result = take(&store, &ClaimSpec::queue(&queue())).await;
        store.release(vec![result.lease.expect("leased")]).await.expect("released");
    }
    // Notifications sent before this one would be received before it.
    schema
        .client()
        .await
        .batch_execute(&format!("NOTIFY {channel}, 'the end'"))
        .await
        .expect("sent");
    let first = tokio::time::timeout(SOON, receiver.recv()).await.expect("soon").expect("received");
    assert_eq!(first, "the end");
    store.close().await;
}
