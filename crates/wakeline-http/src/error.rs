//! Maps domain errors to HTTP responses. This is the only place that chooses statuses for failures.

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

use crate::wire::hook::{HookInvalid, HookInvalidEntry, HookProblem};

/// The body of an error response.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// A description of the error for people.
    pub error: String,
    /// A stable error code; the error reference lists all codes.
    pub code: &'static str,
}

/// The failure of a request: its status, error code and message.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after_secs: Option<u64>,
    /// The methods that the route accepts, for the `Allow` header.
    allow: Option<String>,
    /// Where in the request the error is. Only the routes of the Svix API report it.
    location: Vec<String>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let (message, location) = (message.into(), Vec::new());
        Self { status, code, message, retry_after_secs: None, allow: None, location }
    }

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

    /// A field of the body is invalid.
    pub(crate) fn invalid_field(field: &str, message: impl Into<String>) -> Self {
        // The caller chooses unknown names, which may contain any number of dots.
        let path = std::iter::once("body").chain(field.splitn(16, '.'));
        Self { location: path.map(str::to_owned).collect(), ..Self::invalid(message) }
    }

    /// A query parameter is invalid.
    pub(crate) fn invalid_param(name: &str, message: impl Into<String>) -> Self {
        Self { location: vec!["query".to_owned(), name.to_owned()], ..Self::invalid(message) }
    }

    /// A path parameter or a header is invalid.
    pub(crate) fn invalid_in(kind: &str, name: &str, message: impl Into<String>) -> Self {
        let path = [kind, name].into_iter().filter(|part| !part.is_empty());
        Self { location: path.map(str::to_owned).collect(), ..Self::invalid(message) }
    }

    /// The request has no valid credentials.
    pub(crate) fn unauthorized(why: &str) -> Self {
        let message = format!("{why}: send an API key or a token as `Authorization: Bearer KEY`");
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The caller has permissions on this resource, but not the one that is needed.
    pub(crate) fn forbidden(scope: &str) -> Self {
        let message =
            format!("the key or token does not allow this request: it needs the scope {scope}");
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// The caller has no permission on this resource. The error does not reveal whether it exists.
    pub(crate) fn no_access() -> Self {
        Self::not_found("not found, or the key or token has no access to it")
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The request addresses the server by a host name that is not its own.
    pub(crate) fn unknown_host(host: &str) -> Self {
        let message = format!(
            "this server requires no credentials and therefore accepts only its own host names, \
             not {host:?}: use localhost, allow the name with --allowed-host, or create an API key"
        );
        Self::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message)
    }

    /// The request comes from a web page of another origin.
    pub(crate) fn other_origin(origin: &str) -> Self {
        let message = format!(
            "this server requires no credentials and therefore refuses requests from web pages of \
             other origins ({origin:?}): allow the origin with --cors-origin, or create an API key"
        );
        Self::new(StatusCode::FORBIDDEN, "origin_not_allowed", message)
    }

    pub(crate) fn method_not_allowed(method: &str, allowed: String) -> Self {
        let message = format!("this route accepts {allowed}, not {method}");
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
        tracing::error!(error = error_chain(error), "a request failed with an internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    }

    pub(crate) fn payload_too_large(limit: usize) -> Self {
        let message =
            format!("the request body is larger than {limit} bytes, the limit of --body-bytes-max");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    }

    pub(crate) fn unsupported_media_type(found: &str) -> Self {
        let message = match found {
            "" => "the request has a body but no content-type: send \
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
            "this node is shutting down: send the request to another node, or try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", message).retry_after(1)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message).retry_after(1)
    }

    /// The store failed during the operation, which may or may not have been committed.
    fn outcome_unknown(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown", message).retry_after(1)
    }

    /// Converts the failure of a later step of a request whose earlier step was already written:
    /// the error must not say that nothing was done.
    pub(crate) fn after_write(self) -> Self {
        match self.code {
            "store_unavailable" | "store_full" | "no_encryption_key" | "maintenance" => {
                let message = "the change was written, but the store failed before the result \
                               could be read: repeat the request, or read the current state";
                Self::outcome_unknown(message)
            }
            _ => self,
        }
    }

    fn no_encryption_key() -> Self {
        let message = "this data is stored encrypted, but this server has no encryption key: set \
                       WAKELINE_ENCRYPTION_KEYS or --encryption-key-file to a key generated by \
                       `wakeline encryption-key`";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_encryption_key", message)
    }

    fn maintenance() -> Self {
        let message = "this server is under maintenance and accepts no messages; nothing was \
                       stored: try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "maintenance", message).retry_after(5)
    }

    /// Prefixes the message with the location of the error in the request.
    pub(crate) fn at(mut self, location: &str) -> Self {
        self.message = format!("{location}: {}", self.message);
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
                tracing::warn!(
                    error = error_chain(error),
                    "store unavailable: the database cannot be reached or used"
                );
                Self::unavailable(format!("{error}: try again later"))
            }
            StoreError::Transient { .. } => {
                tracing::warn!(
                    error = error_chain(error),
                    "a store call was interrupted, and its outcome is unknown"
                );
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
                tracing::error!(error = error_chain(error), "a store call failed");
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
                    // The error comes from another provider and does not say whether the operation
                    // was committed.
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
            HookError::NoEncryptionKeys => Self::no_encryption_key(),
            HookError::Encryption { .. } => Self::internal(&error),
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
    /// Renders the error in the format of the Svix API.
    pub(crate) fn into_hook_response(self) -> Response {
        if self.code != "invalid_request" {
            let body = Json(HookProblem { code: self.code, detail: self.message.clone() });
            return self.finish((self.status, body).into_response());
        }
        let loc = if self.location.is_empty() { vec!["body".to_owned()] } else { self.location };
        let entry = HookInvalidEntry { loc, msg: self.message, kind: "value_error" };
        let body = Json(HookInvalid { detail: vec![entry] });
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
        // `guard` knows the error format of the route and may render the error again.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_errors_map_to_status_and_retry_after() {
        let source = || "text of the driver".into();
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
            let has_retry_after = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(has_retry_after, matches!(status, 503 | 507), "{error}");
        }
    }
}
