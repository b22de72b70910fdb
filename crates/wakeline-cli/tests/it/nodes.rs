//! Tests of several server processes on one store.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Server, Store};

/// Flags for a fallback that is too rare to let a test pass, and for tolerating hints that a busy
/// machine handles late.
const NO_FALLBACK: [&str; 4] =
    ["--fallback-poll-interval-ms", "3600000", "--notify-delivery-timeout-ms", "30000"];

#[tokio::test]
async fn a_push_on_one_node_answers_a_pop_parked_on_another() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        for round in 0..20 {
            let parked = b.client.park("/api/v1/pop/queue/q?wait=true&autoAck=true").await;
            b.parked(1).await;
            let id = format!("m{round}");
            a.client.push("q", &[("p", &id)]).await;
            let answer = parked.answer().await.expect("an answer");
            assert_eq!(answer.ids(), [id], "{}", store.name());
        }
        assert_eq!(b.wake().await["degraded"], serde_json::Value::Null, "{}", store.name());
    }
}

#[tokio::test]
async fn an_acknowledged_push_is_visible_to_a_pop_on_another_node() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        for round in 0..20 {
            let id = format!("m{round}");
            a.client.push("q", &[(&id, &id)]).await;
            let popped = b.client.get("/api/v1/pop/queue/q?autoAck=true").await;
            assert_eq!(popped.ids(), [id], "{}", store.name());
        }
    }
}

#[tokio::test]
async fn waiters_of_a_group_that_another_node_deleted_start_again() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        a.client.push("q", &[("p", "x")]).await;
        let pop = "/api/v1/pop/queue/q?consumerGroup=g&autoAck=true";
        assert_eq!(b.client.get(pop).await.ids(), ["x"]);
        let parked = b.client.park(&format!("{pop}&wait=true&timeout=20000")).await;
        b.parked(1).await;
        let deleted = a.client.call("DELETE", "/api/v1/consumer-groups/g/queues/q", "").await;
        assert_eq!(deleted.expect("an answer").status, 200);
        assert_eq!(parked.answer().await.expect("an answer").ids(), ["x"], "{}", store.name());
    }
}

#[tokio::test]
async fn another_node_gets_the_messages_of_a_killed_node_when_its_lease_ends() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        let options = json!({"queue": "q", "options": {"leaseTime": 2}});
        assert_eq!(a.client.post("/api/v1/configure", options).await.status, 200);
        let parked = b.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
        b.parked(1).await;
        // Normally a pop of A gets the message before B does, and B sees it as leased.
        let first = a.client.park("/api/v1/pop/queue/q?wait=true").await;
        a.parked(1).await;
        let id = format!("{}-1", store.name());
        a.client.push("q", &[("p", &id)]).await;
        let (winner, waiting) = tokio::select! {
            answer = first.answer() => (answer.expect("an answer"), Some(parked)),
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                // B was faster: its pop holds the lease, and a new pop waits for the message.
                let answer = parked.answer().await.expect("an answer");
                (answer, None)
            }
        };
        assert_eq!(winner.ids(), std::slice::from_ref(&id));
        let waiting = match waiting {
            Some(parked) => parked,
            None => b.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await,
        };
        let started = Instant::now();
        a.kill().await;
        let answer = waiting.answer().await.expect("an answer");
        assert_eq!(answer.ids(), [id], "{}", store.name());
        assert_eq!(answer.json()["messages"][0]["attempt"], 2);
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "woken by the end of the lease, not by the fallback"
        );
    }
}

#[tokio::test]
async fn stale_leases_are_refused_on_every_node() {
    for store in Store::both().await {
        let a = Server::start(&store, &[]).await;
        let b = Server::start(&store, &[]).await;
        let options = json!({"queue": "q", "options": {"leaseTime": 1}});
        assert_eq!(a.client.post("/api/v1/configure", options).await.status, 200);
        a.client.push("q", &[("p", "x")]).await;
        let zombie = a.client.get("/api/v1/pop/queue/q").await;
        let holder = b.client.get("/api/v1/pop/queue/q?wait=true&timeout=10000").await;
        assert_eq!(holder.ids(), ["x"]);
        for node in [&a, &b] {
            let refused = node.client.ack(&zombie, None).await.json();
            assert_eq!(refused[0]["error"], "Invalid or expired lease", "{}", store.name());
        }
        assert_eq!(b.client.ack(&holder, None).await.json()[0]["success"], true);
    }
}
