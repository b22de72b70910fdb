//! Scheduled messages cost other claims only one lookup, and a transaction that is killed halfway
//! leaves nothing behind.

use std::time::Duration;

use wakeline_core::{ApplicationId, TimerKey};
use wakeline_postgres::PostgresStore;
use wakeline_store::flow::{FlowReader as _, Visible};
use wakeline_store::hook::{HookApplications as _, HookMessageFilter, HookReader as _};
use wakeline_store::{
    CancelItem, QueueSchedule as _, QueueStore as _, ScheduleItem, ScheduledFilter, SettleItem,
    StoreAdmin as _, TransactCommand, TransactOutcome,
};
use wakeline_testkit::conformance::{ClaimSpec, item};
use wakeline_testkit::{flow_conformance as flow, hook_conformance as hook};

use crate::claims::{ids, push, queue, take};
use crate::measured::Measured;
use crate::support::TestSchema;

/// The additional buffers per index descent: the indexes are one level higher.
const GROWTH_MAX: i64 = 16;

/// Fills a queue with messages that are scheduled for tomorrow, in a hundred partitions.
fn tomorrow(from: u32, to: u32) -> String {
    format!(
        "INSERT INTO scheduled (queue_id, partition_id, deliver_at, timer_key, id, txn_id,
            scheduled_at, payload)
         SELECT (SELECT queue_id FROM queues), p.partition_id,
            now() + interval '1 day' + n * interval '1 ms', 'k' || n, gen_random_uuid(), 's' || n,
            now(), '{{}}'::text::bytea
         FROM generate_series({from}, {to}) AS n JOIN partitions p ON p.name = 'p' || n % 100"
    )
}

const CLAIM: &str = "SELECT * FROM claim('{0}', '{q}', '{NULL}', '{NULL}', '{NULL}', '{g}', '{0}', \
    '{1}', '{1}', ARRAY[gen_random_uuid()], '{10}', '{1}', '{f}', '{f}', false)";
const OF_PARTITION: &str = "SELECT * FROM claim('{1}', '{q}', '{p7}', '{NULL}', '{NULL}', '{g}', \
    '{0}', '{1}', '{1}', ARRAY[gen_random_uuid()], '{10}', '{1}', '{f}', '{f}', false)";
const SWEEP: &str = "SELECT * FROM sweep('{0}', '{q}', '{NULL}', '{NULL}', '{NULL}', '{g}')";
const PUSH: &str = "SELECT * FROM push_slots(
    ARRAY(SELECT partition_id FROM partitions WHERE name = 'p7'), '{1}', '{t}', '{0}', '{0}',
    '{}', '{}', '{}', '{1}', '{0}', '{1}', '{1}', '{new}',
    ARRAY['{}'::text::bytea], ARRAY[gen_random_uuid()], '{2}', '{}', '{}', '{f}', false)";
const MOVE: &str = "SELECT * FROM scheduled_move(0::smallint, 'q', NULL, NULL, NULL, NULL, false)";

const ALL: [(&str, &str); 5] = [
    ("claim", CLAIM),
    ("claim of a partition", OF_PARTITION),
    ("sweep", SWEEP),
    ("push", PUSH),
    ("move of nothing", MOVE),
];

#[tokio::test]
async fn scheduled_messages_cost_other_claims_one_lookup() {
    let prepare = "INSERT INTO queues (name, created_at, scheduled) VALUES ('q', now(), true);
        INSERT INTO groups (queue_id, name, mode, created_at)
        SELECT queue_id, 'g', 0, now() FROM queues;
        INSERT INTO partitions (queue_id, name) SELECT queue_id, 'p' || n
        FROM queues, generate_series(0, 99) AS n;
        INSERT INTO cursors (partition_id, group_id)
        SELECT partition_id, group_id FROM partitions, groups;";
    let store = Measured::open(&["scheduled"], prepare).await;
    store.fill(&tomorrow(1, 100)).await;
    let mut small = Vec::new();
    for (name, statement) in ALL {
        small.push((name, store.buffers("", statement).await));
    }
    store.fill(&tomorrow(101, 100_000)).await;
    for ((name, statement), (_, before)) in ALL.iter().zip(&small) {
        let after = store.buffers("", statement).await;
        assert!(after - before <= GROWTH_MAX, "{name}: {before} buffers grew to {after}");
        assert!(*before < 200, "{name} is costly: {before}");
    }
}

