//! Names in bodies are subject to the same permissions as names in paths.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wakeline_http::openapi;

use crate::access::ROOT;
use crate::support::Node;

/// The names of body fields that name a resource of a scope. Leases are not among them, because
/// they are only used within the partition that the same body names.
const NAMES: [&str; 8] =
    ["uid", "queue", "toQueue", "instance", "instances", "application", "partitionId", "id"];

/// Fields with these names that name no resource of a scope: objects within the application in the
/// path, the object that contains such a name, and the ids of the simplified webhook API.
const OTHERS: [&str; 8] = [
    "POST /api/v1/app/{app_id}/endpoint /uid",
    "PUT /api/v1/app/{app_id}/endpoint/{endpoint_id} /uid",
    "PATCH /api/v1/app/{app_id}/endpoint/{endpoint_id} /uid",
    "POST /api/v1/operational-webhook/endpoint /uid",
    "PUT /api/v1/operational-webhook/endpoint/{endpoint_id} /uid",
    "POST /api/v1/app/{app_id}/msg /application",
    "POST /events /id",
    "POST /subscriptions /id",
];

/// Finds all fields with these names in the documented bodies: method, path and field.
fn documented() -> BTreeSet<String> {
    let document: Value = serde_json::from_str(openapi()).expect("JSON");
    let mut found = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let route = format!("{} {path} ", method.to_uppercase());
            let content = operation["requestBody"]["content"].as_object();
            for kind in content.into_iter().flat_map(|kinds| kinds.values()) {
                collect(&document, &kind["schema"], &route, &mut found);
            }
        }
    }
    found
}

fn collect(document: &Value, schema: &Value, place: &str, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.trim_start_matches('#')).expect("a schema");
        return collect(document, schema, place, found);
    }
    for kind in ["oneOf", "anyOf", "allOf"] {
        for one in schema[kind].as_array().into_iter().flatten() {
            collect(document, one, place, found);
        }
    }
    if schema["items"].is_object() {
        collect(document, &schema["items"], &format!("{place}[]"), found);
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        collect(document, inner, &place, found);
        if NAMES.contains(&name.as_str()) {
            found.insert(place);
        }
    }
}

/// A request of the test: the field, the path if it differs from the route, and a body in which
/// only that field names `theirs`.
type Call = (&'static str, &'static str, Value);

fn queue_calls(partition: &Value, lease: &Value, letter: &Value) -> Vec<Call> {
    let item = json!({"queue": "theirs", "payload": 1});
    let ack = json!({"transactionId": "t", "partitionId": partition, "leaseId": lease});
    let timer = json!({"op": "schedule", "queue": "theirs", "timerKey": "k", "data": 1,
        "delayMs": 60_000});
    let operation = |kind: &str, rest: Value| {
        let mut operation = rest;
        operation["type"] = json!(kind);
        json!({"operations": [operation]})
    };
    let emit = json!({"application": "theirs", "eventType": "a.b", "payload": {}});
    vec![
        ("POST /api/v1/push /items[]/queue", "", json!({"items": [item]})),
        ("POST /api/v1/ack /partitionId", "", ack.clone()),
        (
            "POST /api/v1/ack/batch /acknowledgments[]/partitionId",
            "",
            json!({"acknowledgments": [ack]}),
        ),
        ("POST /api/v1/timers /operations[]/queue", "", json!({"operations": [timer]})),
        ("POST /api/v1/configure /queue", "", json!({"queue": "theirs"})),
        ("POST /api/v1/dlq/redrive /filter/queue", "", json!({"filter": {"queue": "theirs"}})),
        ("POST /api/v1/dlq/redrive /filter/id", "", json!({"filter": {"id": letter}})),
        (
            "POST /api/v1/dlq/redrive /toQueue",
            "",
            json!({"filter": {"queue": "mine"}, "toQueue": "theirs"}),
        ),
        (
            "POST /api/v1/traces /partitionId",
            "",
            json!({"transactionId": "t", "partitionId": partition, "data": 1}),
        ),
        ("POST /api/v1/transaction /operations[]/items[]/queue", "", {
            operation("push", json!({"items": [item]}))
        }),
        ("POST /api/v1/transaction /operations[]/partitionId", "", operation("ack", ack.clone())),
        ("POST /api/v1/transaction /operations[]/queue", "", {
            let set = json!({"queue": "theirs", "timerKey": "k", "payload": 1, "delayMs": 60_000});
            operation("schedule", set)
        }),
        ("POST /api/v1/transaction /operations[]/instance", "", {
            operation("start", json!({"name": "n", "instance": "theirs"}))
        }),
        ("POST /api/v1/transaction /operations[]/application", "", operation("emit", emit)),
        (
            "POST /api/v1/transaction /timers[]/queue",
            "",
            json!({"operations": [], "timers": [timer]}),
        ),
    ]
}

