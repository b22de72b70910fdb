//! Calls from pages of other origins: refused by browsers, unless the settings name the origin.
//!
//! # Invariants
//! * Credentials of browsers are never allowed: keys and tokens travel in a header that a page sets
//!   itself, so `*` gives nothing away.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::state::AppState;

/// What a page may send besides what every page may.
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "authorization, content-type, idempotency-key";
/// Seconds for which a browser need not ask again.
const MAX_AGE: &str = "600";

/// Answers a browser's questions, and marks answers for pages of origins that may read them.
pub(crate) async fn cors(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let Some(allowed) = allowed(&state.settings().cors_origins, request.headers()) else {
        return next.run(request).await;
    };
    let asks = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match request.method() == Method::OPTIONS && asks {
        true => {
            let fixed = [
                (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
                (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
            ];
            (StatusCode::NO_CONTENT, fixed).into_response()
        }
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let exposed = HeaderValue::from_static("retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    response
}

/// What to say of the origin that a request is from, if it is one of those that may read answers.
fn allowed(origins: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN).filter(|_| !origins.is_empty())?;
    if origins.iter().any(|known| known == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    let known = |known: &String| known.as_bytes() == origin.as_bytes();
    origins.iter().any(known).then(|| origin.clone())
}
