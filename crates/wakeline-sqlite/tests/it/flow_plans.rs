//! The cost of the frequent statements of orchestrations: index searches, regardless of how many
//! instances sleep.

use std::time::Duration;

use rusqlite::{Connection, Params, StatementStatus};
use wakeline_core::Capabilities;
use wakeline_store::flow::{
    Envelope, FlowAdmin as _, FlowStore as _, InstanceFilter, ListMailboxes, MailboxReader as _,
    PruneOptions, Visible,
};

use crate::fixture::Fixture;
use crate::flow::{first_turn, nothing, start, turn};

macro_rules! sql {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/", $name, ".sql")))
    };
}

/// The statements that run for messages, turns and activities.
const HOT: &[(&str, &str)] = &[
    sql!("flow_activity_name_by_id"),
    sql!("flow_activity_name_by_name"),
    sql!("flow_capability_by_id"),
    sql!("flow_capability_by_name"),
    sql!("flow_execution_read"),
    sql!("flow_execution_state"),
    sql!("flow_execution_write"),
    sql!("flow_history_add"),
    sql!("flow_history_from"),
    sql!("flow_history_within"),
    sql!("flow_instance_add"),
    sql!("flow_instance_children"),
    sql!("flow_instance_detail"),
    sql!("flow_instance_ended"),
    sql!("flow_instance_read"),
    sql!("flow_instance_touch"),
    sql!("flow_instance_write"),
    sql!("flow_kv_change"),
    sql!("flow_kv_change_all"),
    sql!("flow_kv_merge_cleared"),
    sql!("flow_kv_merge_set"),
    sql!("flow_kv_state"),
    sql!("flow_lane_by_id"),
    sql!("flow_lane_by_instance"),
    sql!("flow_lane_by_lease"),
    sql!("flow_lane_candidates"),
    sql!("flow_lane_mismatched"),
    sql!("flow_lane_next_due"),
    sql!("flow_lane_watch"),
    sql!("flow_lane_write"),
    sql!("flow_message_add"),
    sql!("flow_message_cancel"),
    sql!("flow_message_clear"),
    sql!("flow_message_due"),
    sql!("flow_message_first"),
    sql!("flow_message_read"),
    sql!("flow_message_starts"),
    sql!("flow_message_taken_remove"),
    sql!("flow_message_taken_return"),
    sql!("flow_message_visible"),
    sql!("flow_session_active"),
    sql!("flow_session_claim"),
    sql!("flow_session_expired"),
    sql!("flow_session_keep"),
    sql!("flow_session_read"),
    sql!("flow_session_release"),
    sql!("flow_stats"),
    sql!("flow_tag_by_id"),
    sql!("flow_tag_by_name"),
    sql!("flow_unclaimed_due"),
    sql!("flow_unclaimed_due_next"),
    sql!("flow_unclaimed_lanes"),
    sql!("flow_unclaimed_ready_next"),
    sql!("flow_work_add"),
    sql!("flow_work_make_claimable"),
    sql!("flow_work_by_lease"),
    sql!("flow_work_cancel"),
    sql!("flow_work_clear"),
    sql!("flow_work_first"),
    sql!("flow_work_next_due"),
    sql!("flow_work_of_session"),
    sql!("flow_work_payload"),
    sql!("flow_work_read"),
    sql!("flow_work_remove"),
    sql!("flow_work_taker"),
    sql!("flow_work_write"),
];

#[tokio::test]
async fn hot_statements_search_and_never_scan_or_sort() {
    let fixture = Fixture::open().await;
    let conn = fixture.raw();
    for (name, sql) in HOT {
        let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let mut rows = explain.raw_query();
        while let Some(row) = rows.next().expect("a plan") {
            let step: String = row.get("detail").expect("readable");
            let scans = step.starts_with("SCAN") && !step.contains("CONSTANT ROW");
            assert!(!scans && !step.contains("TEMP B-TREE"), "{name}: {step}");
        }
    }
}

/// Lists walk an index in their order, and stop when the page is full.
#[tokio::test]
async fn lists_never_sort() {
    let fixture = Fixture::open().await;
    let conn = fixture.raw();
    for (name, sql) in [
        sql!("flow_instance_list"),
        sql!("flow_instance_list_name"),
        sql!("flow_instance_list_parent"),
        sql!("flow_instance_list_state"),
        sql!("flow_pending_list_parent"),
    ] {
        let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let mut rows = explain.raw_query();
        while let Some(row) = rows.next().expect("a plan") {
            let step: String = row.get("detail").expect("readable");
            assert!(!step.contains("TEMP B-TREE"), "{name}: {step}");
        }
    }
}

