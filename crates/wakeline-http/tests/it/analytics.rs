//! Statistics over time, over HTTP.

use serde_json::{Value, json};

use crate::access::ROOT;
use crate::support::Node;

async fn busy(node: &Node, queue: &str) {
    node.push(queue, &["a", "b", "c"]).await;
    let popped = node.get(&format!("/api/v1/pop/queue/{queue}?batch=2")).await.json();
    let ack = |id: &str, status: &str| {
        json!({"transactionId": id, "partitionId": popped["partitionId"],
            "leaseId": popped["leaseId"], "status": status, "error": "no"})
    };
    node.expect(200, "POST", "/api/v1/ack", ack("a", "completed")).await;
    node.expect(200, "POST", "/api/v1/ack", ack("b", "dlq")).await;
    node.expect(409, "POST", "/api/v1/ack", ack("b", "completed")).await;
}

async fn read(node: &Node, path: &str) -> Value {
    node.expect(200, "GET", &format!("/api/v1/{path}"), Value::Null).await
}

async fn refresh(node: &Node) -> Value {
    node.expect(200, "POST", "/api/v1/stats/refresh", json!({})).await
}

#[tokio::test]
async fn statistics_over_time_match_the_operations() {
    let node = Node::start().await;
    busy(&node, "n.t").await;
    let before = read(&node, "resources/overview").await;
    assert_eq!(
        (&before["statsAge"], &before["throughput"]["ingestedPerSecond"]),
        (&Value::Null, &json!(0.0)),
        "no statistics are stored yet"
    );
    let refreshed = refresh(&node).await;
    assert_eq!(refreshed["queue"]["queuesUpdated"], 2, "the queue, and operations without a queue");
    let ops = read(&node, "analytics/queue-ops?queue=n.t").await;
    let point = &ops["series"][0];
    for (field, expected) in [
        ("pushRequests", 1),
        ("pushMessages", 3),
        ("popMessages", 2),
        ("popEmpty", 0),
        ("ackRequests", 2),
        ("ackSuccess", 2),
        ("transactions", 0),
    ] {
        assert_eq!(point[field], expected, "{field}: {point}");
    }
    assert_eq!((&ops["queues"], &ops["bucketMinutes"]), (&json!(["n.t"]), &json!(1)));
    assert_eq!(point["pushMessagesPerSecond"], 0.05);
    assert!(point["avgLagMs"].as_f64().expect("measured") < 60_000.0, "{point}");
    let all = read(&node, "analytics/queue-ops").await;
    assert_eq!(
        (&all["series"][0]["queueName"], &all["series"][0]["ackFailed"]),
        (&Value::Null, &json!(1))
    );
    let lag = read(&node, "analytics/queue-lag").await;
    assert_eq!(
        (&lag["series"][0]["queueName"], &lag["series"][0]["messages"]),
        (&json!("n.t"), &json!(2))
    );
    let analytics = read(&node, "status/analytics?interval=hour").await;
    assert_eq!(analytics["interval"], "hour");
    let points = analytics["dataPoints"].as_array().expect("points");
    assert_eq!((points.len(), &points[0]["messages"]), (1, &json!(3)));
    let parked = read(&node, "analytics/queue-parked-replicas?queue=n.t").await;
    let shared = read(&node, "system/shared-state").await;
    assert_eq!(parked["series"][0]["replica"], shared["node"]);
    let retention = read(&node, "analytics/retention").await;
    assert_eq!(
        retention["totals"],
        json!({"removed": 0, "expired": 0, "evicted": 0, "dropped": 0})
    );
}

