//! Webhooks: Svix's routes, so that its published clients work here, and Wakeline's own beside
//! them.
//!
//! # Invariants
//! * Everything can be named by the server's id or by the user's own.
//! * Errors are told in Svix's shape: see `access.rs`, which knows the routes' paths.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod delivery;
pub(crate) mod endpoint;
pub(crate) mod event_type;
pub(crate) mod job;
pub(crate) mod keys;
pub(crate) mod message;
pub(crate) mod operational;
pub(crate) mod plain;
pub(crate) mod pull;

use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointRef, EventTypeName, HookMessageId,
    MessageRef, UidError,
};
use wakeline_store::hook::{Application, Endpoint, StoredMessage};

use crate::error::ApiError;
use crate::input::Params;
use crate::state::AppState;

fn in_path<T>(name: &str, read: Result<T, UidError>) -> Result<T, ApiError> {
    read.map_err(|error| ApiError::invalid_in("path", name, error.to_string()))
}

/// The application that a path names.
pub(crate) fn app_ref(text: &str) -> Result<ApplicationRef, ApiError> {
    in_path("app_id", ApplicationRef::parse(text))
}

/// The endpoint that a path names.
pub(crate) fn endpoint_ref(text: &str) -> Result<EndpointRef, ApiError> {
    in_path("endpoint_id", EndpointRef::parse(text))
}

/// The message that a path names.
pub(crate) fn message_ref(text: &str) -> Result<MessageRef, ApiError> {
    in_path("msg_id", MessageRef::parse(text))
}

/// The attempt that a path names.
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

/// An application, or 404.
pub(crate) async fn find_app(
    state: &AppState,
    named: &ApplicationRef,
) -> Result<Application, ApiError> {
    let found = state.hook().store().application(named).await?;
    found.ok_or_else(|| no_application(named))
}

/// The id of an application, or 404.
pub(crate) async fn find_app_id(
    state: &AppState,
    named: &str,
) -> Result<(ApplicationRef, ApplicationId), ApiError> {
    let named = app_ref(named)?;
    let id = find_app(state, &named).await?.id;
    Ok((named, id))
}

/// An endpoint, or 404.
pub(crate) async fn find_endpoint(
    state: &AppState,
    application: &ApplicationRef,
    named: &EndpointRef,
) -> Result<Endpoint, ApiError> {
    let found = state.hook().store().endpoint(application, named).await?;
    found.ok_or_else(|| no_endpoint(named))
}

/// A message without its payload, or 404.
pub(crate) async fn find_message(
    state: &AppState,
    application: &ApplicationRef,
    named: &MessageRef,
) -> Result<StoredMessage, ApiError> {
    let found = state.hook().store().message(application, named, false).await?;
    found.ok_or_else(|| no_message(named))
}

/// The types that a filter names.
pub(crate) fn event_types(params: &Params) -> Result<Vec<EventTypeName>, ApiError> {
    let read = |text: &str| {
        EventTypeName::new(text)
            .map_err(|error| ApiError::invalid_param("event_types", error.to_string()))
    };
    params.texts("event_types").map(read).collect()
}

/// The channel that a filter names.
pub(crate) fn channel(params: &Params) -> Result<Option<wakeline_core::Channel>, ApiError> {
    params.parsed("channel", |text| {
        wakeline_core::Channel::new(text)
            .map_err(|error| ApiError::invalid_param("channel", error.to_string()))
    })
}

/// A message by its id, as an iterator names it.
pub(crate) fn message_key(text: &str) -> Option<HookMessageId> {
    text.parse().ok()
}
