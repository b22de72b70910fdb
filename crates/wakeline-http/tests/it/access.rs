//! API keys and their permissions: all routes, names in bodies, and lists.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use wakeline_http::{openapi, policy_of};

use crate::support::{Answer, Node};

/// The API key in the settings, which has all permissions.
pub(crate) const ROOT: &str = "root-key";

impl Node {
    /// Sends a request with a key.
    pub(crate) async fn with_key(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {key}"))
            .body(Body::from(body))
            .expect("a request");
        self.send(request).await
    }

    /// Sends a request with the key [`ROOT`] and expects success.
    pub(crate) async fn root(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.with_key(ROOT, method, path, body).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status.is_success(), "{method} {path}: {} {text}", answer.status);
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    /// Creates a key with these scopes.
    pub(crate) async fn key(&self, scopes: &[&str]) -> String {
        let name = uuid::Uuid::new_v4().to_string();
        self.named_key(&name, scopes).await["key"].as_str().expect("a key").to_owned()
    }

    pub(crate) async fn named_key(&self, name: &str, scopes: &[&str]) -> Value {
        self.root("POST", "/api/v1/keys", json!({"name": name, "scopes": scopes})).await
    }

    pub(crate) async fn status(&self, key: &str, method: &str, path: &str, body: Value) -> u16 {
        self.with_key(key, method, path, body).await.status.as_u16()
    }

    /// The audit log, oldest entry first, as actor, action and target.
    pub(crate) async fn audit_log(&self) -> Vec<String> {
        let audit = self.root("GET", "/api/v1/audit?limit=1000", Value::Null).await;
        let entries = audit["entries"].as_array().expect("entries").iter().rev();
        let line = |entry: &Value| {
            let field = |name: &str| entry[name].as_str().expect("a text").to_owned();
            format!("{} {} {}", field("actor"), field("act"), field("target"))
        };
        entries.map(line).collect()
    }
}

/// A node whose objects are all named `x`, for requests to every route.
struct World {
    node: Node,
    partition: String,
    lease: String,
    task: String,
}

async fn world() -> World {
    let node = Node::keyed(ROOT).await;
    let item = json!({"items": [{"queue": "x", "payload": 1, "transactionId": "t"}]});
    let pushed = node.root("POST", "/api/v1/push", item).await;
    let partition = pushed[0]["partition_id"].as_str().expect("an id").to_owned();
    let popped = node.root("GET", "/api/v1/pop/queue/x", Value::Null).await;
    let lease = popped["leaseId"].as_str().expect("a lease").to_owned();
    node.root("POST", "/api/v1/app", json!({"name": "X", "uid": "x"})).await;
    let job = node.root("POST", "/api/v1/app/x/job", json!({"kind": "cancel"})).await;
    let task = job["id"].as_str().expect("an id").to_owned();
    let start = json!({"name": "n", "instance": "x"});
    node.root("POST", "/api/v1/orchestrations", start).await;
    World { node, partition, lease, task }
}

/// A request to a route with its policy.
struct Call {
    method: String,
    path: String,
    body: Value,
    /// The realm and the verb of the policy.
    scope: String,
    /// Where the request names its resource.
    name: String,
}

