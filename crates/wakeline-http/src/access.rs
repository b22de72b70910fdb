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
        _ => Policy::Key,
    }
}

/// Lets a request pass, or not, and counts it.
pub(crate) async fn guard(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let pattern = route.as_ref().map(MatchedPath::as_str);
    let response = if policy(pattern) == Policy::Open || bears_key(&state, &request) {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    };
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
