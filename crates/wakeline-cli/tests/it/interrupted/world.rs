//! What requests are about: a queue, an application, an orchestration and so on, made for one
//! request and called by its number; and the requests themselves.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::{Answer, Client};

/// The key of the settings, which may do everything.
pub(super) const ROOT: &str = "root-key";

/// Calls as root.
pub(super) async fn call(client: Client, request: &Request) -> std::io::Result<Answer> {
    let headers = format!("authorization: Bearer {ROOT}\r\n{}", request.headers);
    let body = if request.body.is_null() { String::new() } else { request.body.to_string() };
    client.send_with(&request.method, &request.path, &headers, &body).await?.answer().await
}

/// A request that writes.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    headers: String,
    body: Value,
}

impl Request {
    pub(super) fn read(path: &str) -> Self {
        Self::new("GET", path, Value::Null)
    }

    fn new(method: &str, path: impl Into<String>, body: Value) -> Self {
        let (method, headers) = (method.to_owned(), String::new());
        Self { method, path: path.into(), headers, body }
    }
}

/// What a request is about. Everything has names of its own, so that what is left of another
/// request is in nobody's way.
pub(super) struct World {
    client: Client,
    number: u32,
    /// The parts of paths, by their names in the routes.
    names: HashMap<&'static str, String>,
}

impl World {
    /// Makes what a route needs.
    pub(super) async fn make(client: Client, number: u32, route: &str) -> Self {
        let mut world = Self { client, number, names: HashMap::new() };
        world.name_all();
        let path = route.split_once(' ').expect("a method and a path").1;
        match path.split('/').nth(3).unwrap_or(path) {
            "app" => world.make_application(route).await,
            "dlq" => world.make_dead_letter(route).await,
            "event-type" if !route.starts_with("POST") => {
                let name = world.of("event_type_name");
                world
                    .expect("POST", "/api/v1/event-type", json!({"name": name, "description": "d"}))
                    .await;
            }
            "keys" => world.make_key().await,
            "operational-webhook" => {
                let path = "/api/v1/operational-webhook/endpoint";
                let body = json!({"uid": world.of("endpoint_id"), "url": "http://127.0.0.1:9/"});
                if path != route.trim_start_matches("POST ") {
                    world.expect("POST", path, body).await;
                }
            }
            "orchestrations" => world.make_instance(route).await,
            "system" => {
                for path in ["/api/v1/system/maintenance", "/api/v1/system/maintenance/pop"] {
                    world.expect("POST", path, json!({"enabled": false})).await;
                }
            }
            _ if !path.starts_with("/api") => world.make_subscription(route).await,
            _ => world.make_queue(route).await,
        }
        world
    }

    fn name_all(&mut self) {
        let of = |name: &str| format!("{name}-{}", self.number);
        self.names = HashMap::from([
            ("queue", of("q")),
            ("partition", "p".to_owned()),
            ("transactionId", "m".to_owned()),
            ("group", of("g")),
            ("key", "k".to_owned()),
            ("app_id", of("a")),
            ("endpoint_id", of("e")),
            ("msg_id", of("m")),
            ("event_type_name", format!("t.{}", self.number)),
            ("instance", of("i")),
            ("event", "go".to_owned()),
        ]);
    }

    fn of(&self, name: &str) -> &str {
        self.names.get(name).unwrap_or_else(|| panic!("{{{name}}} is unknown: give it a value"))
    }

    fn is(&mut self, name: &'static str, value: &Value) {
        let value = value.as_str().unwrap_or_else(|| panic!("{name}: {value}"));
        self.names.insert(name, value.to_owned());
    }

