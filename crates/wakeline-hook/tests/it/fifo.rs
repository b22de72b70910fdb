//! Endpoints that receive their messages in strict order.

use std::sync::Arc;

use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::sync::Semaphore;
use wakeline_core::{EndpointOptions, EndpointRef, FifoOptions};

use crate::support::{Answer, Bench, Receiver, schedule};

/// The message ids in a batch.
fn listed(body: &[u8]) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_slice(body).expect("a list");
    list.iter().map(|item| item["id"].as_str().expect("text").to_owned()).collect()
}

#[tokio::test]
async fn a_batch_with_too_many_bytes_is_split_into_ordered_requests() {
    let bench = Bench::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let mut receiver = Receiver::start(move |request| match request {
        0 => Answer::Gate(Arc::clone(&held)),
        _ => Answer::Status(200),
    })
    .await;
    let options = EndpointOptions { fifo: Some(FifoOptions { batch: 10 }), ..schedule(&[]) };
    bench.endpoint(&receiver.url(), options).await;
    let mut sent = vec![bench.emit("{}").await.to_string()];
    receiver.next().await;
    let payload = format!("\"{}\"", "x".repeat(1_000_000));
    for _ in 0..6 {
        sent.push(bench.emit(&payload).await.to_string());
    }
    gate.add_permits(1);
    let requests = [receiver.next().await, receiver.next().await];
    let got = requests.map(|request| listed(&request.body));
    assert_eq!(got, [sent[1..5].to_vec(), sent[5..].to_vec()]);
    let attempts = bench.attempted(7).await;
    assert!(attempts.iter().all(|attempt| attempt.attempt_no == 1), "{attempts:?}");
    bench.stop().await;
}

#[tokio::test]
async fn order_is_kept_after_a_failure() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::start(|request| match request {
        1 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let options = EndpointOptions { fifo: Some(FifoOptions::default()), ..schedule(&[30]) };
    bench.endpoint(&receiver.url(), options).await;
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.push(bench.emit("{}").await.to_string());
    }
    let mut got = Vec::new();
    for _ in 0..5 {
        got.push(receiver.next().await.header("webhook-id").to_owned());
    }
    assert_eq!(got, [0, 1, 1, 2, 3].map(|place: usize| sent[place].clone()));
    bench.stop().await;
}

#[tokio::test]
async fn a_batch_is_one_signed_request_with_an_id_of_its_own() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let options = EndpointOptions { fifo: Some(FifoOptions { batch: 3 }), ..schedule(&[200]) };
    let endpoint = bench.endpoint(&receiver.url(), options).await;
    let first = bench.emit(r#"{"n":0}"#).await;
    let alone = receiver.next().await;
    let list: Vec<Value> = serde_json::from_slice(&alone.body).expect("a list");
    assert_eq!(list.len(), 1);
    let mut sent = Vec::new();
    for n in 0..4 {
        sent.push(bench.emit(&format!("{{\"n\":{n}}}")).await.to_string());
    }
    let again = receiver.next().await;
    assert_eq!(listed(&again.body), [first.to_string()]);
    assert_eq!(again.header("webhook-id"), alone.header("webhook-id"));
    let together = receiver.next().await;
    let list: Vec<Value> = serde_json::from_slice(&together.body).expect("a list");
    let ids: Vec<_> = list.iter().map(|item| item["id"].as_str().expect("text")).collect();
    assert_eq!(ids, &sent[..3]);
    assert_eq!(list[2]["payload"]["n"], 2);
    assert_eq!(list[2]["eventType"], "invoice.paid");
    assert!(list[2]["timestamp"].as_str().expect("text").ends_with('Z'));
    assert!(together.header("webhook-id").starts_with("batch_"));
    assert_ne!(together.header("webhook-id"), alone.header("webhook-id"));
    let secret = bench.service.secret(&bench.app(), &EndpointRef::Id(endpoint)).await;
    let verifier = Webhook::new(&secret.expect("read").expect("one")).expect("a key");
    verifier.verify(&together.body, &together.headers).expect("it verifies");
    assert_eq!(bench.attempted(6).await.len(), 6);
    bench.stop().await;
}

#[tokio::test]
async fn a_retried_batch_has_the_same_messages_and_id() {
    let bench = Bench::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let mut receiver = Receiver::start(move |request| match request {
        0 => Answer::Gate(Arc::clone(&held)),
        1 | 2 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let options = EndpointOptions { fifo: Some(FifoOptions { batch: 8 }), ..schedule(&[50, 50]) };
    bench.endpoint(&receiver.url(), options).await;
    bench.emit("{}").await;
    receiver.next().await;
    let mut sent = Vec::new();
    for _ in 0..6 {
        sent.push(bench.emit("{}").await.to_string());
    }
    gate.add_permits(1);
    let first = receiver.next().await;
    let late = bench.emit("{}").await.to_string();
    assert_eq!(listed(&first.body), sent);
    for _ in 0..2 {
        let again = receiver.next().await;
        assert_eq!(listed(&again.body), sent);
        assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
    }
    assert_eq!(listed(&receiver.next().await.body), [late]);
    bench.stop().await;
}
