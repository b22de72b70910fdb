//! Delayed messages, timers, and transactions over queues, orchestrations and webhooks.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Answer, Node};

const NONE: Value = Value::Null;

fn base64(payload: &Value) -> String {
    STANDARD.encode(payload.to_string())
}

#[tokio::test]
async fn a_delayed_push_is_delivered_to_a_waiting_pop_when_it_is_due() {
    let node = Node::start().await;
    let app = node.app.clone();
    let path = "/api/v1/pop/queue/q?wait=true&timeout=10000";
    let pop = tokio::spawn(async move { Answer::of(app, path).await });
    node.parked(1).await;
    let started = Instant::now();
    let items = json!({"items": [
        {"queue": "q", "payload": {"n": 1}, "transactionId": "later", "delayMs": 300},
        {"queue": "q", "payload": {"n": 2}, "transactionId": "latest", "delay": 3_600_000},
    ]});
    let pushed = node.expect(201, "POST", "/api/v1/push", items).await;
    assert_eq!((&pushed[0]["status"], &pushed[0]["index"]), (&json!("scheduled"), &json!(0)));
    assert!(pushed[0]["deliverAt"].as_str().expect("a time").ends_with('Z'), "{pushed}");
    let popped = pop.await.expect("no panic").json();
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
    assert_eq!(popped["messages"][0]["transactionId"], "later");
    assert_eq!(popped["messages"][0]["id"], pushed[0]["message_id"]);
    let again = json!({"items": [{"queue": "q", "payload": 1, "transactionId": "latest"}]});
    let again = node.expect(201, "POST", "/api/v1/push", again).await;
    assert_eq!(again[0]["status"], "duplicate");
    assert_eq!(again[0]["message_id"], pushed[1]["message_id"]);
}

#[tokio::test]
async fn one_push_may_contain_immediate_and_delayed_messages() {
    let node = Node::start().await;
    let items = json!({"items": [
        {"queue": "q", "payload": 1, "transactionId": "b", "deliverAt": "2999-01-01T00:00:00Z"},
        {"queue": "q", "payload": 1, "transactionId": "a"},
        {"queue": "q", "payload": 1, "transactionId": "c", "deliverAt": "2001-01-01T00:00:00Z"},
    ]});
    let pushed = node.expect(201, "POST", "/api/v1/push", items).await;
    let statuses: Vec<&Value> = (0..3).map(|n| &pushed[n]["status"]).collect();
    assert_eq!(statuses, ["scheduled", "queued", "scheduled"]);
    assert_eq!(pushed[0]["deliverAt"], "2999-01-01T00:00:00.000000Z");
    let popped = node.expect(200, "GET", "/api/v1/pop/queue/q?batch=5", NONE).await;
    let ids = [&popped["messages"][0]["transactionId"], &popped["messages"][1]["transactionId"]];
    assert_eq!(
        (ids, popped["messages"].as_array().map(Vec::len)),
        ([&json!("a"), &json!("c")], Some(2))
    );
}

#[tokio::test]
async fn errors_name_the_invalid_time_field() {
    let node = Node::start().await;
    for (item, named) in [
        (
            json!({"queue": "q", "payload": 1, "delayMs": 1, "deliverAt": "2999-01-01T00:00:00Z"}),
            "deliverAt",
        ),
        (json!({"queue": "q", "payload": 1, "deliverAt": "soon"}), "deliverAt"),
        (json!({"queue": "q", "payload": 1, "delayMs": 400_000_000_000i64}), "delayMs"),
        (json!({"queue": "q", "payload": 1, "delayMs": "1"}), "delayMs"),
        (json!({"queue": "q", "payload": 1, "delayMs": -5}), "delayMs"),
    ] {
        let answer = node.post("/api/v1/push", json!({"items": [item]}).to_string()).await;
        assert_eq!(answer.status, 400, "{item}");
        assert!(answer.error().contains(named), "{}", answer.error());
    }
}

