//! Maintenance: pushes that are held back or refused, and pops that are paused.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wakeline_http::HttpSettings;
use wakeline_store::PushGate;

use crate::support::{Answer, Node};

const NONE: Value = Value::Null;
const PATH: &str = "/api/v1/system/maintenance";
const POP: &str = "/api/v1/system/maintenance/pop";

async fn set(node: &Node, body: Value) -> Value {
    node.expect(200, "POST", PATH, body).await
}

async fn pause(node: &Node, enabled: bool) -> Value {
    node.expect(200, "POST", POP, json!({"enabled": enabled})).await
}

fn ids(popped: &Value) -> Vec<&str> {
    let messages = popped["messages"].as_array().expect("a list");
    messages.iter().map(|message| message["transactionId"].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn pushes_are_buffered_and_delivered_in_order_after_the_maintenance() {
    let node = Node::start().await;
    let found = node.expect(200, "GET", PATH, NONE).await;
    assert_eq!((&found["maintenanceMode"], &found["mode"]), (&json!(false), &json!("hold")));
    assert_eq!(found["bufferHealthy"], true);
    let on = set(&node, json!({"enabled": true})).await;
    assert_eq!((&on["maintenanceMode"], &on["bufferedMessages"]), (&json!(true), &json!(0)));
    assert!(on["message"].is_string(), "{on}");
    let first = node.push("q", &["a", "b"]).await;
    assert_eq!(
        (&first[0]["status"], &first[1]["status"]),
        (&json!("buffered"), &json!("buffered"))
    );
    assert!(first[0]["message_id"].is_string() && first[0]["partition_id"].is_string(), "{first}");
    let again = node.push("q", &["a"]).await;
    assert_eq!(again[0]["status"], "duplicate");
    assert_eq!(again[0]["message_id"], first[0]["message_id"]);
    node.expect(204, "GET", "/api/v1/pop/queue/q", NONE).await;
    let found = node.expect(200, "GET", PATH, NONE).await;
    assert_eq!(
        (&found["bufferedMessages"], &found["bufferStats"]["pending"]),
        (&json!(2), &json!(2))
    );
    let buffers = node.get("/api/v1/status/buffers").await.json();
    assert_eq!(buffers["pending"], found["bufferedMessages"]);
    let app = node.app.clone();
    let path = "/api/v1/pop/queue/q?wait=true&timeout=20000&batch=10";
    let waiting = tokio::spawn(async move { Answer::of(app, path).await });
    node.parked(1).await;
    let off = set(&node, json!({"enabled": false})).await;
    assert_eq!(off["maintenanceMode"], false);
    let popped = waiting.await.expect("no panic").json();
    assert_eq!(ids(&popped), ["a", "b"], "the end of the maintenance wakes the waiting pop");
    let after = node.push("q", &["c"]).await;
    assert_eq!(after[0]["status"], "queued");
}

#[tokio::test]
async fn a_transaction_reports_buffered_messages() {
    let node = Node::start().await;
    set(&node, json!({"enabled": true, "mode": "hold"})).await;
    let operations = json!({"operations": [
        {"type": "push", "items": [{"queue": "q", "payload": 1, "transactionId": "t"}]},
    ]});
    let done = node.expect(200, "POST", "/api/v1/transaction", operations).await;
    assert_eq!(
        (&done["success"], &done["results"][0]["status"]),
        (&json!(true), &json!("buffered"))
    );
}

#[tokio::test]
async fn refused_pushes_have_retry_after_and_store_nothing() {
    let settings = HttpSettings { maintenance_pushes: PushGate::Refuse, ..HttpSettings::default() };
    let node = Node::with(settings).await;
    let on = set(&node, json!({"enabled": true})).await;
    assert_eq!(on["mode"], "refuse", "as configured");
    let items = json!({"items": [{"queue": "q", "payload": 1}]});
    let later = json!({"items": [{"queue": "q", "payload": 1, "delayMs": 5}]});
    let transaction =
        json!({"operations": [{"type": "push", "items": [{"queue": "q", "payload": 1}]}]});
    for (path, body) in
        [("/api/v1/push", &items), ("/api/v1/push", &later), ("/api/v1/transaction", &transaction)]
    {
        let refused = node.post(path, body.to_string()).await;
        assert_eq!(refused.status, 503, "{path}");
        assert_eq!(refused.json()["code"], "maintenance");
        assert!(refused.headers.contains_key("retry-after"));
    }
    let held = set(&node, json!({"enabled": true, "mode": "hold"})).await;
    assert_eq!((&held["mode"], &held["bufferedMessages"]), (&json!("hold"), &json!(0)));
    set(&node, json!({"enabled": false})).await;
    node.expect(204, "GET", "/api/v1/pop/queue/q", NONE).await;
}

#[tokio::test]
async fn paused_pops_wait_and_return_nothing_while_leases_can_be_settled() {
    let node = Node::start().await;
    node.push("q", &["a", "b"]).await;
    let first = node.expect(200, "GET", "/api/v1/pop/queue/q", NONE).await;
    let paused = pause(&node, true).await;
    assert_eq!(paused["popMaintenanceMode"], true);
    let at_once = node.expect(200, "GET", "/api/v1/pop/queue/other", NONE).await;
    assert_eq!((&at_once["paused"], &at_once["messages"]), (&json!(true), &json!([])));
    let started = Instant::now();
    let path = "/api/v1/pop/queue/other?wait=true&timeout=300";
    let waited = node.expect(200, "GET", path, NONE).await;
    assert_eq!(waited["paused"], true);
    assert!(started.elapsed() >= Duration::from_millis(300), "a paused pop waits for its timeout");
    let message = &first["messages"][0];
    let ack = json!({"transactionId": "a", "partitionId": message["partitionId"],
        "leaseId": message["leaseId"], "status": "completed"});
    let settled = node.expect(200, "POST", "/api/v1/ack", ack).await;
    assert_eq!(settled[0]["success"], true);
    let app = node.app.clone();
    let path = "/api/v1/pop/queue/q?wait=true&timeout=20000";
    let waiting = tokio::spawn(async move { Answer::of(app, path).await });
    node.parked(1).await;
    pause(&node, false).await;
    assert_eq!(ids(&waiting.await.expect("no panic").json()), ["b"]);
    let found = node.expect(200, "GET", POP, NONE).await;
    assert_eq!(found["popMaintenanceMode"], false);
    node.expect(204, "GET", "/api/v1/pop/queue/q", NONE).await;
}

#[tokio::test]
async fn a_waiting_pop_continues_after_a_pause() {
    let node = Node::start().await;
    let app = node.app.clone();
    let path = "/api/v1/pop/queue/q?wait=true&timeout=20000";
    let waiting = tokio::spawn(async move { Answer::of(app, path).await });
    node.parked(1).await;
    pause(&node, true).await;
    node.push("q", &["a"]).await;
    let begun = node.expect(200, "GET", "/api/v1/pop/queue/q", NONE).await;
    assert_eq!(begun["paused"], true);
    assert!(!waiting.is_finished(), "the pop continues to wait");
    pause(&node, false).await;
    assert_eq!(ids(&waiting.await.expect("no panic").json()), ["a"]);
}

#[tokio::test]
async fn invalid_maintenance_requests_are_refused() {
    let node = Node::start().await;
    for (path, body) in [
        (PATH, json!({})),
        (PATH, json!({"enabled": "yes"})),
        (PATH, json!({"enabled": true, "mode": "drop"})),
        (POP, json!({})),
    ] {
        let answer = node.post(path, body.to_string()).await;
        assert_eq!(answer.status, 400, "{path} {body}");
    }
}

#[tokio::test]
async fn a_maintenance_is_audited() {
    let node = Node::keyed("secret").await;
    let request = |path: &str, body: Value| {
        axum::http::Request::post(path)
            .header("content-type", "application/json")
            .header("authorization", "Bearer secret")
            .body(axum::body::Body::from(body.to_string()))
            .expect("a request")
    };
    for (path, body) in [
        (PATH, json!({"enabled": true})),
        (PATH, json!({"enabled": true})),
        (POP, json!({"enabled": true})),
    ] {
        assert_eq!(node.send(request(path, body)).await.status, 200);
    }
    let stranger = node.post(PATH, json!({"enabled": false}).to_string()).await;
    assert_eq!(stranger.status, 401);
    let audit = axum::http::Request::get("/api/v1/audit?act=maintenance.set")
        .header("authorization", "Bearer secret")
        .body(axum::body::Body::empty())
        .expect("a request");
    let entries = node.send(audit).await.json();
    let entries = entries["entries"].as_array().expect("a list").clone();
    let found: Vec<_> = entries.iter().map(|entry| (&entry["target"], &entry["detail"])).collect();
    let (pops, pushes) = ((json!("pops"), json!("pause")), (json!("pushes"), json!("hold")));
    let expected = [(&pops.0, &pops.1), (&pushes.0, &pushes.1)];
    assert_eq!(found, expected, "requests that changed nothing are not audited");
}
