//! Pull endpoints.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{Answer, Node};

const NONE: Value = Value::Null;
const PULL: &str = "/api/v1/app/a/endpoint/e/pull";

async fn with_messages(ids: &[&str]) -> Node {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let body = json!({"uid": "e", "delivery": {"pull": true, "scheduleSeconds": [0]}});
    node.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
    for id in ids {
        send(&node, id).await;
    }
    node
}

async fn send(node: &Node, id: &str) {
    let body = json!({"eventType": "x", "eventId": id, "payload": {"id": id}});
    node.expect(202, "POST", "/api/v1/app/a/msg", body).await;
}

#[tokio::test]
async fn pulled_messages_are_settled_by_token_and_redelivered_after_a_nack() {
    let node = with_messages(&["m1", "m2"]).await;
    let got = node.expect(200, "GET", &format!("{PULL}?batch=10&signed=true"), NONE).await;
    let messages = got["messages"].as_array().expect("a list");
    assert_eq!((&messages[0]["eventId"], &messages[1]["eventId"]), (&json!("m1"), &json!("m2")));
    let headers = &messages[0]["headers"];
    assert_eq!(headers["webhook-id"], messages[0]["id"]);
    let secret = node.expect(200, "GET", "/api/v1/app/a/endpoint/e/secret", NONE).await;
    let key = wakeline_hook::SigningKey::parse(secret["key"].as_str().expect("a key"));
    let at = headers["webhook-timestamp"].as_str().expect("seconds").parse().expect("a number");
    let id = messages[0]["id"].as_str().expect("an id");
    let signature = key.expect("a key").sign(id, at, br#"{"id":"m1"}"#);
    assert_eq!(headers["webhook-signature"], signature);

    let nothing = node.get(PULL).await;
    assert_eq!(nothing.status, StatusCode::NO_CONTENT);
    let ack = json!({"tokens": [messages[0]["token"]]});
    let acked = node.expect(200, "POST", &format!("{PULL}/ack"), ack.clone()).await;
    assert_eq!(acked["results"][0], json!({"success": true, "state": "delivered"}));
    let twice = node.expect(200, "POST", &format!("{PULL}/ack"), ack).await;
    assert_eq!(twice["results"][0], json!({"success": false, "state": "stale"}));
    let nack = json!({"items": [{"token": messages[1]["token"], "error": "not now"}]});
    let nacked = node.expect(200, "POST", &format!("{PULL}/nack"), nack).await;
    assert_eq!(nacked["results"][0]["state"], "retrying");

    let again = node.expect(200, "GET", &format!("{PULL}?wait=true"), NONE).await;
    let again = &again["messages"][0];
    assert_eq!((&again["eventId"], &again["attempt"]), (&json!("m2"), &json!(2)));
    let extend = json!({"tokens": [again["token"], messages[1]["token"]], "seconds": 60});
    let extended = node.expect(200, "POST", &format!("{PULL}/extend"), extend).await;
    assert_eq!(extended["results"][0]["state"], "extended");
    assert_eq!(extended["results"][1]["state"], "stale");
    let log = node.expect(200, "GET", "/api/v1/app/a/attempt/msg/m2", NONE).await;
    assert_eq!(log["data"][0]["error"], "not now");
}

#[tokio::test]
async fn a_waiting_pull_gets_new_messages_and_a_drain_ends_it() {
    let node = with_messages(&[]).await;
    let path = format!("{PULL}?wait=true&timeout=60000");
    let (app, waiting) = (node.app.clone(), path.clone());
    let parked = tokio::spawn(async move { Answer::of(app, &waiting).await });
    while node.state.hook().wake_snapshot().waiters == 0 {
        tokio::task::yield_now().await;
    }
    send(&node, "m").await;
    let got = parked.await.expect("no panic");
    assert_eq!(got.json()["messages"][0]["eventId"], "m");

    let app = node.app.clone();
    let parked = tokio::spawn(async move { Answer::of(app, &path).await });
    while node.state.hook().wake_snapshot().waiters == 0 {
        tokio::task::yield_now().await;
    }
    node.state.drain();
    let drained = parked.await.expect("no panic");
    assert_eq!(drained.status, StatusCode::NO_CONTENT);
    assert_eq!(drained.headers["connection"], "close");
}

#[tokio::test]
async fn only_pull_endpoints_can_be_pulled() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    node.expect(404, "GET", PULL, NONE).await;
    let body = json!({"uid": "e", "url": "http://127.0.0.1:9/"});
    node.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
    node.expect(422, "GET", PULL, NONE).await;
    node.expect(422, "POST", &format!("{PULL}/ack"), json!({"tokens": []})).await;
}
