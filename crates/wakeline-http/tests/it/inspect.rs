//! Message counts of queues, over HTTP.

use serde_json::{Value, json};

use crate::access::ROOT;
use crate::support::Node;

/// Pushes three messages, pops two, and settles one of them.
async fn busy(node: &Node, queue: &str) {
    node.push(queue, &["a", "b", "c"]).await;
    let popped = node.get(&format!("/api/v1/pop/queue/{queue}?batch=2")).await.json();
    let ack = json!({"transactionId": "a", "partitionId": popped["partitionId"],
        "leaseId": popped["leaseId"], "status": "completed"});
    node.expect(200, "POST", "/api/v1/ack", ack).await;
}

async fn read(node: &Node, path: &str) -> Value {
    node.expect(200, "GET", &format!("/api/v1/{path}"), Value::Null).await
}

#[tokio::test]
async fn queues_report_their_message_counts() {
    let node = Node::start().await;
    busy(&node, "n.t").await;
    node.push("other", &["x"]).await;
    let queues = read(&node, "resources/queues").await;
    let first = &queues["queues"][0];
    assert_eq!((&first["name"], &first["namespace"]), (&json!("n.t"), &json!("n")));
    assert_eq!(first["messages"], json!({"total": 3, "pending": 1, "processing": 1}));
    assert_eq!(first["partitions"], 1);
    assert_eq!(queues["queues"][1]["messages"]["pending"], 1);
    let page = read(&node, "status/queues?limit=1&offset=1").await;
    assert_eq!(page["queues"], json!([queues["queues"][1]]));
    assert_eq!(page["pagination"], json!({"limit": 1, "offset": 1}));
    let totals = json!({"total": 3, "pending": 1, "processing": 1, "completed": 1, "failed": 0,
        "deadLetter": 0, "expired": 0, "evicted": 0, "dropped": 0});
    let one = read(&node, "resources/queues/n.t").await;
    assert_eq!(one["totals"], totals);
    assert_eq!((&one["id"], &one["createdAt"]), (&first["id"], &first["createdAt"]));
    let partition = &one["partitions"][0];
    assert_eq!(
        (&partition["name"], &partition["stats"]["completed"]),
        (&json!("Default"), &json!(1))
    );
    assert_eq!(partition["oldestMessage"], partition["newestMessage"]);
    let status = read(&node, "status/queues/n.t").await;
    assert_eq!(status["totals"], totals);
    assert_eq!(status["queue"]["config"]["leaseTime"], 300);
    assert_eq!(status["partitions"][0]["cursor"]["totalConsumed"], 1);
    let messages = read(&node, "status/queues/n.t/messages?limit=2").await;
    let state = |index: usize| (&messages[index]["transactionId"], &messages[index]["status"]);
    assert_eq!(state(0), (&json!("c"), &json!("pending")));
    assert_eq!(state(1), (&json!("b"), &json!("processing")));
    for path in [
        "resources/queues/x",
        "status/queues/x",
        "resources/queues/x/depth",
        "status/queues/x/messages",
    ] {
        node.expect(404, "GET", &format!("/api/v1/{path}"), Value::Null).await;
    }
    node.expect(400, "GET", "/api/v1/resources/queues?limit=0", Value::Null).await;
}

#[tokio::test]
async fn depth_is_counted_for_a_group_before_its_first_poll() {
    let node = Node::start().await;
    busy(&node, "q").await;
    let depth = json!({"queue": "q", "group": null, "pending": 2, "partitionsPending": 1,
        "conflation": false, "effectivePending": 2,
        "partitions": [{"partition": "Default", "pending": 2}]});
    assert_eq!(read(&node, "resources/queues/q/depth").await, depth);
    let new = read(&node, "resources/queues/q/depth?group=g").await;
    assert_eq!((&new["group"], &new["pending"]), (&json!("g"), &json!(3)));
    let groups = read(&node, "consumer-groups").await;
    assert_eq!((&groups[0]["totalLag"], &groups[0]["maxTimeLag"]), (&json!(2), &json!(0)));
    assert_eq!((&groups[0]["idle"], &groups[0]["idleSince"]), (&json!(false), &Value::Null));
    assert_eq!(groups[0]["lastPolledAt"], groups[0]["subscriptionCreatedAt"]);
}

#[tokio::test]
async fn namespaces_and_tasks_sum_their_queues() {
    let node = Node::start().await;
    busy(&node, "n.t").await;
    busy(&node, "n.u").await;
    node.push("bare", &["x"]).await;
    let namespaces = read(&node, "resources/namespaces").await;
    let named = &namespaces["namespaces"][1];
    assert_eq!((&named["namespace"], &named["queues"]), (&json!("n"), &json!(2)));
    assert_eq!(
        (&named["messages"]["total"], &named["messages"]["completed"]),
        (&json!(6), &json!(2))
    );
    assert_eq!(namespaces["namespaces"][0]["namespace"], Value::Null);
    let tasks = read(&node, "resources/tasks").await;
    let names: Vec<_> =
        tasks["tasks"].as_array().expect("a list").iter().map(|t| &t["task"]).collect();
    assert_eq!(names, [&Value::Null, &json!("t"), &json!("u")]);
    let buffers = read(&node, "status/buffers").await;
    assert_eq!((&buffers["pending"], &buffers["dbHealthy"]), (&json!(0), &json!(true)));
}

#[tokio::test]
async fn callers_see_the_queues_that_they_may_read() {
    let node = Node::keyed(ROOT).await;
    for queue in ["a.one", "b.two", "b.three"] {
        let items = json!({"items": [{"queue": queue, "payload": 1}]});
        node.root("POST", "/api/v1/push", items).await;
    }
    let key = node.key(&["queue:read:b.*"]).await;
    let see = async |path: &str| {
        node.with_key(&key, "GET", &format!("/api/v1/{path}"), Value::Null).await.json()
    };
    for path in ["resources/queues", "status/queues"] {
        let list = see(path).await;
        let names = list["queues"].as_array().expect("a list").iter().map(|queue| &queue["name"]);
        assert_eq!(names.collect::<Vec<_>>(), ["b.three", "b.two"], "{path}");
    }
    let page = see("resources/queues?limit=1&offset=1").await;
    assert_eq!(page["queues"][0]["name"], "b.two");
    let namespaces = see("resources/namespaces").await["namespaces"].clone();
    assert_eq!((&namespaces[0]["namespace"], &namespaces[0]["queues"]), (&json!("b"), &json!(2)));
    assert_eq!(see("resources/tasks").await["tasks"].as_array().expect("a list").len(), 2);
    for path in [
        "resources/queues/a.one",
        "status/queues/a.one",
        "resources/queues/a.one/depth",
        "status/queues/a.one/messages",
    ] {
        let path = format!("/api/v1/{path}");
        assert_eq!(node.status(&key, "GET", &path, Value::Null).await, 404, "{path}");
    }
}
