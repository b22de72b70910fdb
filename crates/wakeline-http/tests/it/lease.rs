//! A lease identifies its group, and permissions of a transaction are checked before lookups.

use serde_json::{Value, json};
use wakeline_core::LeaseId;

use crate::access::ROOT;
use crate::support::Node;

const NONE: Value = Value::Null;

/// Pops one message for a group. Returns the fields that an ack of the message needs.
async fn popped(node: &Node, group: &str) -> Value {
    let path = format!("/api/v1/pop/queue/q?consumerGroup={group}");
    let message = node.expect(200, "GET", &path, NONE).await["messages"][0].clone();
    json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
        "leaseId": message["leaseId"]})
}

fn with(mut body: Value, name: &str, value: &str) -> Value {
    body[name] = json!(value);
    body
}

#[tokio::test]
async fn an_ack_with_a_lease_needs_no_group() {
    let node = Node::start().await;
    node.push("q", &["a", "b", "c", "d"]).await;
    let ack = popped(&node, "g").await;
    for contradicting in ["other", "__QUEUE_MODE__"] {
        let body = with(ack.clone(), "consumerGroup", contradicting);
        let refused = node.expect(409, "POST", "/api/v1/ack", body).await;
        assert_eq!(refused["code"], "stale_lease");
    }
    let done = node.expect(200, "POST", "/api/v1/ack", ack.clone()).await;
    assert_eq!(done[0]["success"], true);
    node.expect(409, "POST", "/api/v1/ack", ack).await;

    let ack = popped(&node, "g").await;
    let named = with(ack.clone(), "consumerGroup", "g");
    let lease = ack["leaseId"].as_str().expect("a lease").to_owned();
    node.expect(200, "POST", &format!("/api/v1/lease/{lease}/extend"), NONE).await;
    let batch = json!({"acknowledgments": [ack], "consumerGroup": null});
    let done = node.expect(200, "POST", "/api/v1/ack/batch", batch).await;
    assert_eq!(done[0]["success"], true, "{done}");
    node.expect(409, "POST", "/api/v1/ack", named).await;

    let ack = with(popped(&node, "g").await, "type", "ack");
    let other_group = with(ack.clone(), "consumerGroup", "other");
    let body = json!({"operations": [other_group]});
    let refused = node.expect(409, "POST", "/api/v1/transaction", body).await;
    assert_eq!((&refused["success"], &refused["code"]), (&json!(false), &json!("stale_lease")));
    node.expect(200, "POST", "/api/v1/transaction", json!({"operations": [ack]})).await;

    // The lease may also be among those that a transaction requires.
    let mut ack = with(popped(&node, "g").await, "type", "ack");
    let lease = ack.as_object_mut().expect("an object").remove("leaseId");
    let body = json!({"operations": [ack], "requiredLeases": [lease]});
    node.expect(200, "POST", "/api/v1/transaction", body).await;
    let left = node.get("/api/v1/pop/queue/q?consumerGroup=g").await;
    assert_eq!(left.status.as_u16(), 204, "all are settled");
}

#[tokio::test]
async fn a_transaction_reveals_nothing_beyond_the_scopes_of_its_key() {
    let node = Node::keyed(ROOT).await;
    let start = json!({"name": "n", "instance": "theirs"});
    node.root("POST", "/api/v1/orchestrations", start).await;
    node.root("POST", "/api/v1/app", json!({"name": "T", "uid": "theirs"})).await;
    let key = node.key(&["queue:push:*"]).await;
    let call = async |operation: Value| {
        let body = json!({"operations": [operation]});
        let answer = node.with_key(&key, "POST", "/api/v1/transaction", body).await;
        (answer.status.as_u16(), answer.json()["error"].clone())
    };
    let signal = |instance: &str| json!({"type": "signal", "instance": instance, "event": "e"});
    let existing = call(signal("theirs")).await;
    assert_eq!(existing.0, 404);
    assert_eq!(existing, call(signal("nowhere")).await);
    let emit = |application: &str| {
        json!({"type": "emit", "application": application, "eventType": "a.b",
            "payload": {}})
    };
    let existing = call(emit("theirs")).await;
    assert_eq!(existing.0, 404);
    assert_eq!(existing, call(emit("nowhere")).await);
}

