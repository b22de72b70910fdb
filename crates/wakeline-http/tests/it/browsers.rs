//! Requests of web pages that a server without credentials refuses.

use axum::body::Body;
use axum::http::{Method, Request};
use wakeline_access::AccessOptions;
use wakeline_http::HttpSettings;

use crate::support::{Answer, Node};

const PUSH: &str = r#"{"items":[{"queue":"q","payload":1}]}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends a push if the headers contain a content type, otherwise a list request.
async fn request(node: &Node, headers: &[(&str, &str)]) -> Answer {
    let typed = headers.iter().any(|(name, _)| *name == "content-type");
    let (method, path) =
        if typed { ("POST", "/api/v1/push") } else { ("GET", "/api/v1/resources/queues") };
    let body = if typed { PUSH } else { "" };
    call(node, method, path, Content { headers, body }).await
}

/// The headers and the body of a request.
struct Content<'a> {
    headers: &'a [(&'a str, &'a str)],
    body: &'a str,
}

async fn call(node: &Node, method: &str, path: &str, content: Content<'_>) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in content.headers {
        request = request.header(*name, *value);
    }
    node.send(request.body(Body::from(content.body.to_owned())).expect("a request")).await
}

fn code(answer: &Answer) -> String {
    if answer.status.is_success() {
        String::new()
    } else {
        answer.json()["code"].as_str().expect("a code").to_owned()
    }
}

async fn node(settings: HttpSettings) -> Node {
    Node::over(settings, None).await
}

#[tokio::test]
async fn an_open_server_accepts_only_its_own_host_names() {
    let listen = Some("192.0.2.7".parse().expect("an address"));
    let allowed_hosts = vec!["queue.internal".to_owned()];
    let node = node(HttpSettings { allowed_hosts, listen, ..HttpSettings::default() }).await;
    for host in [
        "localhost",
        "LOCALHOST:7632",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.9.9.9:7632",
        "[::1]:7632",
        "192.0.2.7:7632",
        "queue.internal",
        "Queue.Internal:80",
    ] {
        for extra in [None, Some(JSON)] {
            let headers: Vec<_> = [("host", host)].into_iter().chain(extra).collect();
            let answer = request(&node, &headers).await;
            assert!(answer.status.is_success(), "{host}: {}", answer.status);
        }
    }
    for host in [
        "evil.example",
        "evil.example:7632",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.8",
        "[::2]:7632",
        "queue.internal.evil.example",
        "",
        "a b",
    ] {
        for extra in [None, Some(JSON)] {
            let headers: Vec<_> = [("host", host)].into_iter().chain(extra).collect();
            let answer = request(&node, &headers).await;
            assert_eq!(answer.status.as_u16(), 421, "{host}");
            assert_eq!(code(&answer), "unknown_host", "{host}");
            assert!(answer.error().contains("--allowed-host"), "{}", answer.error());
        }
    }
    let both = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(request(&node, &both).await.status.as_u16(), 421, "two names");
    let empty = Content { headers: &[], body: "" };
    let target = call(&node, "GET", "http://evil.example/api/v1/resources/queues", empty);
    assert_eq!(target.await.status.as_u16(), 421, "a name in the target");
}

#[tokio::test]
async fn a_server_that_listens_on_all_addresses_accepts_addresses_but_not_names() {
    let listen = Some("0.0.0.0".parse().expect("an address"));
    let node = node(HttpSettings { listen, ..HttpSettings::default() }).await;
    assert_eq!(request(&node, &[("host", "10.1.2.3:7632")]).await.status.as_u16(), 200);
    assert_eq!(request(&node, &[("host", "evil.example:7632")]).await.status.as_u16(), 421);
}

