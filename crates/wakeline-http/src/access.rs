//! Who may call what, and what is counted of each call.
//!
//! # Invariants
//! * A route is open only if [`policy`] says so; everything else needs the key when one is set.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::error::ApiError;
use crate::state::AppState;

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Anyone: probes and the documentation.
    Open,
    /// Bearers of the API key, if one is set.
    Key,
}

/// The policy of a route, by its pattern.
pub(crate) fn policy(route: Option<&str>) -> Policy {
    match route {
        Some("/" | "/health" | "/healthz" | "/readyz" | "/docs" | "/openapi.json") => Policy::Open,
        Some("/api/v1/health") => Policy::Open,
        _ => Policy::Key,
    }
}

/// Where routes have Svix's shape, errors included.
const HOOK_PATHS: [&str; 4] =
    ["/api/v1/app", "/api/v1/event-type", "/api/v1/operational-webhook", "/api/v1/background-task"];

/// Whether a path is one of them, or below one.
fn is_hook(path: &str) -> bool {
    let below = |base: &&str| {
        path.strip_prefix(*base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    HOOK_PATHS.iter().any(below)
}

/// Lets a request pass, or not, and counts it. Tells failures in the shape of their route.
pub(crate) async fn guard(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let pattern = route.as_ref().map(MatchedPath::as_str);
    let hook = is_hook(request.uri().path());
    let mut response = if policy(pattern) == Policy::Open || bears_key(&state, &request) {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    };
    if hook && let Some(error) = response.extensions_mut().remove::<ApiError>() {
        response = error.into_hook_response();
    }
    let route = pattern.unwrap_or("unmatched").to_owned();
    let status = response.status().as_u16().to_string();
    metrics::counter!("wakeline_http_requests_total", "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!("wakeline_http_request_seconds", "route" => route)
        .record(started.elapsed().as_secs_f64());
    response
}

fn bears_key(state: &AppState, request: &Request) -> bool {
    let Some(key) = &state.settings().api_key else {
        return true;
    };
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    given.is_some_and(|given| given.ct_eq(key.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart_by_whole_parts() {
        for path in ["/api/v1/app", "/api/v1/app/x/msg", "/api/v1/background-task/1"] {
            assert!(is_hook(path), "{path}");
        }
        for path in ["/api/v1/apple", "/api/v1/push", "/events", "/api/v1/health"] {
            assert!(!is_hook(path), "{path}");
        }
    }
}
