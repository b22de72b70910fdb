//! An idle server sends no statements but its sweeps.

use std::time::Duration;

use serde_json::json;

use crate::support::{Hook, Server, Store, long};

/// Flags for a server that tolerates late hints: on a busy machine a hint may be handled late,
/// which must not look like a lost hint.
pub(crate) const TOLERATE_LATE_HINTS: [&str; 2] = ["--notify-delivery-timeout-ms", "30000"];

/// Starts clients that pop, and pop again when there was no message.
pub(crate) fn pollers(
    server: &Server,
    queues: usize,
    groups: usize,
    count: usize,
) -> tokio::task::JoinSet<()> {
    let mut clients = tokio::task::JoinSet::new();
    for index in 0..count {
        let client = server.client;
        let (queue, group) = (index % queues, index / queues % groups);
        let path = format!("/api/v1/pop/queue/q{queue}?wait=true&consumerGroup=g{group}");
        clients.spawn(async move {
            loop {
                let answer = client.get(&path).await;
                assert_eq!(answer.status, 204, "{answer:?}");
            }
        });
    }
    clients
}

#[tokio::test]
async fn a_hundred_parked_polls_make_no_statements_but_the_sweep() {
    // The short version keeps the proportions: each client pops twice for each sweep.
    let (flags, warm, watch): (&[&str], _, _) = if long() {
        (&TOLERATE_LATE_HINTS, Duration::from_secs(70), Duration::from_secs(300))
    } else {
        let flags = &[
            TOLERATE_LATE_HINTS[0],
            TOLERATE_LATE_HINTS[1],
            "--default-timeout-ms",
            "1000",
            "--fallback-poll-interval-ms",
            "2000",
        ];
        (flags, Duration::from_secs(3), Duration::from_secs(7))
    };
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    // The server has keys: without keys it sends no webhooks, and does not wait for deliveries.
    let server = Hook::serve(&store.url(), flags).await;
    for queue in 0..10 {
        // Messages were consumed, are leased, or are delayed: idleness must not depend on that.
        server.client.push(&format!("q{queue}"), &[("p", "seen")]).await;
        for group in 0..2 {
            let path = format!("/api/v1/pop/queue/q{queue}?autoAck=true&consumerGroup=g{group}");
            assert_eq!(server.client.get(&path).await.status, 200);
        }
    }
    let delayed = json!({"queue": "q0", "options": {"delayedProcessing": 3600}});
    assert_eq!(server.client.post("/api/v1/configure", delayed).await.status, 200);
    server.client.push("q0", &[("p", "delayed")]).await;
    let leased = json!({"queue": "q1", "options": {"leaseTime": 3600}});
    assert_eq!(server.client.post("/api/v1/configure", leased).await.status, 200);
    server.client.push("q1", &[("p", "leased")]).await;
    for group in 0..2 {
        let path = format!("/api/v1/pop/queue/q1?consumerGroup=g{group}");
        assert_eq!(server.client.get(&path).await.ids(), ["leased"]);
    }
    let mut clients = pollers(&server, 10, 2, 100);
    server.parked(100).await;
    tokio::time::sleep(warm).await;
    database.reset_statements().await;
    tokio::time::sleep(watch).await;
    let statements = database.statements().await;
    let (sweeps, others): (Vec<_>, Vec<_>) =
        statements.into_iter().partition(|(sql, _)| sql.contains("sweep"));
    assert!(others.is_empty(), "statements of an idle server: {others:#?}");
    let calls: i64 = sweeps.iter().map(|(_, calls)| calls).sum();
    eprintln!("idle for {watch:?}: {calls} statements, all of them sweeps");
    // Each API with waiters has a sweep of its own: the queue API for pops, and the webhook API for
    // senders.
    assert_eq!(sweeps.len(), 2, "{sweeps:?}");
    assert!(sweeps.iter().all(|(_, calls)| (1..=6).contains(calls)), "{sweeps:?}");
    assert!(clients.try_join_next().is_none(), "a client failed");
}
