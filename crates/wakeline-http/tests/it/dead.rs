//! Dead letters over HTTP: listing, reading, purging and redriving.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::Node;

/// Pushes messages and makes them dead letters of the group `g`.
async fn give_up(node: &Node, queue: &str, ids: &[&str]) {
    node.push(queue, ids).await;
    for id in ids {
        let popped = node.get(&format!("/api/v1/pop/queue/{queue}?consumerGroup=g")).await.json();
        let ack = json!({"transactionId": id, "partitionId": popped["partitionId"],
            "leaseId": popped["leaseId"], "consumerGroup": "g", "status": "dlq",
            "error": format!("cannot {id}")});
        assert_eq!(node.post("/api/v1/ack", ack.to_string()).await.status, StatusCode::OK);
    }
}

async fn list(node: &Node, query: &str) -> Value {
    node.expect(200, "GET", &format!("/api/v1/dlq?{query}"), Value::Null).await
}

#[tokio::test]
async fn dead_letters_are_listed_with_their_total() {
    let node = Node::start().await;
    give_up(&node, "q", &["a", "b", "c"]).await;
    let page = list(&node, "queue=q&limit=1&offset=1").await;
    assert_eq!(page["pagination"], json!({"limit": 1, "offset": 1, "total": 3}));
    assert_eq!(page["messages"][0]["transactionId"], "b");
    assert_eq!(page["messages"][0]["errorMessage"], "cannot b");
    let found = list(&node, "error=cannot%20c").await;
    assert_eq!(found["pagination"]["total"], 1);
    let id = found["messages"][0]["deadLetterId"].as_str().expect("an id").to_owned();
    let one = node.expect(200, "GET", &format!("/api/v1/dlq/{id}"), Value::Null).await;
    assert_eq!(one, found["messages"][0]);
    let failed_at = one["failedAt"].as_str().expect("a time");
    assert_eq!(list(&node, &format!("queue=q&to={failed_at}")).await["pagination"]["total"], 2);
    for path in ["/api/v1/dlq/999999", "/api/v1/dlq/x"] {
        assert_eq!(node.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(node.get("/api/v1/dlq?from=yesterday").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_redrive_to_a_full_queue_is_not_refused() {
    let node = Node::working().await;
    let limited = json!({"queue": "narrow", "options": {"maxSize": 1}});
    node.expect(200, "POST", "/api/v1/configure", limited).await;
    node.push("narrow", &["full"]).await;
    let refused = json!({"items": [{"queue": "narrow", "payload": 1}]});
    assert_eq!(node.post("/api/v1/push", refused.to_string()).await.status, 429);
    give_up(&node, "q", &["a", "b"]).await;
    let body = json!({"filter": {"queue": "q"}, "toQueue": "narrow"});
    let job = node.expect(202, "POST", "/api/v1/dlq/redrive", body).await;
    let path = format!("/api/v1/dlq/redrive/{}", job["job"].as_str().expect("an id"));
    while node.expect(200, "GET", &path, Value::Null).await["state"] == "running" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let popped = node.expect(200, "GET", "/api/v1/pop/queue/narrow?batch=10", Value::Null).await;
    assert_eq!(popped["messages"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn dead_letters_are_purged_only_by_a_filter_or_explicit_confirmation() {
    let node = Node::start().await;
    give_up(&node, "q", &["a", "b"]).await;
    give_up(&node, "r", &["c"]).await;
    assert_eq!(node.call("DELETE", "/api/v1/dlq", "").await.status, StatusCode::BAD_REQUEST);
    let id = list(&node, "queue=q").await["messages"][0]["deadLetterId"].clone();
    let one = format!("/api/v1/dlq/{}", id.as_str().expect("an id"));
    assert_eq!(node.expect(200, "DELETE", &one, Value::Null).await["purged"], 1);
    assert_eq!(node.call("DELETE", &one, "").await.status, StatusCode::NOT_FOUND);
    let gone = node.expect(200, "DELETE", "/api/v1/dlq?queue=q", Value::Null).await;
    assert_eq!(gone, json!({"success": true, "purged": 1}));
    let gone = node.expect(200, "DELETE", "/api/v1/dlq?all=true", Value::Null).await;
    assert_eq!(gone["purged"], 1);
}

#[tokio::test]
async fn a_redrive_wakes_waiting_consumers() {
    let node = Node::working().await;
    give_up(&node, "q", &["a", "b"]).await;
    let app = node.app.clone();
    let path = "/api/v1/pop/queue/q?wait=true&consumerGroup=g&batch=5";
    let pop = tokio::spawn(async move { crate::support::Answer::of(app, path).await });
    node.parked(1).await;
    let body = json!({"filter": {"queue": "q", "consumerGroup": "g", "error": "cannot b"}});
    let job = node.expect(202, "POST", "/api/v1/dlq/redrive", body).await;
    assert_eq!((&job["total"], &job["state"]), (&json!(1), &json!("running")));
    let popped = pop.await.expect("no panic").json();
    assert_eq!(popped["messages"][0]["transactionId"], "b");
    let path = format!("/api/v1/dlq/redrive/{}", job["job"].as_str().expect("an id"));
    let ended = node.expect(200, "GET", &path, Value::Null).await;
    assert_eq!((&ended["done"], &ended["state"]), (&json!(1), &json!("finished")));
    let cancelled = node.expect(200, "DELETE", &path, Value::Null).await;
    assert_eq!(cancelled["state"], "finished", "what has ended is not cancelled");
}

#[tokio::test]
async fn an_invalid_or_unconfirmed_redrive_is_refused() {
    let node = Node::start().await;
    let cases = [
        json!({}),
        json!({"filter": {}}),
        json!({"filter": {"queues": "q"}}),
        json!({"filter": {"queue": "q"}, "rate": 0}),
        json!({"filter": {"id": "x"}}),
        json!({"filter": {"from": "now"}}),
        json!({"all": true, "toQueue": ""}),
    ];
    for case in cases {
        let answer = node.post("/api/v1/dlq/redrive", case.to_string()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{case}");
    }
    let all = node.expect(202, "POST", "/api/v1/dlq/redrive", json!({"all": true})).await;
    assert_eq!(all["total"], 0);
    let unknown = "/api/v1/dlq/redrive/0192f1c0-0000-7000-8000-000000000000";
    assert_eq!(node.get(unknown).await.status, StatusCode::NOT_FOUND);
    assert_eq!(node.call("DELETE", unknown, "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_group_of_background_work_cannot_be_read() {
    let node = Node::start().await;
    for path in
        ["/api/v1/pop/queue/*?consumerGroup=__CHORES__", "/api/v1/pop?consumerGroup=__CHORES__"]
    {
        assert_eq!(node.get(path).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
}
