//! Applications, event types, endpoints, their secrets and headers.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use wakeline_http::HttpSettings;

use crate::support::Node;

const NONE: Value = Value::Null;

#[tokio::test]
async fn applications_are_created_read_changed_and_deleted_by_id_or_uid() {
    let node = Node::start().await;
    let body = json!({"name": "Shop", "uid": "shop", "metadata": {"a": "b"}, "rateLimit": 7});
    let made = node.expect(201, "POST", "/api/v1/app", body.clone()).await;
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("app_"));
    assert_eq!((&made["throttleRate"], &made["rateLimit"]), (&json!(7), &json!(7)));
    assert_eq!(made["metadata"], json!({"a": "b"}));

    let taken = node.expect(409, "POST", "/api/v1/app", body.clone()).await;
    assert_eq!(taken["code"], "conflict");
    assert!(taken["detail"].as_str().expect("a text").contains(id));
    let got = node.expect(200, "POST", "/api/v1/app?get_if_exists=true", body).await;
    assert_eq!(got["id"], made["id"]);

    assert_eq!(node.expect(200, "GET", &format!("/api/v1/app/{id}"), NONE).await, made);
    assert_eq!(node.expect(200, "GET", "/api/v1/app/shop", NONE).await, made);
    let changed = node.expect(200, "PATCH", "/api/v1/app/shop", json!({"name": "Shop 2"})).await;
    assert_eq!((&changed["name"], &changed["uid"]), (&json!("Shop 2"), &json!("shop")));
    let put = node.expect(200, "PUT", "/api/v1/app/shop", json!({"name": "Shop 3"})).await;
    assert_eq!((&put["uid"], &put["throttleRate"]), (&json!("shop"), &NONE));
    let new = node.expect(201, "PUT", "/api/v1/app/other", json!({"name": "Other"})).await;
    assert_eq!(new["uid"], "other");

    node.expect(204, "DELETE", "/api/v1/app/shop", NONE).await;
    let gone = node.expect(404, "GET", &format!("/api/v1/app/{id}"), NONE).await;
    assert_eq!(gone["code"], "not_found");
    node.expect(404, "DELETE", "/api/v1/app/shop", NONE).await;
}

#[tokio::test]
async fn lists_are_read_forwards_and_backwards_with_iterators() {
    let node = Node::start().await;
    for n in 0..5 {
        let body = json!({"name": "x", "uid": format!("a{n}")});
        node.expect(201, "POST", "/api/v1/app", body).await;
    }
    let names = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().expect("a list").iter();
        data.map(|item| item["uid"].as_str().expect("a uid").to_owned()).collect()
    };
    let page = |iterator: &Value| {
        let more = iterator.as_str().map(|text| format!("&iterator={text}")).unwrap_or_default();
        format!("/api/v1/app?limit=2{more}")
    };
    let first = node.expect(200, "GET", &page(&NONE), NONE).await;
    assert_eq!((names(&first), &first["done"]), (vec!["a0".into(), "a1".into()], &json!(false)));
    let before = node.expect(200, "GET", &page(&first["prevIterator"]), NONE).await;
    assert_eq!((names(&before), &before["done"]), (vec![], &json!(true)));
    let second = node.expect(200, "GET", &page(&first["iterator"]), NONE).await;
    assert_eq!(names(&second), ["a2", "a3"]);
    let third = node.expect(200, "GET", &page(&second["iterator"]), NONE).await;
    assert_eq!((names(&third), &third["done"]), (vec!["a4".into()], &json!(true)));
    let back = node.expect(200, "GET", &page(&third["prevIterator"]), NONE).await;
    assert_eq!(names(&back), ["a2", "a3"]);
    let newest = node.expect(200, "GET", "/api/v1/app?order=descending&limit=1", NONE).await;
    assert_eq!(names(&newest), ["a4"]);
}

