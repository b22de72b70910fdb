//! Health probes, metrics and the API documentation.

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

/// The maximum number of unclaimed turns and activities that the metrics count.
const UNCLAIMED_MAX: u32 = 10_000;

/// The maximum time that a request for metrics waits for the store.
const UNCLAIMED_TIME: Duration = Duration::from_secs(1);

/// Get the health of this node in detail. The status is 503 if it cannot serve requests.
#[utoipa::path(
    get, path = "/health", tag = "operation",
    responses(
        (status = 200, description = "The node serves requests", body = HealthAnswer),
        (status = 503, description = "The node is not ready", body = HealthAnswer),
    )
)]
pub(crate) async fn health(State(state): State<AppState>) -> Response {
    let maintenance = state.ping().await.ok();
    let reachable = maintenance.is_some();
    let (status, health) = match (reachable, state.is_draining()) {
        (true, false) => (StatusCode::OK, "healthy"),
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    let webhooks = match state.hook().sends_nothing() {
        Some(why) => format!("off: {why}"),
        None => "on".to_owned(),
    };
    let answer = HealthAnswer {
        status: health,
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

/// How much a health report reveals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// For everyone: without error messages of the database.
    Public,
    /// For callers that may read metrics: everything.
    Full,
}

/// Reports how waiting consumers of this node are notified of new messages.
pub(super) fn wake_health(state: &AppState, detail: Detail) -> WakeHealth {
    let wake = state.queue().wake_snapshot();
    WakeHealth {
        mode: wake.mode.to_string(),
        waiters: wake.waiters,
        lines: wake.lines,
        link: link_text(&wake.link, detail),
        degraded: wake.degraded.map(|degraded| degraded.reason.to_string()),
    }
}

/// Check that the process is running.
#[utoipa::path(
    get, path = "/healthz", tag = "operation",
    responses((status = 200, description = "The process is running", body = String))
)]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Check that this node accepts requests: the store is reachable and the node is not shutting down.
#[utoipa::path(
    get, path = "/readyz", tag = "operation",
    responses(
        (status = 200, description = "The node is ready", body = String),
        (status = 503, description = "The node is not ready", body = crate::error::Problem),
    )
)]
pub(crate) async fn readyz(State(state): State<AppState>) -> Result<&'static str, ApiError> {
    if state.is_draining() {
        return Err(ApiError::draining());
    }
    state.ping().await?;
    Ok("ready\n")
}

/// Get metrics in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "The metrics", body = String))
)]
pub(crate) async fn metrics(State(state): State<AppState>) -> Response {
    // Unclaimed work is counted only when metrics are requested, so that nothing polls the store.
    let unclaimed = state.flow().unclaimed(UNCLAIMED_AFTER, UNCLAIMED_MAX);
    if let Ok(Ok(unclaimed)) = tokio::time::timeout(UNCLAIMED_TIME, unclaimed).await {
        metrics::gauge!("wakeline_flow_unclaimed").set(unclaimed.len() as f64);
    }
    let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    ([kind], state.render_metrics()).into_response()
}

/// Get this OpenAPI document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operation",
    responses((status = 200, description = "The OpenAPI document"))
)]
pub(crate) async fn openapi_document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], docs::openapi()).into_response()
}

/// Show this documentation as an HTML page.
#[utoipa::path(
    get, path = "/docs", tag = "operation",
    responses((status = 200, description = "The page", body = String))
)]
pub(crate) async fn docs() -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(docs::page())).into_response()
}

/// Redirect to the documentation.
#[utoipa::path(
    get, path = "/", tag = "operation",
    responses((status = 303, description = "Redirect to the documentation"))
)]
pub(crate) async fn root() -> Redirect {
    Redirect::to("/docs")
}

fn link_text(link: &Link, detail: Detail) -> String {
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