#[tokio::test]
async fn status_and_overview_combine_counts_and_statistics() {
    let node = Node::start().await;
    busy(&node, "n.t").await;
    refresh(&node).await;
    let status = read(&node, "status").await;
    assert_eq!(
        (&status["throughput"][0]["ingested"], &status["pointCount"]),
        (&json!(3), &json!(1))
    );
    let messages = &status["messages"];
    for (field, expected) in
        [("total", 3), ("pending", 1), ("processing", 0), ("completed", 1), ("deadLetter", 1)]
    {
        assert_eq!(messages[field], expected, "{field}: {messages}");
    }
    assert_eq!(messages["requests"], json!({"push": 1, "pop": 1, "ack": 3}));
    assert_eq!(messages["batchEfficiency"]["push"], 3.0);
    assert_eq!(status["leases"]["active"], 0);
    let dead = json!({"totalMessages": 1, "affectedPartitions": 1,
        "topErrors": [{"error": "no", "count": 1}]});
    assert_eq!(status["deadLetterQueue"], dead);
    assert_eq!(status["errors"], json!({"dbErrors": 0, "ackFailed": 1, "dlqMessages": 1}));
    assert_eq!(status["queues"][0]["totalConsumed"], 2);
    assert!(status["statsAge"].as_f64().expect("written") < 60.0);
    let overview = read(&node, "resources/overview").await;
    for (field, expected) in [("queues", 1), ("partitions", 1), ("namespaces", 1), ("tasks", 1)] {
        assert_eq!(overview[field], expected, "{field}");
    }
    assert_eq!(
        overview["lag"]["offset"],
        json!({"avg": 1.0, "median": 1.0, "min": 1.0, "max": 1.0})
    );
    assert_eq!(
        overview["throughput"],
        json!({"ingestedPerSecond": 0.01, "processedPerSecond": 0.01})
    );
    for wrong in [
        "status?interval=0",
        "status/analytics?interval=soon",
        "status?from=yesterday",
        "analytics/queue-ops?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
    ] {
        node.expect(400, "GET", &format!("/api/v1/{wrong}"), Value::Null).await;
    }
}

#[tokio::test]
async fn nodes_report_their_statistics() {
    let node = Node::start().await;
    busy(&node, "q").await;
    refresh(&node).await;
    let id = read(&node, "system/shared-state").await["node"].clone();
    let system = read(&node, "analytics/system-metrics").await;
    assert_eq!((&system["replicas"][0]["replica"], &system["replicaCount"]), (&id, &json!(1)));
    assert!(system["replicas"][0]["series"][0]["memoryBytes"].as_i64().expect("a number") > 0);
    let workers = read(&node, "analytics/worker-metrics").await;
    assert_eq!(
        (&workers["workers"][0]["worker"], &workers["workers"][0]["pushMessages"]),
        (&id, &json!(3))
    );
    let postgres = read(&node, "analytics/postgres-stats").await;
    assert_eq!(postgres, json!({"available": false, "reason": "the store is memory"}));
}

#[tokio::test]
async fn callers_see_statistics_of_the_queues_that_they_may_read() {
    let node = Node::keyed(ROOT).await;
    for queue in ["a.one", "b.two"] {
        let items = json!({"items": [{"queue": queue, "payload": 1}]});
        node.root("POST", "/api/v1/push", items).await;
    }
    node.root("POST", "/api/v1/stats/refresh", json!({})).await;
    let key = node.key(&["queue:read:b.*"]).await;
    let see = async |path: &str| {
        node.with_key(&key, "GET", &format!("/api/v1/{path}"), Value::Null).await.json()
    };
    assert_eq!(see("analytics/queue-ops").await["queues"], json!(["b.two"]));
    assert_eq!(see("status/analytics").await["dataPoints"][0]["messages"], 1);
    let status = see("status").await;
    assert_eq!(
        (&status["throughput"][0]["ingested"], &status["errors"]["dbErrors"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(status["workers"], json!([]));
    assert_eq!(see("resources/overview").await["queues"], 1);
    assert_eq!(see("analytics/retention").await["totals"]["removed"], Value::Null);
    for (method, path) in [
        ("GET", "analytics/system-metrics"),
        ("GET", "analytics/worker-metrics"),
        ("GET", "analytics/postgres-stats"),
        ("GET", "system/shared-state"),
        ("POST", "stats/refresh"),
    ] {
        let path = format!("/api/v1/{path}");
        assert_eq!(node.status(&key, method, &path, Value::Null).await, 403, "{path}");
    }
}
