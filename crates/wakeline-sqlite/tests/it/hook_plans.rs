//! The cost of the frequent statements of webhooks: index searches, regardless of what was sent
//! before.

use std::time::Duration;

use rusqlite::{Connection, Params, StatementStatus};
use wakeline_core::{ApplicationRef, EndpointOptions};
use wakeline_store::hook::{DeliveryVerdict, HookStore as _};

use crate::fixture::Fixture;
use crate::hook::{application, claim, emit, end, endpoint, items};

macro_rules! sql {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/hook_", $name, ".sql")),
        )
    };
}

/// The statements that run for messages, claims and settlements.
const HOT: &[(&str, &str)] = &[
    sql!("application_by_id"),
    sql!("application_by_uid"),
    sql!("application_endpoints"),
    sql!("lane_stop"),
    sql!("attempt_add"),
    sql!("attempt_read"),
    sql!("attempt_used"),
    sql!("background_deleted"),
    sql!("background_job"),
    sql!("background_key"),
    sql!("background_payloads"),
    sql!("background_running"),
    sql!("clear_attempts"),
    sql!("clear_deliveries"),
    sql!("clear_lanes"),
    sql!("clear_left"),
    sql!("clear_messages"),
    sql!("clear_payloads"),
    sql!("clear_secrets"),
    sql!("delivery_add"),
    sql!("delivery_by_lease"),
    sql!("delivery_cancel_leased"),
    sql!("delivery_cancel_waiting"),
    sql!("delivery_due"),
    sql!("delivery_endpoints"),
    sql!("delivery_expired"),
    sql!("delivery_firsts"),
    sql!("delivery_head"),
    sql!("delivery_in_order"),
    sql!("delivery_nth_end"),
    sql!("delivery_of"),
    sql!("delivery_of_message"),
    sql!("delivery_open_in_order"),
    sql!("delivery_pulled_end"),
    sql!("delivery_read"),
    sql!("delivery_mark_pulled"),
    sql!("delivery_reorder"),
    sql!("delivery_sent_end"),
    sql!("delivery_sent_expired"),
    sql!("delivery_quarantine"),
    sql!("delivery_waits"),
    sql!("delivery_write"),
    sql!("endpoint_any"),
    sql!("endpoint_by_id"),
    sql!("endpoint_by_uid"),
    sql!("endpoint_config"),
    sql!("endpoint_disable"),
    sql!("clear_filters"),
    sql!("message_old"),
    sql!("expire_attempts"),
    sql!("expire_deliveries"),
    sql!("filter_match"),
    sql!("job_oldest"),
    sql!("key_put"),
    sql!("key_read"),
    sql!("lane_due"),
    sql!("lane_fresh"),
    sql!("lane_next_due"),
    sql!("lane_next_fresh"),
    sql!("lane_read"),
    sql!("lane_write"),
    sql!("message_add"),
    sql!("message_ahead"),
    sql!("message_ahead_of_endpoint"),
    sql!("message_at"),
    sql!("message_by_event"),
    sql!("message_by_id"),
    sql!("message_read"),
    sql!("message_sent"),
    sql!("payload_add"),
    sql!("payload_remove"),
    sql!("payload_exists"),
    sql!("secret_list"),
];

/// Statements that walk from one end of an index, and stop at the first row or when the page is
/// full.
const FIRST: &[(&str, &str)] = &[
    sql!("application_list_down"),
    sql!("application_list_up"),
    sql!("attempt_list_down"),
    sql!("attempt_list_endpoint_down"),
    sql!("attempt_list_endpoint_up"),
    sql!("attempt_list_message_down"),
    sql!("attempt_list_message_up"),
    sql!("attempt_list_up"),
    sql!("background_cancelling"),
    sql!("endpoint_list_down"),
    sql!("endpoint_list_up"),
    sql!("event_type_list_down"),
    sql!("event_type_list_up"),
    sql!("message_last"),
    sql!("message_list_down"),
    sql!("message_list_up"),
    sql!("payload_first"),
];

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
    let mut rows = explain.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().expect("a plan") {
        steps.push(row.get("detail").expect("readable"));
    }
    steps
}

/// Whether a step walks a partial index of open rows only, which ends at its first row.
fn walks_what_is_open(step: &str) -> bool {
    ["hook_applications_deleted", "hook_jobs_running", "hook_jobs_finished", "hook_deliveries_sent"]
        .iter()
        .chain(&["hook_keys_expiry", "hook_lanes_due", "hook_lanes_fresh"])
        .any(|index| step.contains(index))
}

#[tokio::test]
async fn hot_statements_search_and_never_scan_or_sort() {
    let fixture = Fixture::open().await;
    let conn = fixture.raw();
    for (name, sql) in HOT {
        for step in plan(&conn, sql) {
            let scans = step.starts_with("SCAN") && !step.contains("CONSTANT ROW");
            // The length of a list parameter is bounded by the caller.
            let bounded = walks_what_is_open(&step) || step.starts_with("SCAN json_each");
            assert!((!scans || bounded) && !step.contains("TEMP B-TREE"), "{name}: {step}");
        }
    }
}

