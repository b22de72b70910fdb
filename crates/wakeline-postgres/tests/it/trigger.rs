//! Tests notify = trigger: when the triggers are installed, and the hints that those of queues
//! send.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wakeline_core::{
    Change, GroupName, MessageId, Namespace, PartitionName, QueueName, TaskName, TransactionId,
};
use wakeline_postgres::{NotifyMode, PostgresOptions, PostgresStore};
use wakeline_store::{HintFeed, PushItem, QueueStore, StoreAdmin};

use crate::support::{Node, ReceivedHint, Recorder, TestSchema, change};

/// The number of triggers under notify = trigger.
const TRIGGERS: i64 = 21;

pub(crate) fn with(schema: &TestSchema, notify: NotifyMode) -> PostgresOptions {
    PostgresOptions { notify, ..schema.options() }
}

async fn triggers(schema: &TestSchema) -> i64 {
    let sql = "SELECT count(*) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid \
               WHERE c.relnamespace = $1::text::regnamespace AND NOT g.tgisinternal";
    schema.client().await.query_one(sql, &[&schema.name]).await.expect("read").get(0)
}

/// Runs a script after replacing `@` by the schema.
pub(crate) async fn run(schema: &TestSchema, script: &str) {
    schema.client().await.batch_execute(&script.replace('@', &schema.name)).await.expect("runs");
}

/// The rows of a queue with some partitions and a sleeping group.
pub(crate) async fn fill(schema: &TestSchema, partitions: u32) {
    let script = format!(
        "INSERT INTO @.queues (name, namespace, task, created_at) VALUES ('n.t', 'n', 't', now());
         INSERT INTO @.partitions (queue_id, name)
             SELECT queue_id, 'p' || i FROM @.queues, generate_series(1, {partitions}) AS i;
         INSERT INTO @.groups (queue_id, name, mode, created_at)
             SELECT queue_id, 'g', 0, now() FROM @.queues;
         INSERT INTO @.cursors (partition_id, group_id)
             SELECT partition_id, group_id FROM @.partitions, @.groups"
    );
    run(schema, &script).await;
}

const SEGMENTS: &str = "INSERT INTO @.segments
    (partition_id, first_offset, len, created_at, ids, ends, txn_ids, body)
    SELECT partition_id, 0, 1, now(), ARRAY[gen_random_uuid()], ARRAY[2], ARRAY['t'], '{}'
    FROM @.partitions";

fn in_partition(partition: &str) -> Change {
    Change {
        partition: PartitionName::new(partition).ok(),
        namespace: Namespace::new("n").ok(),
        task: TaskName::new("t").ok(),
        ..change("n.t")
    }
}

/// A node installs or removes the triggers when it starts, depending on its `notify` setting.
#[tokio::test]
async fn the_modes_can_be_switched_back_and_forth() {
    let schema = TestSchema::new().await;
    let modes = [
        (NotifyMode::AfterCommit, 0),
        (NotifyMode::Trigger, TRIGGERS),
        (NotifyMode::Trigger, TRIGGERS),
        (NotifyMode::Off, 0),
        (NotifyMode::Trigger, TRIGGERS),
        (NotifyMode::AfterCommit, 0),
    ];
    for (mode, expected) in modes {
        let store = PostgresStore::connect(with(&schema, mode)).await.expect("a store");
        assert_eq!(triggers(&schema).await, expected, "{mode:?}");
        store.close().await;
    }
}

#[tokio::test]
async fn many_nodes_may_install_the_triggers_at_once() {
    let schema = TestSchema::new().await;
    let starts = (0..4).map(|_| PostgresStore::connect(with(&schema, NotifyMode::Trigger)));
    for store in futures_util::future::join_all(starts).await {
        store.expect("connected").close().await;
    }
    assert_eq!(triggers(&schema).await, TRIGGERS);
}

#[tokio::test]
async fn rows_stored_by_any_session_are_notified_with_all_their_topics() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    fill(&schema, 2).await;
    run(&schema, SEGMENTS).await;
    node.sink.until_changed("n.t").await;
    // One statement, one notification.
    let expected = vec![in_partition("p1"), in_partition("p2")];
    assert_eq!(node.sink.take(), [ReceivedHint::Changed(expected)]);
    node.stop().await;
}