impl World {
    /// A request to every documented route that is not public. Path and body name existing objects.
    fn calls(&self) -> Vec<Call> {
        let document: serde_json::Value = serde_json::from_str(openapi()).expect("JSON");
        let mut calls = Vec::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            let parts = path.split('/').map(|part| match part {
                "{partitionId}" => &self.partition,
                "{leaseId}" => &self.lease,
                "{task_id}" => &self.task,
                part if part.starts_with('{') => "x",
                part => part,
            });
            let mut concrete = parts.collect::<Vec<_>>().join("/");
            if path == "/api/v1/dlq" {
                concrete.push_str("?queue=x");
            }
            for method in methods.as_object().expect("methods").keys() {
                let method = method.to_uppercase();
                let policy = policy_of(&method, path);
                let (scope, name) = policy.unwrap_or_else(|| panic!("{method} {path}: no policy"));
                if name != "Public" {
                    let inside = ["Body", "Mixed"].contains(&name.as_str());
                    let body = if inside { self.body(path) } else { Value::Null };
                    calls.push(Call { method, path: concrete.clone(), body, scope, name });
                }
            }
        }
        calls
    }

    /// A body that names existing objects.
    fn body(&self, path: &str) -> Value {
        let ack = json!({"transactionId": "t", "partitionId": self.partition,
            "leaseId": self.lease});
        let push = json!([{"queue": "x", "payload": 2}]);
        match path {
            "/api/v1/push" => json!({"items": push}),
            "/api/v1/ack" => ack,
            "/api/v1/ack/batch" => json!({"acknowledgments": [ack]}),
            "/api/v1/transaction" => json!({"operations": [{"type": "push", "items": push}]}),
            "/api/v1/timers" => json!({"operations": [{"op": "schedule", "queue": "x",
                "timerKey": "k", "payload": "MQ==", "delayMs": 60_000}]}),
            "/api/v1/traces" => {
                json!({"transactionId": "t", "partitionId": self.partition, "data": 1})
            }
            "/api/v1/configure" => json!({"queue": "x"}),
            "/api/v1/orchestrations" => json!({"name": "n", "instance": "x"}),
            "/api/v1/orchestrations/purge" => json!({"instances": ["x"]}),
            "/api/v1/orchestrations/prune" => json!({"instances": ["x"], "keepLast": 1}),
            "/api/v1/app" => json!({"name": "X", "uid": "x"}),
            "/api/v1/dlq/redrive" => json!({"filter": {"queue": "x"}}),
            dead if dead.starts_with("/api/v1/dlq") => Value::Null,
            other => panic!("{other} has names in its body: add a body for it to this test"),
        }
    }
}

/// Whether the resource is named in the path or found through it.
fn is_named(name: &str) -> bool {
    ["Path", "Partition", "Lease", "Application", "Event", "Job"]
        .iter()
        .any(|kind| name.starts_with(kind))
}

#[tokio::test]
async fn every_route_has_a_policy_and_refuses_callers_without_permission() {
    let world = world().await;
    let (node, calls) = (&world.node, world.calls());
    assert!(calls.len() > 90, "all routes are called: {}", calls.len());
    let before = node.audit_log().await.len();
    let mut keys = 0;
    for Call { method, path, body, scope, name } in calls {
        let (realm, _) = scope.split_once(':').expect("two parts");
        let other = if scope.ends_with(":read") { "admin" } else { "read" };
        let other_verb = node.key(&[&format!("{realm}:{other}:*")]).await;
        let other_name = node.key(&[&format!("{scope}:zzz")]).await;
        keys += 2;
        let call = format!("{method} {path} ({scope}, {name})");
        // The caller has another verb on the resource.
        let status = node.status(&other_verb, &method, &path, body.clone()).await;
        assert_eq!(status, 403, "{call}");
        // The caller has no permission on the resource.
        let answer = node.with_key(&other_name, &method, &path, body).await;
        let expected = match name.as_str() {
            "Listed" | "AnyResource" => continue,
            "All" => 403,
            "Body" | "Mixed" => 404,
            named if is_named(named) => 404,
            odd => panic!("{odd}"),
        };
        assert_eq!(answer.status.as_u16(), expected, "{call}");
    }
    assert_eq!(node.audit_log().await.len(), before + keys, "only keys were created");
    let path = format!("/api/v1/messages/{}/t", world.partition);
    let message = node.root("GET", &path, Value::Null).await;
    assert_eq!(message["status"], "processing", "{message}");
}

