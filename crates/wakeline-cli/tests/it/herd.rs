//! Tests with thousands of parked pops on one node.

use serde_json::json;

use crate::support::{Parked, Server, Store, eventually, long};

/// Maximum memory of a parked pop with its connection, which the design limits to 20 kB. In a debug
/// build, 16,000 to 17,100 bytes were measured.
const POLL_BYTES_MAX: u64 = 20_000;

/// Number of parked pops: 10,000 as in the design. The ordinary run uses fewer on one of the stores
/// to save time.
fn herd_len(store: &Store) -> usize {
    match store {
        Store::Postgres(_) if !long() => 2_000,
        _ => 10_000,
    }
}

/// Parks pops, distributed over a number of queues.
async fn park(server: &Server, count: usize, queues: usize) -> Vec<Parked> {
    let mut parked = Vec::with_capacity(count);
    for n in 0..count {
        let path = format!("/api/v1/pop/queue/herd{}?wait=true&timeout=120000", n % queues);
        parked.push(server.client.park(&path).await);
    }
    server.parked(count as u64).await;
    parked
}

/// Pushes a message for each parked pop, and reads the answers.
async fn answer(server: &Server, parked: Vec<Parked>, queues: usize) {
    let count = parked.len();
    let item = |n: usize| {
        json!({"queue": format!("herd{}", n % queues), "partition": format!("p{n}"),
                                 "payload": n, "transactionId": format!("t{n}")})
    };
    let items: Vec<_> = (0..count).map(item).collect();
    let pushed = server.client.post("/api/v1/push", json!({"items": items})).await;
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let mut ids = std::collections::BTreeSet::new();
    for poll in parked {
        let answer = poll.answer().await.expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        ids.extend(answer.ids());
    }
    assert_eq!(ids.len(), count, "every poll got a message of its own");
    assert_eq!(server.wake().await["waiters"], 0);
}

#[tokio::test]
async fn parked_polls_are_small_leave_nothing_behind_and_are_all_answered() {
    for store in Store::both().await {
        let count = herd_len(&store);
        let flags = ["--default-timeout-ms", "120000", "--waiters-max", "20000"];
        let server = Server::start(&store, &flags).await;
        server.client.push("herd0", &[("warm", "warm")]).await;
        assert_eq!(server.client.get("/api/v1/pop/queue/herd0?autoAck=true").await.status, 200);
        let (memory, descriptors) = (server.memory(), server.descriptors());

        let parked = park(&server, count, 1).await;
        let each = server.memory().saturating_sub(memory) / count as u64;
        eprintln!("{}: {count} parked polls, {each} bytes each", store.name());
        assert!(each < POLL_BYTES_MAX, "{each} bytes for a parked poll");

        drop(parked);
        server.parked(0).await;
        eventually("the descriptors are closed", || async {
            server.descriptors() <= descriptors + 2
        })
        .await;

        let parked = park(&server, count, 1).await;
        answer(&server, parked, 1).await;
    }
}

/// Tests the numbers of polls and groups in the capacity table of the design, over real
/// connections.
#[tokio::test]
async fn parked_polls_of_many_groups_are_all_answered() {
    let mut sizes = vec![(500, 200), (1_000, 500)];
    if long() {
        sizes.push((5_000, 2_000));
    }
    for (polls, groups) in sizes {
        for store in Store::both().await {
            let server = Server::start(&store, &["--default-timeout-ms", "120000"]).await;
            let parked = park(&server, polls, groups).await;
            assert_eq!(server.wake().await["lines"], groups, "each group has a line");
            answer(&server, parked, groups).await;
        }
    }
}

#[tokio::test]
async fn one_waiter_too_many_is_refused_with_retry_after() {
    let store = Store::sqlite();
    let server = Server::start(&store, &["--waiters-max", "3"]).await;
    let mut parked = Vec::new();
    for _ in 0..3 {
        parked.push(server.client.park("/api/v1/pop/queue/q?wait=true").await);
    }
    server.parked(3).await;
    let refused = server.client.get("/api/v1/pop/queue/q?wait=true").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["code"], "too_many_waiters");
    assert!(refused.head.contains("retry-after: "), "{refused:?}");
    assert_eq!(server.client.get("/api/v1/pop/queue/q").await.status, 204);
}