#[tokio::test]
async fn timers_are_set_replaced_read_and_cancelled() {
    let node = Node::start().await;
    let set = |op: &str, n: u32| {
        json!({"op": op, "queue": "q", "timerKey": "order/1:expire", "txn": format!("t{n}"),
            "payload": base64(&json!({"n": n})), "delayMs": 60_000, "partition": "p"})
    };
    let post = async |operations: Value| {
        node.expect(200, "POST", "/api/v1/timers", json!({"operations": operations})).await
    };
    let first = &post(json!([set("schedule", 1)])).await["results"][0];
    assert_eq!((&first["ok"], &first["status"]), (&json!(true), &json!("scheduled")));
    assert_eq!((&first["queue"], &first["timerKey"]), (&json!("q"), &json!("order/1:expire")));
    assert_eq!(first["txn"], "t1");
    let second = &post(json!([set("reschedule", 2)])).await["results"][0];
    assert_eq!(second["status"], "rescheduled");
    let path = "/api/v1/timers/q/order/1:expire";
    let look = node.expect(200, "GET", path, NONE).await;
    assert_eq!(
        (&look["found"], &look["payload"]),
        (&json!(true), &json!(base64(&json!({"n": 2}))))
    );
    assert_eq!((&look["messageId"], &look["partition"]), (&second["messageId"], &json!("p")));
    let cancelled = node.expect(200, "DELETE", &format!("{path}?txn=mine"), NONE).await;
    assert_eq!((&cancelled["status"], &cancelled["txn"]), (&json!("cancelled"), &json!("t2")));
    let absent = node.expect(200, "DELETE", &format!("{path}?txn=mine"), NONE).await;
    assert_eq!((&absent["status"], &absent["ok"]), (&json!("absent"), &json!(false)));
    assert_eq!(absent["txn"], "mine");
    assert_eq!(node.expect(200, "GET", path, NONE).await, json!({"found": false}));
}

#[tokio::test]
async fn a_due_timer_is_delivered_and_cannot_be_cancelled() {
    let node = Node::start().await;
    let set = json!({"operations": [
        {"op": "schedule", "queue": "q", "timerKey": "k", "data": {"n": 1}, "delayMs": -5},
        {"op": "cancel", "queue": "q", "timerKey": "other"},
    ]});
    let results = &node.expect(200, "POST", "/api/v1/timers", set).await["results"];
    assert_eq!(
        (&results[0]["status"], &results[1]["status"]),
        (&json!("scheduled"), &json!("absent"))
    );
    let late = node.expect(200, "DELETE", "/api/v1/timers/q/k", NONE).await;
    assert_eq!((&late["status"], &late["ok"]), (&json!("too_late"), &json!(false)));
    let popped = node.expect(200, "GET", "/api/v1/pop/queue/q", NONE).await;
    assert_eq!(popped["messages"][0]["data"], json!({"n": 1}));
    assert_eq!(popped["messages"][0]["id"], results[0]["messageId"]);
}

