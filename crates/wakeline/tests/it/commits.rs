//! Tests of the number of statements of an orchestration, as counted by the PostgreSQL server.

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline::{
    ActivityContext, FlowError, LongPollConfig, OrchestrationContext, Registry, Runtime,
};

use crate::support::{Database, Node, Store, eventually};

async fn greet(_: ActivityContext, name: String) -> Result<String, FlowError> {
    Ok(format!("hello {name}"))
}

async fn greeting(ctx: OrchestrationContext, name: String) -> Result<String, FlowError> {
    ctx.call(greet, name).await
}

/// Returns the statements of clients on the schema, with their numbers of calls.
async fn statements(database: &Database) -> BTreeMap<String, i64> {
    let mut statements = database.0.statements().await;
    statements.retain(|(sql, _)| sql.contains("\"wakeline"));
    statements.into_iter().collect()
}

/// Returns the calls in between, without sweeps.
fn since(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let calls = after.iter().map(|(sql, calls)| (sql, calls - before.get(sql).unwrap_or(&0)));
    let calls = calls.filter(|(sql, calls)| *calls > 0 && !sql.contains("flow_sweep"));
    calls.map(|(sql, calls)| (sql.clone(), calls)).collect()
}

/// Waits until a node listens to others, at which all its dispatchers look once, and until it has
/// then sent no statement for a second.
async fn settled(database: &Database) {
    eventually("it has joined and is silent", async || {
        let before = statements(database).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let joined = before.keys().any(|sql| sql.contains("node_join"));
        joined && since(&before, &statements(database).await).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_one_activity_orchestration_is_four_statements_and_four_commits() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    // A late answer of a busy machine must not start degraded polling.
    let long_poll = LongPollConfig {
        notify_delivery_timeout: Duration::from_secs(60),
        ..LongPollConfig::default()
    };
    let node = store.node(long_poll).await;
    let Node::Postgres(provider) = &node else { unreachable!("made above") };
    let registry = Registry::builder()
        .orchestration("greeting", greeting)
        .activity("greet", greet)
        .build()
        .expect("a registry");
    let runtime = Runtime::start(node.provider(), registry).await.expect("started");
    eventually("all dispatchers wait", async || {
        let hub = provider.snapshot();
        hub.waiters == 8 && hub.claims_in_flight == 0 && hub.claims_queued == 0
    })
    .await;
    settled(database).await;
    let before = statements(database).await;
    runtime.client().start("g", "greeting", "ann").await.expect("started");
    eventually("it has ended", async || {
        let calls = since(&before, &statements(database).await);
        calls.values().sum::<i64>() >= 4
    })
    .await;
    // A node that polls would have been noticed by now.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = since(&before, &statements(database).await);
    // Each statement is its own transaction: there is no BEGIN among them.
    assert_eq!(calls.values().sum::<i64>(), 4, "{calls:#?}");
    let said: String = runtime.client().wait("g", Duration::from_secs(10)).await.expect("ended");
    assert_eq!(said, "hello ann");
    runtime.shutdown(Duration::from_secs(5)).await;
}
