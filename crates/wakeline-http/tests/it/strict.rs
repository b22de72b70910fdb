//! Unknown fields and parameters are refused with an error that names them, so that a misspelt
//! field does not lose data.

use serde_json::{Value, json};
use wakeline_http::openapi;

use crate::support::Node;

#[tokio::test]
async fn errors_name_unknown_fields_and_the_nearest_known_ones() {
    let node = Node::start().await;
    let item = |rest: Value| {
        let mut item = json!({"queue": "a", "payload": 1});
        item.as_object_mut().expect("an object").extend(rest.as_object().expect("one").clone());
        json!({"items": [item]})
    };
    let ack = json!({"transactionId": "t", "partitionId": "p", "state": "failed"});
    for (path, body, words) in [
        (
            "push",
            json!({"items": [{"queue": "a", "data": 1}]}),
            ["items[0]", "\"data\"", "payload"],
        ),
        ("push", item(json!({"delay_ms": 5})), ["items[0]", "\"delay_ms\"", "mean \"delayMs\""]),
        ("push", json!({"item": []}), ["", "\"item\"", "mean \"items\""]),
        ("ack", ack.clone(), ["", "\"state\"", "mean \"status\""]),
        ("ack/batch", json!({"acknowledgments": [ack]}), ["[0]", "\"state\"", "mean \"status\""]),
        (
            "configure",
            json!({"queue": "a", "leaseTime": 5}),
            ["", "\"leaseTime\"", "belongs in \"options\""],
        ),
        (
            "configure",
            json!({"queue": "a", "options": {"leaseTme": 5}}),
            ["options", "\"leaseTme\"", "mean \"leaseTime\""],
        ),
        (
            "transaction",
            json!({"operations": [{"type": "push", "items": [{"queue": "a", "paylod": 1}]}]}),
            ["operations[0].items[0]", "\"paylod\"", "mean \"payload\""],
        ),
        (
            "orchestrations",
            json!({"name": "n", "instanceId": "i"}),
            ["", "\"instanceId\"", "mean \"instance\""],
        ),
        ("keys/x/rotate", json!({"overlap": 5}), ["", "\"overlap\"", "overlapSeconds"]),
    ] {
        let answer = node.post(&format!("/api/v1/{path}"), body.to_string()).await;
        assert_eq!(answer.status.as_u16(), 400, "{path} {body}");
        let error = answer.error();
        assert!(words.iter().all(|word| error.contains(word)), "{path} {body}: {error}");
    }
    assert_eq!(node.get("/api/v1/pop/queue/a").await.status.as_u16(), 204, "nothing was pushed");
    let queues = node.get("/api/v1/resources/queues").await.json();
    assert_eq!(queues["queues"], json!([]), "nothing was configured");
}

#[tokio::test]
async fn svix_routes_report_the_location_of_an_unknown_field() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    for (path, body, loc) in [
        ("/api/v1/app", json!({"name": "B", "uuid": "b"}), json!(["body", "uuid"])),
        (
            "/api/v1/app/a/endpoint",
            json!({"url": "https://x.example", "retries": 5}),
            json!(["body", "retries"]),
        ),
        (
            "/api/v1/app/a/endpoint",
            json!({"url": "https://x.example", "delivery": {"timeout": 5}}),
            json!(["body", "delivery", "timeout"]),
        ),
        (
            "/api/v1/event-type",
            json!({"name": "a.b", "description": "", "enforce": true}),
            json!(["body", "enforce"]),
        ),
    ] {
        let refused = node.expect(422, "POST", path, body).await;
        assert_eq!(refused["detail"][0]["loc"], loc, "{refused}");
    }
    let refused = node.expect(422, "GET", "/api/v1/app?limt=5", Value::Null).await;
    assert_eq!(refused["detail"][0]["loc"], json!(["query", "limt"]));
    assert!(refused["detail"][0]["msg"].as_str().expect("a text").contains("\"limit\""));
}

