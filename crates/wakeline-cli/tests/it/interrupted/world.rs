//! The data that requests use: a queue, an application, an orchestration and so on, created for one
//! request and named after its number. Also the requests themselves.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::{Answer, Client};

/// The configured API key, which allows everything.
pub(super) const ROOT: &str = "root-key";

/// Sends a request with the key [`ROOT`].
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
    pub(super) headers: String,
    pub(super) body: Value,
}

impl Request {
    pub(super) fn read(path: &str) -> Self {
        Self::new("GET", path, Value::Null)
    }

    pub(super) fn new(method: &str, path: impl Into<String>, body: Value) -> Self {
        let (method, headers) = (method.to_owned(), String::new());
        Self { method, path: path.into(), headers, body }
    }
}

/// The data that a request uses. All names are unique, so that data that another request left
/// behind does not interfere.
pub(super) struct World {
    client: Client,
    pub(super) number: u32,
    /// The values of path parameters, by the names of the parameters.
    names: HashMap<&'static str, String>,
}

impl World {
    /// Creates the data that a route needs.
    pub(super) async fn create(client: Client, number: u32, route: &str) -> Self {
        let mut world = Self { client, number, names: HashMap::new() };
        world.set_names();
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

    fn set_names(&mut self) {
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

    pub(super) fn of(&self, name: &str) -> &str {
        self.names.get(name).unwrap_or_else(|| panic!("{{{name}}} is unknown: give it a value"))
    }

    fn set(&mut self, name: &'static str, value: &Value) {
        let value = value.as_str().unwrap_or_else(|| panic!("{name}: {value}"));
        self.names.insert(name, value.to_owned());
    }

    async fn expect(&self, method: &str, path: impl Into<String>, body: Value) -> Value {
        let request = Request::new(method, path, body);
        let answer = call(self.client, &request).await.expect("an answer");
        assert!((200..300).contains(&answer.status), "{request:?}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    /// Creates two messages and a timer. The first message is leased in a consumer group or in
    /// queue mode, if the route needs that.
    async fn make_queue(&mut self, route: &str) {
        let queue = self.of("queue").to_owned();
        let item = |id: &str| {
            json!({"queue": queue, "partition": "p", "payload": 1,
            "transactionId": id})
        };
        let items = json!({"items": [item("m"), item("x")]});
        let pushed = self.expect("POST", "/api/v1/push", items).await;
        self.set("partitionId", &pushed[0]["partition_id"]);
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
            self.set("leaseId", &popped["leaseId"]);
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
        self.set("deadLetterId", &listed["messages"][0]["deadLetterId"]);
        if route.contains("{job}") {
            let filter = json!({"filter": {"queue": self.of("queue")}});
            let job = self.expect("POST", "/api/v1/dlq/redrive", filter).await;
            self.set("job", &job["job"]);
        }
    }

    /// Creates a subscription if the route names one. Otherwise removes the application of all
    /// subscriptions.
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
        self.set("id", &made["id"]);
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

    /// Creates an application with a pull endpoint, an endpoint with a URL and a message, and an
    /// attempt to deliver the message if the route names one.
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
            self.set("token", &pulled["messages"][0]["token"]);
            self.set("attempt_id", &pulled["messages"][0]["attemptId"]);
        }
        if route.contains("{attempt_id}") {
            let nack = json!({"items": [{"token": self.of("token"), "error": "no"}]});
            let path = format!("{base}/endpoint/{endpoint}/pull/nack");
            self.expect("POST", path, nack).await;
        }
    }
}