#[tokio::test]
async fn rows_of_many_partitions_are_notified_as_everything() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    fill(&schema, 1000).await;
    run(&schema, SEGMENTS).await;
    node.sink.until_joined().await;
    assert_eq!(node.sink.take(), [ReceivedHint::Everything]);
    node.stop().await;
}

#[tokio::test]
async fn a_cursor_that_becomes_due_is_notified_to_its_group_and_a_lease_is_not() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    fill(&schema, 1).await;
    run(
        &schema,
        "UPDATE @.cursors SET due_at = now() + interval '1 min',
                  lease_token = gen_random_uuid()",
    )
    .await;
    run(
        &schema,
        "UPDATE @.cursors SET due_at = now() + interval '1 min',
                  lease_token = NULL",
    )
    .await;
    node.sink.until_changed("n.t").await;
    run(&schema, "UPDATE @.cursors SET parked = 1").await;
    run(&schema, "UPDATE @.cursors SET due_at = now()").await;
    let now = Change { group: GroupName::new("g").ok(), ..in_partition("p1") };
    let expected = ReceivedHint::Changed(vec![now.clone()]);
    node.sink.until("due now", |received| *received == expected).await;
    let received = node.sink.take();
    let [ReceivedHint::Changed(later), last] = received.as_slice() else { panic!("{received:?}") };
    assert_eq!(*last, expected);
    assert!(later[0].due_in > Duration::from_secs(50), "{later:?}");
    assert_eq!(Change { due_in: Duration::ZERO, ..later[0].clone() }, now);
    node.stop().await;
}

#[tokio::test]
async fn triggers_of_an_older_release_are_replaced() {
    let schema = TestSchema::new().await;
    let old = "CREATE TRIGGER wakeline_notify AFTER INSERT ON @.incoming
                   FOR EACH STATEMENT EXECUTE FUNCTION @.notify_incoming();
               CREATE TRIGGER wakeline_notify AFTER INSERT ON @.segments
                   REFERENCING NEW TABLE AS fresh
                   FOR EACH STATEMENT EXECUTE FUNCTION @.notify_segments();
               CREATE TRIGGER wakeline_notify AFTER UPDATE ON @.cursors
                   REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
                   FOR EACH STATEMENT EXECUTE FUNCTION @.notify_cursors()";
    run(&schema, old).await;
    let store = PostgresStore::connect(with(&schema, NotifyMode::Trigger)).await.expect("a store");
    assert_eq!(triggers(&schema).await, TRIGGERS);
    store.close().await;

    // A node of that release installs its own triggers again, with the same names.
    run(&schema, &old.replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER")).await;
    let store = PostgresStore::connect(with(&schema, NotifyMode::Trigger)).await.expect("a store");
    let sql = "SELECT count(*) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
        WHERE c.relnamespace = $1::text::regnamespace AND g.tgqual IS NOT NULL";
    let ours: i64 =
        schema.client().await.query_one(sql, &[&schema.name]).await.expect("read").get(0);
    assert_eq!((ours, triggers(&schema).await), (TRIGGERS, TRIGGERS));
    store.close().await;
}

#[tokio::test]
async fn triggers_of_a_newer_release_are_left_alone() {
    let schema = TestSchema::new().await;
    let newer = "CREATE TRIGGER wakeline_notify_newer AFTER INSERT ON @.traces
        FOR EACH STATEMENT WHEN (true) EXECUTE FUNCTION @.notify_incoming()";
    run(&schema, newer).await;
    let store = PostgresStore::connect(with(&schema, NotifyMode::Trigger)).await.expect("a store");
    assert_eq!(triggers(&schema).await, TRIGGERS + 1);
    store.close().await;
}

#[tokio::test]
async fn a_node_without_triggers_leaves_those_of_one_that_listens() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    let other = Node::start(schema.options()).await;
    assert_eq!(triggers(&schema).await, TRIGGERS, "the first one wants them");
    fill(&schema, 1).await;
    run(&schema, SEGMENTS).await;
    other.sink.until_changed("n.t").await;
    node.stop().await;
    other.stop().await;
    PostgresStore::connect(schema.options()).await.expect("a store").close().await;
    assert_eq!(triggers(&schema).await, 0, "no node needs them any more");
}

