//! Nodes of several releases on one schema: each calls its own functions, and none removes what
//! another one needs.

use tokio_postgres::Client;
use wakeline_core::{ApplicationRef, GroupName, Verdict};
use wakeline_postgres::{PostgresOptions, PostgresStore, migrate_status, migrate_up};
use wakeline_store::flow::{FlowStore as _, TurnOutcome};
use wakeline_store::hook::{HookApplications as _, HookEndpoints as _, HookStore as _};
use wakeline_store::{QueueStore as _, SettleItem, StoreAdmin as _};
use wakeline_testkit::conformance::ClaimSpec;
use wakeline_testkit::database::APP_ROLE;
use wakeline_testkit::flow_conformance::{MAIN, capabilities, finish, start, turn_line};
use wakeline_testkit::hook_conformance::{
    application, endpoint, items, message, plain, push as deliveries, request, success,
};

use crate::claims::{ids, push, queue, take};
use crate::support::{TestSchema, eventually};

const OLD: i32 = 7_000_001;
const NEW: i32 = 7_000_002;

/// Options of a node of another release.
fn of_release(schema: &TestSchema, release: i32) -> PostgresOptions {
    PostgresOptions { test_release: Some(release), ..schema.options() }
}

async fn node(schema: &TestSchema, release: i32) -> PostgresStore {
    PostgresStore::connect(of_release(schema, release)).await.expect("a node")
}

/// Schemas of function sets, and names of functions in the main schema, with their bodies.
async fn functions(client: &Client) -> Vec<String> {
    let sql = "SELECT n.nspname || '.' || p.proname || ' ' || p.oid || ' ' || md5(p.prosrc)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname LIKE 'wakeline%' ORDER BY 1";
    client.query(sql, &[]).await.expect("read").iter().map(|row| row.get(0)).collect()
}

async fn sets(client: &Client) -> Vec<i32> {
    let sql = "SELECT s.release FROM wakeline.function_sets s
        JOIN pg_namespace n ON n.nspname = s.place ORDER BY 1";
    client.query(sql, &[]).await.expect("read").iter().map(|row| row.get(0)).collect()
}

async fn set_of(client: &Client, release: i32) -> String {
    let sql = "SELECT place FROM wakeline.function_sets WHERE release = $1";
    client.query_one(sql, &[&release]).await.expect("installed").get(0)
}

async fn unused_for_days(client: &Client, release: i32, days: i32) {
    let sql = "UPDATE wakeline.function_sets SET used_at = now() - $2 * interval '1 day'
        WHERE release = $1";
    assert_eq!(client.execute(sql, &[&release, &f64::from(days)]).await.expect("written"), 1);
}

/// One node begins a message, a turn of an orchestration and a delivery; another one completes
/// them.
async fn hand_over(from: &PostgresStore, to: &PostgresStore, name: &str) {
    push(from, "p", name).await;
    let result = take(to, &ClaimSpec::queue(&queue())).await;
    assert_eq!(ids(&result), [name]);
    let part = &result.partitions[0];
    let item = SettleItem {
        token: result.lease.map(|lease| lease.token),
        partition: part.partition_id,
        group: GroupName::queue_mode(),
        transaction_id: part.messages[0].transaction_id.clone(),
        verdict: Verdict::Completed,
        error: None,
    };
    from.settle(vec![item]).await.expect("settled");

    from.enqueue(vec![start(name)], vec![]).await.expect("started");
    let line = turn_line(&capabilities(&[MAIN]), 1);
    let claimed = to.claim_turns(vec![line]).await.expect("claimed").remove(0);
    let turn = claimed.turns[0].as_ref().expect("a turn");
    let committed = to.commit_turn(finish(turn)).await.expect("committed");
    assert!(matches!(committed.outcome, TurnOutcome::Committed { .. }));

    let new = application(Some(name));
    let app = new.id;
    from.create_application(new, None).await.expect("an application");
    let made = from.create_endpoint(&ApplicationRef::Id(app), endpoint(plain()), None).await;
    made.expect("an endpoint");
    let event = message(app);
    let id = event.id;
    from.emit(event, vec![]).await.expect("emitted");
    let claimed = to.claim_deliveries(vec![deliveries(vec![request(1)])]).await.expect("claimed");
    let taken = items(&claimed[0].groups[0]);
    assert_eq!(taken[0].message, id);
    to.settle_deliveries(vec![success(taken[0].token)]).await.expect("settled");
}