fn steps(conn: &Connection, (_, sql): (&str, &str), params: impl Params) -> (i32, i32) {
    let mut statement = conn.prepare(sql).expect("a statement");
    let mut rows = statement.query(params).expect("it runs");
    while rows.next().expect("a row or the end").is_some() {}
    drop(rows);
    (
        statement.get_status(StatementStatus::FullscanStep),
        statement.get_status(StatementStatus::VmStep),
    )
}

/// Instances that sleep for an hour, and one that can be claimed.
async fn with_sleepers(len: usize) -> Fixture {
    let fixture = Fixture::open().await;
    let asleep = Visible::After(Duration::from_secs(3_600));
    let sleepers = (0..len).map(|n| Envelope { visible: asleep, ..start(&format!("s{n}")) });
    fixture.store.enqueue(sleepers.collect(), Vec::new()).await.expect("stored");
    fixture.store.enqueue(vec![start("awake")], Vec::new()).await.expect("stored");
    fixture
}

#[tokio::test]
async fn sleeping_instances_do_not_make_a_claim_dearer() {
    let mut costs = Vec::new();
    for len in [10, 100_000] {
        let fixture = with_sleepers(len).await;
        let (conn, now) = (fixture.raw(), fixture.clock.now().0);
        let cost = vec![
            steps(&conn, sql!("flow_lane_candidates"), (1, now, 10)),
            steps(&conn, sql!("flow_lane_next_due"), [1]),
            steps(&conn, sql!("flow_lane_by_instance"), ["awake"]),
        ];
        assert!(cost.iter().all(|(scanned, steps)| *scanned == 0 && *steps > 0), "{cost:?}");
        costs.push(cost);
        assert_eq!(turn(&fixture.store).await.expect("one is due").instance.as_str(), "awake");
        assert!(turn(&fixture.store).await.is_none());
    }
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test]
async fn a_list_of_mailboxes_counts_no_messages() {
    let fixture = Fixture::open().await;
    let (conn, mut costs) = (fixture.raw(), Vec::new());
    for len in [10, 2_000] {
        let events = (0..len).map(|_| crate::flow::event("early")).collect();
        fixture.store.enqueue(events, Vec::new()).await.expect("stored");
        costs.push(steps(&conn, sql!("flow_mailbox_list"), (None::<&str>, "", 10)));
    }
    assert_eq!(costs[0], costs[1]);
    let list = ListMailboxes { limit: 10, ..ListMailboxes::default() };
    let listed = fixture.store.early_mailboxes(list).await.expect("listed");
    assert_eq!(listed[0].messages, 2_010);
}

/// A page of children reads those of the parent, and no other pending instance.
#[tokio::test]
async fn a_list_by_parent_walks_no_other_pending_instance() {
    let fixture = Fixture::open().await;
    let (conn, mut costs) = (fixture.raw(), Vec::new());
    let page = (None::<&str>, None::<bool>, None::<&str>, i64::MIN, i64::MAX, i64::MAX, "", 11);
    for ids in [0..10, 10..2_000] {
        let starts = ids.map(|n| start(&format!("i{n}"))).collect();
        fixture.store.enqueue(starts, Vec::new()).await.expect("stored");
        let (name, suspended, prefix, from, before, at, id, limit) = page;
        let page = (name, suspended, prefix, from, before, at, id, limit, "p");
        costs.push(steps(&conn, sql!("flow_pending_list_parent"), page));
    }
    assert_eq!(costs[0], costs[1]);
}