#[tokio::test]
async fn an_idempotency_key_creates_one_object_and_refuses_another_request() {
    let node = Node::start().await;
    let send = async |name: &str| {
        let request = Request::post("/api/v1/app")
            .header("content-type", "application/json")
            .header("idempotency-key", "k-1")
            .body(Body::from(json!({ "name": name }).to_string()))
            .expect("a request");
        node.send(request).await
    };
    let (first, again, other) = (send("A").await, send("A").await, send("B").await);
    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!((other.status, &other.json()["code"]), (StatusCode::CONFLICT, &json!("conflict")));
}

#[tokio::test]
async fn event_types_are_archived_before_they_are_deleted() {
    let node = Node::start().await;
    let base = "/api/v1/event-type";
    let schema = json!({"1": {"type": "object", "required": ["id"]}});
    let body = json!({"name": "invoice.paid", "description": "", "schemas": schema});
    node.expect(201, "POST", base, body.clone()).await;
    assert_eq!(node.expect(409, "POST", base, body).await["code"], "conflict");
    let made = node.expect(201, "PUT", &format!("{base}/b"), json!({"description": "B"})).await;
    assert_eq!((&made["name"], &made["deprecated"]), (&json!("b"), &json!(false)));
    let one = format!("{base}/invoice.paid");
    let patched = node.expect(200, "PATCH", &one, json!({"featureFlags": ["x", "y"]})).await;
    assert_eq!((&patched["featureFlag"], &patched["schemas"]), (&json!("x"), &schema));

    let list = node.expect(200, "GET", &format!("{base}?limit=1"), NONE).await;
    assert_eq!((&list["data"][0]["name"], &list["iterator"]), (&json!("b"), &json!("b")));
    assert_eq!(list["data"][0]["schemas"], NONE);
    node.expect(204, "DELETE", &one, NONE).await;
    let left = node.expect(200, "GET", base, NONE).await;
    assert_eq!(left["data"].as_array().expect("a list").len(), 1);
    let all = node.expect(200, "GET", &format!("{base}?include_archived=true"), NONE).await;
    assert_eq!(all["data"][1]["archived"], true);
    node.expect(204, "DELETE", &format!("{one}?expunge=true"), NONE).await;
    node.expect(404, "GET", &one, NONE).await;
}

#[tokio::test]
async fn replaced_endpoints_keep_fields_that_the_request_omits() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let base = "/api/v1/app/a/endpoint";
    let body = json!({"url": "http://127.0.0.1:9/h", "uid": "e", "filterTypes": ["x.*"],
        "channels": ["c"], "delivery": {"inFlightMax": 3, "scheduleSeconds": [1, 2.5]}});
    let made = node.expect(201, "POST", base, body).await;
    assert_eq!(made["eventTypes"], made["filterTypes"]);
    assert_eq!(made["delivery"]["scheduleSeconds"], json!([1.0, 2.5]));
    assert_eq!((&made["version"], &made["disabled"]), (&json!(1), &json!(false)));
    assert_eq!(made.get("secret"), None);

    let put = json!({"url": "http://127.0.0.1:9/i", "eventTypes": ["y"], "throttleRate": 9});
    let put = node.expect(200, "PUT", &format!("{base}/e"), put).await;
    assert_eq!((&put["uid"], &put["delivery"]["inFlightMax"]), (&json!("e"), &json!(3)));
    assert_eq!((&put["channels"], &put["throttleRate"]), (&NONE, &json!(9)));
    let patch = json!({"disabled": true, "delivery": {"timeoutSeconds": 2}});
    let patched = node.expect(200, "PATCH", &format!("{base}/e"), patch).await;
    assert_eq!((&patched["disabledReason"], &patched["url"]), (&json!("asked"), &put["url"]));
    assert_eq!(patched["delivery"]["timeoutSeconds"], 2.0);
    assert_eq!(patched["delivery"]["inFlightMax"], 3);
    assert_eq!(patched["throttleRate"], 9);
    let new = json!({"delivery": {"pull": true}});
    assert_eq!(node.expect(201, "PUT", &format!("{base}/f"), new).await["uid"], "f");
    assert_eq!(node.expect(200, "GET", base, NONE).await["data"][1]["uid"], "f");
    node.expect(204, "DELETE", &format!("{base}/f"), NONE).await;
    node.expect(404, "GET", &format!("{base}/f"), NONE).await;
}