/// A transaction with every kind of write, which settles a leased message of the queue.
fn everything(application: ApplicationId, settle: SettleItem) -> TransactCommand {
    let timer = |name: &str| TimerKey::new(name).expect("a short name");
    let (message, due) = (item(&queue(), "p", "later"), Visible::After(Duration::from_secs(600)));
    TransactCommand {
        cancels: vec![CancelItem { queue: queue(), key: timer("old") }],
        schedules: vec![ScheduleItem { message, due, key: Some(timer("new")) }],
        pushes: vec![item(&queue(), "r", "pushed")],
        settles: vec![settle],
        envelopes: vec![flow::start("i")],
        emits: vec![hook::message(application)],
    }
}

/// Returns the visible effects of the transaction: scheduled messages, messages to endpoints, and
/// the lanes of instances.
async fn seen(store: &PostgresStore, application: ApplicationId) -> (Vec<String>, usize, u64) {
    let filter = ScheduledFilter { queue: queue(), key: None, after: None, limit: 10 };
    let waiting = store.scheduled(filter).await.expect("listed");
    let waiting = waiting.iter().map(|one| one.transaction_id.to_string()).collect();
    let page = store.messages(application, HookMessageFilter::default(), hook::first(10)).await;
    let depths = store.depths().await.expect("counted");
    (waiting, page.expect("listed").items.len(), depths.messages)
}

/// The tables that the transaction writes to, in the order of its statements.
const TABLES: [&str; 6] =
    ["scheduled", "segments", "partitions", "cursors", "flow_messages", "hook_messages"];

#[tokio::test]
async fn a_transaction_that_is_killed_at_any_write_leaves_nothing() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let new = hook::application(None);
    let application = new.id;
    store.create_application(new, None).await.expect("made");
    push(&store, "p", "held").await;
    push(&store, "r", "first").await;
    let message = item(&queue(), "p", "old");
    let due = Visible::After(Duration::from_secs(600));
    let key = Some(TimerKey::new("old").expect("a short name"));
    let schedules = vec![ScheduleItem { message, due, key }];
    let command = TransactCommand { schedules, ..TransactCommand::default() };
    store.transact(command).await.expect("a timer is set");
    let held = take(&store, &ClaimSpec::partition(&queue(), "p")).await;
    let settle = SettleItem {
        partition: held.partitions[0].partition_id,
        group: wakeline_core::GroupName::queue_mode(),
        token: held.lease.as_ref().map(|lease| lease.token),
        transaction_id: held.partitions[0].messages[0].transaction_id.clone(),
        verdict: wakeline_core::Verdict::Completed,
        error: None,
    };
    let nothing = (vec!["old".to_owned()], 0, 0);
    let admin = schema.client().await;
    let name = &schema.name;
    let suicide = format!(
        "CREATE FUNCTION \"{name}\".die() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
    );
    admin.batch_execute(&suicide).await.expect("made");
    for table in TABLES {
        let arm = format!(
            "CREATE TRIGGER die AFTER INSERT OR UPDATE OR DELETE ON \"{name}\".{table}
             FOR EACH STATEMENT EXECUTE FUNCTION \"{name}\".die()"
        );
        admin.batch_execute(&arm).await.expect("armed");
        let killed = store.transact(everything(application, settle.clone())).await;
        let disarm = format!("DROP TRIGGER die ON \"{name}\".{table}");
        admin.batch_execute(&disarm).await.expect("disarmed");
        assert!(killed.is_err(), "{table}: {killed:?}");
        assert_eq!(seen(&store, application).await, nothing, "{table}");
    }
    let done = store.transact(everything(application, settle)).await.expect("answered");
    assert!(matches!(done.outcome, TransactOutcome::Committed(_)), "{done:?}");
    assert_eq!(seen(&store, application).await, (vec!["later".to_owned()], 1, 1));
    let both = take(&store, &ClaimSpec::partition(&queue(), "r").batch(10)).await;
    assert_eq!(ids(&both), ["first", "pushed"]);
    store.close().await;
}
