//! Invalid input: the status is right, the error names what is wrong, and nothing is stored.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use wakeline_http::HttpSettings;

use crate::support::Node;

#[tokio::test]
async fn errors_name_the_parameter_that_is_out_of_range() {
    let node = Node::start().await;
    let bad = ["-1", "0x1", "9223372036854775808", "1e400", "", "1.5", "NaN", "%00"];
    for name in ["batch", "partitions", "timeout"] {
        for value in bad {
            let answer = node.get(&format!("/api/v1/pop/queue/q?{name}={value}")).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}={value}");
            assert!(answer.error().starts_with(name), "{}", answer.error());
        }
    }
    for path in ["batch=0", "batch=10001", "partitions=0", "partitions=101", "timeout=300001"] {
        let answer = node.get(&format!("/api/v1/pop/queue/q?{path}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
    for path in [
        "wait=maybe",
        "autoAck=2",
        "subscriptionMode=odd",
        "subscriptionFrom=soon",
        "consumerGroup=",
    ] {
        let name = path.split('=').next().expect("a name");
        let answer = node.get(&format!("/api/v1/pop/queue/q?{path}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(answer.error().starts_with(name), "{}", answer.error());
    }
}

#[tokio::test]
async fn odd_names_are_distinct_or_refused() {
    let node = Node::start().await;
    let long = "x".repeat(256);
    for (name, named) in [("", "queue"), (long.as_str(), "256"), ("a\u{0}b", "U+0000")] {
        let body = serde_json::json!({"items": [{"queue": name, "payload": 1}]}).to_string();
        let answer = node.post("/api/v1/push", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name:?}");
        assert!(answer.error().starts_with("items[0]"), "{}", answer.error());
        assert!(answer.error().contains(named), "{}", answer.error());
    }
    let names = ["a/b", "a%2Fb", "'; drop table x", "\u{202e}x", "ü", "u\u{308}", "😀", "a:b", "a"];
    for name in names {
        node.push(name, &["only"]).await;
    }
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let popped = node.get(&format!("/api/v1/pop/queue/{encoded}")).await;
        assert_eq!(popped.status, StatusCode::OK, "{name}");
        assert_eq!(popped.json()["queue"], name);
    }
    assert_eq!(node.get("/api/v1/pop/queue/%FF").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(node.get("/api/v1/pop/queue/a%00b").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn errors_name_the_invalid_part_of_a_body() {
    let node = Node::start().await;
    let deep = format!(r#"{{"items":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    for (body, named) in [
        ("", "no body"),
        ("{", "line 1 column"),
        ("[]", "the body must be an object, not a list"),
        ("{}", "items array is required"),
        (r#"{"items":{}}"#, "items must be a list, not an object"),
        (r#"{"items":[{}]}"#, "items[0].queue is required"),
        (r#"{"items":[{"queue":5}]}"#, "items[0].queue must be a string, not 5"),
        (r#"{"items":[{"queue":"q","partition":5}]}"#, "items[0].partition"),
        (r#"{"items":[{"queue":"q","traceId":"x"}]}"#, "items[0].traceId"),
        (r#"{"items":[{"queue":"q","queue":"r"}]}"#, "items[0].queue is given twice"),
        (r#"{"items":[{"queue":"\ud800"}]}"#, "items[0].queue"),
        (r#"{"items":[{"queue":"q","payload":1e}]}"#, "line 1 column"),
        (deep.as_str(), "deeper than 128 levels"),
    ] {
        let answer = node.post("/api/v1/push", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{named}");
        assert!(answer.error().contains(named), "{named}: {}", answer.error());
    }
    assert_eq!(node.get("/api/v1/pop").await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn payloads_are_returned_byte_for_byte() {
    let node = Node::start().await;
    let payload =
        r#"{"s":"\ud800 \u0000 ü","n":1e400,"big":123456789012345678901234567890,"a": [ ]}"#;
    let body = format!(r#"{{"items":[{{"queue":"q","payload":{payload}}}]}}"#);
    assert_eq!(node.post("/api/v1/push", body).await.status, StatusCode::CREATED);
    let popped = node.get("/api/v1/pop/queue/q").await;
    let text = String::from_utf8(popped.body).expect("UTF-8");
    assert!(text.contains(payload), "{text}");
}

#[tokio::test]
async fn wrong_content_types_sizes_and_methods_have_their_own_statuses() {
    let settings = HttpSettings { body_bytes_max: 1000, ..HttpSettings::default() };
    let node = Node::with(settings).await;
    let answer = node.post("/api/v1/push", "x".repeat(1001)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.error().contains("1000"));
    let form = Request::post("/api/v1/push")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from("{}"))
        .expect("a request");
    assert_eq!(node.send(form).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let lost = node.get("/api/v1/nowhere").await;
    assert_eq!(
        (lost.status, lost.json()["code"].as_str()),
        (StatusCode::NOT_FOUND, Some("not_found"))
    );
    for (method, path, allow) in [
        ("PATCH", "/api/v1/push", "POST"),
        ("POST", "/api/v1/pop/queue/q", "GET"),
        ("PUT", "/api/v1/resources/queues", "GET, HEAD"),
    ] {
        let refused = node.call(method, path, "").await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.json()["code"], "method_not_allowed");
        assert_eq!(refused.headers["allow"], allow);
        assert!(refused.error().contains(allow), "{}", refused.error());
    }
}

#[tokio::test]
async fn too_many_messages_in_one_request_are_refused() {
    let settings = HttpSettings { batch_len_max: 2, ..HttpSettings::default() };
    let node = Node::with(settings).await;
    let item = r#"{"queue":"q","payload":1}"#;
    let body = format!(r#"{{"items":[{item},{item},{item}]}}"#);
    let answer = node.post("/api/v1/push", body).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.error().contains("the limit of 2"));
}

#[tokio::test]
async fn json_that_nests_too_deeply_is_refused() {
    let node = Node::start().await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let push =
        |depth: usize| format!(r#"{{"items":[{{"queue":"q","payload":{}}}]}}"#, nested(depth));
    assert_eq!(node.post("/api/v1/push", push(125)).await.status, StatusCode::CREATED);
    assert_eq!(node.post("/api/v1/push", push(126)).await.status, StatusCode::BAD_REQUEST);
    let text =
        r#"{"items":[{"queue":"q","payload":"[[[[\"[[[["}]}"#.replace("[[[[", &"[".repeat(200));
    assert_eq!(node.post("/api/v1/push", text).await.status, StatusCode::CREATED, "in a text");
    let hidden = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, nested(200));
    let timer = serde_json::json!({"operations": [{"op": "schedule", "queue": "q",
        "timerKey": "k", "payload": hidden, "delayMs": 60_000}]});
    let refused = node.post("/api/v1/timers", timer.to_string()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_head_request_claims_no_message() {
    let node = Node::start().await;
    node.push("q", &["only"]).await;
    for path in ["/api/v1/pop/queue/q?autoAck=true", "/api/v1/pop?autoAck=true"] {
        let answer = node.call("HEAD", path, "").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    assert_eq!(node.call("HEAD", "/api/v1/resources/queues", "").await.status, StatusCode::OK);
    assert_eq!(node.get("/api/v1/pop/queue/q").await.status, StatusCode::OK);
}
