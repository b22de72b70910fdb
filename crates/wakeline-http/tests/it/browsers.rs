//! What web pages cannot do to a server that asks for no credentials.

use axum::body::Body;
use axum::http::{Method, Request};
use wakeline_access::AccessOptions;
use wakeline_http::HttpSettings;

use crate::support::{Answer, Node};

const PUSH: &str = r#"{"items":[{"queue":"q","payload":1}]}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

/// A push if there is a type of body among the headers, else a list.
async fn ask(node: &Node, headers: &[(&str, &str)]) -> Answer {
    let typed = headers.iter().any(|(name, _)| *name == "content-type");
    let (method, path) =
        if typed { ("POST", "/api/v1/push") } else { ("GET", "/api/v1/resources/queues") };
    let body = if typed { PUSH } else { "" };
    call(node, method, path, (headers, body)).await
}

async fn call(
    node: &Node,
    method: &str,
    path: &str,
    (headers, body): (&[(&str, &str)], &str),
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    node.send(request.body(Body::from(body.to_owned())).expect("a request")).await
}

fn code(answer: &Answer) -> String {
    match answer.status.is_success() {
        true => String::new(),
        false => answer.json()["code"].as_str().expect("a code").to_owned(),
    }
}

async fn node(settings: HttpSettings) -> Node {
    Node::over(settings, None).await
}

#[tokio::test]
async fn an_open_server_answers_only_to_its_own_names() {
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
            let answer = ask(&node, &headers).await;
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
            let answer = ask(&node, &headers).await;
            assert_eq!(answer.status.as_u16(), 421, "{host}");
            assert_eq!(code(&answer), "unknown_host", "{host}");
            assert!(answer.error().contains("--allowed-host"), "{}", answer.error());
        }
    }
    let both = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(ask(&node, &both).await.status.as_u16(), 421, "two names");
    let target = call(&node, "GET", "http://evil.example/api/v1/resources/queues", (&[], ""));
    assert_eq!(target.await.status.as_u16(), 421, "a name in the target");
}

#[tokio::test]
async fn one_that_listens_everywhere_answers_to_addresses_but_not_to_names() {
    let listen = Some("0.0.0.0".parse().expect("an address"));
    let node = node(HttpSettings { listen, ..HttpSettings::default() }).await;
    assert_eq!(ask(&node, &[("host", "10.1.2.3:7632")]).await.status.as_u16(), 200);
    assert_eq!(ask(&node, &[("host", "evil.example:7632")]).await.status.as_u16(), 421);
}

#[tokio::test]
async fn probes_answer_to_any_name_and_documentation_to_links() {
    let node = node(HttpSettings::default()).await;
    let odd = [("host", "balancer.example"), ("sec-fetch-site", "cross-site")];
    for path in ["/healthz", "/readyz"] {
        assert_eq!(call(&node, "GET", path, (&odd, "")).await.status.as_u16(), 200, "{path}");
    }
    let link = [("host", "localhost:7632"), ("sec-fetch-site", "cross-site")];
    for path in ["/health", "/docs", "/openapi.json"] {
        assert_eq!(call(&node, "GET", path, (&odd, "")).await.status.as_u16(), 421, "{path}");
        assert_eq!(call(&node, "GET", path, (&link, "")).await.status.as_u16(), 200, "{path}");
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
            let answer = ask(&node, &all).await;
            let expected = if fine { "" } else { "foreign_origin" };
            assert_eq!(code(&answer), expected, "{all:?}");
            assert_eq!(answer.status.as_u16() == 403, !fine, "{all:?}");
        }
    }
    // A route in another shape, and a question before a request.
    let page = [own, ("origin", "http://evil.example"), JSON];
    let answer = call(&node, "POST", "/api/v1/app", (&page, r#"{"name":"A"}"#)).await;
    assert_eq!((answer.status.as_u16(), code(&answer)), (403, "foreign_origin".to_owned()));
    let asks = [own, page[1], ("access-control-request-method", "POST")];
    let answer = call(&node, Method::OPTIONS.as_str(), "/api/v1/push", (&asks, "")).await;
    assert_eq!((answer.status.as_u16(), code(&answer)), (403, "foreign_origin".to_owned()));
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
        assert_eq!(ask(&node, &headers).await.status.is_success(), fine, "{origin}");
    }
    let load = [own, ("sec-fetch-site", "cross-site")];
    assert_eq!(ask(&node, &load).await.status.as_u16(), 403, "a load that names no origin");
    let rebound = [("host", "evil.example"), ("origin", "https://app.example.org"), JSON];
    assert_eq!(ask(&node, &rebound).await.status.as_u16(), 421);
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
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
        let answer = ask(&node, &[("content-type", kind)]).await;
        assert_eq!(answer.status.as_u16(), status, "{kind}");
    }
    let untyped = call(&node, "POST", "/api/v1/push", (&[], PUSH)).await;
    assert_eq!((untyped.status.as_u16(), code(&untyped).as_str()), (415, "unsupported_media_type"));
    assert!(untyped.error().contains("Content-Type: application/json"), "{}", untyped.error());
}

#[tokio::test]
async fn with_keys_the_key_decides_not_the_name() {
    let access = AccessOptions { api_key: Some("k".into()), ..AccessOptions::default() };
    let node = Node::guarded(HttpSettings::default(), None, access).await;
    let headers = [("host", "anything.example"), ("authorization", "Bearer k"), JSON];
    assert_eq!(ask(&node, &headers).await.status.as_u16(), 201);
    assert_eq!(ask(&node, &headers[..1]).await.status.as_u16(), 401);
}
