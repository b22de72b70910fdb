//! The cost of the frequent statements of queues: index searches that cost the same with few
//! partitions and with many.

use rusqlite::{Connection, Params, StatementStatus};
use wakeline_core::Verdict;
use wakeline_store::QueueStore as _;
use wakeline_testkit::conformance::item;

use crate::fixture::{Fixture, completions, queue, take};

macro_rules! sql {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/", $name, ".sql")))
    };
}

/// The statements that run for pushes, claims and settlements.
const HOT: &[(&str, &str)] = &[
    sql!("claim_candidates"),
    sql!("clock_read"),
    sql!("clock_store"),
    sql!("cursor_make_due"),
    sql!("cursor_by_name"),
    sql!("cursor_by_token"),
    sql!("cursor_due"),
    sql!("cursor_extend"),
    sql!("cursor_read"),
    sql!("cursor_write"),
    sql!("cursor_write_unsettled"),
    sql!("dead_letter_add"),
    sql!("group_by_name"),
    sql!("group_name"),
    sql!("group_next_due"),
    sql!("message_created"),
    sql!("message_from"),
    sql!("message_named"),
    sql!("message_read"),
    sql!("message_repeated"),
    sql!("partition_advance"),
    sql!("partition_by_name"),
    sql!("partition_tail"),
    sql!("queue_by_id"),
    sql!("queue_by_name"),
    sql!("retry_due"),
    sql!("retry_first"),
    sql!("retry_in_order"),
    sql!("retry_read"),
    sql!("retry_remove"),
    sql!("retry_soonest"),
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

/// The statements that count messages per partition.
const COUNTS: &[(&str, &str)] = &[
    sql!("counts_partitions"),
    sql!("counts_cursors"),
    sql!("counts_cursors_of_partition"),
    sql!("counts_stored"),
    sql!("counts_dead"),
    sql!("counts_dead_of_partition"),
    sql!("partition_name"),
];

#[tokio::test]
async fn counting_looks_up_and_never_scans() {
    let fixture = Fixture::open().await;
    let conn = fixture.raw();
    for (name, sql) in COUNTS {
        let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let mut rows = explain.raw_query();
        while let Some(row) = rows.next().expect("a plan") {
            let step: String = row.get("detail").expect("readable");
            assert!(!step.starts_with("SCAN"), "{name}: {step}");
        }
    }
}

/// The cost of running a statement to its end.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Cost {
    scanned: i32,
    sorted: i32,
    steps: i32,
}

fn cost(conn: &Connection, (_, sql): (&str, &str), params: impl Params) -> Cost {
    let mut statement = conn.prepare(sql).expect("a statement");
    let mut rows = statement.query(params).expect("it runs");
    while rows.next().expect("a row or the end").is_some() {}
    drop(rows);
    Cost {
        scanned: statement.get_status(StatementStatus::FullscanStep),
        sorted: statement.get_status(StatementStatus::Sort),
        steps: statement.get_status(StatementStatus::VmStep),
    }
}

/// Partitions that each have messages, one of them leased.
async fn with_partitions(len: usize) -> Fixture {
    let fixture = Fixture::open().await;
    for message in 0..3 {
        let items =
            (0..len).map(|n| item(&queue("q"), &format!("p{n}"), &message.to_string())).collect();
        fixture.store.push(items).await.expect("pushed");
    }
    let failed = take(&fixture.store, "q", 1).await.expect("one message");
    let mut items = completions(&failed);
    items[0].verdict = Verdict::Retry;
    fixture.store.settle(items).await.expect("settled");
    take(&fixture.store, "q", 1).await.expect("one message");
    fixture
}

fn costs(conn: &Connection, now: i64) -> Vec<(&'static str, Cost)> {
    let token: Vec<u8> = conn
        .query_row("SELECT lease_token FROM cursors WHERE lease_token IS NOT NULL", [], |row| {
            row.get(0)
        })
        .expect("one is leased");
    let mut costs = Vec::new();
    let mut add = |(name, sql), cost: &dyn Fn((&str, &str)) -> Cost| {
        costs.push((name, cost((name, sql))));
    };
    add(sql!("claim_candidates"), &|sql| cost(conn, sql, (1, now, i64::MIN, i64::MIN, 32)));
    add(sql!("group_next_due"), &|sql| cost(conn, sql, (1, 1)));
    add(sql!("cursor_by_token"), &|sql| cost(conn, sql, [&token]));
    add(sql!("cursor_read"), &|sql| cost(conn, sql, (50, 1)));
    add(sql!("cursor_by_name"), &|sql| cost(conn, sql, (50, "__QUEUE_MODE__")));
    add(sql!("cursor_make_due"), &|sql| cost(conn, sql, (50, 3, now, false)));
    add(sql!("cursor_due"), &|sql| cost(conn, sql, (50, 1, now)));
    add(sql!("message_from"), &|sql| cost(conn, sql, (50, 0, 2)));
    add(sql!("message_repeated"), &|sql| cost(conn, sql, (50, "new", 0)));
    add(sql!("message_named"), &|sql| cost(conn, sql, (50, "1", 0, 2)));
    add(sql!("partition_tail"), &|sql| cost(conn, sql, [50]));
    add(sql!("partition_by_name"), &|sql| cost(conn, sql, (1, "p7")));
    costs
}

#[tokio::test]
async fn a_pop_costs_the_same_with_a_hundred_partitions_and_with_twenty_thousand() {
    let few = with_partitions(100).await;
    let many = with_partitions(20_000).await;
    let now = few.clock.now().0;
    let expected = costs(&few.raw(), now);
    let found = costs(&many.raw(), now);
    for ((name, few), (_, many)) in expected.into_iter().zip(found) {
        assert_eq!((many.scanned, many.sorted), (0, 0), "{name}: {many:?}");
        assert_eq!(few.steps, many.steps, "{name}: {few:?} {many:?}");
        assert!(many.steps > 0, "{name} was counted");
    }
}

#[tokio::test]
async fn looking_for_a_transaction_id_costs_the_same_in_a_long_partition() {
    let mut costs = Vec::new();
    for len in [10, 5000] {
        let fixture = Fixture::open().await;
        let items = (0..len).map(|n| item(&queue("q"), "p", &n.to_string())).collect();
        fixture.store.push(items).await.expect("pushed");
        let conn = fixture.raw();
        let id = "SELECT partition_id FROM messages LIMIT 1";
        let partition: i64 = conn.query_row(id, [], |row| row.get(0)).expect("a partition");
        costs.push((
            cost(&conn, sql!("message_repeated"), (partition, "new", 0)),
            cost(&conn, sql!("message_repeated"), (partition, "7", 0)),
            cost(&conn, sql!("message_named"), (partition, "7", 0, len)),
        ));
    }
    assert_eq!(costs[0], costs[1]);
}
