//! An operation that works in pages or batches costs as much as one page or batch, however many
//! rows follow it.

use wakeline_core::Capabilities;
use wakeline_store::StoreAdmin as _;
use wakeline_store::flow::FlowAdmin as _;

use super::plans::{GROWTH_MAX, Store, written_out};

/// Instances of which nothing can be removed, and others: a page reads only as many as it contains.
#[tokio::test]
async fn a_page_of_a_pruning_does_not_grow_with_the_instances() {
    let store = Store::open().await;
    let page = "SELECT count(prunable) FROM flow_prunable(NULL, NULL, 0, 100, 1, NULL)";
    let mut costs = Vec::new();
    for (from, to) in [(1, 400), (401, 20_000)] {
        store.grow(from, to).await;
        let more = "UPDATE flow_executions SET execution = 2 WHERE lane_id % 2 = 0;
             UPDATE flow_instances SET execution = 2 WHERE lane_id % 2 = 0";
        store.0.fill(more).await;
        costs.push(store.0.buffers("", page).await);
    }
    assert!(costs[0] < 3_000, "{costs:?} buffers");
    // One or two index descents for each instance of the page visit one more level.
    assert!(costs[1] - costs[0] <= 400, "{costs:?} buffers");
}

/// Creates instances of two capabilities, half of which are suspended.
async fn mismatched(store: &Store, from: u32, to: u32) {
    store.grow(from, to).await;
    let held = "UPDATE flow_lanes SET suspended = 'mismatch', reason = 'x', due_at = NULL";
    store.0.fill(held).await;
}

#[tokio::test]
async fn mismatched_instances_are_retried_in_pieces() {
    let filled = Store::open().await;
    mismatched(&filled, 1, 2_500).await;
    let store = filled.0.schema.store().await;
    let (mut retried, mut place) = (Vec::new(), None);
    loop {
        let piece = store.retry_mismatched(Capabilities::Any, place).await.expect("retried");
        retried.push(piece.count);
        assert!(!piece.changes.is_empty(), "each piece reports its own");
        place = piece.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!(retried, [1_000, 1_000, 500], "a piece may have both capabilities");
    let left = "SELECT count(*) FROM flow_lanes WHERE suspended IS NOT NULL OR due_at IS NULL";
    let row = filled.0.client.query_one(left, &[]).await.expect("counted");
    assert_eq!(row.get::<_, i64>(0), 0);
    store.close().await;
}

/// Reads the batch after the first one of the second capability, with few or very many instances
/// left.
#[tokio::test]
async fn a_piece_of_mismatched_instances_does_not_grow_with_those_behind_it() {
    let store = Store::open().await;
    let mut costs = Vec::new();
    for (from, to) in [(1, 3_000), (3_001, 40_000)] {
        mismatched(&store, from, to).await;
        let piece = "SELECT sum(resumed) FROM flow_resume(NULL, '[1, 2]', 2, 100)";
        costs.push(store.0.buffers("", piece).await);
    }
    assert!(costs[1] - costs[0] <= 1_000 * 3 + GROWTH_MAX, "{costs:?} buffers");
}

/// One parent has very many children, started and pending.
#[tokio::test]
async fn a_page_of_children_reads_no_more_than_it_shows() {
    let store = Store::open().await;
    let sql = written_out(include_str!("../../../sql/queries/flow_list_parent.sql"));
    let prepare = format!("SET plan_cache_mode = force_generic_plan; PREPARE children AS {sql}");
    store.0.client.batch_execute(&prepare).await.expect("prepared");
    let mut costs = Vec::new();
    for (from, to) in [(1, 100), (101, 10_000)] {
        store.grow(from, to).await;
        let children = format!(
            "UPDATE flow_instances SET parent = 'p' WHERE parent IS NULL;
             INSERT INTO flow_lanes (instance, parent, capability_id, due_at, next_seq, started_at)
             SELECT 'p' || n, 'p', 2, now(), 2, now() - n * interval '1 s'
             FROM generate_series({from}, {to}) AS n;
             INSERT INTO flow_messages (lane_id, seq, visible_at, starts, payload)
             SELECT lane_id, 1, due_at, true, 'x' FROM flow_lanes l
             WHERE NOT EXISTS (SELECT FROM flow_messages m WHERE m.lane_id = l.lane_id)"
        );
        store.0.fill(&children).await;
        let mut pages = Vec::new();
        for states in ["{}", "{running}", "{pending}"] {
            let page = format!(
                "EXECUTE children (NULL, '{states}', NULL, NULL, 'p', NULL, NULL, NULL, NULL, 21)"
            );
            pages.push(store.0.buffers("", &page).await);
        }
        costs.push(pages);
    }
    // One or two index descents for each row of the page visit one more level.
    let grown = costs[0].iter().zip(&costs[1]).all(|(few, many)| many - few <= 4 * 21);
    assert!(grown, "{costs:?} buffers");
}
