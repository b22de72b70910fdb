//! Probes, metrics and the documentation.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use wakeline_flow::UNCLAIMED_AFTER;
use wakeline_wake::Link;

use crate::docs;
use crate::error::ApiError;
use crate::state::AppState;
use crate::wire::health::{HealthAnswer, WakeHealth};

/// Most unclaimed turns and activities that the metrics count.
const UNCLAIMED_MAX: u32 = 10_000;

/// How long the metrics wait for the store.
const UNCLAIMED_TIME: Duration = Duration::from_secs(1);

/// How this node is, in detail. 503 if it cannot serve.
#[utoipa::path(
    get, path = "/health", tag = "operation",
    responses(
        (status = 200, description = "It serves", body = HealthAnswer),
        (status = 503, description = "It does not", body = HealthAnswer),
    )
)]
pub(crate) async fn health(State(state): State<AppState>) -> Response {
    let maintenance = state.ping().await.ok();
    let reachable = maintenance.is_some();
    let (status, word) = match (reachable, state.is_draining()) {
        (true, false) => (StatusCode::OK, "healthy"),
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let webhooks = match state.hook().sends_nothing() {
        Some(why) => format!("off: {why}"),
        None => "on".to_owned(),
    };
    let answer = HealthAnswer {
        status: word,
        database: if reachable { "connected" } else { "unavailable" },
        server: "wakeline",
        version: env!("CARGO_PKG_VERSION"),
        store: state.queue().store().info().kind,
        wake: wake_health(&state, Detail::Public),
        maintenance: maintenance.map(Into::into),
        webhooks,
    };
    (status, Json(answer)).into_response()
}

/// For whom something is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Everybody: without the words of the database.
    Public,
    /// Those who may read metrics.
    Full,
}

/// How waiting consumers of this node learn of work.
pub(super) fn wake_health(state: &AppState, detail: Detail) -> WakeHealth {
    let wake = state.queue().wake_snapshot();
    WakeHealth {
        mode: wake.mode.to_string(),
        waiters: wake.waiters,
        lines: wake.lines,
        link: link_word(&wake.link, detail),
        degraded: wake.degraded.map(|degraded| degraded.reason.to_string()),
    }
}

/// Whether the process runs.
#[utoipa::path(
    get, path = "/healthz", tag = "operation",
    responses((status = 200, description = "It runs", body = String))
)]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether this node takes requests: the store answers and it is not shutting down.
#[utoipa::path(
    get, path = "/readyz", tag = "operation",
    responses(
        (status = 200, description = "It does", body = String),
        (status = 503, description = "It does not", body = crate::error::Problem),
    )
)]
pub(crate) async fn readyz(State(state): State<AppState>) -> Result<&'static str, ApiError> {
    if state.is_draining() {
        return Err(ApiError::draining());
    }
    state.ping().await?;
    Ok("ready\n")
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "The metrics", body = String))
)]
pub(crate) async fn metrics(State(state): State<AppState>) -> Response {
    // Counted when somebody looks: nothing polls the store for it.
    let unclaimed = state.flow().unclaimed(UNCLAIMED_AFTER, UNCLAIMED_MAX);
    if let Ok(Ok(unclaimed)) = tokio::time::timeout(UNCLAIMED_TIME, unclaimed).await {
        metrics::gauge!("wakeline_flow_unclaimed").set(unclaimed.len() as f64);
    }
    let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    ([kind], state.render_metrics()).into_response()
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operation",
    responses((status = 200, description = "The OpenAPI document"))
)]
pub(crate) async fn openapi_document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], docs::openapi()).into_response()
}

/// This document as a page.
#[utoipa::path(
    get, path = "/docs", tag = "operation",
    responses((status = 200, description = "The page", body = String))
)]
pub(crate) async fn docs() -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(docs::page())).into_response()
}

/// Leads to the documentation.
#[utoipa::path(
    get, path = "/", tag = "operation",
    responses((status = 303, description = "To the documentation"))
)]
pub(crate) async fn root() -> Redirect {
    Redirect::to("/docs")
}

fn link_word(link: &Link, detail: Detail) -> String {
    let (word, reason) = match link {
        Link::Up => return "up".to_owned(),
        Link::Down { reason } => ("down", reason),
        Link::Off { reason } => ("off", reason),
    };
    match detail {
        Detail::Public => word.to_owned(),
        Detail::Full => format!("{word}: {reason}"),
    }
}
