//! The hint that is sent with a push: directly after its commit, on the same connection.

use std::time::Duration;

use wakeline_testkit::conformance::ClaimSpec;

use crate::claims::{ids, push, queue, take};
use crate::support::{Node, TestSchema, eventually};

/// Counts the connections whose last statement was a push without a hint after it.
async fn bare_pushes(schema: &TestSchema) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND query LIKE '%.push_slots(%'";
    schema.client().await.query_one(sql, &[]).await.expect("read").get(0)
}

async fn two_nodes(schema: &TestSchema, coalesce: Duration) -> (Node, Node) {
    let mut options = schema.options();
    options.timings.coalesce = coalesce;
    let (a, b) = (Node::start(options).await, Node::start(schema.options()).await);
    eventually("they know each other", async || a.store.peers() == Some(1)).await;
    (a, b)
}

#[tokio::test]
async fn a_node_that_is_notified_of_a_push_finds_it() {
    let schema = TestSchema::new().await;
    let (a, b) = two_nodes(&schema, Duration::ZERO).await;
    let spec = ClaimSpec::queue(&queue()).auto_ack();
    for n in 0..20 {
        let id = n.to_string();
        push(&a.store, "p", &id).await;
        b.sink.until_changed("q").await;
        b.sink.take();
        assert_eq!(ids(&take(&b.store, &spec).await), [id]);
    }
    assert_eq!(bare_pushes(&schema).await, 0, "the last push was followed by its hint");
    assert_eq!(a.store.notifies_sent(), 20);
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn successive_pushes_piggyback_no_hint() {
    let schema = TestSchema::new().await;
    let (a, b) = two_nodes(&schema, Duration::from_secs(600)).await;
    for n in 0..20 {
        push(&a.store, "p", &n.to_string()).await;
    }
    b.sink.until_changed("q").await;
    assert_eq!(bare_pushes(&schema).await, 1);
    assert_eq!(a.store.notifies_sent(), 1, "the others wait for the pause to end");
    a.stop().await;
    b.stop().await;
}