/// The parent has very many children, started and pending ones.
#[tokio::test]
async fn a_page_of_children_reads_no_more_than_it_shows() {
    let fixture = Fixture::open().await;
    let (conn, mut costs) = (fixture.raw(), Vec::new());
    conn.execute("INSERT INTO capabilities (capability_id, name) VALUES (1, 'main')", [])
        .expect("filled");
    let lanes = "WITH RECURSIVE n (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2)
        INSERT INTO lanes (lane_id, instance, parent, capability_id, started_at, due_at, next_seq)
        SELECT n, 'i' || n, 'p', 1, n, n, 2 FROM n";
    let begun = "INSERT INTO instances (lane_id, instance, name, parent, execution, state,
            created_at, updated_at)
        SELECT lane_id, instance, 'child', 'p', 1, 'running', started_at, 0 FROM lanes
        WHERE lane_id % 2 = 0 AND lane_id >= ?1";
    let messages = "INSERT INTO lane_messages (lane_id, seq, visible_at, starts, payload)
        SELECT lane_id, 1, 0, 1, x'78' FROM lanes WHERE lane_id % 2 = 1 AND lane_id >= ?1";
    for (from, to) in [(101, 200), (201, 20_100)] {
        conn.execute(lanes, (from, to)).expect("filled");
        conn.execute("UPDATE lanes SET parent = NULL WHERE lane_id % 2 = 0", []).expect("begun");
        conn.execute(begun, [from]).expect("filled");
        conn.execute(messages, [from]).expect("filled");
        let all = (None::<&str>, None::<&str>, None::<bool>, None::<&str>);
        let begun = (all.0, all.1, all.2, all.3, "p", i64::MIN, i64::MAX, i64::MAX, "", 20);
        let pending = (all.0, all.2, all.3, i64::MIN, i64::MAX, i64::MAX, "", 20, "p");
        costs.push((
            steps(&conn, sql!("flow_instance_list_parent"), begun),
            steps(&conn, sql!("flow_pending_list_parent"), pending),
        ));
    }
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test]
async fn mismatched_instances_are_retried_in_pieces() {
    let fixture = Fixture::open().await;
    let starts = (0..2_500).map(|n| start(&format!("i{n}"))).collect();
    fixture.store.enqueue(starts, Vec::new()).await.expect("stored");
    let conn = fixture.raw();
    conn.execute("UPDATE lanes SET suspended = 'mismatch', reason = 'x', due_at = NULL", [])
        .expect("suspended");
    let (_, sql) = sql!("flow_lane_mismatched");
    let mut piece = conn.prepare(sql).expect("a statement");
    let lanes = piece.query_map((1, 0), |row| row.get::<_, i64>(0)).expect("it runs");
    assert_eq!(lanes.count(), 1_000);
    let (mut retried, mut place) = (Vec::new(), None);
    loop {
        let piece =
            fixture.store.retry_mismatched(Capabilities::Any, place).await.expect("retried");
        retried.push(piece.count);
        assert_eq!(piece.changes.is_empty(), piece.count == 0, "each piece reports its own");
        place = piece.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!(retried, [1_000, 1_000, 500, 0]);
    assert!(turn(&fixture.store).await.is_some());
    let held: i64 = conn
        .query_row("SELECT count(*) FROM lanes WHERE suspended IS NOT NULL", [], |row| row.get(0))
        .expect("counted");
    assert_eq!(held, 0);
}

/// There are instances with several executions of which none can be pruned, and others. A page
/// visits only as many instances as it holds.
#[tokio::test]
async fn a_page_of_a_pruning_does_not_grow_with_the_instances() {
    let fixture = Fixture::open().await;
    let (conn, mut costs) = (fixture.raw(), Vec::new());
    let grow = "WITH RECURSIVE n (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2)
        INSERT INTO executions (lane_id, execution, state, started_at)
        SELECT n, 1 + n % 2, 'running', 0 FROM n";
    let named = "INSERT INTO instances (lane_id, instance, name, execution, state, created_at,
            updated_at)
        SELECT lane_id, 'i' || lane_id, 'loop', execution, 'running', 0, 0 FROM executions
        WHERE lane_id NOT IN (SELECT lane_id FROM instances)";
    for ids in [(1, 400), (401, 20_000)] {
        conn.execute(grow, ids).expect("filled");
        conn.execute(named, []).expect("filled");
        let page = (None::<i64>, 1, None::<i64>, 0, 100);
        costs.push(steps(&conn, sql!("flow_instance_prunable"), page));
    }
    assert_eq!(costs[0], costs[1]);
    let filter = InstanceFilter { limit: 1_000, ..InstanceFilter::default() };
    let report = fixture.store.prune(filter, PruneOptions::default()).await.expect("pruned");
    assert_eq!(report.executions, 0);
}

#[tokio::test]
async fn pending_timers_do_not_make_the_turns_of_an_instance_dearer() {
    let mut costs = Vec::new();
    for len in [10u64, 20_000] {
        let fixture = Fixture::open().await;
        let store = &fixture.store;
        store.enqueue(vec![start("a")], Vec::new()).await.expect("stored");
        let first = turn(store).await.expect("its first turn");
        let timer = |n| Envelope {
            visible: Visible::After(Duration::from_secs(3_600)),
            key: Some((1, n)),
            ..crate::flow::event("a")
        };
        let mut commit = first_turn(first.token, "a");
        commit.messages = (0..len).map(timer).collect();
        store.commit_turn(commit).await.expect("answered");
        store.enqueue(vec![crate::flow::event("a")], Vec::new()).await.expect("stored");
        let (conn, now) = (fixture.raw(), fixture.clock.now().0);
        let lane = first.token.lane;
        costs.push(vec![
            steps(&conn, sql!("flow_message_visible"), (lane, now, i64::MAX, 1_001)),
            steps(&conn, sql!("flow_message_due"), [lane]),
            steps(&conn, sql!("flow_message_starts"), [lane]),
        ]);
        let second = turn(store).await.expect("its second turn");
        assert_eq!(second.messages.len(), 1);
        store.commit_turn(nothing(second.token)).await.expect("answered");
    }
    assert_eq!(costs[0], costs[1]);
}
