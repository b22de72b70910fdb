//! Domain errors as HTTP answers. The only place that chooses statuses for failures.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::{IdError, JsonTooDeep, NameError, error_chain};
use wakeline_flow::ClientError;
use wakeline_flow::provider::ProviderError;
use wakeline_hook::HookError;
use wakeline_queue::QueueError;
use wakeline_store::StoreError;

use crate::wire::hook::{HookInvalid, HookProblem, Mistake};

/// What went wrong.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// In words.
    pub error: String,
    /// A stable code; see the reference of errors.
    pub code: &'static str,
}

/// A failed request.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_secs: Option<u64>,
    /// The methods that the route takes.
    allow: Option<String>,
    /// Where in the request it is; routes in Svix's shape tell.
    place: Vec<String>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let (message, place) = (message.into(), Vec::new());
        Self { status, code, message, retry_after_secs: None, allow: None, place }
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    fn retry_after(mut self, secs: u64) -> Self {
        self.retry_after_secs = Some(secs.max(1));
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A field of the body that is wrong.
    pub(crate) fn invalid_field(field: &str, message: impl Into<String>) -> Self {
        // A name may be the caller's, with any number of dots.
        let way = std::iter::once("body").chain(field.splitn(16, '.'));
        Self { place: way.map(str::to_owned).collect(), ..Self::invalid(message) }
    }

    /// A parameter of the query string that is wrong.
    pub(crate) fn invalid_param(name: &str, message: impl Into<String>) -> Self {
        Self { place: vec!["query".to_owned(), name.to_owned()], ..Self::invalid(message) }
    }

    /// A part of the path, or a header, that is wrong.
    pub(crate) fn invalid_in(kind: &str, name: &str, message: impl Into<String>) -> Self {
        let place = [kind, name].into_iter().filter(|part| !part.is_empty());
        Self { place: place.map(str::to_owned).collect(), ..Self::invalid(message) }
    }

    /// The caller does not say who they are, or not in a way that counts.
    pub(crate) fn unauthorized(why: &str) -> Self {
        let message = format!("{why}: send an API key or a token as `Authorization: Bearer KEY`");
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The caller may do something on this name, but not this.
    pub(crate) fn forbidden(scope: &str) -> Self {
        let message = format!("the key or token does not allow this: it needs the scope {scope}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// The caller may do nothing on this name: whether it exists is not told.
    pub(crate) fn foreign() -> Self {
        Self::not_found("not found, or the key or token has no access to it")
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The request calls the server by a name that is not its own.
    pub(crate) fn unknown_host(host: &str) -> Self {
        let message = format!(
            "this server asks for no credentials, and so answers only to its own names, not to \
             {host:?}: call it as localhost, name it with --allowed-host, or create a key"
        );
        Self::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message)
    }

    /// The request comes from a web page of another origin.
    pub(crate) fn foreign_origin(origin: &str) -> Self {
        let message = format!(
            "this server asks for no credentials, and so refuses web pages of other origins \
             ({origin:?}): allow the page with --cors-origin, or create a key"
        );
        Self::new(StatusCode::FORBIDDEN, "foreign_origin", message)
    }

    pub(crate) fn method_not_allowed(method: &str, allowed: String) -> Self {
        let message = format!("this route takes {allowed}, not {method}");
        let allow = Some(allowed);
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        Self { allow, ..error }
    }

    pub(crate) fn stale_lease(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "stale_lease", message)
    }

    pub(crate) fn ended(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "orchestration_ended", message)
    }

    pub(crate) fn not_deleted(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "not_deleted", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = error_chain(error), "request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    }

    pub(crate) fn payload_too_large(limit: usize) -> Self {
        let message =
            format!("the request body is larger than {limit} bytes, the limit of --body-bytes-max");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    }

    pub(crate) fn unsupported_media_type(found: &str) -> Self {
        let message = match found {
            "" => "the request has a body and no content-type: send \
                   `Content-Type: application/json`"
                .to_owned(),
            found => format!("content-type must be application/json, not {found}"),
        };
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn unsupported_encoding(found: &str) -> Self {
        let message =
            format!("content-encoding {found} is not supported: send the body uncompressed");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", message)
    }

    pub(crate) fn body_timeout() -> Self {
        let message = "the request body did not arrive in time: send the request again";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
    }

    pub(crate) fn draining() -> Self {
        let message =
            "this node is shutting down: send the request to another node, or again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", message).retry_after(1)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message).retry_after(1)
    }

    /// The store failed on the way: what was asked for may have happened.
    fn outcome_unknown(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", message).retry_after(1)
    }

    /// The failure of a later step of a request, once an earlier one was written: it must not
    /// say that nothing was done.
    pub(crate) fn after_write(self) -> Self {
        match self.code {
            "store_unavailable" | "store_full" | "no_encryption_key" | "maintenance" => {
                let message = "the change was written, but the store failed before its result \
                               could be read; repeat the request, or read what is there";
                Self::outcome_unknown(message)
            }
            _ => self,
        }
    }

    fn no_encryption_key() -> Self {
        let message = "this is stored encrypted, and this server has no encryption key: set \
                       WAKELINE_ENCRYPTION_KEYS or --encryption-key-file to what \
                       `wakeline encryption-key` prints";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_encryption_key", message)
    }

    fn maintenance() -> Self {
        let message = "this server is under maintenance and accepts no messages, and nothing was \
                       stored: try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "maintenance", message).retry_after(5)
    }

    /// The same failure, saying where in the request it is.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl From<NameError> for ApiError {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<JsonTooDeep> for ApiError {
    fn from(error: JsonTooDeep) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<IdError> for ApiError {
    fn from(error: IdError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<&StoreError> for ApiError {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable { .. } => {
                tracing::warn!(error = error_chain(error), "store unavailable");
                Self::unavailable(format!("{error}: try again in a moment"))
            }
            StoreError::Transient { .. } => {
                tracing::warn!(error = error_chain(error), "store interrupted");
                Self::outcome_unknown(&error.to_string())
            }
            StoreError::Invalid { .. } => Self::invalid(error.to_string()),
            StoreError::Full { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "store_full", error.to_string())
                    .retry_after(10)
            }
            StoreError::NoKeys { .. } => Self::no_encryption_key(),
            StoreError::Maintenance { .. } => Self::maintenance(),
            StoreError::Corrupt { .. } | StoreError::Fatal { .. } => {
                tracing::error!(error = error_chain(error), "store failure");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        match &error {
            QueueError::TooManyWaiters { retry_after } => {
                let message = "too many consumers are waiting on this node: try again later, or \
                               on another node";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_waiters", message)
                    .retry_after(retry_after.as_secs())
            }
            QueueError::QueueFull { retry_after, .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", error.to_string())
                    .retry_after(retry_after.as_secs())
            }
            QueueError::Store(error) => Self::from(error.as_ref()),
        }
    }
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::NotFound(_) => Self::not_found(error.to_string()),
            ClientError::Ended(_) => Self::ended(error.to_string()),
            ClientError::Name(_) => Self::invalid(error.to_string()),
            ClientError::Provider(ProviderError::Closed) => Self::draining(),
            ClientError::Provider(
                ProviderError::Retryable { source, .. } | ProviderError::Permanent { source, .. },
            ) => match source.downcast_ref::<Arc<StoreError>>() {
                Some(error) => Self::from(error.as_ref()),
                None if matches!(
                    &error,
                    ClientError::Provider(ProviderError::Retryable { .. })
                ) =>
                {
                    // Another provider's failure: it does not say whether something was done.
                    Self::outcome_unknown(&error.to_string())
                }
                None => Self::internal(&error),
            },
            ClientError::Provider(ProviderError::LockLost)
            | ClientError::TimedOut { .. }
            | ClientError::Failed { .. }
            | ClientError::Codec { .. }
            | ClientError::Unsupported(_) => Self::internal(&error),
        }
    }
}

impl From<HookError> for ApiError {
    fn from(error: HookError) -> Self {
        match &error {
            HookError::Invalid { field, .. } => Self::invalid_field(field, error.to_string()),
            HookError::Schema { .. } => Self::invalid_field("payload", error.to_string()),
            HookError::NoKeyRing => Self::no_encryption_key(),
            HookError::Sealed { .. } => Self::internal(&error),
            HookError::Contended => Self::conflict(error.to_string()),
            HookError::TooManyWaiters { retry_after } => {
                let message = "too many clients are waiting on this node: try again later, or on \
                               another node";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_waiters", message)
                    .retry_after(retry_after.as_secs())
            }
            HookError::Store(error) => Self::from(error.as_ref()),
        }
    }
}

impl ApiError {
    /// The failure as routes in Svix's shape tell it.
    pub(crate) fn into_hook_response(self) -> Response {
        if self.code != "invalid_request" {
            let body = Json(HookProblem { code: self.code, detail: self.message.clone() });
            return self.finish((self.status, body).into_response());
        }
        let loc = if self.place.is_empty() { vec!["body".to_owned()] } else { self.place };
        let mistake = Mistake { loc, msg: self.message, kind: "value_error" };
        let body = Json(HookInvalid { detail: vec![mistake] });
        (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
    }

    fn finish(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        if let Some(secs) = self.retry_after_secs {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if let Some(allow) = self.allow.as_ref().and_then(|allow| allow.parse().ok()) {
            headers.insert(header::ALLOW, allow);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(Problem { error: self.message.clone(), code: self.code });
        let mut response = self.finish((self.status, body).into_response());
        // For the guard, which knows the shape of the route.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_failure_has_its_status_and_says_whether_to_come_back() {
        let source = || "the driver's words".into();
        let operation = "push";
        let table = [
            (StoreError::Transient { operation, source: source() }, 503, "outcome_unknown"),
            (StoreError::Unavailable { operation, source: source() }, 503, "store_unavailable"),
            (StoreError::Invalid { field: "f", reason: "is odd".into() }, 400, "invalid_request"),
            (StoreError::Full { operation }, 507, "store_full"),
            (StoreError::Maintenance { operation }, 503, "maintenance"),
            (
                StoreError::Corrupt { what: "row", id: "7".into(), source: source() },
                500,
                "internal",
            ),
            (StoreError::Fatal { operation, source: source() }, 500, "internal"),
        ];
        for (error, status, code) in table {
            let answer = ApiError::from(&error);
            assert_eq!((answer.status.as_u16(), answer.code), (status, code), "{error}");
            assert!(!answer.message.contains("driver"), "{}", answer.message);
            let response = answer.into_response();
            let again = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(again, matches!(status, 503 | 507), "{error}");
        }
    }
}
