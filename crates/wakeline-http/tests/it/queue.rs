//! The wire formats of the published queue clients.

use axum::http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::Node;

#[tokio::test]
async fn a_pushed_message_is_popped_and_settled() {
    let node = Node::start().await;
    let pushed = node.push("q", &["a", "b"]).await;
    assert_eq!(pushed[0]["status"], "queued");
    assert_eq!(pushed[1]["index"], 1);
    assert_eq!(pushed[0]["transaction_id"], "a");
    assert_eq!(pushed[0]["queueName"], "q");

    let popped = node.get("/api/v1/pop/queue/q?batch=5").await;
    assert_eq!(popped.status, StatusCode::OK);
    let popped = popped.json();
    assert_eq!(popped["success"], true);
    assert_eq!(popped["partition"], "Default");
    assert_eq!(popped["partitionsClaimed"], 1);
    let messages = popped["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["data"], json!({"id": "a"}));
    assert_eq!(messages[0]["id"], pushed[0]["message_id"]);
    assert_eq!(messages[0]["leaseId"], popped["leaseId"]);
    assert_eq!(messages[0]["attempt"], 1);
    assert!(messages[0]["createdAt"].as_str().expect("a time").ends_with('Z'));

    let ack = |message: &Value| {
        json!({
            "transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": "completed", "error": null,
            "consumerGroup": null,
        })
    };
    let answer = node.post("/api/v1/ack", ack(&messages[1]).to_string()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.json()[0]["success"], true);
    assert_eq!(answer.json()[0]["leaseReleased"], false);
    let answer = node.post("/api/v1/ack", ack(&messages[0]).to_string()).await;
    assert_eq!(answer.json()[0]["leaseReleased"], true);
    let again = node.post("/api/v1/ack", ack(&messages[0]).to_string()).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert_eq!(again.json()["code"], "stale_lease");
    assert_eq!(node.get("/api/v1/pop/queue/q").await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_repeated_push_returns_the_first_message() {
    let node = Node::start().await;
    let first = node.push("q", &["same"]).await;
    let second = node.push("q", &["same", "new"]).await;
    assert_eq!(second[0]["status"], "duplicate");
    assert_eq!(second[0]["message_id"], first[0]["message_id"]);
    assert_eq!(second[1]["status"], "queued");
}

#[tokio::test]
async fn a_parked_pop_is_answered_by_a_push() {
    let node = Node::start().await;
    let paths = [
        "/api/v1/pop/queue/n.t?wait=true",
        "/api/v1/pop/queue/n.t/partition/Default?wait=true&consumerGroup=one",
        "/api/v1/pop?namespace=n&wait=true&consumerGroup=two",
        "/api/v1/pop?task=t&wait=true&consumerGroup=three",
        "/api/v1/pop?namespace=n&task=t&wait=true&consumerGroup=four",
        "/api/v1/pop?wait=true&consumerGroup=five",
    ];
    let pops = paths.map(|path| {
        let (app, path) = (node.app.clone(), path.to_owned());
        tokio::spawn(async move {
            let node = crate::support::Answer::of(app, &path).await;
            (path, node)
        })
    });
    node.parked(paths.len()).await;
    node.push("n.t", &["x"]).await;
    for pop in pops {
        let (path, answer) = pop.await.expect("no panic");
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.json()["messages"][0]["transactionId"], "x", "{path}");
    }
}

#[tokio::test]
async fn an_empty_pop_of_an_unknown_queue_is_no_content() {
    let node = Node::start().await;
    for path in ["/api/v1/pop/queue/none", "/api/v1/pop/queue/none?wait=true&timeout=20"] {
        let answer = node.get(path).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT);
        assert!(answer.body.is_empty());
    }
}

#[tokio::test]
async fn a_batch_ack_has_a_result_per_message() {
    let node = Node::start().await;
    let options = json!({"queue": "q", "options": {"retryDelay": 0}});
    assert_eq!(node.post("/api/v1/configure", options.to_string()).await.status, StatusCode::OK);
    node.push("q", &["a", "b"]).await;
    let popped = node.get("/api/v1/pop/queue/q?batch=2&consumerGroup=g").await.json();
    let message = &popped["messages"][0];
    let lease = &popped["leaseId"];
    let acks = json!({"consumerGroup": "g", "acknowledgments": [
        {"transactionId": "b", "partitionId": message["partitionId"], "status": "failed",
         "error": "boom", "leaseId": lease},
        {"transactionId": "zzz", "partitionId": message["partitionId"], "leaseId": lease},
        {"transactionId": "a", "partitionId": message["partitionId"], "leaseId": "bogus"},
        {"transactionId": "a", "partitionId": message["partitionId"]},
        {"transactionId": "a", "partitionId": Uuid::nil(), "leaseId": lease},
        {"transactionId": "a", "partitionId": message["partitionId"], "leaseId": lease},
    ]});
    let answer = node.post("/api/v1/ack/batch", acks.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let results = answer.json();
    let errors: Vec<_> = results.as_array().expect("results").iter().map(|r| &r["error"]).collect();
    assert_eq!(errors[0], &Value::Null);
    assert_eq!(errors[1], "Message not found");
    assert_eq!(errors[2], "Invalid or expired lease");
    assert!(errors[3].as_str().expect("a text").starts_with("Lease required"));
    assert_eq!(errors[4], "Message not found");
    assert_eq!(errors[5], &Value::Null);
    assert_eq!(results[5]["leaseReleased"], true);
    let retried = node.get("/api/v1/pop/queue/q?consumerGroup=g").await.json();
    assert_eq!(retried["messages"][0]["transactionId"], "b");
    assert_eq!(retried["messages"][0]["attempt"], 2);
}

#[tokio::test]
async fn a_lease_is_extended_with_and_without_a_body() {
    let node = Node::start().await;
    node.push("q", &["a"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    let path = format!("/api/v1/lease/{}/extend", popped["leaseId"].as_str().expect("a lease"));
    for body in ["", "{}", r#"{"seconds":90}"#] {
        let answer = node.post(&path, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{body}");
        assert_eq!(answer.json()["success"], true);
        for name in ["newExpiresAt", "expiresAt", "lease_expires_at"] {
            assert!(answer.json()[name].is_string(), "{name}");
        }
    }
    assert_eq!(node.post(&path, r#"{"seconds":0}"#).await.status, StatusCode::BAD_REQUEST);
    let bogus = node.post("/api/v1/lease/bogus/extend", "").await;
    assert_eq!(bogus.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_transaction_is_committed_as_a_whole_or_not_at_all() {
    let node = Node::start().await;
    node.push("in", &["a"]).await;
    let popped = node.get("/api/v1/pop/queue/in").await.json();
    let partition = &popped["messages"][0]["partitionId"];
    let push = json!({"type": "push", "items": [{"queue": "out", "payload": 1}]});
    let ack = json!({"type": "ack", "transactionId": "a", "partitionId": partition,
                     "status": "completed"});

    let unfenced = json!({"operations": [push, ack]});
    let answer = node.post("/api/v1/transaction", unfenced.to_string()).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(answer.json()["success"], false);
    assert_eq!(node.get("/api/v1/pop/queue/out").await.status, StatusCode::NO_CONTENT);

    let fenced = json!({"operations": [push, ack], "requiredLeases": [popped["leaseId"]]});
    let answer = node.post("/api/v1/transaction", fenced.to_string()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let answer = answer.json();
    assert_eq!(answer["success"], true);
    assert_eq!(answer["results"][0]["type"], "push");
    assert_eq!(answer["results"][0]["queueName"], "out");
    assert_eq!(answer["results"][1]["type"], "ack");
    assert_eq!(node.get("/api/v1/pop/queue/out").await.status, StatusCode::OK);
    let repeated = node.post("/api/v1/transaction", fenced.to_string()).await;
    assert_eq!(repeated.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_full_queue_is_answered_429_with_retry_after() {
    let node = Node::start().await;
    let body = json!({"queue": "q", "options": {"maxSize": 2, "maxPartitionSize": 1}});
    let options = node.post("/api/v1/configure", body.to_string()).await.json()["options"].clone();
    assert_eq!((&options["maxSize"], &options["maxPartitionSize"]), (&json!(2), &json!(1)));
    node.push("q", &["a"]).await;
    let item = |partition: &str, id: &str| {
        let payload = 1;
        json!({"queue": "q", "partition": partition, "payload": payload, "transactionId": id})
    };
    let push = |items: Vec<Value>| json!({"items": items}).to_string();
    let refused = node.post("/api/v1/push", push(vec![item("Default", "c")])).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json()["code"], "queue_full");
    assert!(refused.error().starts_with("queue q is full in partition Default, and nothing"));
    let stored = node.post("/api/v1/push", push(vec![item("p", "b")])).await.status;
    assert_eq!(stored, StatusCode::CREATED);
    let operations = json!({"operations": [{"type": "push", "items": [item("x", "d")]}]});
    let refused = node.post("/api/v1/transaction", operations.to_string()).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.error().starts_with("queue q is full, and nothing was stored: try again"));
    let made = node.get("/api/v1/resources/partitions?queue=q").await.json();
    assert_eq!(made["partitions"].as_array().map(Vec::len), Some(2), "no new partition: {made}");
    let popped = node.get("/api/v1/pop/queue/q?batch=9&partitions=9").await.json();
    assert_eq!(popped["messages"].as_array().expect("messages").len(), 2);
}

#[tokio::test]
async fn dead_letters_and_messages_can_be_read() {
    let node = Node::start().await;
    node.push("q", &["a"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    let partition = popped["partitionId"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/messages/{partition}/a");
    assert_eq!(node.get(&path).await.json()["status"], "processing");
    let ack = json!({"transactionId": "a", "partitionId": partition, "status": "dlq",
                     "error": "no use", "leaseId": popped["leaseId"]});
    assert_eq!(node.post("/api/v1/ack", ack.to_string()).await.json()[0]["dlq"], true);
    let letters = node.get("/api/v1/dlq?queue=q").await.json();
    assert_eq!(letters["messages"][0]["errorMessage"], "no use");
    assert_eq!(letters["messages"][0]["data"], json!({"id": "a"}));
    assert_eq!(letters["pagination"], json!({"limit": 100, "offset": 0, "total": 1}));
    assert_eq!(node.get(&path).await.json()["status"], "dead_letter");
    let missing = node.get(&format!("/api/v1/messages/{partition}/zzz")).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn groups_are_listed_moved_and_deleted() {
    let node = Node::start().await;
    node.push("q", &["a", "b"]).await;
    node.get("/api/v1/pop/queue/q?consumerGroup=g&autoAck=true").await;
    let groups = node.get("/api/v1/consumer-groups").await.json();
    let listed = groups.as_array().expect("groups").iter().find(|group| group["name"] == "g");
    assert_eq!(listed.expect("it is listed")["totalLag"], 1);
    let group = node.get("/api/v1/consumer-groups/g").await.json();
    assert_eq!(group["q"]["queueName"], "q");
    assert_eq!(group["q"]["totalLag"], 1);
    assert_eq!(group["q"]["subscriptionMode"], "all");
    let partition = &group["q"]["partitions"][0];
    assert_eq!(partition["partition"], "Default");
    assert_eq!(partition["offsetLag"], 1);
    assert_eq!(partition["totalConsumed"], 1);
    assert_eq!(partition["leaseActive"], false);
    assert!(partition["oldestUnconsumedAt"].is_string(), "{partition}");
    let moved = node
        .post(
            "/api/v1/consumer-groups/g/subscription",
            r#"{"subscriptionTimestamp":"2020-01-01T00:00:00Z"}"#,
        )
        .await;
    assert_eq!(moved.json()["rowsUpdated"], 1);
    let popped = node.get("/api/v1/pop/queue/q?consumerGroup=g&batch=9").await.json();
    assert_eq!(popped["messages"].as_array().expect("messages").len(), 2);
    let gone = node.call("DELETE", "/api/v1/consumer-groups/g", "").await.json();
    assert_eq!(gone["deletedPartitions"], 1);
    assert_eq!(node.get("/api/v1/consumer-groups/g").await.status, StatusCode::NOT_FOUND);
    let missing = node.post("/api/v1/consumer-groups/g/subscription", "{}").await;
    assert_eq!(missing.error(), "Missing subscriptionTimestamp in request body");
}

#[tokio::test]
async fn a_group_is_moved_in_one_queue_and_in_one_partition() {
    let node = Node::start().await;
    node.push("q", &["a", "b"]).await;
    node.push("r", &["c"]).await;
    for queue in ["q", "r"] {
        let path = format!("/api/v1/pop/queue/{queue}?consumerGroup=g&batch=9&autoAck=true");
        node.get(&path).await;
    }
    let seek = "/api/v1/consumer-groups/g/queues/q/seek";
    let popped = async |queue: &str| {
        let path = format!("/api/v1/pop/queue/{queue}?consumerGroup=g&batch=9&autoAck=true");
        let reply = node.get(&path).await;
        if reply.status == StatusCode::NO_CONTENT {
            return 0;
        }
        reply.json()["messages"].as_array().expect("messages").len()
    };
    let moved = node.post(seek, r#"{"toBeginning":true}"#).await.json();
    assert_eq!(moved["partitionsUpdated"], 1, "{moved}");
    assert_eq!((popped("q").await, popped("r").await), (2, 0));
    let moved = node.post(seek, r#"{"timestamp":"2020-01-01T00:00:00Z"}"#).await.json();
    assert_eq!(moved["targetTimestamp"], "2020-01-01T00:00:00.000000Z", "{moved}");
    let moved = node.post(seek, r#"{"toEnd":true}"#).await.json();
    assert_eq!(moved["seekToEnd"], true, "{moved}");
    assert_eq!(popped("q").await, 0);
    let partition = "/api/v1/consumer-groups/g/queues/q/partitions/Default/seek";
    let moved = node.post(partition, r#"{"toBeginning":true}"#).await.json();
    assert_eq!((&moved["updated"], &moved["partitionName"]), (&json!(true), &json!("Default")));
    let moved = node.post(partition, "").await.json();
    assert_eq!(moved["seekToEnd"], true, "without a body, to the end: {moved}");
    assert_eq!(popped("q").await, 0);
    for (path, body, status, words) in [
        (seek, "{}", 400, "Must specify either 'toEnd': true or 'timestamp'"),
        (seek, r#"{"toEnd":true,"toBeginning":true}"#, 400, "Only one of"),
        (seek, r#"{"timestamp":"yesterday"}"#, 400, "timestamp"),
        (seek, r#"{"timestamp":"2999-01-01T00:00:00Z"}"#, 400, "future"),
        ("/api/v1/consumer-groups/no/queues/q/seek", r#"{"toEnd":true}"#, 404, "this queue"),
        ("/api/v1/consumer-groups/g/queues/no/seek", r#"{"toEnd":true}"#, 404, "this queue"),
        ("/api/v1/consumer-groups/g/queues/q/partitions/no/seek", "", 404, "this partition"),
    ] {
        let refused = node.post(path, body).await;
        assert_eq!(refused.status.as_u16(), status, "{path} {body}");
        assert!(refused.error().contains(words), "{path} {body}: {}", refused.error());
    }
}

#[tokio::test]
async fn lagging_groups_are_found() {
    let node = Node::start().await;
    node.push("q", &["a", "b"]).await;
    node.get("/api/v1/pop/queue/q?consumerGroup=g&autoAck=true").await;
    let all = node.get("/api/v1/consumer-groups/lagging?minLagSeconds=0&consumerGroup=g").await;
    let all = all.json();
    assert_eq!(all[0]["consumer_group"], "g", "{all}");
    assert_eq!(all[0]["queue_name"], "q");
    assert_eq!(all[0]["partition_name"], "Default");
    assert_eq!(all[0]["offset_lag"], 1);
    assert_eq!(all.as_array().expect("a list").len(), 1);
    let none = node.get("/api/v1/consumer-groups/lagging").await.json();
    assert_eq!(none, json!([]), "no group is behind by an hour");
    let refused = node.get("/api/v1/consumer-groups/lagging?minLagSeconds=soon").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}