#[tokio::test]
async fn scheduled_messages_are_listed_in_pages() {
    let node = Node::start().await;
    let operations: Vec<Value> = (0..5)
        .map(|n| {
            json!({"op": "schedule", "queue": "q", "timerKey": format!("k{n}"),
            "delayMs": 60_000 + n, "txn": n.to_string()})
        })
        .collect();
    node.expect(200, "POST", "/api/v1/timers", json!({"operations": operations})).await;
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = node.expect(200, "GET", &format!("/api/v1/timers/q?limit=2{after}"), NONE).await;
        seen.extend(page["rows"].as_array().expect("rows").iter().map(|row| row["txn"].clone()));
        if page["truncated"] == false {
            break;
        }
        after = format!("&after={}", page["nextAfter"].as_str().expect("a place"));
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    let answer = node.get("/api/v1/timers/q?after=x").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn errors_name_the_invalid_timer_field() {
    let node = Node::start().await;
    let timer = |more: Value| {
        let mut timer = json!({"op": "schedule", "queue": "q", "timerKey": "k", "delayMs": 1});
        for (name, value) in more.as_object().expect("fields") {
            timer[name] = value.clone();
        }
        timer
    };
    for (operations, named) in [
        (json!([timer(json!({"payload": "%"}))]), "payload"),
        (json!([timer(json!({"payload": STANDARD.encode("{")}))]), "payload"),
        (json!([timer(json!({"payloadZstd": true}))]), "payloadZstd"),
        (json!([timer(json!({"timerKey": ""}))]), "timerKey"),
        (json!([timer(json!({"producerSub": "x"}))]), "producerSub"),
        (json!([timer(json!({"delayMs": null}))]), "delayMs"),
        (json!([timer(json!({})), timer(json!({}))]), "timerKey"),
    ] {
        let body = json!({"operations": operations});
        let answer = node.post("/api/v1/timers", body.to_string()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.error().contains(named), "{named}: {}", answer.error());
    }
}

/// Sends a transaction with operations of every kind, which settles a popped message.
async fn everything(node: &Node, popped: &Value) -> Answer {
    let message = &popped["messages"][0];
    let body = json!({
        "operations": [
            {"type": "ack", "transactionId": message["transactionId"],
                "partitionId": message["partitionId"], "status": "completed"},
            {"type": "push", "items": [{"queue": "to", "payload": 1, "transactionId": "p"},
                {"queue": "to", "payload": 1, "transactionId": "l", "delayMs": 60_000}]},
            {"type": "start", "name": "greet", "instance": "i-1", "input": {"n": 1}},
            {"type": "signal", "instance": "i-1", "event": "go", "data": 7},
            {"type": "emit", "application": "shop", "eventType": "invoice.paid", "eventId": "e-1",
                "payload": {"n": 1}},
            {"type": "schedule", "queue": "to", "timerKey": "s", "payload": {"n": 2},
                "delayMs": 60_000},
            {"type": "cancel", "queue": "to", "timerKey": "c"},
        ],
        "timers": [{"op": "schedule", "queue": "to", "timerKey": "rider", "delayMs": 60_000}],
        "requiredLeases": [popped["leaseId"]],
    });
    node.post("/api/v1/transaction", body.to_string()).await
}

async fn prepared() -> (Node, Value) {
    let node = Node::start().await;
    node.push("from", &["m"]).await;
    let set = json!({"operations": [
        {"op": "schedule", "queue": "to", "timerKey": "c", "delayMs": 60_000}]});
    node.expect(200, "POST", "/api/v1/timers", set).await;
    let popped = node.expect(200, "GET", "/api/v1/pop/queue/from", NONE).await;
    (node, popped)
}

#[tokio::test]
async fn a_transaction_spans_queues_orchestrations_webhooks_and_timers() {
    let (node, popped) = prepared().await;
    let app = json!({"name": "shop", "uid": "shop"});
    node.expect(201, "POST", "/api/v1/app", app).await;
    let answer = everything(&node, &popped).await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let answer = answer.json();
    let results: Vec<(&Value, &Value, &Value)> = (answer["results"].as_array().expect("results"))
        .iter()
        .map(|one| (&one["index"], &one["type"], &one["status"]))
        .collect();
    let expected = [
        (json!(0), json!("ack"), NONE),
        (json!(1), json!("push"), json!("queued")),
        (json!(1), json!("push"), json!("scheduled")),
        (json!(2), json!("start"), json!("started")),
        (json!(3), json!("signal"), json!("accepted")),
        (json!(4), json!("emit"), json!("stored")),
        (json!(5), json!("schedule"), json!("scheduled")),
        (json!(6), json!("cancel"), json!("cancelled")),
    ];
    let expected: Vec<(&Value, &Value, &Value)> =
        expected.iter().map(|(index, kind, status)| (index, kind, status)).collect();
    assert_eq!(results, expected);
    assert_eq!(answer["timers"][0]["status"], "scheduled");
    assert_eq!(
        node.expect(200, "GET", "/api/v1/pop/queue/to", NONE).await["messages"][0]["transactionId"],
        "p"
    );
    let instance = node.expect(200, "GET", "/api/v1/orchestrations/i-1", NONE).await;
    assert_eq!(instance["state"], "pending");
    let messages = node.expect(200, "GET", "/api/v1/app/shop/msg", NONE).await;
    assert_eq!(messages["data"][0]["eventId"], "e-1");
    let waiting = node.expect(200, "GET", "/api/v1/timers/to", NONE).await;
    assert_eq!(waiting["rows"].as_array().map(Vec::len), Some(3), "{waiting}");
}

#[tokio::test]
async fn repeated_operations_of_a_transaction_are_duplicates() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "shop", "uid": "shop"})).await;
    let body = json!({"operations": [
        {"type": "push", "items": [{"queue": "q", "payload": 1, "transactionId": "p"}]},
        {"type": "start", "name": "greet", "instance": "i-1"},
        {"type": "emit", "application": "shop", "eventType": "a.b", "eventId": "e-1",
            "payload": {}},
    ]});
    node.expect(200, "POST", "/api/v1/transaction", body.clone()).await;
    let again = node.expect(200, "POST", "/api/v1/transaction", body).await;
    let statuses: Vec<&Value> = (0..3).map(|n| &again["results"][n]["status"]).collect();
    assert_eq!(statuses, ["duplicate", "duplicate", "duplicate"]);
    assert_eq!(again["success"], true);
}

