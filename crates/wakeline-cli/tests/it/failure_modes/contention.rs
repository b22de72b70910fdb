//! Contention: claims that race, locks that are taken in every order, and transactions of users
//! that stay open.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Client, Proxy, Server, Store, eventually};

#[tokio::test]
async fn ten_pops_of_ten_messages_all_find_one_though_two_nodes_race() {
    for store in Store::both().await {
        let nodes = [Server::start(&store, &[]).await, Server::start(&store, &[]).await];
        for round in 0..30 {
            let ids: Vec<_> = (0..10).map(|n| format!("{round}-{n}")).collect();
            let partitions: Vec<_> = (0..10).map(|n| format!("p{n}")).collect();
            let items: Vec<_> =
                partitions.iter().zip(&ids).map(|(p, id)| (p.as_str(), id.as_str())).collect();
            nodes[0].client.push("q", &items).await;
            let mut pops = JoinSet::new();
            for n in 0..10 {
                let client = nodes[n % 2].client;
                pops.spawn(async move { client.get("/api/v1/pop/queue/q?autoAck=true").await });
            }
            let mut found = Vec::new();
            while let Some(answer) = pops.join_next().await {
                found.extend(answer.expect("no panic").ids());
            }
            found.sort();
            assert_eq!(found, ids, "{}: no pop was answered as empty", store.name());
        }
    }
}

/// Pushes to four partitions and acknowledges the messages that it popped, in one transaction.
async fn transact(client: Client, worker: usize, rounds: usize) {
    let mut order = ["a", "b", "c", "d"];
    order.rotate_left(worker % 4);
    if worker % 2 == 1 {
        order.reverse();
    }
    for round in 0..rounds {
        let push = |partition: &str| {
            json!({"queue": "q", "partition": partition, "payload": round,
                   "transactionId": format!("{worker}-{round}-{partition}")})
        };
        let popped = client.get("/api/v1/pop/queue/q?batch=4&partitions=4").await;
        let mut operations = vec![json!({"type": "push", "items": order.map(push)})];
        let mut leases = Vec::new();
        if popped.status == 200 {
            let popped = popped.json();
            for message in popped["messages"].as_array().expect("messages").iter().rev() {
                leases.push(message["leaseId"].clone());
                operations.push(json!({"type": "ack", "status": "completed",
                    "transactionId": message["transactionId"],
                    "partitionId": message["partitionId"]}));
            }
        }
        let body = json!({"operations": operations, "requiredLeases": leases});
        let answer = client.post("/api/v1/transaction", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["success"], true, "{answer:?}");
    }
}

#[tokio::test]
async fn transactions_over_the_same_partitions_in_every_order_never_deadlock() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let nodes = [Server::start(&store, &[]).await, Server::start(&store, &[]).await];
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        workers.spawn(transact(nodes[worker % 2].client, worker, 25));
    }
    while workers.join_next().await.transpose().expect("no panic").is_some() {}
    // Sessions report their statistics when they end at the latest.
    for node in nodes {
        assert_eq!(node.terminate().await, Some(0));
    }
    let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks: i64 = database.client().await.query_one(sql, &[]).await.expect("read").get(0);
    assert_eq!(deadlocks, 0);
}

#[tokio::test]
async fn a_users_open_transaction_blocks_no_push_and_is_ordered_by_its_commit() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &["--notify", "trigger"]).await;
    server.client.push("q", &[("p", "first")]).await;
    let (early, late) = (database.client().await, database.client().await);
    for (session, id) in [(&early, "early"), (&late, "late")] {
        let sql = format!(
            "BEGIN; INSERT INTO wakeline.incoming (queue, partition, transaction_id, payload) \
             VALUES ('q', 'p', '{id}', '1')"
        );
        session.batch_execute(&sql).await.expect("inserted");
    }
    let started = Instant::now();
    for n in 0..20 {
        server.client.push("q", &[("p", &format!("n{n}")), (&format!("o{n}"), "other")]).await;
    }
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "the pushes waited for an open transaction"
    );
    let pop = "/api/v1/pop/queue/q/partition/p?wait=true&timeout=20000&autoAck=true";
    for session in [&late, &early] {
        session.batch_execute("COMMIT").await.expect("committed");
        // The message is moved to the queue before the next transaction is committed.
        let gone = "SELECT count(*) FROM wakeline.incoming";
        eventually("the message was moved to the queue", || async {
            session.query_one(gone, &[]).await.expect("read").get::<_, i64>(0) == 0
        })
        .await;
    }
    let mut ids = Vec::new();
    for _ in 0..23 {
        let popped = server.client.get(pop).await;
        let messages = popped.json()["messages"].as_array().expect("messages").clone();
        ids.extend(messages.iter().map(|m: &Value| m["transactionId"].clone()));
    }
    assert_eq!((&ids[0], &ids[20]), (&json!("first"), &json!("n19")));
    assert_eq!(ids[21..], [json!("late"), json!("early")], "in the order of their commits");
}