#[tokio::test]
async fn a_key_may_do_only_what_its_scopes_allow() {
    let node = Node::keyed(ROOT).await;
    let key = node.key(&["queue:push:orders.*", "queue:pop:orders.*"]).await;
    let push = |queue: &str| json!({"items": [{"queue": queue, "payload": 1}]});
    assert_eq!(node.status(&key, "POST", "/api/v1/push", push("orders.new")).await, 201);
    assert_eq!(node.status(&key, "POST", "/api/v1/push", push("orders")).await, 404);
    let popped = node.with_key(&key, "GET", "/api/v1/pop/queue/orders.new", Value::Null).await;
    let message = popped.json()["messages"][0].clone();
    let ack = json!({"transactionId": message["transactionId"],
        "partitionId": message["partitionId"], "leaseId": message["leaseId"]});
    assert_eq!(node.status(&key, "POST", "/api/v1/ack", ack).await, 200);
    let queue = "/api/v1/resources/queues/orders.new";
    assert_eq!(node.status(&key, "GET", queue, Value::Null).await, 403);
    assert_eq!(node.status(&key, "DELETE", queue, Value::Null).await, 403);
    // Popping from all queues of a namespace needs permission to pop from all queues.
    let all = "/api/v1/pop?namespace=orders";
    assert_eq!(node.status(&key, "GET", all, Value::Null).await, 403);
    let wide = node.key(&["queue:pop:*"]).await;
    assert_eq!(node.status(&wide, "GET", all, Value::Null).await, 204);
    assert_eq!(node.status(&key, "GET", "/metrics", Value::Null).await, 403);
    let reader = node.key(&["*:read:*"]).await;
    assert_eq!(node.status(&reader, "GET", "/metrics", Value::Null).await, 200);
    assert_eq!(node.status(&reader, "GET", "/api/v1/audit", Value::Null).await, 403);
    assert_eq!(node.status(&key, "GET", "/api/v1/nowhere", Value::Null).await, 404);
    assert_eq!(node.status(&key, "PUT", "/api/v1/push", Value::Null).await, 405);
}

#[tokio::test]
async fn one_forbidden_name_in_a_body_refuses_the_whole_request() {
    let node = Node::keyed(ROOT).await;
    let key = node.key(&["*:*:mine*"]).await;
    let item = |queue: &str, id: &str| json!({"queue": queue, "payload": 1, "transactionId": id});
    let both = json!([item("mine", "a"), item("theirs", "b")]);
    assert_eq!(node.status(&key, "POST", "/api/v1/push", json!({"items": both})).await, 404);
    let pushed = json!({"items": [item("theirs", "t"), item("mine", "m")]});
    let pushed = node.root("POST", "/api/v1/push", pushed).await;
    let leased = async |queue: &str| {
        let path = format!("/api/v1/pop/queue/{queue}");
        node.root("GET", &path, Value::Null).await["leaseId"].clone()
    };
    let (theirs, mine) = (leased("theirs").await, leased("mine").await);
    let ack = |index: usize, id: &str, lease: &Value| {
        let partition = &pushed[index]["partition_id"];
        json!({"transactionId": id, "partitionId": partition, "leaseId": lease})
    };
    let acks = [ack(1, "m", &mine), ack(0, "t", &theirs)];
    let body = json!({"acknowledgments": acks});
    assert_eq!(node.status(&key, "POST", "/api/v1/ack/batch", body).await, 404);
    let push = json!({"type": "push", "items": [item("mine", "c")]});
    let operation = |ack: &Value| {
        let mut operation = ack.clone();
        operation["type"] = json!("ack");
        operation
    };
    let body = json!({"operations": [push, operation(&acks[1])]});
    assert_eq!(node.status(&key, "POST", "/api/v1/transaction", body).await, 404);
    let push = json!({"type": "push", "items": [item("theirs", "d")]});
    let body = json!({"operations": [operation(&acks[0]), push]});
    assert_eq!(node.status(&key, "POST", "/api/v1/transaction", body).await, 404);
    let lease = format!("/api/v1/lease/{}/extend", theirs.as_str().expect("a lease"));
    assert_eq!(node.status(&key, "POST", &lease, Value::Null).await, 404);
    let unknown = json!({"transactionId": "m", "leaseId": mine,
        "partitionId": "77616b65-6c6e-8000-8000-0000000fffff"});
    assert_eq!(node.status(&key, "POST", "/api/v1/ack", unknown).await, 404);
    // Nothing was done: both messages can still be settled, and there are no others.
    let done = [ack(1, "m", &mine), ack(0, "t", &theirs)];
    let settled = node.root("POST", "/api/v1/ack/batch", json!({"acknowledgments": done})).await;
    assert_eq!((&settled[0]["success"], &settled[1]["success"]), (&json!(true), &json!(true)));
    for queue in ["mine", "theirs"] {
        let path = format!("/api/v1/pop/queue/{queue}");
        assert_eq!(node.status(ROOT, "GET", &path, Value::Null).await, 204, "{queue}");
    }
}

