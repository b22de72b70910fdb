//! Queue options: their names, their effects, and invalid values.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::Node;

#[tokio::test]
async fn an_unordered_queue_has_lanes() {
    let node = Node::start().await;
    let configure = |options: Value| {
        let body = json!({"queue": "q", "options": options}).to_string();
        node.post("/api/v1/configure", body)
    };
    for (options, lanes) in [
        (json!({"unordered": true}), 16),
        (json!({"unordered": true, "lanes": 64}), 64),
        (json!({"lanes": 3}), 3),
        (json!({"unordered": false}), 0),
        (json!({}), 0),
    ] {
        let answer = configure(options.clone()).await.json();
        assert_eq!(answer["options"]["lanes"], lanes, "{options}");
        assert_eq!(answer["options"]["unordered"], lanes > 0, "{options}");
    }
    for options in [json!({"unordered": true, "lanes": 0}), json!({"unordered": false, "lanes": 2})]
    {
        let answer = configure(options.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{options}");
        let error = answer.json()["error"].to_string();
        assert!(error.contains("options.lanes") && error.contains("omit"), "{error}");
    }

    configure(json!({"unordered": true})).await;
    let names: Vec<String> = (0..40).map(|n| format!("m-{n}")).collect();
    node.push("q", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for consumer in ["first", "second"] {
        let popped = node.get("/api/v1/pop/queue/q").await;
        assert_eq!(popped.status, StatusCode::OK, "the {consumer} of two consumers at once");
    }
}

#[tokio::test]
async fn configure_replaces_options_and_refuses_unknown_or_invalid_ones() {
    let node = Node::start().await;
    let body = json!({"queue": "a.b", "options": {"leaseTime": 7, "retryLimit": 0,
                      "maxSize": 0, "encryptionEnabled": false}});
    let answer = node.post("/api/v1/configure", body.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let answer = answer.json();
    assert_eq!(answer["configured"], true);
    assert_eq!(answer["namespace"], "a");
    assert_eq!(answer["options"]["leaseTime"], 7);
    assert_eq!(answer["options"]["retryDelay"], 1000);
    assert_eq!(answer["options"]["groupIdleSeconds"], 2_419_200);
    assert_eq!(answer["options"]["retryDelayMax"], 300_000);
    assert_eq!(answer["options"]["deadLetterQueue"], true);
    let read = node.get("/api/v1/resources/queues/a.b").await.json();
    for field in ["queue", "queueId", "partitionId", "namespace", "task", "options"] {
        assert_eq!(read[field], answer[field], "{field}");
    }

    for (options, named) in [
        (json!({"ttl": -1}), "ttl"),
        (json!({"retentionSeconds": 3_200_000_000u64}), "retentionSeconds"),
        (json!({"leaseTime": 0}), "leaseTime"),
        (json!({"leaseTime": -1}), "leaseTime"),
        (json!({"groupIdleSeconds": 599}), "groupIdleSeconds"),
        (json!({"colour": "red"}), "colour"),
        (json!({"ordering": "random"}), "ordering"),
    ] {
        let body = json!({"queue": "a.b", "options": options}).to_string();
        let answer = node.post("/api/v1/configure", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{named}");
        assert!(answer.error().contains(named), "{}", answer.error());
    }
    let body = json!({"queue": "a.b", "options": {"encryptionEnabled": true}});
    let keyless = node.post("/api/v1/configure", body.to_string()).await;
    assert_eq!(keyless.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(keyless.json()["code"], "no_encryption_key");
    let replaced = node.post("/api/v1/configure", r#"{"queue":"a.b"}"#).await.json();
    assert_eq!(replaced["options"]["leaseTime"], 300);
    let gone = node.call("DELETE", "/api/v1/resources/queues/a.b", "").await.json();
    assert_eq!(gone, json!({"queue": "a.b", "deleted": true, "existed": true}));
    let gone = node.call("DELETE", "/api/v1/resources/queues/a.b", "").await.json();
    assert_eq!(gone["existed"], false);
    assert_eq!(node.get("/api/v1/resources/queues/a.b").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn time_limits_are_configured_and_enforced() {
    let node = Node::start().await;
    let options = json!({"ttl": 1, "maxWaitTimeSeconds": 60, "retentionSeconds": 600,
                         "completedRetentionSeconds": 30});
    let body = json!({"queue": "q", "options": options}).to_string();
    let answer = node.post("/api/v1/configure", body).await.json();
    for (name, value) in options.as_object().expect("an object") {
        assert_eq!(answer["options"][name], *value, "{name}");
    }
    assert_eq!(answer["options"]["retentionEnabled"], true);
    node.push("q", &["a"]).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert_eq!(node.get("/api/v1/pop/queue/q").await.status, StatusCode::NO_CONTENT);
    node.push("q", &["b"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    assert_eq!(popped["messages"][0]["transactionId"], "b");
}

#[tokio::test]
async fn lanes_distribute_pushes_without_a_partition() {
    let node = Node::start().await;
    let body = json!({"queue": "q", "options": {"lanes": 8}});
    node.post("/api/v1/configure", body.to_string()).await;
    node.push("q", &["a", "b", "c", "d", "e", "f"]).await;
    let popped = node.get("/api/v1/pop/queue/q?batch=99&partitions=9").await.json();
    assert!(popped["partitionsClaimed"].as_u64().expect("a number") > 1, "{popped}");
    let messages = popped["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 6);
    let lane = |message: &Value| message["partition"].as_str().expect("a name").to_owned();
    assert!(messages.iter().all(|message| lane(message).starts_with("lane-000")), "{popped}");
}

#[tokio::test]
async fn a_patch_changes_only_the_given_options() {
    let node = Node::start().await;
    let path = "/api/v1/resources/queues/q";
    node.expect(404, "PATCH", path, json!({"options": {"leaseTime": 7}})).await;
    node.expect(404, "GET", path, Value::Null).await;
    let body = json!({"queue": "q", "options": {"leaseTime": 7, "retentionSeconds": 60}});
    node.expect(200, "POST", "/api/v1/configure", body).await;

    let mut expected = node.expect(200, "GET", path, Value::Null).await["options"].clone();
    let patched = node.expect(200, "PATCH", path, json!({"options": {"unordered": true}})).await;
    expected["lanes"] = json!(16);
    expected["unordered"] = json!(true);
    assert_eq!(patched["options"], expected);
    let patched = node.expect(200, "PATCH", path, json!({"options": {"leaseTime": 8}})).await;
    expected["leaseTime"] = json!(8);
    assert_eq!(patched["options"], expected);
    let nothing = node.expect(200, "PATCH", path, json!({"task": "t"})).await;
    assert_eq!((&nothing["options"], &nothing["task"]), (&expected, &json!("t")));

    for (options, named) in [
        (json!({"leaseTime": 0}), "leaseTime"),
        (json!({"leasetime": 9}), "leaseTime"),
        (json!({"unordered": true, "lanes": 0}), "lanes"),
        (json!({"groupIdleSeconds": 1}), "groupIdleSeconds"),
    ] {
        let answer = node.expect(400, "PATCH", path, json!({ "options": options })).await;
        assert!(answer["error"].to_string().contains(named), "{answer}");
    }
    let answer = node.expect(200, "GET", path, Value::Null).await;
    assert_eq!(answer["options"], expected, "a refused patch changes nothing");
}
