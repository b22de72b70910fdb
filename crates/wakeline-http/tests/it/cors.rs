//! Cross-origin resource sharing (CORS).

use axum::body::Body;
use axum::http::{Request, StatusCode};
use wakeline_access::AccessOptions;
use wakeline_http::HttpSettings;

use crate::support::{Answer, Node};

async fn node(origins: &[&str]) -> Node {
    let cors_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let settings = HttpSettings { cors_origins, ..HttpSettings::default() };
    let access = AccessOptions { api_key: Some("k".into()), ..AccessOptions::default() };
    Node::guarded(settings, None, access).await
}

async fn request(node: &Node, method: &str, origin: Option<&str>) -> Answer {
    let mut request = Request::builder().method(method).uri("/api/v1/push");
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    if method == "OPTIONS" {
        request = request.header("access-control-request-method", "POST");
    }
    node.send(request.body(Body::empty()).expect("a request")).await
}

fn allowed(answer: &Answer) -> Option<&str> {
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    let origin = answer.headers.get("access-control-allow-origin");
    origin.map(|origin| origin.to_str().expect("a text"))
}

#[tokio::test]
async fn without_settings_no_origin_is_allowed() {
    let node = node(&[]).await;
    for method in ["OPTIONS", "POST"] {
        let answer = request(&node, method, Some("https://app.example.org")).await;
        assert_eq!((answer.status, allowed(&answer)), (StatusCode::UNAUTHORIZED, None));
    }
}

#[tokio::test]
async fn named_origins_are_allowed_and_no_others() {
    let node = node(&["https://app.example.org", "http://localhost:3000"]).await;
    for origin in ["https://app.example.org", "http://localhost:3000"] {
        let answer = request(&node, "OPTIONS", Some(origin)).await;
        assert_eq!((answer.status, allowed(&answer)), (StatusCode::NO_CONTENT, Some(origin)));
        let methods = answer.headers["access-control-allow-methods"].to_str().expect("a text");
        assert!(methods.contains("DELETE"), "{methods}");
        let headers = answer.headers["access-control-allow-headers"].to_str().expect("a text");
        assert!(headers.contains("authorization"), "{headers}");
        assert_eq!(answer.headers["vary"], "origin");
        // The page can read an error response too.
        let refused = request(&node, "POST", Some(origin)).await;
        assert_eq!((refused.status, allowed(&refused)), (StatusCode::UNAUTHORIZED, Some(origin)));
    }
    for origin in [Some("https://app.example.org.evil.example"), Some("null"), None] {
        let answer = request(&node, "OPTIONS", origin).await;
        let found = (answer.status, allowed(&answer));
        assert_eq!(found, (StatusCode::UNAUTHORIZED, None), "{origin:?}");
    }
}

#[tokio::test]
async fn all_origins_may_be_allowed_but_never_with_credentials() {
    let node = node(&["*"]).await;
    let answer = request(&node, "OPTIONS", Some("https://anything.example")).await;
    assert_eq!((answer.status, allowed(&answer)), (StatusCode::NO_CONTENT, Some("*")));
}
