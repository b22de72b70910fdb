//! Traces over HTTP, in the formats of the published Queen clients.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::ROOT;
use crate::support::Node;

const TRACES: &str = "/api/v1/traces";

#[tokio::test]
async fn traces_are_found_by_message_and_by_name() {
    let node = Node::start().await;
    let pushed = node.push("q", &["a", "b"]).await;
    let partition = pushed[0]["partition_id"].as_str().expect("an id");
    let full = json!({"transactionId": "a", "partitionId": partition, "data": {"step": 1},
        "consumerGroup": "g", "traceNames": ["order/1", "x"], "eventType": "step",
        "workerId": "w-1"});
    let noted = node.expect(201, "POST", TRACES, full).await;
    assert_eq!(noted["success"], true);
    let short = json!({"transactionId": "b", "partitionId": partition, "data": "s",
        "consumerGroup": null, "traceNames": "x"});
    node.expect(201, "POST", TRACES, short).await;
    let of_a = node.get(&format!("{TRACES}/{partition}/a")).await.json();
    let mut trace = of_a["traces"][0].clone();
    assert!(trace["created_at"].take().is_string());
    let expected = json!({"id": noted["traceId"], "event_type": "step", "data": {"step": 1},
        "consumer_group": "g", "worker_id": "w-1", "created_at": null,
        "trace_names": ["order/1", "x"]});
    assert_eq!(trace, expected);
    let named = node.get(&format!("{TRACES}/by-name/x?limit=1")).await.json();
    let first = &named["traces"][0];
    assert_eq!((&first["transaction_id"], &first["queue_name"]), (&json!("b"), &json!("q")));
    assert_eq!((&first["data"], &first["event_type"]), (&json!("s"), &json!("info")));
    assert_eq!(first["consumer_group"], "__QUEUE_MODE__");
    assert_eq!(first["message_payload"], json!({"id": "b"}));
    assert_eq!((&first["partition_id"], &first["worker_id"]), (&json!(partition), &Value::Null));
    assert_eq!(named["total"], 2);
    assert_eq!(named["pagination"], json!({"limit": 1, "offset": 0, "total": 2}));
    let slashed = node.get(&format!("{TRACES}/by-name/order%2F1")).await.json();
    assert_eq!(slashed["total"], 1);
    let names = node.get(&format!("{TRACES}/names")).await.json();
    assert_eq!(names["trace_names"][0]["trace_name"], "x");
    assert_eq!(names["trace_names"][0]["trace_count"], 2);
    assert_eq!(names["trace_names"][0]["message_count"], 2);
    assert_eq!(names["total"], 2);
}

#[tokio::test]
async fn errors_name_invalid_trace_fields() {
    let node = Node::start().await;
    let pushed = node.push("q", &["a"]).await;
    let partition = pushed[0]["partition_id"].as_str().expect("an id");
    let refused = async |status, change: Value| {
        let mut body = json!({"transactionId": "a", "partitionId": partition, "data": 1});
        for (name, value) in change.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let answer = node.expect(status, "POST", TRACES, body).await;
        answer["error"].as_str().expect("a text").to_owned()
    };
    let needed = "transactionId and partitionId are required";
    assert_eq!(refused(400, json!({"transactionId": null})).await, needed);
    assert_eq!(refused(400, json!({"partitionId": null})).await, needed);
    assert_eq!(refused(404, json!({"transactionId": "x"})).await, "Message not found");
    assert_eq!(refused(404, json!({"partitionId": Uuid::nil()})).await, "Message not found");
    let large = "x".repeat(65_536);
    assert!(refused(400, json!({"data": large})).await.contains("65536"));
    let many: Vec<_> = (0..17).map(|n| n.to_string()).collect();
    assert!(refused(400, json!({"traceNames": many})).await.contains("16"));
    assert!(refused(400, json!({"traceNames": [""]})).await.contains("traceName"));
    assert!(refused(400, json!({"eventType": "a\u{0}"})).await.contains("eventType"));
    let without = json!({"transactionId": "a", "partitionId": partition});
    let answer = node.expect(400, "POST", TRACES, without).await;
    assert_eq!(answer["error"], "data is required");
    let none = node.get(&format!("{TRACES}/{partition}/a")).await.json();
    assert_eq!(none, json!({"traces": []}));
}

#[tokio::test]
async fn traces_of_forbidden_queues_are_not_returned() {
    let node = Node::keyed(ROOT).await;
    let consumer = node.named_key("worker", &["queue:pop:mine"]).await;
    let consumer = consumer["key"].as_str().expect("a key");
    for queue in ["mine", "theirs"] {
        let item = json!({"items": [{"queue": queue, "payload": 1, "transactionId": "t"}]});
        let pushed = node.root("POST", "/api/v1/push", item).await;
        let body = json!({"transactionId": "t", "partitionId": pushed[0]["partition_id"],
            "data": queue, "traceNames": "n"});
        let expected = if queue == "mine" { 201 } else { 404 };
        assert_eq!(node.status(consumer, "POST", TRACES, body.clone()).await, expected);
        node.root("POST", TRACES, body).await;
    }
    let reader = node.key(&["queue:read:mine"]).await;
    let path = format!("{TRACES}/by-name/n");
    let found = node.with_key(&reader, "GET", &path, Value::Null).await.json();
    assert_eq!(
        (&found["total"], &found["traces"][1]["worker_id"]),
        (&json!(2), &json!("key:worker"))
    );
    let all = node.root("GET", &path, Value::Null).await;
    assert_eq!(all["total"], 3);
    assert_eq!(node.status(&reader, "GET", &format!("{TRACES}/names"), Value::Null).await, 403);
}