#[tokio::test]
async fn unknown_parameters_are_refused_on_every_route() {
    let node = Node::start().await;
    let answer = node.get("/api/v1/pop/queue/a?wiat=true").await;
    assert_eq!(answer.status.as_u16(), 400);
    assert!(answer.error().contains("\"wiat\""), "{}", answer.error());
    assert!(answer.error().contains("did you mean \"wait\""), "{}", answer.error());
    let document: Value = serde_json::from_str(openapi()).expect("JSON");
    let open = ["/", "/health", "/healthz", "/readyz", "/docs", "/openapi.json", "/api/v1/health"];
    for (path, methods) in document["paths"].as_object().expect("paths") {
        if open.contains(&path.as_str()) {
            continue;
        }
        let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let concrete = parts.collect::<Vec<_>>().join("/") + "?no-such-parameter=1";
        for method in methods.as_object().expect("methods").keys() {
            let answer = node.call(&method.to_uppercase(), &concrete, "{}").await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!([400, 422].contains(&answer.status.as_u16()), "{method} {path}: {text}");
            assert!(text.contains("no-such-parameter"), "{method} {path}: {text}");
        }
    }
}

#[tokio::test]
async fn ignored_fields_of_published_clients_are_accepted() {
    let node = Node::start().await;
    let item = json!({"queue": "q", "payload": null, "producerSub": "me"});
    node.expect(201, "POST", "/api/v1/push", json!({"items": [item]})).await;
    node.expect(200, "GET", "/api/v1/pop/queue/q?autopilot=true", Value::Null).await;
    let made = node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    node.expect(200, "PUT", "/api/v1/app/a", made).await;
    let kind = json!({"name": "a.b", "description": "x"});
    let made = node.expect(201, "POST", "/api/v1/event-type", kind).await;
    node.expect(200, "PUT", "/api/v1/event-type/a.b", made).await;
}

#[tokio::test]
async fn errors_explain_wrong_types_values_and_missing_fields() {
    let node = Node::start().await;
    for (path, body, words) in [
        ("push", json!({"items": [{"queue": "a"}]}), "items[0].payload is required"),
        ("push", json!([[]]), "the body must be an object, not a list"),
        ("push", json!({"items": [["a", null, 1]]}), "items[0] must be an object, not a list"),
        (
            "push",
            json!({"items": [{"queue": "a", "payload": 1, "delayMs": -5}]}),
            "delayMs must be from 0 to",
        ),
        (
            "ack",
            json!({"transactionId": "t", "partitionId": "p", "status": "done"}),
            "status must be one of completed, success, failed, retry, dlq, not \"done\"",
        ),
        (
            "configure",
            json!({"queue": "a", "options": {"leaseTime": -1}}),
            "options.leaseTime must be a whole number from 0 to 4294967295, not -1",
        ),
        (
            "configure",
            json!({"queue": "a", "options": {"leaseTime": "5"}}),
            "options.leaseTime must be a whole number from 0 to 4294967295, not \"5\"",
        ),
    ] {
        let answer = node.post(&format!("/api/v1/{path}"), body.to_string()).await;
        assert_eq!(answer.status.as_u16(), 400, "{body}");
        assert!(answer.error().contains(words), "{body}: {}", answer.error());
    }
}

#[tokio::test]
async fn an_endpoint_response_is_accepted_as_a_request() {
    let node = Node::start().await;
    let application = json!({"name": "a", "uid": "a"});
    node.post("/api/v1/app", application.to_string()).await;
    let endpoint = json!({"uid": "e", "delivery": {"pull": true}});
    node.post("/api/v1/app/a/endpoint", endpoint.to_string()).await;
    let read = node.get("/api/v1/app/a/endpoint/e").await.json();
    let answer = node.call("PUT", "/api/v1/app/a/endpoint/e", read.to_string()).await;
    assert_eq!(answer.status, 200, "{:?}", String::from_utf8(answer.body));
}

#[tokio::test]
async fn a_pop_of_a_queue_may_repeat_its_namespace_and_task() {
    let node = Node::start().await;
    let answer = node.get("/api/v1/pop/queue/q?namespace=n&task=t").await;
    assert_eq!(answer.status, 204, "as Queen's clients send it");
}

#[tokio::test]
async fn a_long_unknown_name_is_not_repeated_in_full() {
    let node = Node::start().await;
    for path in ["/api/v1/push", "/api/v1/app"] {
        let body = format!("{{\"{}\":1}}", ".".repeat(1_000_000));
        let answer = node.post(path, body).await;
        assert!([400, 422].contains(&answer.status.as_u16()), "{path}: {}", answer.status);
        assert!(answer.body.len() < 2_000, "{path}: {} bytes", answer.body.len());
    }
}
