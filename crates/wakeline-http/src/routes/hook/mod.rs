//! Webhooks: the routes of the Svix API, so that its published clients work here, and additional
//! routes of Wakeline.
//!
//! # Invariants
//! * Applications, endpoints and messages can be named by the server's id or by the user's own.
//! * Errors have the format of the Svix API; `access.rs` converts them, by the paths of the routes.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod delivery;
pub(crate) mod endpoint;
pub(crate) mod event_type;
pub(crate) mod job;
pub(crate) mod keys;
pub(crate) mod message;
pub(crate) mod operational;
pub(crate) mod pull;
pub(crate) mod simple;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointRef, EventTypeName, HookMessageId,
    IdempotencyKey, MessageRef, UidError,
};
use wakeline_store::hook::{Application, Endpoint, StoredMessage};

use crate::access::permit::Permit;
use crate::error::ApiError;
use crate::input::{IdempotencyHeader, QueryParams};
use crate::state::AppState;

/// What a route that creates something reads from a request, apart from its path and its body.
pub(crate) struct CreateRequest {
    permit: Permit,
    idempotency_key: Option<IdempotencyKey>,
    params: QueryParams,
}

impl<S: Send + Sync> FromRequestParts<S> for CreateRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let permit = Permit::from_request_parts(parts, state).await?;
        let IdempotencyHeader(idempotency_key) =
            IdempotencyHeader::from_request_parts(parts, state).await?;
        let params = QueryParams::from_request_parts(parts, state).await?;
        Ok(Self { permit, idempotency_key, params })
    }
}

fn in_path<T>(name: &str, read: Result<T, UidError>) -> Result<T, ApiError> {
    read.map_err(|error| ApiError::invalid_in("path", name, error.to_string()))
}

/// Parses the application in a path.
pub(crate) fn app_ref(text: &str) -> Result<ApplicationRef, ApiError> {
    in_path("app_id", ApplicationRef::parse(text))
}

/// Parses the endpoint in a path.
pub(crate) fn endpoint_ref(text: &str) -> Result<EndpointRef, ApiError> {
    in_path("endpoint_id", EndpointRef::parse(text))
}

/// Parses the message in a path.
pub(crate) fn message_ref(text: &str) -> Result<MessageRef, ApiError> {
    in_path("msg_id", MessageRef::parse(text))
}

/// Parses the attempt in a path.
pub(crate) fn attempt_id(text: &str) -> Result<AttemptId, ApiError> {
    text.parse().map_err(|_| no_attempt(text))
}

pub(crate) fn no_application(named: &ApplicationRef) -> ApiError {
    ApiError::not_found(format!("there is no application {named}"))
}

pub(crate) fn no_endpoint(named: &EndpointRef) -> ApiError {
    ApiError::not_found(format!("there is no endpoint {named} in this application"))
}

pub(crate) fn no_message(named: &MessageRef) -> ApiError {
    ApiError::not_found(format!("there is no message {named} in this application"))
}

pub(crate) fn no_attempt(named: &str) -> ApiError {
    ApiError::not_found(format!("there is no attempt {named}"))
}

pub(crate) fn key_reused() -> ApiError {
    ApiError::conflict("this idempotency-key was used for another request: use a new one")
}

/// Reads an application; fails with 404 if it does not exist.
pub(crate) async fn find_app(
    state: &AppState,
    named: &ApplicationRef,
) -> Result<Application, ApiError> {
    let found = state.hook().store().application(named).await?;
    found.ok_or_else(|| no_application(named))
}

/// Reads the id of an application; fails with 404 if it does not exist.
pub(crate) async fn find_app_id(
    state: &AppState,
    named: &str,
) -> Result<(ApplicationRef, ApplicationId), ApiError> {
    let named = app_ref(named)?;
    let id = find_app(state, &named).await?.id;
    Ok((named, id))
}

/// Reads an endpoint; fails with 404 if it does not exist.
pub(crate) async fn find_endpoint(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<Endpoint, ApiError> {
    let found = state.hook().store().endpoint(application, named).await?;
    found.ok_or_else(|| no_endpoint(named))
}

/// Reads a message without its payload; fails with 404 if it does not exist.
pub(crate) async fn find_message(
    state: &AppState,
    application: &ApplicationRef,
    named: &MessageRef,
) -> Result<StoredMessage, ApiError> {
    let found = state.hook().store().message(application, named, false).await?;
    found.ok_or_else(|| no_message(named))
}

/// Parses the event types of a filter.
pub(crate) fn event_types(params: &QueryParams) -> Result<Vec<EventTypeName>, ApiError> {
    let read = |text: &str| {
        EventTypeName::new(text)
            .map_err(|error| ApiError::invalid_param("event_types", error.to_string()))
    };
    params.texts("event_types").map(read).collect()
}

/// Parses the channel of a filter.
pub(crate) fn channel(params: &QueryParams) -> Result<Option<wakeline_core::Channel>, ApiError> {
    params.parsed("channel", |text| {
        wakeline_core::Channel::new(text)
            .map_err(|error| ApiError::invalid_param("channel", error.to_string()))
    })
}

/// Parses the message id in an iterator.
pub(crate) fn message_key(text: &str) -> Option<HookMessageId> {
    text.parse().ok()
}
