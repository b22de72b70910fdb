//! The metrics about connections to PostgreSQL.

use std::cell::Cell;

use crate::support::{Server, Store, eventually};

/// Number of calls that wait for the only connection: more than there are background tasks.
const WAITING: u64 = 50;

#[tokio::test]
async fn metrics_count_connections_in_use_and_calls_that_waited_for_one() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    // Four connections are reserved for other purposes: one is left for calls like these.
    let server = Server::start(&store, &["--pg-pool-max", "5"]).await;
    let in_use = || server.metric("wakeline_store_pool_in_use");
    let waits = || server.metric("wakeline_store_pool_waits_total");
    let (mut session, looking) = (database.client().await, database.client().await);
    let holding = session.transaction().await.expect("begun");
    holding.batch_execute("LOCK TABLE wakeline.traces").await.expect("held");
    let first = server.client.park("/api/v1/traces/names").await;
    let blocked = "SELECT count(*) = 1 FROM pg_locks
        WHERE relation = 'wakeline.traces'::regclass AND NOT granted";
    eventually("the first call waits for the table", || async {
        looking.query_one(blocked, &[]).await.expect("read").get(0)
    })
    .await;
    // Reading the metrics needs a connection, too: each read now waits for it, and is counted.
    let own = Cell::new(waits().await);
    assert_eq!(in_use().await, 1);
    own.set(own.get() + 1);
    // Background calls wait for it as well, but far fewer of them.
    let mut calls = vec![first];
    for _ in 0..WAITING {
        calls.push(server.client.park("/api/v1/traces/names").await);
    }
    eventually("the other calls wait for the connection", || async {
        own.set(own.get() + 1);
        waits().await >= own.get() + WAITING
    })
    .await;
    assert_eq!(in_use().await, 1);
    holding.rollback().await.expect("let go");
    for call in calls {
        assert_eq!(call.answer().await.expect("an answer").status, 200);
    }
    eventually("no connection is in use", || async { in_use().await == 0 }).await;
}