#[tokio::test]
async fn lists_walk_an_index_and_never_sort() {
    let fixture = Fixture::open().await;
    let conn = fixture.raw();
    for (name, sql) in FIRST {
        for step in plan(&conn, sql) {
            assert!(!step.contains("TEMP B-TREE"), "{name}: {step}");
        }
    }
}

fn steps(conn: &Connection, (_, sql): (&str, &str), params: impl Params) -> i32 {
    let mut statement = conn.prepare(sql).expect("a statement");
    let mut rows = statement.query(params).expect("it runs");
    while rows.next().expect("a row or the end").is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

/// The costs of all statements that find the deliveries that can be claimed.
fn costs(conn: &Connection, now: i64) -> Vec<i32> {
    let mut costs = vec![
        steps(conn, sql!("lane_due"), (now, 10, None::<String>)),
        steps(conn, sql!("lane_fresh"), (now, 10, None::<String>)),
        steps(conn, sql!("lane_next_due"), [None::<String>]),
        steps(conn, sql!("lane_next_fresh"), [None::<String>]),
        steps(conn, sql!("delivery_sent_expired"), (now, 10)),
        steps(conn, sql!("delivery_sent_end"), []),
        steps(conn, sql!("delivery_in_flight"), (1, now, 100)),
        steps(conn, sql!("delivery_head"), [1]),
        steps(conn, sql!("delivery_in_order"), (1, 10)),
        steps(conn, sql!("delivery_waits"), (1, now)),
        steps(conn, sql!("delivery_firsts"), [1]),
        steps(conn, sql!("message_sent"), [1]),
        steps(conn, sql!("filter_match"), (1, "*")),
    ];
    for class in 0..4 {
        costs.push(steps(conn, sql!("delivery_due"), (1, class, now, 10)));
    }
    costs
}

/// An endpoint with a number of ended deliveries and one that waits.
async fn with_history(len: usize) -> (Fixture, ApplicationRef) {
    let fixture = Fixture::open().await;
    let store = &fixture.store;
    let shop = application(store).await;
    endpoint(store, &shop, EndpointOptions { in_flight_max: 1_000, ..Default::default() }).await;
    for _ in 0..len {
        emit(store, &shop).await;
        if emitted_enough(&fixture) {
            settle_all(&fixture).await;
        }
    }
    settle_all(&fixture).await;
    emit(store, &shop).await;
    (fixture, shop)
}

/// Whether another hundred messages were emitted.
fn emitted_enough(fixture: &Fixture) -> bool {
    let sql = "SELECT count(*) % 100 = 0 FROM hook_messages";
    fixture.raw().query_row(sql, [], |row| row.get(0)).expect("counted")
}

async fn settle_all(fixture: &Fixture) {
    let verdicts = [DeliveryVerdict::Delivered, DeliveryVerdict::Failed];
    let taken = items(claim(&fixture.store, 1_000).await);
    let ends = taken.iter().zip(verdicts.into_iter().cycle()).map(|(item, how)| end(item, how));
    fixture.store.settle_deliveries(ends.collect()).await.expect("answered");
}

#[tokio::test]
async fn ended_deliveries_do_not_make_a_claim_dearer() {
    let mut found = Vec::new();
    for len in [10, 2_000] {
        let (fixture, _) = with_history(len).await;
        let cost = costs(&fixture.raw(), fixture.clock.now().0);
        assert!(cost.iter().all(|steps| *steps > 0), "{cost:?}");
        found.push(cost);
        assert_eq!(items(claim(&fixture.store, 2).await).len(), 1);
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn waiting_retries_and_idle_endpoints_do_not_make_a_claim_dearer() {
    let mut found = Vec::new();
    for len in [10, 1_000] {
        let fixture = Fixture::open().await;
        let store = &fixture.store;
        let (shop, other) = (application(store).await, application(store).await);
        let options = || EndpointOptions { in_flight_max: 2_000, ..Default::default() };
        endpoint(store, &shop, options()).await;
        for _ in 0..len {
            endpoint(store, &other, options()).await;
            emit(store, &shop).await;
        }
        let taken = items(claim(store, 2_000).await);
        assert_eq!(taken.len(), len);
        let later = DeliveryVerdict::Retry(Duration::from_secs(3_600));
        let ends = taken.iter().map(|item| end(item, later)).collect();
        store.settle_deliveries(ends).await.expect("answered");
        emit(store, &shop).await;
        found.push(costs(&fixture.raw(), fixture.clock.now().0));
        assert_eq!(items(claim(store, 2).await).len(), 1);
    }
    assert_eq!(found[0], found[1]);
}