#[tokio::test]
async fn lists_contain_only_what_the_caller_may_read() {
    let node = Node::keyed(ROOT).await;
    for name in ["mine-1", "theirs", "mine-2"] {
        let item = json!({"items": [{"queue": name, "payload": 1, "transactionId": "t"}]});
        let pushed = node.root("POST", "/api/v1/push", item).await;
        let path = format!("/api/v1/pop/queue/{name}?consumerGroup=g");
        let popped = node.root("GET", &path, Value::Null).await;
        let dead = json!({"transactionId": "t", "partitionId": pushed[0]["partition_id"],
            "leaseId": popped["leaseId"], "consumerGroup": "g", "status": "dlq"});
        node.root("POST", "/api/v1/ack", dead).await;
        node.root("POST", "/api/v1/app", json!({"name": name, "uid": name})).await;
        let start = json!({"name": "n", "instance": name});
        node.root("POST", "/api/v1/orchestrations", start).await;
    }
    let key = node.key(&["*:read:mine*"]).await;
    let list = async |path: &str, pointer: &str, name: &str| {
        let answer = node.with_key(&key, "GET", path, Value::Null).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let json = answer.json();
        let items = json.pointer(pointer).and_then(Value::as_array).expect("a list").clone();
        let mut names: Vec<_> = items.iter().map(|item| item[name].clone()).collect();
        names.sort_by_key(Value::to_string);
        names
    };
    let mine = [json!("mine-1"), json!("mine-2")];
    assert_eq!(list("/api/v1/consumer-groups", "", "queueName").await, mine);
    assert_eq!(list("/api/v1/dlq", "/messages", "queue").await, mine);
    assert_eq!(list("/api/v1/dlq?limit=1&offset=1", "/messages", "queue").await, mine[..1]);
    // The skipped dead letters count towards the limit.
    assert!(list("/api/v1/dlq?limit=1&offset=999", "/messages", "queue").await.is_empty());
    for far in ["limit=1&offset=1000", "limit=1000&offset=1", "limit=1&offset=9999"] {
        let path = format!("/api/v1/dlq?{far}");
        assert_eq!(node.status(&key, "GET", &path, Value::Null).await, 400, "{far}");
        let path = format!("{path}&queue=mine-1");
        assert_eq!(node.status(&key, "GET", &path, Value::Null).await, 200, "{far}");
    }
    assert_eq!(list("/api/v1/app", "/data", "uid").await, mine);
    assert_eq!(list("/api/v1/app?limit=1", "/data", "uid").await, mine[..1]);
    let found = node.with_key(&key, "GET", "/api/v1/consumer-groups/g", Value::Null).await.json();
    let queues: Vec<_> = found.as_object().expect("by queue").keys().cloned().collect();
    assert_eq!(queues, ["mine-1", "mine-2"]);
    assert_eq!(node.status(&key, "GET", "/api/v1/dlq?queue=theirs", Value::Null).await, 404);
    assert_eq!(node.status(&key, "GET", "/api/v1/app/theirs", Value::Null).await, 404);
    assert_eq!(node.status(&key, "GET", "/api/v1/app/mine-1", Value::Null).await, 200);
    // A caller cannot rename its application to a name beyond its scopes.
    let owner = node.key(&["hook:*:mine*"]).await;
    let rename = |uid: &str| json!({"name": "A", "uid": uid});
    for method in ["PUT", "PATCH"] {
        let path = "/api/v1/app/mine-1";
        assert_eq!(node.status(&owner, method, path, rename("theirs-2")).await, 404, "{method}");
        assert_eq!(node.status(&owner, method, path, rename("mine-1")).await, 200, "{method}");
    }
    // The id that the server generated gives no more access than the uid.
    let app = node.root("GET", "/api/v1/app/theirs", Value::Null).await;
    let path = format!("/api/v1/app/{}", app["id"].as_str().expect("an id"));
    assert_eq!(node.status(&key, "GET", &path, Value::Null).await, 404);
}
