//! The lifecycle of API keys, and how their use is recorded.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::access::ROOT;
use crate::support::Node;

#[tokio::test]
async fn the_producer_of_a_message_comes_from_the_credentials() {
    let node = Node::keyed(ROOT).await;
    let made = node.named_key("ci", &["queue:*:*"]).await;
    let key = made["key"].as_str().expect("a key");
    let item = json!({"queue": "q", "payload": 1, "producerSub": "forged"});
    node.with_key(key, "POST", "/api/v1/push", json!({"items": [item.clone()]})).await;
    let push = json!({"operations": [{"type": "push", "items": [item.clone()]}]});
    node.with_key(key, "POST", "/api/v1/transaction", push).await;
    node.root("POST", "/api/v1/push", json!({"items": [item]})).await;
    let popped = node.root("GET", "/api/v1/pop/queue/q?batch=3", Value::Null).await;
    let subs = popped["messages"].as_array().expect("messages").iter();
    let subs: Vec<_> = subs.map(|message| message["producerSub"].clone()).collect();
    assert_eq!(subs, [json!("key:ci"), json!("key:ci"), Value::Null]);
}

#[tokio::test]
async fn keys_are_created_rotated_and_revoked() {
    let node = Node::keyed(ROOT).await;
    let works = async |key: &Value| {
        let key = key.as_str().expect("a key");
        let status = node.status(key, "GET", "/api/v1/consumer-groups", Value::Null).await;
        assert!([200, 401].contains(&status), "{status}");
        status == 200
    };
    let made = node.named_key("ci", &["queue:read:*"]).await;
    let (id, first) = (made["id"].as_str().expect("an id"), &made["key"]);
    assert!(works(first).await);
    let again = json!({"name": "ci", "scopes": ["queue:read:*"]});
    assert_eq!(node.status(ROOT, "POST", "/api/v1/keys", again).await, 409);
    let rotate = format!("/api/v1/keys/{id}/rotate");
    let second = node.root("POST", &rotate, Value::Null).await["key"].clone();
    assert!(works(first).await && works(&second).await && second != *first);
    let at_once = json!({"overlapSeconds": 0});
    let third = node.root("POST", &rotate, at_once).await["key"].clone();
    assert!(!works(first).await && !works(&second).await && works(&third).await);
    let listed = node.root("GET", "/api/v1/keys", Value::Null).await;
    assert_eq!(
        (&listed["keys"][0]["name"], &listed["keys"][0]["state"]),
        (&json!("ci"), &json!("live"))
    );
    let secret = third.as_str().expect("a key").rsplit('_').next().expect("a secret");
    assert!(!listed.to_string().contains(secret));
    node.root("DELETE", &format!("/api/v1/keys/{id}"), Value::Null).await;
    assert!(!works(&third).await);
    let gone = format!("/api/v1/keys/{id}");
    assert_eq!(node.status(ROOT, "DELETE", &gone, Value::Null).await, 404);
    assert_eq!(node.status(ROOT, "POST", &rotate, Value::Null).await, 404);
    let brief = json!({"name": "brief", "scopes": ["queue:read:*"], "expiresInSeconds": 0});
    let brief = node.root("POST", "/api/v1/keys", brief).await["key"].clone();
    assert!(!works(&brief).await);
    for wrong in [
        json!({"name": "", "scopes": ["queue:read:*"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["queue:fly:*"]}),
    ] {
        assert_eq!(node.status(ROOT, "POST", "/api/v1/keys", wrong).await, 400);
    }
}

#[tokio::test]
async fn a_server_with_a_key_requires_credentials() {
    let node = Node::start().await;
    assert_eq!(node.get("/api/v1/consumer-groups").await.status, StatusCode::OK);
    let body = json!({"name": "first", "scopes": ["*:*:*"]}).to_string();
    let key = node.post("/api/v1/keys", body).await.json()["key"].clone();
    let answer = node.get("/api/v1/consumer-groups").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let key = key.as_str().expect("a key");
    let answer = node.with_key(key, "GET", "/api/v1/consumer-groups", Value::Null).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn only_administrative_actions_are_audited() {
    let node = Node::keyed(ROOT).await;
    let made = node.named_key("ops", &["*:*:*"]).await;
    let key = made["key"].as_str().expect("a key").to_owned();
    let act = async |method: &str, path: &str, body: Value| {
        let answer = node.with_key(&key, method, path, body).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status.is_success(), "{method} {path}: {} {text}", answer.status);
    };
    act("POST", "/api/v1/configure", json!({"queue": "q"})).await;
    act("POST", "/api/v1/push", json!({"items": [{"queue": "q", "payload": 1}]})).await;
    act("GET", "/api/v1/pop/queue/q?consumerGroup=g", Value::Null).await;
    let seek = "/api/v1/consumer-groups/g/queues/q/seek";
    act("POST", seek, json!({"toEnd": true})).await;
    act("DELETE", "/api/v1/consumer-groups/g/queues/q", Value::Null).await;
    act("DELETE", "/api/v1/resources/queues/q", Value::Null).await;
    act("DELETE", "/api/v1/resources/queues/q", Value::Null).await;
    act("POST", "/api/v1/orchestrations", json!({"name": "n", "instance": "i"})).await;
    act("POST", "/api/v1/orchestrations/i/suspend", Value::Null).await;
    act("POST", "/api/v1/orchestrations/i/resume", Value::Null).await;
    act("POST", "/api/v1/orchestrations/i/cancel", Value::Null).await;
    act("POST", "/api/v1/orchestrations/i/events/e", json!(1)).await;
    act("POST", "/api/v1/orchestrations/i/terminate", Value::Null).await;
    act("DELETE", "/api/v1/orchestrations/i?force=true", Value::Null).await;
    act("POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let endpoint = json!({"url": "https://example.org", "uid": "e"});
    act("POST", "/api/v1/app/a/endpoint", endpoint).await;
    act("PATCH", "/api/v1/app/a/endpoint/e", json!({"disabled": true})).await;
    act("POST", "/api/v1/app/a/endpoint/e/secret/rotate", json!({})).await;
    act("DELETE", "/api/v1/app/a/endpoint/e", Value::Null).await;
    act("DELETE", "/api/v1/app/a", Value::Null).await;
    act("POST", "/api/v1/event-type", json!({"name": "t", "description": "d"})).await;
    let expected = [
        "api_key key.create ops",
        "key:ops queue.configure q",
        "key:ops group.seek g/q",
        "key:ops group.delete g/q",
        "key:ops queue.delete q",
        "key:ops orchestration.suspend i",
        "key:ops orchestration.resume i",
        "key:ops orchestration.cancel i",
        "key:ops orchestration.terminate i",
        "key:ops orchestration.delete i",
        "key:ops application.create a",
        "key:ops endpoint.create a",
        "key:ops endpoint.change a/e",
        "key:ops endpoint.rotate a/e",
        "key:ops endpoint.delete a/e",
        "key:ops application.delete a",
        "key:ops event_type.create ",
    ];
    assert_eq!(node.audit_log().await, expected);
    let path = "/api/v1/audit?act=orchestration.delete&actor=key:ops&limit=1";
    let entry = node.root("GET", path, Value::Null).await["entries"][0].clone();
    assert_eq!(entry["detail"], "force=true");
}

#[tokio::test]
async fn refusals_name_the_missing_scope_or_credentials() {
    let node = Node::keyed(ROOT).await;
    let key = node.key(&["queue:push:orders", "queue:read:orders"]).await;
    for (method, path, scope) in [
        ("GET", "/api/v1/pop/queue/orders", "queue:pop:orders"),
        ("DELETE", "/api/v1/resources/queues/orders", "queue:admin:orders"),
        ("GET", "/api/v1/pop", "queue:pop:*"),
        ("GET", "/metrics", "server:read:*"),
        ("POST", "/api/v1/orchestrations", "flow:start:NAME"),
    ] {
        let refused = node.with_key(&key, method, path, Value::Null).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        assert!(refused.error().contains(scope), "{path}: {}", refused.error());
    }
    let path = "/api/v1/resources/queues";
    assert!(node.get(path).await.error().contains("the request has no credentials"));
    let refused = node.with_key("wk_x", "GET", path, Value::Null).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.error().contains("neither a key"), "{}", refused.error());
    let other = node.named_key("gone", &["queue:read:*"]).await;
    let revoke = format!("/api/v1/keys/{}", other["id"].as_str().expect("an id"));
    node.root("DELETE", &revoke, Value::Null).await;
    let gone = other["key"].as_str().expect("a key");
    let refused = node.with_key(gone, "GET", path, Value::Null).await;
    assert!(refused.error().contains("unknown or revoked"), "{}", refused.error());
}
