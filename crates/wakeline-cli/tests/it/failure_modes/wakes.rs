//! Everything that makes messages available wakes the pops that wait for them. The fallback is an
//! hour away, so that a test passes only by a hint or a timer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Parked, Server, Store};

const NO_FALLBACK: [&str; 4] =
    ["--fallback-poll-interval-ms", "3600000", "--notify-delivery-timeout-ms", "30000"];

/// Waits for the answer of a parked pop, which must come long before any fallback.
async fn soon(what: &str, parked: Parked) -> Answer {
    let answer = tokio::time::timeout(Duration::from_secs(20), parked.answer()).await;
    answer.unwrap_or_else(|_| panic!("never answered: {what}")).expect("an answer")
}

async fn configure(server: &Server, queue: &str, options: Value) {
    let body = json!({"queue": queue, "options": options});
    let answer = server.client.post("/api/v1/configure", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Parks a pop, and waits until its first claim has found nothing.
async fn park(server: &Server, path: &str) -> Parked {
    let path = format!("/api/v1/pop/{path}");
    let joiner = if path.contains('?') { '&' } else { '?' };
    let parked = server.client.park(&format!("{path}{joiner}wait=true&timeout=60000")).await;
    server.parked(1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    parked
}

async fn ack(server: &Server, popped: &Answer, status: &str) {
    let message = &popped.json()["messages"][0];
    let body = json!({"transactionId": message["transactionId"], "status": status,
                      "partitionId": message["partitionId"], "leaseId": message["leaseId"]});
    let answer = server.client.post("/api/v1/ack", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn every_event_that_makes_messages_available_wakes_a_waiter_on_another_node() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        for status in ["retry", "failed", "completed"] {
            configure(&a, status, json!({"leaseTime": 300, "retryDelay": 0})).await;
            a.client.push(status, &[("p", "1"), ("p", "2")]).await;
            let held = a.client.get(&format!("/api/v1/pop/queue/{status}")).await;
            let parked = park(&b, &format!("queue/{status}")).await;
            ack(&a, &held, status).await;
            let expected = if status == "completed" { "2" } else { "1" };
            assert_eq!(soon(status, parked).await.ids(), [expected], "{status}");
        }

        configure(&a, "expiry", json!({"leaseTime": 2})).await;
        a.client.push("expiry", &[("p", "x")]).await;
        assert_eq!(a.client.get("/api/v1/pop/queue/expiry").await.ids(), ["x"]);
        let parked = park(&b, "queue/expiry").await;
        assert_eq!(soon("a lease ended", parked).await.ids(), ["x"]);

        configure(&a, "delay", json!({"delayedProcessing": 3600})).await;
        a.client.push("delay", &[("p", "x")]).await;
        let parked = park(&b, "queue/delay").await;
        configure(&a, "delay", json!({"delayedProcessing": 0})).await;
        assert_eq!(soon("a delay was shortened", parked).await.ids(), ["x"]);

        a.client.push("seek", &[("p", "x")]).await;
        let read = a.client.get("/api/v1/pop/queue/seek?consumerGroup=g&autoAck=true").await;
        assert_eq!(read.ids(), ["x"]);
        let parked = park(&b, "queue/seek?consumerGroup=g").await;
        let seek = json!({"subscriptionTimestamp": "2020-01-01T00:00:00Z"});
        let moved = a.client.post("/api/v1/consumer-groups/g/subscription", seek).await;
        assert_eq!(moved.status, 200, "{moved:?}");
        assert_eq!(soon("a group was moved", parked).await.ids(), ["x"]);
        assert_eq!(b.wake().await["degraded"], Value::Null, "no pop was answered by polling");
    }
}

#[tokio::test]
async fn one_push_wakes_every_kind_of_selector() {
    for store in Store::both().await {
        let a = Server::start(&store, &NO_FALLBACK).await;
        let b = Server::start(&store, &NO_FALLBACK).await;
        let selectors = [
            "queue/shop.mail?consumerGroup=g0",
            "queue/shop.mail/partition/p?consumerGroup=g1",
            "?namespace=shop&consumerGroup=g2",
            "?task=mail&consumerGroup=g3",
            "?namespace=shop&task=mail&consumerGroup=g4",
            "?consumerGroup=g5",
        ];
        let mut parked = Vec::new();
        for selector in selectors {
            let path = format!("/api/v1/pop/{selector}&wait=true&timeout=60000").replace("/?", "?");
            parked.push((selector, b.client.park(&path).await));
        }
        b.parked(selectors.len() as u64).await;
        a.client.push("shop.mail", &[("p", "x")]).await;
        for (selector, parked) in parked {
            assert_eq!(soon(selector, parked).await.ids(), ["x"], "{selector} on {}", store.name());
        }
    }
}

#[tokio::test]
async fn a_node_reads_timers_that_were_set_before_it_started() {
    for store in Store::both().await {
        let before = Server::start(&store, &NO_FALLBACK).await;
        configure(&before, "later", json!({"delayedProcessing": 2})).await;
        before.client.push("later", &[("p", "x")]).await;
        before.kill().await;
        let after = Server::start(&store, &NO_FALLBACK).await;
        let at_once = after.client.get("/api/v1/pop/queue/later").await;
        let parked = after.client.park("/api/v1/pop/queue/later?wait=true&timeout=60000").await;
        if at_once.status == 204 {
            assert_eq!(soon("a timer fired", parked).await.ids(), ["x"], "{}", store.name());
        }
    }
}