#[tokio::test]
async fn a_transaction_is_limited_and_its_refusals_have_codes() {
    let node = Node::start().await;
    let signal = |n: usize| json!({"type": "signal", "instance": format!("i{n}"), "event": "e"});
    let many: Vec<_> = (0..101).map(signal).collect();
    let refused =
        node.expect(400, "POST", "/api/v1/transaction", json!({"operations": many})).await;
    assert!(refused["error"].as_str().expect("a text").contains("the limit of 100"), "{refused}");
    let emit = json!({"type": "emit", "application": "none", "eventType": "a.b", "payload": {}});
    let refused =
        node.expect(409, "POST", "/api/v1/transaction", json!({"operations": [emit]})).await;
    assert_eq!(refused["code"], "not_found", "{refused}");
    let leases = vec!["x"; 10_001];
    let push = json!({"type": "push", "items": [{"queue": "q", "payload": 1}]});
    let body = json!({"operations": [push], "requiredLeases": leases});
    let refused = node.expect(400, "POST", "/api/v1/transaction", body).await;
    assert!(refused["error"].as_str().expect("a text").contains("the limit of 10000"), "{refused}");
}

#[tokio::test]
async fn a_partition_name_is_not_accepted_as_an_id() {
    let node = Node::start().await;
    node.push("q", &["a"]).await;
    let ack = with(popped(&node, "g").await, "partitionId", "Default");
    let batch = json!({"acknowledgments": [ack]});
    let trace = json!({"transactionId": "a", "partitionId": "Default", "data": 1});
    for (method, path, body) in [
        ("POST", "/api/v1/ack", ack),
        ("POST", "/api/v1/ack/batch", batch),
        ("POST", "/api/v1/traces", trace),
        ("GET", "/api/v1/messages/Default/a", NONE),
        ("GET", "/api/v1/traces/Default/a", NONE),
    ] {
        let refused = node.expect(400, method, path, body).await;
        let error = refused["error"].as_str().expect("a text");
        assert!(error.contains("\"Default\" is not an id"), "{path} {error}");
    }
}

/// The published PHP client sends `[]` for an empty object.
#[tokio::test]
async fn an_empty_list_counts_as_an_omitted_body() {
    let node = Node::start().await;
    node.push("q", &["a"]).await;
    let lease = popped(&node, "g").await["leaseId"].as_str().expect("a lease").to_owned();
    node.expect(200, "POST", &format!("/api/v1/lease/{lease}/extend"), json!([])).await;
}

/// Leases name groups by numbers, which other callers could guess.
#[tokio::test]
async fn an_ack_does_not_reveal_groups_beyond_the_scopes_of_its_key() {
    let node = Node::keyed(ROOT).await;
    let push = json!({"items": [{"queue": "theirs", "payload": 1, "transactionId": "a"}]});
    node.root("POST", "/api/v1/push", push).await;
    let path = "/api/v1/pop/queue/theirs?consumerGroup=g";
    let message = node.root("GET", path, NONE).await["messages"][0].clone();
    let lease: LeaseId = message["leaseId"].as_str().expect("a lease").parse().expect("valid");
    let mut missing = lease.clone();
    missing.cursors[0].group.0 += 1_000;
    let key = node.key(&["queue:pop:mine"]).await;
    let mut answers = Vec::new();
    for lease in [lease, missing] {
        let ack = json!({"transactionId": "a", "partitionId": message["partitionId"],
            "leaseId": lease.to_string()});
        let answer = node.with_key(&key, "POST", "/api/v1/ack", ack).await;
        answers.push((answer.status.as_u16(), answer.json()["error"].clone()));
    }
    assert!(answers[0].0 == 403 || answers[0].0 == 404, "{answers:?}");
    assert_eq!(answers[0], answers[1]);
}
