//! Operational messages to operators.

use serde_json::Value;
use wakeline_core::{ApplicationRef, EndpointOptions, MessageRef};
use wakeline_hook::{EndpointIn, OPERATIONAL_UID};
use wakeline_store::hook::Created;

use crate::support::{Answer, Bench, Receiver, Request, schedule};

/// An endpoint for operational messages.
async fn operators(bench: &Bench) -> Receiver {
    let receiver = Receiver::always(Answer::Status(200)).await;
    let application = ApplicationRef::parse(OPERATIONAL_UID).expect("valid");
    let endpoint = EndpointIn { url: receiver.url(), ..EndpointIn::default() };
    let made = bench.service.create_endpoint(&application, endpoint, None).await;
    assert!(matches!(made.expect("stored"), Created::New(_)));
    receiver
}

fn event(request: &Request) -> (String, Value) {
    let mut body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let kind = body["type"].as_str().expect("text").to_owned();
    (kind, body["data"].take())
}

#[tokio::test]
async fn operators_are_notified_of_a_failing_message_and_its_recovery() {
    let bench = Bench::start().await;
    let mut operators = operators(&bench).await;
    let receiver = Receiver::start(|request| match request {
        0..4 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let options = EndpointOptions { breaker: None, ..schedule(&[5, 5, 5, 5]) };
    let endpoint = bench.endpoint(&receiver.url(), options).await;
    let message = bench.emit("{}").await;
    let (kind, data) = event(&operators.next().await);
    assert_eq!(kind, "message.attempt.failing");
    assert_eq!(data["msgId"], message.to_string());
    assert_eq!(data["endpointId"], endpoint.to_string());
    assert_eq!(data["lastAttempt"]["number"], 4);
    let (kind, data) = event(&operators.next().await);
    assert_eq!(kind, "message.attempt.recovered");
    assert_eq!(data["lastAttempt"]["responseStatusCode"], 200);
    bench.stop().await;
    assert_eq!(operators.left(), 0);
}

#[tokio::test]
async fn operators_are_notified_of_a_failed_message_and_a_disabled_endpoint() {
    let bench = Bench::start().await;
    let mut operators = operators(&bench).await;
    let failing = Receiver::always(Answer::Status(500)).await;
    bench.endpoint(&failing.url(), schedule(&[])).await;
    bench.emit("{}").await;
    assert_eq!(event(&operators.next().await).0, "message.attempt.exhausted");
    let gone = Receiver::always(Answer::Status(410)).await;
    let endpoint = bench.endpoint(&gone.url(), EndpointOptions::default()).await;
    bench.emit("{}").await;
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let (kind, data) = event(&operators.next().await);
        if kind == "endpoint.disabled" {
            assert_eq!(data["endpointId"], endpoint.to_string());
            assert_eq!(data["trigger"], "gone");
        }
        kinds.push(kind);
    }
    kinds.sort();
    let exhausted = "message.attempt.exhausted";
    assert_eq!(kinds, ["endpoint.disabled", exhausted, exhausted]);
    bench.stop().await;
}

#[tokio::test]
async fn operators_are_notified_of_a_message_that_failed_because_its_payload_expired() {
    let bench = Bench::start().await;
    let mut operators = operators(&bench).await;
    let receiver = Receiver::always(Answer::Status(500)).await;
    let endpoint = bench.endpoint(&receiver.url(), schedule(&[300, 300])).await;
    let message = bench.emit("{}").await;
    bench.attempted(1).await;
    let gone = bench.service.expunge_payload(&bench.app(), &MessageRef::Id(message)).await;
    assert!(gone.expect("expunged"));
    let (kind, data) = event(&operators.next().await);
    assert_eq!(kind, "message.attempt.exhausted");
    assert_eq!(data["msgId"], message.to_string());
    assert_eq!(data["endpointId"], endpoint.to_string());
    assert_eq!(data["lastAttempt"]["number"], 2);
    bench.stop().await;
}

#[tokio::test]
async fn operational_messages_are_dropped_without_an_endpoint_for_them() {
    let bench = Bench::start().await;
    let failing = Receiver::always(Answer::Status(500)).await;
    bench.endpoint(&failing.url(), schedule(&[])).await;
    bench.emit("{}").await;
    bench.attempted(1).await;
    let application = ApplicationRef::parse(OPERATIONAL_UID).expect("valid");
    let found = bench.service.store().application(&application).await.expect("read");
    assert_eq!(found, None);
    bench.stop().await;
}
