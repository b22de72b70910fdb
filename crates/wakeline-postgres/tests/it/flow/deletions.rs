//! Deletions of any size: no statement removes more than a limited number of rows.

use tokio_postgres::Client;
use wakeline_core::InstanceId;
use wakeline_store::StoreAdmin as _;
use wakeline_store::flow::{DeleteInstances, FlowAdmin as _, InstanceFilter, PruneOptions};

use crate::support::{TestSchema, eventually};

/// A number of rows that no statement of a deletion may reach.
const ROWS_MAX: u32 = 1_000;

/// Makes every statement fail that deletes more rows of a table than one step may.
async fn refuse_large_deletes(client: &Client, table: &str) {
    let sql = format!(
        "CREATE FUNCTION wakeline.refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF (SELECT count(*) FROM gone) > {ROWS_MAX} THEN
                 RAISE EXCEPTION '% rows of {table} at once', (SELECT count(*) FROM gone);
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER refuse AFTER DELETE ON wakeline.{table} REFERENCING OLD TABLE AS gone
             FOR EACH STATEMENT EXECUTE FUNCTION wakeline.refuse_{table}()"
    );
    client.batch_execute(&sql).await.expect("a trigger");
}

/// Creates ended instances, the first of which is the parent of all others. Each has one execution
/// of two turns; the first has many executions, unless it has a single child.
async fn family(client: &Client, name: &str, children: u32) {
    let sql = format!(
        "WITH lanes AS (
             INSERT INTO wakeline.flow_lanes (instance, phase)
             SELECT '{name}' || CASE WHEN n = 0 THEN '' ELSE '/' || n END, 2
             FROM generate_series(0, {children}) n RETURNING lane_id, instance
         ), instances AS (
             INSERT INTO wakeline.flow_instances (lane_id, instance, name, parent, execution, state,
                 created_at, updated_at, ended_at)
             SELECT l.lane_id, l.instance, 'main',
                 CASE WHEN l.instance <> '{name}' THEN '{name}' END, 1, 'completed',
                 now() - interval '1 day', now() - interval '1 day', now() - interval '1 hour'
             FROM lanes l
         ), executions AS (
             INSERT INTO wakeline.flow_executions
                 (lane_id, execution, state, started_at, last_event)
             SELECT l.lane_id, 1, 'completed', now() - interval '1 day', 2 FROM lanes l
         )
         INSERT INTO wakeline.flow_history (lane_id, execution, first_event, last_event, events)
         SELECT l.lane_id, 1, n, n, 'x'::bytea FROM lanes l, generate_series(1, 2) n
         UNION ALL
         SELECT l.lane_id, 1, n, n, 'x'::bytea FROM lanes l, generate_series(3, 5000) n
         WHERE l.instance = '{name}' AND {children} <> 1"
    );
    client.batch_execute(&sql).await.expect("a family");
}

async fn rows(client: &Client) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM wakeline.flow_lanes)
        + (SELECT count(*) FROM wakeline.flow_instances)
        + (SELECT count(*) FROM wakeline.flow_executions)
        + (SELECT count(*) FROM wakeline.flow_history)
        + (SELECT count(*) FROM wakeline.flow_leftovers)";
    client.query_one(sql, &[]).await.expect("counted").get(0)
}

async fn watched_client(schema: &TestSchema) -> Client {
    let client = schema.database.client().await;
    for table in ["flow_lanes", "flow_instances", "flow_executions", "flow_history"] {
        refuse_large_deletes(&client, table).await;
    }
    client
}

#[tokio::test]
async fn a_large_tree_is_deleted_in_pieces() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let client = watched_client(&schema).await;
    family(&client, "root", 6_000).await;
    let instances = vec![InstanceId::new("root").expect("an id")];
    let report = store.delete_instances(DeleteInstances { instances, force: false }).await;
    let report = report.expect("deleted");
    assert_eq!((report.instances, report.executions, report.events), (6_001, 6_001, 12_002));
    assert_eq!(rows(&client).await, 0);
    store.close().await;
}

#[tokio::test]
async fn a_large_root_does_not_block_a_purge() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let client = watched_client(&schema).await;
    family(&client, "a large one", 3_000).await;
    for n in 0..150 {
        family(&client, &format!("small {n}"), 1).await;
    }
    let filter = InstanceFilter { limit: 10_000, ..InstanceFilter::default() };
    let report = store.delete_matching(filter).await.expect("purged");
    assert_eq!(report.instances, 3_001 + 300);
    assert_eq!(rows(&client).await, 0);
    store.close().await;
}

/// A child that holds its lock, for which the deletion of its parent waits, starts another child.
#[tokio::test]
async fn instances_started_while_their_tree_is_deleted_are_deleted_too() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let (client, turn) = (schema.database.client().await, schema.database.client().await);
    family(&client, "root", 1).await;
    let held = "BEGIN; SELECT FROM wakeline.flow_lanes WHERE instance = 'root/1' FOR NO KEY UPDATE";
    turn.batch_execute(held).await.expect("locked");
    let deletion = {
        let (store, instances) = (store.clone(), vec![InstanceId::new("root").expect("an id")]);
        let command = DeleteInstances { instances, force: true };
        tokio::spawn(async move { store.delete_instances(command).await })
    };
    eventually("the deletion waits for the child", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        client.query_one(waiting, &[]).await.expect("counted").get::<_, i64>(0) > 0
    })
    .await;
    let start = "WITH lane AS (
            INSERT INTO wakeline.flow_lanes (instance, parent, next_seq, started_at)
            VALUES ('root/1/1', 'root/1', 2, clock_timestamp()) RETURNING lane_id
        )
        INSERT INTO wakeline.flow_messages (lane_id, seq, visible_at, starts, payload)
        SELECT lane_id, 1, clock_timestamp(), true, 'x'::bytea FROM lane; COMMIT";
    turn.batch_execute(start).await.expect("started");
    let report = deletion.await.expect("no panic").expect("deleted");
    assert_eq!(report.instances, 3);
    assert_eq!(rows(&client).await, 0);
    store.close().await;
}

#[tokio::test]
async fn many_executions_are_pruned_in_pieces() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let client = watched_client(&schema).await;
    family(&client, "eternal", 0).await;
    let more = "INSERT INTO wakeline.flow_executions
            (lane_id, execution, state, started_at, ended_at, last_event)
        SELECT lane_id, n, 'continued', now(), now(), 1 FROM wakeline.flow_lanes,
            generate_series(2, 2500) n;
        UPDATE wakeline.flow_instances SET execution = 2500;
        INSERT INTO wakeline.flow_history (lane_id, execution, first_event, last_event, events)
        SELECT lane_id, n, 1, 1, 'x'::bytea FROM wakeline.flow_lanes, generate_series(2, 2500) n";
    client.batch_execute(more).await.expect("executions");
    let filter = InstanceFilter { limit: 10, ..InstanceFilter::default() };
    let options = PruneOptions { keep_last: Some(1), ended_before: None };
    let report = store.prune(filter, options).await.expect("pruned");
    assert_eq!((report.instances, report.executions), (1, 2_499));
    assert_eq!(rows(&client).await, 4, "a lane, an instance, its execution and its history");
    store.close().await;
}
