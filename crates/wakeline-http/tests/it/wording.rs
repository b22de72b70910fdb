//! Error messages name the field, the value and what to do.

use serde_json::{Value, json};

use crate::access::ROOT;
use crate::support::Node;

#[tokio::test]
async fn errors_contain_the_field_the_value_and_what_to_do() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let push = |rest: Value| json!({"items": [rest]}).to_string();
    let endpoint = "/api/v1/app/a/endpoint";
    let delayed = json!({"queue": "q", "payload": 1, "delayMs": "soon"});
    let table: &[Case<'_>] = &[
        ("POST", "/api/v1/push", "[1]".into(), &["the body must be an object, not a list"]),
        ("POST", "/api/v1/push", "{".into(), &["the body is not valid JSON", "line 1"]),
        ("POST", "/api/v1/push", String::new(), &["no body", "send a JSON object"]),
        ("POST", "/api/v1/push", "{\"items\":{}}".into(), &["items must be a list, not an object"]),
        ("POST", "/api/v1/push", push(json!({"payload": 1})), &["items[0].queue is required"]),
        ("POST", "/api/v1/push", push(json!({"queue": "q"})), &["items[0].payload is required"]),
        ("POST", "/api/v1/push", push(delayed), &["delayMs must be a whole number", "soon"]),
        (
            "POST",
            "/api/v1/configure",
            json!({"queue": "q", "options": {"leaseTime": "long"}}).to_string(),
            &["options.leaseTime must be a whole number", "\"long\""],
        ),
        (
            "GET",
            "/api/v1/pop/queue/q?batch=many",
            String::new(),
            &["batch must be a whole number from 1 to", "\"many\""],
        ),
        ("POST", endpoint, "{}".into(), &["url", "is missing", "http:// or https://"]),
        ("POST", endpoint, json!({"url": "nowhere"}).to_string(), &["url", "http:// or https://"]),
        (
            "POST",
            endpoint,
            json!({"url": "http://10.0.0.1/"}).to_string(),
            &["10.0.0.1", "not public", "--hook-allow"],
        ),
    ];
    check(&node, table).await;
}

#[tokio::test]
async fn errors_list_the_known_values() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let table: &[Case<'_>] = &[
        ("PUT", "/api/v1/push", String::new(), &["this route accepts POST, not PUT"]),
        ("GET", "/api/v1/nowhere", String::new(), &["no such route", "/docs"]),
        (
            "GET",
            "/api/v1/messages?status=odd",
            String::new(),
            &["status must be pending, processing, completed or dead_letter", "\"odd\""],
        ),
        ("GET", "/api/v1/messages?cursor=odd", String::new(), &["earlier response", "\"odd\""]),
        ("DELETE", "/api/v1/dlq", String::new(), &["a filter is required", "all=true"]),
        (
            "POST",
            "/api/v1/dlq/redrive",
            json!({"filter": {"queue": "q"}, "rate": 0}).to_string(),
            &["rate must be a whole number from 1 to", "not 0"],
        ),
        (
            "POST",
            "/api/v1/app/a/job",
            json!({"kind": "resend", "states": ["lost"]}).to_string(),
            &["states must be pending", "in_flight", "\"lost\""],
        ),
        (
            "POST",
            "/api/v1/timers",
            json!({"operations": [{"op": "schedule", "queue": "q", "timerKey": "k", "delayMs": 1,
                "payload": "{}"}]})
            .to_string(),
            &["payload must be JSON in base64", "use data"],
        ),
        (
            "POST",
            "/api/v1/keys",
            json!({"name": "k", "scopes": ["queues:read:*"]}).to_string(),
            &["\"queues\"", "use queue, flow, hook, server or *"],
        ),
    ];
    check(&node, table).await;
}

/// A method, a path, a body, and the texts that the response must contain.
type Case<'a> = (&'a str, &'a str, String, &'a [&'a str]);

async fn check(node: &Node, table: &[Case<'_>]) {
    for (method, path, body, words) in table {
        let answer = node.call(method, path, body.clone()).await;
        let text = String::from_utf8(answer.body).expect("text");
        let plain = text.replace("\\\"", "\"");
        assert!((400..500).contains(&answer.status.as_u16()), "{method} {path} {body}: {text}");
        assert!(words.iter().all(|word| plain.contains(word)), "{method} {path} {body}: {text}");
    }
}

#[tokio::test]
async fn access_errors_say_why_and_what_to_send() {
    let node = Node::keyed(ROOT).await;
    let nothing = node.get("/api/v1/resources/queues").await;
    let unknown = node.with_key("odd", "GET", "/api/v1/resources/queues", Value::Null).await;
    let key = node.key(&["queue:push:mine"]).await;
    let no_access = node.with_key(&key, "GET", "/api/v1/pop/queue/theirs", Value::Null).await;
    let no_scope = node.with_key(&key, "GET", "/api/v1/pop/queue/mine", Value::Null).await;
    for (answer, status, words) in [
        (nothing, 401, ["the request has no credentials", "Authorization: Bearer KEY"]),
        (unknown, 401, ["neither a key of this server nor a token", "Authorization: Bearer KEY"]),
        (no_access, 404, ["not found", "the key or token has no access"]),
        (no_scope, 403, ["needs the scope", "queue:pop:mine"]),
    ] {
        let error = answer.error();
        assert_eq!(answer.status.as_u16(), status, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}
