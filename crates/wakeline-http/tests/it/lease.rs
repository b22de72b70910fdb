//! A lease identifies its group, and transactions are checked before anything is looked up.

use serde_json::{Value, json};

use crate::access::ROOT;
use crate::support::Node;

const NONE: Value = Value::Null;

/// Pops one message for a group: the names that an ack of it needs.
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
async fn an_ack_needs_no_group_beside_its_lease() {
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
    let foreign = with(ack.clone(), "consumerGroup", "other");
    let refused =
        node.expect(409, "POST", "/api/v1/transaction", json!({"operations": [foreign]})).await;
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
async fn a_transaction_tells_nothing_of_what_its_key_does_not_cover() {
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
    let there = call(signal("theirs")).await;
    assert_eq!(there.0, 404);
    assert_eq!(there, call(signal("nowhere")).await);
    let emit = |application: &str| {
        json!({"type": "emit", "application": application, "eventType": "a.b",
            "payload": {}})
    };
    let there = call(emit("theirs")).await;
    assert_eq!(there.0, 404);
    assert_eq!(there, call(emit("nowhere")).await);
}

#[tokio::test]
async fn a_transaction_is_bounded_and_its_refusals_have_codes() {
    let node = Node::start().await;
    let signal = |n: usize| json!({"type": "signal", "instance": format!("i{n}"), "event": "e"});
    let many: Vec<_> = (0..101).map(signal).collect();
    let refused =
        node.expect(400, "POST", "/api/v1/transaction", json!({"operations": many})).await;
    assert!(refused["error"].as_str().expect("words").contains("at most 100"), "{refused}");
    let emit = json!({"type": "emit", "application": "nobody", "eventType": "a.b", "payload": {}});
    let refused =
        node.expect(409, "POST", "/api/v1/transaction", json!({"operations": [emit]})).await;
    assert_eq!(refused["code"], "not_found", "{refused}");
}