#[tokio::test]
async fn nodes_of_two_releases_work_side_by_side_in_either_starting_order() {
    for order in [[OLD, NEW], [NEW, OLD]] {
        let schema = TestSchema::missing().await;
        let first = node(&schema, order[0]).await;
        hand_over(&first, &first, "alone").await;
        let second = node(&schema, order[1]).await;
        hand_over(&first, &second, "to-the-second").await;
        hand_over(&second, &first, "to-the-first").await;
        assert_eq!(sets(&schema.client().await).await, [OLD, NEW]);
        first.close().await;
        hand_over(&second, &second, "alone-again").await;
        second.close().await;
    }
}

#[tokio::test]
async fn a_node_calls_the_functions_of_its_own_release() {
    let schema = TestSchema::missing().await;
    let (old, new) = (node(&schema, OLD).await, node(&schema, NEW).await);
    let client = schema.client().await;
    let drop = format!("DROP FUNCTION \"{}\".claim", set_of(&client, OLD).await);
    client.batch_execute(&drop).await.expect("dropped");
    push(&old, "p", "1").await;
    let lost = old.claim(vec![ClaimSpec::queue(&queue()).line_claim(1)]).await;
    lost.expect_err("its function is gone");
    assert_eq!(ids(&take(&new, &ClaimSpec::queue(&queue())).await), ["1"]);
    old.close().await;
    new.close().await;
}

#[tokio::test]
async fn an_older_release_changes_nothing_that_a_newer_one_installed() {
    let schema = TestSchema::missing().await;
    migrate_up(&of_release(&schema, NEW)).await.expect("migrated");
    let client = schema.client().await;
    // A migration, a table and a function that only the newer release knows.
    let more = "CREATE FUNCTION wakeline.newer() RETURNS int LANGUAGE sql AS 'SELECT 1';
         CREATE TABLE wakeline.newer (x int);
         INSERT INTO wakeline.migrations VALUES ('9999_newer', 'x')";
    client.batch_execute(more).await.expect("from the future");
    let before = functions(&client).await;
    let old = node(&schema, OLD).await;
    hand_over(&old, &old, "old").await;
    old.close().await;
    assert!(migrate_status(&of_release(&schema, OLD)).await.expect("read").is_current());
    let after = functions(&client).await;
    let set = set_of(&client, OLD).await;
    let others: Vec<String> =
        after.iter().filter(|name| !name.starts_with(&format!("{set}."))).cloned().collect();
    assert_eq!(others, before);
    assert!(after.len() > before.len(), "it has a set of its own");
}

#[tokio::test]
async fn a_newer_release_replaces_what_users_call_and_keeps_their_rights() {
    let schema = TestSchema::missing().await;
    migrate_up(&of_release(&schema, OLD)).await.expect("migrated");
    let client = schema.client().await;
    client
        .batch_execute("GRANT EXECUTE ON FUNCTION wakeline.pop TO pg_monitor")
        .await
        .expect("executed");
    let before = functions(&client).await;
    let pop = |all: &[String]| {
        all.iter().find(|name| name.starts_with("wakeline.pop ")).cloned().expect("there")
    };
    migrate_up(&of_release(&schema, NEW)).await.expect("migrated");
    let after = functions(&client).await;
    assert_ne!(pop(&before), pop(&after), "it calls the newer set");
    let oid = |name: &str| name.split(' ').nth(1).map(str::to_owned);
    assert_eq!(oid(&pop(&before)), oid(&pop(&after)));
    let kept =
        "SELECT has_function_privilege('pg_monitor', 'wakeline.pop(text, integer, text, text,
        integer, boolean)', 'EXECUTE')";
    assert!(client.query_one(kept, &[]).await.expect("read").get::<_, bool>(0));
}

#[tokio::test]
async fn a_release_that_is_too_old_for_the_tables_says_so() {
    let schema = TestSchema::missing().await;
    migrate_up(&of_release(&schema, NEW)).await.expect("migrated");
    let client = schema.client().await;
    let narrow = "UPDATE wakeline.releases SET oldest = release";
    client.batch_execute(narrow).await.expect("narrowed");
    let before = functions(&client).await;
    let refused = PostgresStore::connect(of_release(&schema, OLD)).await.err().expect("refused");
    let reason = refused.to_string();
    assert!(reason.contains("upgraded by wakeline 7.0.2"), "{reason}");
    assert!(reason.contains("this is 7.0.1"), "{reason}");
    assert_eq!(functions(&client).await, before);
    node(&schema, NEW).await.close().await;
}

