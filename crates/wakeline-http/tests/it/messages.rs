//! Messages over HTTP: listing, retrying and giving up; clearing queues, deleting partitions.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::Node;

#[tokio::test]
async fn messages_are_listed_by_state_and_time() {
    let node = Node::start().await;
    node.push("n.t", &["a", "b", "c"]).await;
    let popped = node.get("/api/v1/pop/queue/n.t").await.json();
    let all = node.expect(200, "GET", "/api/v1/messages?queue=n.t", Value::Null).await;
    let statuses: Vec<_> = (all["messages"].as_array().expect("a list").iter())
        .map(|one| (one["transactionId"].as_str(), one["status"].as_str()))
        .collect();
    assert_eq!(statuses[2], (Some("a"), Some("processing")));
    assert_eq!(statuses[0], (Some("c"), Some("pending")));
    assert_eq!(all["mode"], json!({"hasQueueMode": true, "busGroupsCount": 0, "type": "queue"}));
    assert_eq!(all["messages"][0]["partitionId"], popped["partitionId"]);
    assert_eq!(all["messages"][0]["busStatus"], json!({"consumedBy": 0, "totalGroups": 0}));
    let pending = "/api/v1/messages?ns=n&task=t&status=pending&limit=1&offset=1";
    let page = node.expect(200, "GET", pending, Value::Null).await;
    assert_eq!(page["messages"][0]["transactionId"], "b");
    let cursor = page["cursor"].as_str().expect("there is more");
    let rest = format!("/api/v1/messages?queue=n.t&cursor={cursor}");
    let rest = node.expect(200, "GET", &rest, Value::Null).await;
    assert_eq!(
        (rest["messages"].as_array().map(Vec::len), &rest["cursor"]),
        (Some(1), &Value::Null)
    );
    for wrong in ["status=odd", "cursor=x", "from=never", "limit=0"] {
        let answer = node.get(&format!("/api/v1/messages?{wrong}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn messages_can_be_retried_and_given_up() {
    let node = Node::start().await;
    node.push("q", &["a", "b"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    let partition = popped["partitionId"].as_str().expect("an id").to_owned();
    let path = |id: &str, action: &str| format!("/api/v1/messages/{partition}/{id}/{action}");
    for action in ["retry", "dlq"] {
        let answer = node.expect(409, "POST", &path("a", action), Value::Null).await;
        assert_eq!(answer["code"], "conflict");
    }
    let why = json!({"error": "not wanted"});
    let done = node.expect(200, "POST", &path("b", "dlq"), why).await;
    assert_eq!(
        (&done["success"], &done["consumerGroup"]),
        (&json!(true), &json!("__QUEUE_MODE__"))
    );
    let letters = node.get("/api/v1/dlq?queue=q").await.json();
    assert_eq!(letters["messages"][0]["errorMessage"], "not wanted");
    node.expect(200, "POST", &path("b", "retry"), Value::Null).await;
    assert_eq!(node.get("/api/v1/dlq?queue=q").await.json()["pagination"]["total"], 0);
    node.expect(404, "POST", &path("x", "retry"), Value::Null).await;
    node.expect(404, "POST", &path("b", "retry"), json!({"consumerGroup": "unknown"})).await;
    node.expect(
        404,
        "POST",
        "/api/v1/messages/00000000-0000-0000-0000-000000000000/b/dlq",
        Value::Null,
    )
    .await;
}

#[tokio::test]
async fn a_deleted_message_is_never_delivered() {
    let node = Node::start().await;
    node.push("q", &["a", "b", "c"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    let (partition, lease) = (popped["partitionId"].as_str().expect("an id"), &popped["leaseId"]);
    let path = |id: &str| format!("/api/v1/messages/{partition}/{id}");
    for id in ["a", "b"] {
        let gone = node.expect(200, "DELETE", &path(id), Value::Null).await;
        let expected = json!({"success": true, "message": "Message deleted",
            "partitionId": partition, "transactionId": id});
        assert_eq!(gone, expected);
        node.expect(404, "DELETE", &path(id), Value::Null).await;
        node.expect(404, "GET", &path(id), Value::Null).await;
    }
    let ack = json!({"transactionId": "a", "partitionId": partition, "leaseId": lease});
    let stale = node.expect(409, "POST", "/api/v1/ack", ack).await;
    assert_eq!(stale["code"], "stale_lease");
    for group in ["", "&consumerGroup=other"] {
        let pop = format!("/api/v1/pop/queue/q?batch=5{group}");
        let popped = node.get(&pop).await.json();
        assert_eq!(popped["messages"].as_array().map(Vec::len), Some(1));
        assert_eq!(popped["messages"][0]["transactionId"], "c");
    }
    let depth = node.get("/api/v1/resources/queues/q/depth").await.json();
    assert_eq!(depth["pending"], 1);
    node.expect(
        404,
        "DELETE",
        "/api/v1/messages/00000000-0000-0000-0000-000000000000/c",
        Value::Null,
    )
    .await;
    node.expect(404, "DELETE", &path("unknown"), Value::Null).await;
}

#[tokio::test]
async fn a_deletion_wakes_consumers_that_the_message_blocked() {
    let node = Node::start().await;
    let options = json!({"queue": "q", "options": {"retryDelay": 600_000}});
    node.expect(200, "POST", "/api/v1/configure", options).await;
    node.push("q", &["a", "b"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    let partition = popped["partitionId"].as_str().expect("an id");
    let failed = json!({"transactionId": "a", "partitionId": partition,
        "leaseId": popped["leaseId"], "status": "failed"});
    node.expect(200, "POST", "/api/v1/ack", failed).await;
    let waits = node.get("/api/v1/pop/queue/q?wait=true&timeout=30000");
    let path = format!("/api/v1/messages/{partition}/a");
    let deletes = async {
        tokio::task::yield_now().await;
        node.expect(200, "DELETE", &path, Value::Null).await
    };
    let (popped, _) = tokio::join!(waits, deletes);
    assert_eq!(popped.json()["messages"][0]["transactionId"], "b");
}

#[tokio::test]
async fn queues_are_cleared_and_partitions_deleted() {
    let node = Node::start().await;
    let item = |id, partition| json!({"queue": "q", "partition": partition, "payload": id});
    let items = json!({"items": [item(1, "Default"), item(2, "p")]});
    node.expect(201, "POST", "/api/v1/push", items).await;
    let listed = node.get("/api/v1/resources/partitions?queue=q").await.json();
    assert_eq!(listed["partitions"][1]["name"], "p");
    assert_eq!(listed["partitions"][1]["totalMessages"], 1);
    let path = "/api/v1/resources/queues/q/partitions/p";
    let gone = node.expect(200, "DELETE", path, Value::Null).await;
    assert_eq!(gone, json!({"queue": "q", "partition": "p", "deleted": true, "existed": true}));
    assert_eq!(node.expect(200, "DELETE", path, Value::Null).await["existed"], false);
    let default = "/api/v1/resources/queues/q/partitions/Default";
    node.expect(400, "DELETE", default, Value::Null).await;
    let cleared = node.expect(200, "DELETE", "/api/v1/queues/q/clear", Value::Null).await;
    assert_eq!(cleared, json!({"success": true, "queue": "q", "cleared": 1}));
    assert_eq!(node.get("/api/v1/pop/queue/q").await.status, StatusCode::NO_CONTENT);
    node.expect(404, "DELETE", "/api/v1/queues/unknown/clear", Value::Null).await;
    let items = json!({"items": [item(3, "a"), item(4, "b")]});
    node.expect(201, "POST", "/api/v1/push", items).await;
    let cleared = node.expect(200, "DELETE", "/api/v1/queues/q/clear?partition=a", Value::Null);
    assert_eq!(cleared.await["cleared"], 1);
    let left = node.get("/api/v1/pop/queue/q?batch=5&partitions=5").await.json();
    assert_eq!(
        (left["messages"].as_array().map(Vec::len), &left["messages"][0]["data"]),
        (Some(1), &json!(4))
    );
    node.expect(404, "DELETE", "/api/v1/queues/q/clear?partition=none", Value::Null).await;
}

#[tokio::test]
async fn a_message_lists_its_deliveries() {
    let node = Node::start().await;
    node.push("q", &["a"]).await;
    let popped = node.get("/api/v1/pop/queue/q?workerId=w-1").await.json();
    let (partition, lease) = (&popped["partitionId"], &popped["leaseId"]);
    let path = format!("/api/v1/messages/{}/a", partition.as_str().expect("an id"));
    let message = node.get(&path).await.json();
    assert_eq!(message["errorMessage"], Value::Null);
    let open = message["ledger"][0].clone();
    assert_eq!((&open["outcome"], &open["endedAt"]), (&json!("open"), &Value::Null));
    assert_eq!((&open["workerId"], &open["messages"]), (&json!("w-1"), &json!(1)));
    assert_eq!(open["consumerGroup"], "__QUEUE_MODE__");
    let ack = json!({"transactionId": "a", "partitionId": partition, "leaseId": lease,
        "status": "failed", "error": "no"});
    node.expect(200, "POST", "/api/v1/ack", ack).await;
    let message = node.get(&path).await.json();
    assert_eq!((&message["errorMessage"], &message["retryCount"]), (&json!("no"), &json!(1)));
    assert_eq!(message["consumerGroups"][0]["errorMessage"], "no");
    let ended = message["ledger"][0].clone();
    assert_eq!((&ended["outcome"], ended["endedAt"].is_string()), (&json!("failed"), true));
    assert_eq!(ended["offeredAt"], open["offeredAt"]);
    let group = node.get("/api/v1/consumer-groups/__QUEUE_MODE__").await.json();
    let partitions = group["q"]["partitions"].as_array().expect("a list").clone();
    assert_eq!(partitions[0]["workerId"], "w-1");
    assert!(partitions[0]["lastConsumedAt"].is_string());
    let long = "w".repeat(256);
    let path = format!("/api/v1/pop/queue/q?workerId={long}");
    assert_eq!(node.get(&path).await.status, StatusCode::BAD_REQUEST);
}
