//! What is done page by page or piece by piece costs what a page or piece holds, whatever waits
//! behind it.

use super::plans::Store;

/// Looping instances of which nothing can go, and others: a page enters as many as it holds.
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
    // An index descent or two for each instance of the page is a level higher.
    assert!(costs[1] - costs[0] <= 400, "{costs:?} buffers");
}
