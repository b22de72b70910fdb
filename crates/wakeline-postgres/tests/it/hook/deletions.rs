//! Deletions of any size: no statement changes more than a limited number of rows.

use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_store::hook::{HookAdmin as _, HookApplications as _, HookEndpoints as _};
use wakeline_testkit::hook_conformance::plain;

use super::stage::Stage;

/// Makes every statement fail that changes more rows of a table than one step may.
async fn refuse_large_updates(stage: &Stage, table: &str) {
    let sql = format!(
        "CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF (SELECT count(*) FROM old_rows) > 1000 THEN
                 RAISE EXCEPTION '% rows of {table} at once', (SELECT count(*) FROM old_rows);
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER refuse_update AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows
             FOR EACH STATEMENT EXECUTE FUNCTION refuse_{table}();
         CREATE TRIGGER refuse_delete AFTER DELETE ON {table} REFERENCING OLD TABLE AS old_rows
             FOR EACH STATEMENT EXECUTE FUNCTION refuse_{table}()"
    );
    stage.run(&sql).await;
}

async fn count(stage: &Stage, sql: &str) -> i64 {
    stage.rival.query_one(sql, &[]).await.expect("counted").get(0)
}

#[tokio::test]
async fn an_endpoint_with_a_long_queue_is_deleted_in_pieces() {
    let stage = Stage::open().await;
    let to = stage.bench.with(plain()).await;
    refuse_large_updates(&stage, "hook_deliveries").await;
    let many = format!(
        "INSERT INTO hook_deliveries (endpoint_id, message_id, state, class, fifo, due_at,
             created_at, updated_at)
         SELECT '{}', gen_random_uuid(), 0, 0, false, clock(), clock(), clock()
         FROM generate_series(1, 5000)",
        to.0
    );
    stage.run(&many).await;
    let app = ApplicationRef::Id(stage.bench.app);
    let deleted = stage.store.delete_endpoint(&app, &EndpointRef::Id(to)).await.expect("deleted");
    assert!(deleted.0);
    assert_eq!(deleted.1.len(), 1, "background work has to go on");
    while stage.store.run_background(1_000).await.expect("a piece").rows > 0 {}
    let waiting = "SELECT count(*) FROM hook_deliveries WHERE state <> 4";
    assert_eq!(count(&stage, waiting).await, 0);
    assert_eq!(count(&stage, "SELECT count(*) FROM hook_endpoints WHERE cancelling").await, 0);
}

#[tokio::test]
async fn an_application_with_many_endpoints_is_deleted_in_pieces() {
    let stage = Stage::open().await;
    stage.bench.with(plain()).await;
    for table in ["hook_endpoints", "hook_states", "hook_filters"] {
        refuse_large_updates(&stage, table).await;
    }
    stage
        .run(
            "CREATE TEMP TABLE more AS SELECT e.*, gen_random_uuid() AS fresh
                 FROM hook_endpoints e, generate_series(1, 3000);
             UPDATE more SET endpoint_id = fresh;
             ALTER TABLE more DROP COLUMN fresh;
             INSERT INTO hook_endpoints SELECT * FROM more;
             INSERT INTO hook_states (endpoint_id, pull) SELECT endpoint_id, pull FROM more;
             INSERT INTO hook_filters SELECT application_id, '*', endpoint_id FROM more",
        )
        .await;
    let app = ApplicationRef::Id(stage.bench.app);
    assert!(stage.store.delete_application(&app).await.expect("deleted").0);
    assert_eq!(
        count(&stage, "SELECT count(*) FROM hook_states").await,
        0,
        "nothing is sent to them"
    );
    while stage.store.run_background(1_000).await.expect("a piece").rows > 0 {}
    let left = "SELECT (SELECT count(*) FROM hook_endpoints) + (SELECT count(*) FROM hook_filters)
        + (SELECT count(*) FROM hook_applications)";
    assert_eq!(count(&stage, left).await, 0);
}