#[tokio::test]
async fn probes_accept_any_host_and_documentation_accepts_links() {
    let node = node(HttpSettings::default()).await;
    let get = async |path: &str, headers: &[(&str, &str)]| {
        call(&node, "GET", path, Content { headers, body: "" }).await.status.as_u16()
    };
    let balancer = [("host", "balancer.example"), ("sec-fetch-site", "cross-site")];
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(path, &balancer).await, 200, "{path}");
    }
    let link = [("host", "localhost:7632"), ("sec-fetch-site", "cross-site")];
    for path in ["/health", "/docs", "/openapi.json"] {
        assert_eq!(get(path, &balancer).await, 421, "{path}");
        assert_eq!(get(path, &link).await, 200, "{path}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let node = node(HttpSettings::default()).await;
    let own = ("host", "localhost:7632");
    for (headers, fine) in [
        (vec![], true),
        (vec![("origin", "http://localhost:7632")], true),
        (vec![("origin", "http://localhost:7632"), ("sec-fetch-site", "same-origin")], true),
        (vec![("sec-fetch-site", "none")], true),
        (vec![("origin", "http://localhost:3000")], false),
        (vec![("origin", "http://evil.example")], false),
        (vec![("origin", "http://evil.example:7632")], false),
        (vec![("origin", "http://localhost:7632.evil.example")], false),
        (vec![("origin", "null")], false),
        (vec![("origin", "")], false),
        (vec![("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")], false),
        (vec![("sec-fetch-site", "cross-site")], false),
        (vec![("sec-fetch-site", "same-site")], false),
        (vec![("sec-fetch-site", "something new")], false),
    ] {
        for extra in [None, Some(JSON)] {
            let all: Vec<_> = [own].into_iter().chain(headers.clone()).chain(extra).collect();
            let answer = request(&node, &all).await;
            let expected = if fine { "" } else { "origin_not_allowed" };
            assert_eq!(code(&answer), expected, "{all:?}");
            assert_eq!(answer.status.as_u16() == 403, !fine, "{all:?}");
        }
    }
    // A route with another error format, and a preflight request.
    let page = [own, ("origin", "http://evil.example"), JSON];
    let content = Content { headers: &page, body: r#"{"name":"A"}"# };
    let answer = call(&node, "POST", "/api/v1/app", content).await;
    assert_eq!((answer.status.as_u16(), code(&answer)), (403, "origin_not_allowed".to_owned()));
    let preflight = [own, page[1], ("access-control-request-method", "POST")];
    let content = Content { headers: &preflight, body: "" };
    let answer = call(&node, Method::OPTIONS.as_str(), "/api/v1/push", content).await;
    assert_eq!((answer.status.as_u16(), code(&answer)), (403, "origin_not_allowed".to_owned()));
}

#[tokio::test]
async fn configured_origins_are_allowed_and_no_others() {
    let cors_origins = vec!["https://app.example.org".to_owned()];
    let node = node(HttpSettings { cors_origins, ..HttpSettings::default() }).await;
    let own = ("host", "localhost:7632");
    for (origin, site, fine) in [
        ("https://app.example.org", "cross-site", true),
        ("http://localhost:7632", "same-origin", true),
        ("http://app.example.org", "cross-site", false),
        ("https://app.example.org:8443", "cross-site", false),
        ("https://evil.example", "cross-site", false),
    ] {
        let headers = [own, ("origin", origin), ("sec-fetch-site", site), JSON];
        assert_eq!(request(&node, &headers).await.status.is_success(), fine, "{origin}");
    }
    let load = [own, ("sec-fetch-site", "cross-site")];
    assert_eq!(request(&node, &load).await.status.as_u16(), 403, "a load that names no origin");
    let rebound = [("host", "evil.example"), ("origin", "https://app.example.org"), JSON];
    assert_eq!(request(&node, &rebound).await.status.as_u16(), 421);
}

#[tokio::test]
async fn a_body_needs_a_json_content_type() {
    let node = node(HttpSettings::default()).await;
    for (kind, status) in [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("application/cloudevents+json", 201),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain; application/json", 415),
        ("", 415),
    ] {
        let answer = request(&node, &[("content-type", kind)]).await;
        assert_eq!(answer.status.as_u16(), status, "{kind}");
    }
    let content = Content { headers: &[], body: PUSH };
    let untyped = call(&node, "POST", "/api/v1/push", content).await;
    assert_eq!((untyped.status.as_u16(), code(&untyped).as_str()), (415, "unsupported_media_type"));
    assert!(untyped.error().contains("Content-Type: application/json"), "{}", untyped.error());
}

#[tokio::test]
async fn with_api_keys_the_host_name_is_not_checked() {
    let access = AccessOptions { api_key: Some("k".into()), ..AccessOptions::default() };
    let node = Node::guarded(HttpSettings::default(), None, access).await;
    let headers = [("host", "anything.example"), ("authorization", "Bearer k"), JSON];
    assert_eq!(request(&node, &headers).await.status.as_u16(), 201);
    assert_eq!(request(&node, &headers[..1]).await.status.as_u16(), 401);
}
