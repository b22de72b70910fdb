//! Cross-origin resource sharing (CORS): browsers refuse calls from pages of other origins unless
//! the settings allow the origin.
//!
//! # Invariants
//! * The browser's own credentials are never allowed. Keys and tokens are sent in a header that the
//!   page sets itself, so allowing `*` exposes nothing.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::state::AppState;

/// Methods that an allowed page may use, and headers that it may set.
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "authorization, content-type, idempotency-key";
/// Seconds for which a browser may cache the result of a preflight request.
const MAX_AGE: &str = "600";

/// Answers preflight requests and adds the CORS headers to responses for allowed origins.
pub(crate) async fn cors(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let Some(allowed) = allowed(&state.settings().cors_origins, request.headers()) else {
        return next.run(request).await;
    };
    let preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if preflight {
        let fixed = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        ];
        (StatusCode::NO_CONTENT, fixed).into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let exposed = HeaderValue::from_static("retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    response
}

/// The value of `Access-Control-Allow-Origin`, if the origin of the request is allowed.
fn allowed(origins: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN).filter(|_| !origins.is_empty())?;
    if origins.iter().any(|known| known == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    let known = |known: &String| known.as_bytes() == origin.as_bytes();
    origins.iter().any(known).then(|| origin.clone())
}