#[tokio::test]
async fn a_node_that_listens_puts_triggers_back_that_were_taken_away_before() {
    let schema = TestSchema::new().await;
    let store = PostgresStore::connect(with(&schema, NotifyMode::Trigger)).await.expect("a store");
    PostgresStore::connect(schema.options()).await.expect("a store").close().await;
    assert_eq!(triggers(&schema).await, 0);
    let sink = Arc::new(Recorder::default());
    let feeding = tokio::spawn({
        let (store, sink) = (store.clone(), sink.clone());
        async move { store.feed(sink, CancellationToken::new()).await }
    });
    sink.until_joined().await;
    assert_eq!(triggers(&schema).await, TRIGGERS);
    store.close().await;
    feeding.await.expect("no panic");
}

/// Then only rows of sessions that do not belong to a node are noticed late.
#[tokio::test]
async fn a_node_that_cannot_install_triggers_receives_hints_of_other_nodes() {
    let schema = TestSchema::new().await;
    let store = PostgresStore::connect(with(&schema, NotifyMode::Trigger)).await.expect("a store");
    // This node removes the triggers, because the first node does not listen yet.
    let other = Node::start(schema.options()).await;
    // The function is that of the release, in a schema beside the main one.
    let refuse = "DO $do$ BEGIN EXECUTE format('
            CREATE OR REPLACE FUNCTION %s(p_wanted boolean, p_lock bigint, p_wanting bigint)
            RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN RAISE insufficient_privilege USING MESSAGE = ''must be owner of table''; END $$',
            (SELECT p.oid::regproc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
             WHERE p.proname LIKE 'notify\\_install%' AND n.nspname LIKE '@%'));
        END $do$";
    run(&schema, refuse).await;
    let sink = Arc::new(Recorder::default());
    let feeding = tokio::spawn({
        let (store, sink) = (store.clone(), sink.clone());
        async move { store.feed(sink, CancellationToken::new()).await }
    });
    sink.until_joined().await;
    fill(&schema, 1).await;
    other.store.push(vec![item(&QueueName::new("n.t").expect("valid"))]).await.expect("stored");
    sink.until_changed("n.t").await;
    assert_eq!(triggers(&schema).await, 0);
    other.stop().await;
    store.close().await;
    feeding.await.expect("no panic");
}

fn item(queue: &QueueName) -> PushItem {
    PushItem {
        queue: queue.clone(),
        partition: PartitionName::new("p1").expect("valid"),
        id: MessageId::generate(),
        transaction_id: TransactionId::generate(),
        trace_id: None,
        payload: "{}".into(),
        producer: None,
    }
}

/// For its own writes, a node sends hints after the commit, and the triggers send none.
#[tokio::test]
async fn what_a_node_writes_is_hinted_once_whatever_its_mode() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::Trigger)).await;
    let other = Node::start(with(&schema, NotifyMode::Trigger)).await;
    fill(&schema, 1).await;
    let name = QueueName::new("n.t").expect("valid");
    other.store.push(vec![item(&name)]).await.expect("stored");
    node.sink.until_changed("n.t").await;
    other.store.notify(&[change("marker")]);
    node.sink.until_changed("marker").await;
    let received = node.sink.take();
    let about = |received: &&ReceivedHint| match received {
        ReceivedHint::Changed(changes) => changes.iter().any(|change| change.queue == name),
        _ => false,
    };
    assert_eq!(received.iter().filter(about).count(), 1, "{received:?}");
    node.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn after_commit_leaves_the_writing_transaction_alone() {
    let schema = TestSchema::new().await;
    let node = Node::start(with(&schema, NotifyMode::AfterCommit)).await;
    let other = Node::start(schema.options()).await;
    fill(&schema, 1).await;
    run(&schema, SEGMENTS).await;
    // Notifications arrive in order, so this one would come after any of the insert.
    other.store.notify(&[change("marker")]);
    node.sink.until_changed("marker").await;
    assert_eq!(node.sink.take(), [ReceivedHint::Changed(vec![change("marker")])]);
    node.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn trigger_functions_with_their_owners_rights_cannot_be_used_by_other_roles() {
    let schema = TestSchema::new().await;
    let sql = "SELECT p.proname::text, has_function_privilege('public', p.oid, 'EXECUTE')
        FROM pg_proc p WHERE p.pronamespace = $1::text::regnamespace AND p.prosecdef
            AND p.prorettype = 'trigger'::regtype";
    let functions = schema.client().await.query(sql, &[&schema.name]).await.expect("read");
    assert!(functions.len() >= 8, "{} functions", functions.len());
    for function in functions {
        let (name, public): (String, bool) = (function.get(0), function.get(1));
        assert!(!public, "{name}");
    }
}
