//! Invalid input: the response has the right status and the format of the Svix API and names what
//! is wrong, and nothing is stored.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use wakeline_access::AccessOptions;
use wakeline_http::HttpSettings;

use crate::support::Node;

const NONE: Value = Value::Null;

async fn node() -> Node {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    node
}

#[tokio::test]
async fn errors_name_the_location_of_the_invalid_field() {
    let node = node().await;
    let deep = format!(r#"{{"eventType":"a","payload":{}{}}}"#, "[".repeat(9999), "]".repeat(9999));
    let long = json!({"eventType": "x".repeat(257), "payload": {}}).to_string();
    for (path, body, loc) in [
        ("/api/v1/app", r#"{"name":5}"#, vec!["body", "name"]),
        ("/api/v1/app", r#"{"name":""}"#, vec!["body", "name"]),
        ("/api/v1/app", r#"{"name":"a","uid":"wakeline.x"}"#, vec!["body", "uid"]),
        ("/api/v1/app", r#"{"name":"a","name":"b"}"#, vec!["body", "name"]),
        ("/api/v1/app", r#"{"name":"\ud800"}"#, vec!["body", "name"]),
        ("/api/v1/app", "{", vec!["body"]),
        ("/api/v1/app", "", vec!["body"]),
        ("/api/v1/app/a/msg", r#"{"eventType":"a b","payload":{}}"#, vec!["body", "eventType"]),
        ("/api/v1/app/a/msg", &long, vec!["body", "eventType"]),
        ("/api/v1/app/a/msg", r#"{"eventType":"a","payload":[]}"#, vec!["body", "payload"]),
        ("/api/v1/app/a/msg", r#"{"eventType":"a","payload":null}"#, vec!["body", "payload"]),
        ("/api/v1/app/a/msg", &deep, vec!["body"]),
        ("/api/v1/app/a/endpoint", r#"{"url":"ftp://x"}"#, vec!["body", "url"]),
        ("/api/v1/app/a/endpoint", r#"{"url":"http://169.254.1.1"}"#, vec!["body", "url"]),
        ("/api/v1/app/a/endpoint", r#"{"url":"http://[::1]"}"#, vec!["body", "url"]),
        (
            "/api/v1/app/a/endpoint",
            r#"{"url":"http://127.0.0.1","headers":{"webhook-id":"x"}}"#,
            vec!["body", "headers"],
        ),
        (
            "/api/v1/app/a/endpoint",
            r#"{"url":"http://127.0.0.1","delivery":{"timeoutSeconds":1e300}}"#,
            vec!["body", "delivery", "timeoutSeconds"],
        ),
        ("/api/v1/app/a/job", r#"{"kind":"explode"}"#, vec!["body", "kind"]),
        ("/api/v1/app/a/job", r#"{"kind":"replay_missing"}"#, vec!["body", "endpointId"]),
        ("/api/v1/app/a/job", r#"{"kind":"cancel","since":"soon"}"#, vec!["body", "since"]),
    ] {
        let answer = node.post(path, body).await;
        let shown = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {body:.80}: {shown}");
        let detail = &answer.json()["detail"][0];
        assert_eq!(detail["loc"], json!(loc), "{path} {body:.80}: {shown}");
        assert!(!detail["msg"].as_str().expect("a text").is_empty());
        assert_eq!(detail["type"], "value_error");
    }
    for list in ["/api/v1/app/a/msg", "/api/v1/app/a/endpoint"] {
        assert_eq!(node.expect(200, "GET", list, NONE).await["data"], json!([]));
    }
}

#[tokio::test]
async fn errors_name_invalid_parameters() {
    let node = node().await;
    for (path, name) in [
        ("/api/v1/app?limit=0", "limit"),
        ("/api/v1/app?limit=251", "limit"),
        ("/api/v1/app?limit=-1", "limit"),
        ("/api/v1/app?order=up", "order"),
        ("/api/v1/app?iterator=msg_1", "iterator"),
        ("/api/v1/app?get_if_exists=maybe", "get_if_exists"),
        ("/api/v1/app?limit=x", "limit"),
        ("/api/v1/app/a/msg?before=yesterday", "before"),
        ("/api/v1/app/a/msg?with_content=2", "with_content"),
        ("/api/v1/app/a/msg?tag=x", "tag"),
        ("/api/v1/app/a/msg?event_types=a%20b", "event_types"),
        ("/api/v1/app/a/msg?channel=", "channel"),
    ] {
        let refused = node.expect(422, "GET", path, NONE).await;
        assert_eq!(refused["detail"][0]["loc"], json!(["query", name]), "{path}: {refused}");
    }
}

#[tokio::test]
async fn odd_names_are_refused_or_not_found() {
    let node = node().await;
    for odd in ["a%20b", "%00", "a%2Fb", "%FF", "'--", "%F0%9F%98%80"] {
        for path in [
            format!("/api/v1/app/{odd}"),
            format!("/api/v1/app/a/endpoint/{odd}"),
            format!("/api/v1/app/a/msg/{odd}"),
            format!("/api/v1/app/a/endpoint/{odd}/pull"),
            format!("/api/v1/event-type/{odd}"),
        ] {
            let answer = node.get(&path).await;
            assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
            assert_eq!(answer.json()["detail"][0]["loc"][0], "path", "{path}");
        }
    }
    let missing = "app_0000000000000000000000";
    for path in [
        format!("/api/v1/app/{missing}"),
        format!("/api/v1/app/{missing}/msg"),
        format!("/api/v1/app/{missing}/endpoint"),
        "/api/v1/app/a/msg/msg_0000000000000000000000".to_owned(),
        "/api/v1/app/a/endpoint/ep_0000000000000000000000/secret".to_owned(),
        "/api/v1/background-task/qtask_1".to_owned(),
        "/api/v1/app/a/endpoint/e/transformation".to_owned(),
    ] {
        assert_eq!(node.expect(404, "GET", &path, NONE).await["code"], "not_found", "{path}");
    }
}

#[tokio::test]
async fn errors_outside_of_the_routes_have_the_svix_format_too() {
    let settings = HttpSettings { body_bytes_max: 1000, ..HttpSettings::default() };
    let access = AccessOptions { api_key: Some("k".into()), ..AccessOptions::default() };
    let node = Node::guarded(settings, None, access).await;
    let denied = node.expect(401, "GET", "/api/v1/app", NONE).await;
    assert_eq!((&denied["code"], denied.get("error")), (&json!("unauthorized"), None));
    let send = async |method: &str, kind: &str, body: String| {
        let request = Request::builder()
            .method(method)
            .uri("/api/v1/app")
            .header("authorization", "Bearer k")
            .header("content-type", kind)
            .body(Body::from(body))
            .expect("a request");
        let answer = node.send(request).await;
        (answer.status.as_u16(), answer.json()["code"].as_str().expect("a code").to_owned())
    };
    let json = "application/json";
    assert_eq!(send("POST", json, "x".repeat(1001)).await, (413, "payload_too_large".to_owned()));
    let kind = "text/plain";
    assert_eq!(send("POST", kind, "{}".into()).await, (415, "unsupported_media_type".to_owned()));
    assert_eq!(send("PUT", json, "{}".into()).await, (405, "method_not_allowed".to_owned()));
}

#[tokio::test]
async fn invalid_idempotency_keys_are_refused() {
    let node = node().await;
    for key in [b"\xff".to_vec(), vec![b'k'; 257]] {
        let request = Request::post("/api/v1/app")
            .header("content-type", "application/json")
            .header("idempotency-key", key)
            .body(Body::from(r#"{"name":"x"}"#))
            .expect("a request");
        let answer = node.send(request).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(answer.json()["detail"][0]["loc"], json!(["header", "idempotency-key"]));
    }
}
