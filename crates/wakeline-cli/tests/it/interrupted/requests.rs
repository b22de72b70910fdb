//! The requests that write, built from the data that exists.

use serde_json::{Value, json};

use super::world::{Request, World};

impl World {
    pub(super) fn ack(&self, status: &str) -> Value {
        json!({"transactionId": "m", "partitionId": self.of("partitionId"),
            "leaseId": self.of("leaseId"), "status": status})
    }

    pub(super) fn key(&self, name: &str) -> Value {
        json!({"name": format!("{name}-{}", self.number), "scopes": ["queue:read:*"]})
    }

    pub(super) fn subscription(&self) -> Value {
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
            path if path.starts_with("/app") || path.starts_with("/operational") => {
                self.hook_variants(route, path)
            }
            path => self.other_variants(route, path),
        }
    }

    /// The variants of routes that do not move messages.
    fn other_variants(&self, route: &str, path: &str) -> Vec<(&'static str, Value)> {
        let queue = self.of("queue");
        match path {
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
            "/event-type" => {
                vec![("", json!({"name": self.of("event_type_name"), "description": "d"}))]
            }
            "/resources/queues/{queue}" if route.starts_with("PATCH") => {
                vec![("", json!({"options": {"leaseTime": 7}}))]
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

    /// Messages for an application that exists, and for one that the request creates.
    fn messages(&self) -> Vec<(&'static str, Value)> {
        let message = json!({"eventType": "a.b", "payload": {}});
        let own = json!({"eventType": "a.b", "eventId": "own", "payload": {}});
        let creating = json!({"eventType": "a.b", "payload": {},
            "application": {"name": "New", "uid": format!("new-{}", self.number)}});
        vec![("", message), ("", own), ("", creating)]
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