fn other_calls() -> Vec<Call> {
    let message = json!({"eventType": "a.b", "payload": {},
        "application": {"name": "x", "uid": "theirs"}});
    let app = json!({"name": "x", "uid": "theirs"});
    vec![
        ("POST /api/v1/orchestrations /instance", "", json!({"name": "n", "instance": "theirs"})),
        ("POST /api/v1/orchestrations/purge /instances", "", json!({"instances": ["theirs"]})),
        (
            "POST /api/v1/orchestrations/prune /instances",
            "",
            json!({"instances": ["theirs"], "keepLast": 1}),
        ),
        ("POST /api/v1/app /uid", "", app.clone()),
        ("PUT /api/v1/app/{app_id} /uid", "/api/v1/app/mine-missing", app.clone()),
        ("PUT /api/v1/app/{app_id} /uid", "/api/v1/app/mine", app.clone()),
        ("PATCH /api/v1/app/{app_id} /uid", "/api/v1/app/mine", json!({"uid": "theirs"})),
        (
            "POST /api/v1/app/{app_id}/msg /application/uid",
            "/api/v1/app/mine-missing/msg",
            message.clone(),
        ),
        ("POST /api/v1/app/{app_id}/msg /application/uid", "/api/v1/app/mine/msg", message),
    ]
}

/// Reads everything that is stored.
async fn everything(node: &Node) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "/api/v1/messages",
        "/api/v1/app",
        "/api/v1/app/theirs/msg",
        "/api/v1/orchestrations",
        "/api/v1/timers/theirs",
        "/api/v1/dlq",
        "/api/v1/resources/queues",
    ] {
        all.push(node.root("GET", path, Value::Null).await);
    }
    all
}

#[tokio::test]
async fn every_name_in_a_body_is_checked_like_one_in_a_path() {
    let node = Node::keyed(ROOT).await;
    let (mut partition, mut lease) = (Value::Null, Value::Null);
    for name in ["mine", "theirs"] {
        let items = ["t", "u"].map(|id| json!({"queue": name, "payload": 1, "transactionId": id}));
        let pushed = node.root("POST", "/api/v1/push", json!({"items": items})).await;
        partition = pushed[0]["partition_id"].clone();
        let path = format!("/api/v1/pop/queue/{name}");
        let popped = node.root("GET", &path, Value::Null).await;
        lease = popped["leaseId"].clone();
        let dead = json!({"transactionId": "t", "partitionId": partition,
            "leaseId": lease, "status": "dlq"});
        node.root("POST", "/api/v1/ack", dead).await;
        node.root("POST", "/api/v1/app", json!({"name": name, "uid": name})).await;
    }
    let letters = node.root("GET", "/api/v1/dlq?queue=theirs", Value::Null).await;
    let letter = &letters["messages"][0]["deadLetterId"];
    let calls = [queue_calls(&partition, &lease, letter), other_calls()].concat();
    let called: BTreeSet<_> = calls.iter().map(|(field, ..)| *field).chain(OTHERS).collect();
    let documented = documented();
    let documented: BTreeSet<_> = documented.iter().map(String::as_str).collect();
    assert_eq!(called, documented, "add a body to this test for each field that names a resource");

    let key = node.key(&["*:*:mine*"]).await;
    let before = (everything(&node).await, node.audit_log().await);
    for (field, path, body) in calls {
        let mut parts = field.split(' ');
        let method = parts.next().expect("a method");
        let route = parts.next().expect("a route");
        let path = if path.is_empty() { route } else { path };
        let answer = node.with_key(&key, method, path, body.clone()).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status.as_u16(), 404, "{field} {body}: {text}");
    }
    let after = (everything(&node).await, node.audit_log().await);
    assert_eq!(before, after, "nothing was changed");
}

#[tokio::test]
async fn a_message_cannot_name_another_application() {
    let node = Node::keyed(ROOT).await;
    node.root("POST", "/api/v1/app", json!({"name": "V", "uid": "victim"})).await;
    let key = node.key(&["hook:emit:acme*"]).await;
    let message =
        |application: Value| json!({"eventType": "a.b", "payload": {}, "application": application});
    let path = "/api/v1/app/acme-nope/msg";
    let victim = message(json!({"name": "x", "uid": "victim"}));
    assert_eq!(node.status(&key, "POST", path, victim).await, 404);
    // No pattern matches an application without a uid.
    let unnamed = message(json!({"name": "x", "uid": null}));
    assert_eq!(node.status(&key, "POST", path, unnamed).await, 403);
    assert_eq!(node.status(&key, "POST", path, message(json!({"name": "x"}))).await, 202);
    let own = message(json!({"name": "x", "uid": "acme-other"}));
    assert_eq!(node.status(&key, "POST", "/api/v1/app/acme-2/msg", own).await, 202);
    let messages = node.root("GET", "/api/v1/app/victim/msg", Value::Null).await;
    assert_eq!(messages["data"], json!([]));
}
