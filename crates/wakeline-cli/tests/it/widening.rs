//! The interval of sweeps that find nothing grows, and then no statements are sent at all.

use std::time::Duration;

use crate::idle::{TOLERATE_LATE_HINTS, pollers};
use crate::support::{Hook, Server, Store, long};

/// Returns the counts of store calls that a server reports, without the calls for reading the
/// metrics.
async fn store_calls(server: &Server) -> Vec<String> {
    let text = server.client.get("/metrics").await.body;
    let calls = text.lines().filter(|line| line.starts_with("wakeline_store_calls_total{"));
    let calls = calls.filter(|line| !line.contains("unclaimed"));
    let mut lines: Vec<_> = calls.map(str::to_owned).collect();
    lines.sort();
    lines
}

async fn no_call_while_idle(store: Store) {
    // Ten minutes in the long version, three seconds otherwise.
    let (first, watch) = if long() { (4_000, 600) } else { (40, 3) };
    let watch = Duration::from_secs(watch);
    let first_ms = first.to_string();
    let flags = [
        ["--fallback-poll-interval-ms", first_ms.as_str()],
        ["--fallback-poll-interval-max-ms", "3600000"],
        ["--default-timeout-ms", "2000"],
        TOLERATE_LATE_HINTS,
    ]
    .concat();
    let server = Hook::serve(&store.url(), &flags).await;
    server.client.push("q0", &[("p", "seen")]).await;
    for group in ["g0", "g1"] {
        let path = format!("/api/v1/pop/queue/q0?autoAck=true&consumerGroup={group}");
        assert_eq!(server.client.get(&path).await.status, 200);
    }
    let mut clients = pollers(&server, 10, 2, 100);
    server.parked(100).await;
    // Sweeps are made 1, 2, 4, .. 256 times the first interval after the first waiter, and then
    // after 512 times.
    tokio::time::sleep(Duration::from_millis(first * 275)).await;
    let before = store_calls(&server).await;
    if let Store::Postgres(database) = &store {
        database.reset_statements().await;
    }
    tokio::time::sleep(watch).await;
    if let Store::Postgres(database) = &store {
        let statements = database.statements().await;
        assert!(statements.is_empty(), "{statements:#?}");
    }
    assert_eq!(store_calls(&server).await, before, "on {}", store.name());
    eprintln!("{}: no call of the store in {watch:?}, 100 polls parked", store.name());
    assert!(clients.try_join_next().is_none(), "a client failed");
    server.client.push("q1", &[("p", "woken")]).await;
    let woken = clients.join_next().await.expect("a client pops it");
    assert!(woken.is_err(), "what it pops ends a client");
}

#[tokio::test]
async fn once_the_sweep_has_widened_parked_polls_make_no_statement_on_both_stores() {
    let [one, other] = Store::both().await;
    tokio::join!(no_call_while_idle(one), no_call_while_idle(other));
}