#[tokio::test]
async fn a_refused_transaction_writes_nothing() {
    let (node, popped) = prepared().await;
    // There is no such application.
    let refused = everything(&node, &popped).await;
    assert_eq!(refused.status, 409);
    let refused = refused.json();
    assert_eq!(
        (&refused["success"], &refused["results"][0]["type"]),
        (&json!(false), &json!("emit"))
    );
    assert!(refused["error"].as_str().expect("a text").contains("application"), "{refused}");
    node.expect(204, "GET", "/api/v1/pop/queue/to", NONE).await;
    node.expect(404, "GET", "/api/v1/orchestrations/i-1", NONE).await;
    let waiting = node.expect(200, "GET", "/api/v1/timers/to", NONE).await;
    assert_eq!(waiting["rows"][0]["timerKey"], "c");
    assert_eq!(waiting["rows"].as_array().map(Vec::len), Some(1));
    // The lease is still active.
    node.expect(201, "POST", "/api/v1/app", json!({"name": "shop", "uid": "shop"})).await;
    assert_eq!(everything(&node, &popped).await.status, 200);
    // The transaction ended the lease, so a second acknowledgment refuses the whole transaction.
    let stale = everything(&node, &popped).await;
    assert_eq!((stale.status.as_u16(), &stale.json()["results"][0]["type"]), (409, &json!("ack")));
}

#[tokio::test]
async fn a_transaction_refuses_invalid_operations() {
    let node = Node::start().await;
    for (body, status, named) in [
        (json!({"operations": [], "kv": [{"op": "get"}]}), 400, "kv"),
        (json!({"operations": [{"type": "start"}]}), 400, "name"),
        (
            json!({"operations": [{"type": "signal", "instance": "none", "event": "e"}]}),
            404,
            "none",
        ),
        (
            json!({"operations": [{"type": "emit", "application": "a", "eventType": "a.b",
            "payload": [1]}]}),
            400,
            "payload",
        ),
        (
            json!({"operations": [{"type": "schedule", "queue": "q", "timerKey": "k"}]}),
            400,
            "delayMs",
        ),
    ] {
        let answer = node.post("/api/v1/transaction", body.to_string()).await;
        assert_eq!(answer.status.as_u16(), status, "{body}");
        assert!(answer.error().contains(named), "{}", answer.error());
    }
}