#[tokio::test]
async fn a_function_set_is_removed_when_no_node_has_used_it_for_a_week() {
    let schema = TestSchema::missing().await;
    for release in [OLD, NEW] {
        migrate_up(&of_release(&schema, release)).await.expect("migrated");
    }
    let client = schema.client().await;
    unused_for_days(&client, OLD, 6).await;
    node(&schema, NEW).await.close().await;
    assert_eq!(sets(&client).await, [OLD, NEW], "too early");
    // Users' functions call the newest set, and an older program drops nothing newer.
    unused_for_days(&client, NEW, 8).await;
    let old = node(&schema, OLD).await;
    assert_eq!(sets(&client).await, [OLD, NEW]);
    old.close().await;

    let place = set_of(&client, OLD).await;
    let left = |names: Vec<String>| names.iter().filter(|name| name.starts_with(&place)).count();
    assert!(left(functions(&client).await) > 0);
    unused_for_days(&client, OLD, 8).await;
    node(&schema, NEW).await.close().await;
    assert_eq!(sets(&client).await, [NEW]);
    assert_eq!(left(functions(&client).await), 0);
    // A node of that release that starts later installs its set again.
    let old = node(&schema, OLD).await;
    hand_over(&old, &old, "back").await;
    old.close().await;
}

#[tokio::test]
async fn a_set_that_a_restore_left_behind_is_installed_again() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let client = schema.client().await;
    // The state after a dump and restore of only the main schema.
    let lose = format!("DROP SCHEMA \"{}\" CASCADE", schema.functions().await);
    client.batch_execute(&lose).await.expect("lost");
    assert!(!migrate_status(&schema.options()).await.expect("read").is_current());
    let store = schema.store().await;
    hand_over(&store, &store, "restored").await;
    store.close().await;
}

/// After `DROP SCHEMA wakeline CASCADE` and a restore of a dump in place, the set remains without
/// the functions that return rows of the dropped tables.
#[tokio::test]
async fn a_set_whose_main_schema_was_dropped_is_installed_again() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let client = schema.client().await;
    client.batch_execute("DROP SCHEMA wakeline CASCADE").await.expect("dropped");
    let store = schema.store().await;
    hand_over(&store, &store, "first").await;
    store.close().await;

    let place = schema.functions().await;
    let lose = format!("DROP FUNCTION \"{place}\".claim CASCADE");
    client.batch_execute(&lose).await.expect("dropped");
    assert!(!migrate_status(&schema.options()).await.expect("read").is_current());
    let store = schema.store().await;
    hand_over(&store, &store, "second").await;
    store.close().await;
}

/// Any role that may create schemas can create one with the name of a set before it is installed.
#[tokio::test]
async fn functions_of_another_role_are_not_taken_for_a_set() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let place = schema.functions().await;
    // Only a superuser gives a schema to another role.
    let steal = format!("ALTER SCHEMA \"{place}\" OWNER TO postgres");
    schema.database.superuser().await.batch_execute(&steal).await.expect("stolen");
    assert!(!migrate_status(&schema.options()).await.expect("read").is_current());
    let refused = PostgresStore::connect(schema.options()).await.err().expect("refused");
    let reason = format!("{refused:?}");
    assert!(reason.contains(&format!("must be owner of schema {place}")), "{reason}");
}

/// An administrator creates the schema, and the role may create no other.
#[tokio::test]
async fn a_role_that_may_create_no_schema_has_its_functions_in_the_main_one() {
    let schema = TestSchema::missing().await;
    // Only a superuser may revoke the privilege that the test's database gives.
    let script = format!(
        "CREATE SCHEMA wakeline AUTHORIZATION {APP_ROLE};
         REVOKE CREATE ON DATABASE {} FROM {APP_ROLE}",
        schema.database.name()
    );
    schema.database.superuser().await.batch_execute(&script).await.expect("prepared");
    let (old, new) = (node(&schema, OLD).await, node(&schema, NEW).await);
    hand_over(&old, &new, "to-the-new").await;
    hand_over(&new, &old, "to-the-old").await;
    old.close().await;
    let client = schema.client().await;
    let count = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'claim\\_lines\\_%'";
    let claims = async || client.query_one(count, &[]).await.expect("read").get::<_, i64>(0);
    assert_eq!(claims().await, 2);
    unused_for_days(&client, OLD, 8).await;
    new.close().await;
    let new = node(&schema, NEW).await;
    eventually("the old functions are gone", async || claims().await == 1).await;
    hand_over(&new, &new, "alone").await;
    new.close().await;
}