async fn push_one(client: Client, id: String) -> std::io::Result<u16> {
    let item = json!({"queue": "q", "partition": "p", "transactionId": id, "payload": 1});
    let body = json!({"items": [item]}).to_string();
    client.call("POST", "/api/v1/push", &body).await.map(|answer| answer.status)
}

/// Returns the transaction ids of all stored messages, in order.
async fn stored(database: &wakeline_testkit::database::TestDatabase) -> Vec<String> {
    let sql = "SELECT transaction_id FROM wakeline.messages ORDER BY transaction_id COLLATE \"C\"";
    let rows = database.client().await.query(sql, &[]).await.expect("read");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_bad_push_among_many_fails_alone_and_nothing_is_stored_twice() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &[]).await;
    let refuse = "ALTER TABLE wakeline.segments ADD CHECK (NOT txn_ids && '{bad}'::text[])";
    database.client().await.batch_execute(refuse).await.expect("refuses");
    let mut pushes = JoinSet::new();
    for n in 0..60 {
        let id = if n % 20 == 10 { "bad".to_owned() } else { format!("m{n:02}") };
        let client = server.client;
        pushes.spawn(async move { (id.clone(), push_one(client, id).await.expect("an answer")) });
    }
    let mut good = Vec::new();
    while let Some(pushed) = pushes.join_next().await {
        let (id, status) = pushed.expect("no panic");
        assert_eq!(status, if id == "bad" { 500 } else { 201 }, "{id}");
        good.extend((id != "bad").then_some(id));
    }
    good.sort();
    assert_eq!(stored(database).await, good);
}

#[tokio::test]
async fn connections_cut_at_any_moment_store_each_push_once() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let proxy = Proxy::start(database.address()).await;
    let nodes = [
        Server::start_url(&database.url_through(proxy.address), &[]).await,
        Server::start(&store, &[]).await,
    ];
    let mut producers = JoinSet::new();
    for producer in 0..8_usize {
        // Two producers push the same messages, each to its own node, like a client that repeats a
        // push with an unknown outcome.
        let client = nodes[producer % 2].client;
        producers.spawn(async move {
            for n in 0..40 {
                let id = format!("{}-{n:02}", producer / 2);
                while !matches!(push_one(client, id.clone()).await, Ok(201)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
    let mut cuts = 0;
    while !producers.is_empty() {
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(5)).await;
        proxy.restore();
        cuts += 1;
        // The pauses grow, because a connection needs more time on a busy machine before it is
        // useful.
        let pause = Duration::from_millis(20 + cuts * 13 % 60 + cuts / 4);
        if let Ok(Some(ended)) = tokio::time::timeout(pause, producers.join_next()).await {
            ended.expect("no panic");
        }
        assert!(cuts < 1_000, "the pushes never get through");
    }
    let expected: Vec<_> =
        (0..4).flat_map(|p| (0..40).map(move |n| format!("{p}-{n:02}"))).collect();
    assert_eq!(stored(database).await, expected);
}

#[tokio::test]
async fn a_claim_waits_for_a_locked_cursor_and_its_lease_begins_after_that() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &["--fallback-poll-interval-ms", "3600000"]).await;
    let options = json!({"queue": "q", "options": {"leaseTime": 2}});
    assert_eq!(server.client.post("/api/v1/configure", options).await.status, 200);
    server.client.push("q", &[("p", "first")]).await;
    assert_eq!(server.client.get("/api/v1/pop/queue/q?autoAck=true").await.ids(), ["first"]);
    server.client.push("q", &[("p", "x")]).await;
    let rival = database.client().await;
    let lock = "BEGIN; SELECT FROM wakeline.cursors FOR UPDATE";
    rival.batch_execute(lock).await.expect("locked");
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    rival.batch_execute("ROLLBACK").await.expect("unlocked");
    let answer = tokio::time::timeout(Duration::from_secs(20), parked.answer()).await;
    let popped = answer.expect("woken by the unlock, not by the fallback").expect("an answer");
    assert_eq!(popped.ids(), ["x"]);
    let settled = server.client.ack(&popped, None).await.json();
    assert_eq!(settled[0]["success"], true, "the lease had expired when it began: {settled}");
}

#[tokio::test]
async fn a_claim_for_a_disconnected_client_is_released_at_once_without_counting_an_attempt() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &["--fallback-poll-interval-ms", "3600000"]).await;
    server.client.push("q", &[("p", "x")]).await;
    let rival = database.client().await;
    let lock = "BEGIN; LOCK TABLE wakeline.cursors IN ACCESS EXCLUSIVE MODE";
    rival.batch_execute(lock).await.expect("locked");
    let gone = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    server.parked(1).await;
    drop(gone);
    server.parked(0).await;
    let next = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    server.parked(1).await;
    rival.batch_execute("ROLLBACK").await.expect("unlocked");
    let answer = tokio::time::timeout(Duration::from_secs(20), next.answer()).await;
    let popped =
        answer.expect("woken by the release, not by the end of the lease").expect("an answer");
    assert_eq!(popped.ids(), ["x"]);
    assert_eq!(
        popped.json()["messages"][0]["attempt"],
        1,
        "the first claim is not counted as an attempt"
    );
}