    async fn expect(&self, method: &str, path: impl Into<String>, body: Value) -> Value {
        let request = Request::new(method, path, body);
        let answer = call(self.client, &request).await.expect("an answer");
        assert!((200..300).contains(&answer.status), "{request:?}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    /// Two messages, the first of them leased by a group and by nobody's group, and a timer.
    async fn make_queue(&mut self, route: &str) {
        let queue = self.of("queue").to_owned();
        let item = |id: &str| {
            json!({"queue": queue, "partition": "p", "payload": 1,
            "transactionId": id})
        };
        let items = json!({"items": [item("m"), item("x")]});
        let pushed = self.expect("POST", "/api/v1/push", items).await;
        self.is("partitionId", &pushed[0]["partition_id"]);
        if route.contains("/consumer-groups/") {
            let path = format!("/api/v1/pop/queue/{queue}?consumerGroup={}", self.of("group"));
            self.expect("GET", path, Value::Null).await;
        }
        if ["/ack", "/lease/", "/transaction", "/retry", "/dlq"]
            .iter()
            .any(|part| route.contains(part))
        {
            let popped =
                self.expect("GET", format!("/api/v1/pop/queue/{queue}"), json!(null)).await;
            self.is("leaseId", &popped["leaseId"]);
        }
        if route.contains("/messages/") && route.starts_with("POST") {
            self.expect("POST", "/api/v1/ack", self.ack("failed")).await;
        }
        if route.contains("/timers") || route.contains("/transaction") {
            let timer = json!({"operations": [{"op": "schedule", "queue": queue,
                "timerKey": "k", "delayMs": 3_600_000}]});
            self.expect("POST", "/api/v1/timers", timer).await;
        }
        if route.contains("/transaction") {
            let application = json!({"name": "A", "uid": self.of("app_id")});
            self.expect("POST", "/api/v1/app", application).await;
        }
    }

    async fn make_dead_letter(&mut self, route: &str) {
        self.make_queue("/ack").await;
        let ack = self.ack("dlq");
        self.expect("POST", "/api/v1/ack", ack).await;
        let listed = format!("/api/v1/dlq?queue={}", self.of("queue"));
        let listed = self.expect("GET", listed, Value::Null).await;
        self.is("deadLetterId", &listed["messages"][0]["deadLetterId"]);
        if route.contains("{job}") {
            let filter = json!({"filter": {"queue": self.of("queue")}});
            let job = self.expect("POST", "/api/v1/dlq/redrive", filter).await;
            self.is("job", &job["job"]);
        }
    }

    /// A subscription, or nothing: not even the application that all of them are of.
    async fn make_subscription(&mut self, route: &str) {
        if route.ends_with("{id}") {
            self.expect("POST", "/subscriptions", self.subscription()).await;
            self.names.insert("id", format!("s-{}", self.number));
            return;
        }
        let default = Request::new("DELETE", "/api/v1/app/default", Value::Null);
        call(self.client, &default).await.expect("an answer");
    }

    async fn make_key(&mut self) {
        let made = self.expect("POST", "/api/v1/keys", self.key("made")).await;
        self.is("id", &made["id"]);
    }

    async fn make_instance(&mut self, route: &str) {
        if route == "POST /api/v1/orchestrations" {
            return;
        }
        let instance = self.of("instance").to_owned();
        let body = json!({"name": "greet", "instance": instance});
        self.expect("POST", "/api/v1/orchestrations", body).await;
        let path = format!("/api/v1/orchestrations/{instance}");
        if route.ends_with("/resume") {
            self.expect("POST", format!("{path}/suspend"), json!({})).await;
        }
    }

    /// An application with an endpoint that is pulled from and one that is called, a message, and
    /// an attempt at it.
    async fn make_application(&mut self, route: &str) {
        let app = self.of("app_id").to_owned();
        self.expect("POST", "/api/v1/app", json!({"name": "A", "uid": app})).await;
        let base = format!("/api/v1/app/{app}");
        if !route.contains("/{app_id}/") {
            return;
        }
        let endpoint = self.of("endpoint_id").to_owned();
        let pulled = json!({"uid": endpoint, "delivery": {"pull": true}});
        self.expect("POST", format!("{base}/endpoint"), pulled).await;
        let called = json!({"uid": format!("{endpoint}-called"), "url": "http://127.0.0.1:9/"});
        self.expect("POST", format!("{base}/endpoint"), called).await;
        let message = self.of("msg_id").to_owned();
        let body = json!({"eventType": "a.b", "eventId": message, "payload": {}});
        self.expect("POST", format!("{base}/msg"), body).await;
        if route.contains("/pull/") || route.contains("{attempt_id}") {
            let pull = format!("{base}/endpoint/{endpoint}/pull");
            let pulled = self.expect("GET", &pull, Value::Null).await;
            self.is("token", &pulled["messages"][0]["token"]);
            self.is("attempt_id", &pulled["messages"][0]["attemptId"]);
        }
        if route.contains("{attempt_id}") {
            let nack = json!({"items": [{"token": self.of("token"), "error": "no"}]});
            let path = format!("{base}/endpoint/{endpoint}/pull/nack");
            self.expect("POST", path, nack).await;
        }
    }

    fn ack(&self, status: &str) -> Value {
        json!({"transactionId": "m", "partitionId": self.of("partitionId"),
            "leaseId": self.of("leaseId"), "status": status})
    }

    fn key(&self, name: &str) -> Value {
        json!({"name": format!("{name}-{}", self.number), "scopes": ["queue:read:*"]})
    }

    fn subscription(&self) -> Value {
        json!({"id": format!("s-{}", self.number), "event_types": ["a.b"],
            "url": "http://127.0.0.1:9/"})
    }

    /// A transaction with an operation of every kind.
    fn transaction(&self) -> Value {
        let (n, queue) = (self.number, self.of("queue"));
        json!({
            "operations": [
                {"type": "ack", "transactionId": "m", "partitionId": self.of("partitionId"),
                 "status": "completed"},
                {"type": "push", "items": [{"queue": format!("to-{n}"), "payload": 1}]},
                {"type": "start", "name": "greet", "instance": format!("i-{n}")},
                {"type": "signal", "instance": format!("i-{n}"), "event": "go"},
                {"type": "emit", "application": self.of("app_id"), "eventType": "a.b",
                 "eventId": format!("e-{n}"), "payload": {}},
                {"type": "schedule", "queue": queue, "timerKey": "new", "delayMs": 3_600_000},
                {"type": "cancel", "queue": queue, "timerKey": "k"},
            ],
            "requiredLeases": [self.of("leaseId")],
        })
    }

    /// The variants of a route, each a query string and a body.
    fn variants(&self, route: &str) -> Vec<(&'static str, Value)> {
        let queue = self.of("queue");
        let path = route.split_once(' ').expect("a method and a path").1;
        match path.trim_start_matches("/api/v1") {
            "/push" => vec![
                ("", json!({"items": [{"queue": queue, "partition": "p", "payload": 2}]})),
                (
                    "",
                    json!({"items": [{"queue": format!("new-{queue}"), "payload": 2},
                    {"queue": queue, "partition": "new", "payload": 2}]}),
                ),
                (
                    "",
                    json!({"items": [{"queue": format!("later-{queue}"), "payload": 2,
                    "delayMs": 3_600_000}, {"queue": queue, "payload": 2}]}),
                ),
            ],
            "/ack" => ["completed", "failed", "dlq"].map(|s| ("", self.ack(s))).into(),
            "/lease/{leaseId}/extend" => vec![("", json!({"seconds": 900}))],
            "/ack/batch" => vec![("", json!({"acknowledgments": [self.ack("completed")]}))],
            "/transaction" => vec![("", self.transaction())],
            "/timers" => vec![
                (
                    "",
                    json!({"operations": [{"op": "schedule", "queue": queue, "timerKey": "k",
                    "delayMs": 7_200_000}]}),
                ),
                (
                    "",
                    json!({"operations": [{"op": "schedule", "queue": format!("new-{queue}"),
                    "timerKey": "k", "delayMs": 7_200_000},
                    {"op": "cancel", "queue": queue, "timerKey": "k"}]}),
                ),
            ],
            "/configure" => vec![
                ("", json!({"queue": queue, "options": {"leaseTime": 7}})),
                ("", json!({"queue": format!("new-{queue}"), "options": {"leaseTime": 7}})),
            ],
            "/traces" => vec![(
                "",
                json!({"transactionId": "m", "data": 1, "traceNames": ["t"],
                "partitionId": self.of("partitionId")}),
            )],
            "/dlq" => vec![("all=true", Value::Null)],
            "/dlq/redrive" => vec![("", json!({"filter": {"queue": queue}}))],
            "/consumer-groups/{group}/queues/{queue}/seek"
            | "/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek" => {
                vec![("", json!({"toEnd": true}))]
            }
            "/consumer-groups/{group}/subscription" => {
                vec![("", json!({"subscriptionTimestamp": "2024-01-01T00:00:00Z"}))]
            }
            "/keys" => vec![("", self.key("new"))],
            "/keys/{id}/rotate" => vec![("", json!({"overlapSeconds": 60}))],
            "/system/maintenance" | "/system/maintenance/pop" => {
                vec![("", json!({"enabled": true}))]
            }
            "/orchestrations" => {
                vec![("", json!({"name": "greet", "instance": self.of("instance")}))]
            }
            "/orchestrations/purge" => vec![("", json!({"instances": [self.of("instance")]}))],
            "/orchestrations/prune" => {
                vec![("", json!({"instances": [self.of("instance")], "keepLast": 1}))]
            }
            "/orchestrations/{instance}" => vec![("force=true", Value::Null)],
            "/orchestrations/{instance}/events/{event}" => vec![("", json!({"n": 1}))],
            "/events" => vec![(
                "",
                json!({"id": format!("v-{}", self.number), "type": "a.b",
                "source": "s", "data": {}}),
            )],
            "/subscriptions" => vec![("", self.subscription())],
            "/pop/queue/{queue}" => {
                ["", "autoAck=true", "consumerGroup=new"].map(|query| (query, Value::Null)).into()
            }
            path if path.starts_with("/app") || path.starts_with("/operational") => {
                self.hook_variants(route, path)
            }
            "/event-type" => {
                vec![("", json!({"name": self.of("event_type_name"), "description": "d"}))]
            }
            "/event-type/{event_type_name}" if route.starts_with("DELETE") => {
                vec![("", Value::Null), ("expunge=true", Value::Null)]
            }
            "/event-type/{event_type_name}" => vec![("", json!({"description": "new"}))],
            _ => vec![("", Value::Null)],
        }
    }

    fn hook_variants(&self, route: &str, path: &str) -> Vec<(&'static str, Value)> {
        let url = "http://127.0.0.1:9/new";
        let since = json!({"since": "2024-01-01T00:00:00Z"});
        let below =
            path.trim_start_matches("/app/{app_id}").trim_start_matches("/operational-webhook");
        if route.starts_with("DELETE") {
            return vec![("", Value::Null)];
        }
        let body = match below {
            "/app" => json!({"name": "New", "uid": format!("new-{}", self.number)}),
            "" => json!({"name": "Renamed"}),
            "/endpoint" => json!({"url": url, "uid": format!("new-{}", self.number),
                "headers": {"x-a": "1"}}),
            "/endpoint/{endpoint_id}" if route.starts_with("PATCH") => json!({"description": "d"}),
            "/endpoint/{endpoint_id}" => json!({"url": url, "uid": format!("new-{}", self.number)}),
            "/endpoint/{endpoint_id}/headers" => json!({"headers": {"x-a": "2"}}),
            "/endpoint/{endpoint_id}/secret/rotate" => json!({}),
            "/endpoint/{endpoint_id}/pull/ack" => json!({"tokens": [self.of("token")]}),
            "/endpoint/{endpoint_id}/pull/extend" => {
                json!({"tokens": [self.of("token")], "seconds": 600})
            }
            "/endpoint/{endpoint_id}/pull/nack" => json!({"items": [{"token": self.of("token")}]}),
            "/endpoint/{endpoint_id}/bulk-replay"
            | "/endpoint/{endpoint_id}/recover"
            | "/endpoint/{endpoint_id}/replay-missing" => since,
            "/endpoint/{endpoint_id}/send-example" => json!({"eventType": "a.b", "payload": {}}),
            "/job" => json!({"kind": "cancel"}),
            "/msg" => return self.messages(),
            "/msg/precheck/active" => json!({"eventType": "a.b"}),
            _ => Value::Null,
        };
        vec![("", body)]
    }

    /// Messages for an application that is there, and for one that the request makes.
    fn messages(&self) -> Vec<(&'static str, Value)> {
        let message = json!({"eventType": "a.b", "payload": {}});
        let own = json!({"eventType": "a.b", "eventId": "own", "payload": {}});
        let with = json!({"eventType": "a.b", "payload": {},
            "application": {"name": "New", "uid": format!("new-{}", self.number)}});
        vec![("", message), ("", own), ("", with)]
    }

    /// The requests of a route: one for each variant, each also with an idempotency key where the
    /// route takes one.
    pub(super) fn requests(&self, route: &str, keyed: bool) -> Vec<Request> {
        let (method, pattern) = route.split_once(' ').expect("a method and a path");
        let part = |part: &str| match part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
            Some("endpoint_id") if pattern.ends_with("/ping") => {
                format!("{}-called", self.of("endpoint_id"))
            }
            Some(name) => self.of(name).to_owned(),
            None => part.to_owned(),
        };
        let path = pattern.split('/').map(part).collect::<Vec<_>>().join("/");
        let mut requests = Vec::new();
        for (query, body) in self.variants(route) {
            let mut path = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
            if let Some(new) = body["application"]["uid"].as_str() {
                path = path.replace(self.of("app_id"), new);
            }
            let request = Request::new(method, path, body);
            requests.push(request.clone());
            if keyed {
                let headers = format!("idempotency-key: k-{}\r\n", self.number);
                requests.push(Request { headers, ..request });
            }
        }
        requests
    }
}
