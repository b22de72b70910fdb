//! Credentials of all documented routes, and the health probes.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use wakeline_http::openapi;

use crate::support::Node;

/// A documented route.
struct Route {
    method: String,
    pattern: String,
    /// The pattern with `x` in place of each parameter.
    path: String,
}

fn routes() -> Vec<Route> {
    let document: serde_json::Value = serde_json::from_str(openapi()).expect("JSON");
    let mut routes = Vec::new();
    for (pattern, methods) in document["paths"].as_object().expect("paths") {
        let parts = pattern.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for method in methods.as_object().expect("methods").keys() {
            let method = method.to_uppercase();
            routes.push(Route { method, pattern: pattern.clone(), path: path.clone() });
        }
    }
    routes
}

#[tokio::test]
async fn without_credentials_only_public_routes_answer() {
    let node = Node::keyed("s3cret").await;
    let open = ["/", "/health", "/healthz", "/readyz", "/docs", "/openapi.json", "/api/v1/health"];
    let all = routes();
    assert!(all.len() > 20, "all routes are called");
    for Route { method, pattern, path } in all {
        for header in [None, Some("Bearer wrong"), Some("s3cret"), Some("Bearer s3cret")] {
            let mut request = Request::builder().method(method.as_str()).uri(&path);
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let answer = node.send(request.body(Body::empty()).expect("a request")).await;
            let denied = answer.status == StatusCode::UNAUTHORIZED;
            let expected = header != Some("Bearer s3cret") && !open.contains(&pattern.as_str());
            assert_eq!(denied, expected, "{method} {pattern} with {header:?}: {}", answer.status);
            if denied {
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
            }
        }
    }
    assert_eq!(node.get("/api/v1/nowhere").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn documentation_and_probes_are_at_their_usual_paths() {
    let node = Node::start().await;
    let root = node.get("/").await;
    assert_eq!(root.headers["location"], "/docs");
    assert_eq!(node.get("/docs/").await.headers["location"], "/docs");
    let page = node.get("/docs").await;
    assert!(String::from_utf8(page.body).expect("UTF-8").contains("/api/v1/push"));
    assert_eq!(node.get("/openapi.json").await.json()["info"]["title"], "Wakeline");
    assert_eq!(node.get("/healthz").await.status, StatusCode::OK);
    assert_eq!(node.get("/readyz").await.status, StatusCode::OK);
    let health = node.get("/health").await.json();
    assert_eq!(health["status"], "healthy");
    assert_eq!(health["database"], "connected");
    assert_eq!(health["wake"]["mode"], "fused");
}

#[tokio::test]
async fn a_draining_node_answers_waiting_pops_and_reports_it() {
    let node = Node::start().await;
    let app = node.app.clone();
    let pop = tokio::spawn(async move {
        crate::support::Answer::of(app, "/api/v1/pop/queue/q?wait=true").await
    });
    node.parked(1).await;
    node.state.drain();
    let answer = pop.await.expect("no panic");
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert_eq!(answer.headers["connection"], "close");
    let ready = node.get("/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.json()["code"], "draining");
    assert!(ready.headers.contains_key("retry-after"));
    assert_eq!(node.get("/health").await.json()["status"], "draining");
    node.push("q", &["still taken"]).await;
}