#[tokio::test]
async fn secrets_are_rotated_and_headers_with_credentials_are_not_shown() {
    let node = Node::start().await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let base = "/api/v1/app/a/endpoint/e";
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let body = json!({"url": "http://127.0.0.1:9/h", "secret": secret,
        "headers": {"x-team": "blue", "authorization": "Bearer t"}});
    node.expect(201, "PUT", base, body).await;
    let path = format!("{base}/secret");
    assert_eq!(node.expect(200, "GET", &path, NONE).await, json!({"key": secret}));
    let rotated = node.expect(200, "POST", &format!("{path}/rotate"), json!({})).await;
    assert_ne!(rotated["key"], secret);
    assert_eq!(node.expect(200, "GET", &path, NONE).await, rotated);
    let pair = json!({"asymmetric": true});
    let pair = node.expect(200, "POST", &format!("{path}/rotate"), pair).await;
    assert!(pair["key"].as_str().expect("a key").starts_with("whpk_"), "the public key");

    let path = format!("{base}/headers");
    let shown = json!({"headers": {"x-team": "blue"}, "sensitive": ["authorization"]});
    assert_eq!(node.expect(200, "GET", &path, NONE).await, shown);
    let patch = json!({"headers": {"x-new": "1"}, "deleteHeaders": ["x-team"]});
    node.expect(204, "PATCH", &path, patch).await;
    let shown = json!({"headers": {"x-new": "1"}, "sensitive": ["authorization"]});
    assert_eq!(node.expect(200, "GET", &path, NONE).await, shown);
    node.expect(204, "PUT", &path, json!({"headers": {}})).await;
    let shown = json!({"headers": {}, "sensitive": []});
    assert_eq!(node.expect(200, "GET", &path, NONE).await, shown);
}

#[tokio::test]
async fn without_an_encryption_key_no_endpoint_is_created_and_the_error_says_what_to_set() {
    let node = Node::over(HttpSettings::default(), None).await;
    node.expect(201, "POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let body = json!({"url": "http://127.0.0.1:9/h"});
    let refused = node.expect(503, "POST", "/api/v1/app/a/endpoint", body).await;
    assert_eq!(refused["code"], "no_encryption_key");
    assert!(refused["detail"].as_str().expect("a text").contains("WAKELINE_ENCRYPTION_KEYS"));
    let list = node.expect(200, "GET", "/api/v1/app/a/endpoint", NONE).await;
    assert_eq!(list["data"], json!([]));
}

#[tokio::test]
async fn operational_endpoints_belong_to_no_listed_application() {
    let node = Node::start().await;
    let base = "/api/v1/operational-webhook/endpoint";
    assert_eq!(node.expect(200, "GET", base, NONE).await["data"], json!([]));
    let body = json!({"url": "http://127.0.0.1:9/ops", "uid": "ops"});
    node.expect(201, "POST", base, body).await;
    assert_eq!(node.expect(200, "GET", base, NONE).await["data"][0]["uid"], "ops");
    let list = node.expect(200, "GET", "/api/v1/app", NONE).await;
    assert_eq!(list["data"], json!([]), "it is not listed");
    let one = format!("{base}/ops");
    let put = json!({"url": "http://127.0.0.1:9/ops2"});
    assert_eq!(node.expect(200, "PUT", &one, put).await["url"], "http://127.0.0.1:9/ops2");
    let key = node.expect(200, "GET", &format!("{one}/secret"), NONE).await;
    node.expect(204, "POST", &format!("{one}/secret/rotate"), json!({})).await;
    assert_ne!(node.expect(200, "GET", &format!("{one}/secret"), NONE).await, key);
    node.expect(204, "PUT", &format!("{one}/headers"), json!({"headers": {"x-a": "1"}})).await;
    let headers = node.expect(200, "GET", &format!("{one}/headers"), NONE).await;
    assert_eq!(headers["headers"], json!({"x-a": "1"}));
    node.expect(204, "DELETE", &one, NONE).await;
    node.expect(404, "GET", &one, NONE).await;
}
