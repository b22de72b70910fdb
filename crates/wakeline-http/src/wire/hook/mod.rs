//! Wire types of webhooks: those of the Svix API, so that its published clients work, with the
//! additions of Wakeline.
//!
//! # Invariants
//! * Fields that clients send but that have no effect here are ignored. Fields that request an
//!   unsupported feature are refused with an error that names them.
//! * The field names of older and newer clients are accepted: `eventTypes` and `filterTypes`,
//!   `throttleRate` and `rateLimit`. If a request has both, because a client sends back a response,
//!   the first of each pair takes precedence.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod delivery;
pub(crate) mod endpoint;
pub(crate) mod event_type;
pub(crate) mod job;
pub(crate) mod list;
pub(crate) mod message;
pub(crate) mod pull;
pub(crate) mod simple;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use wakeline_core::{Channel, EventPattern, EventTypeName};
use wakeline_store::StoreError;

use crate::error::ApiError;

/// The body of an error response of the webhook routes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HookProblem {
    /// A stable error code; the error reference lists all codes.
    pub(crate) code: &'static str,
    /// A description of the error for people.
    pub(crate) detail: String,
}

/// The body of the error response for an invalid request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HookInvalid {
    /// The errors in the request.
    pub(crate) detail: Vec<HookInvalidEntry>,
}

/// An error in a request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Mistake)]
pub(crate) struct HookInvalidEntry {
    /// The location of the error: `body`, `query`, `path` or `header`, followed by the path to the
    /// field.
    pub(crate) loc: Vec<String>,
    /// A description of the error for people.
    pub(crate) msg: String,
    /// Always `value_error`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
}

/// The maximum size of the metadata of an application or endpoint.
const METADATA_BYTES_MAX: usize = 4096;

/// The maximum length of a description or name in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Names and values that users store with an object.
pub(crate) type Metadata = BTreeMap<String, String>;

/// Deserializes a field that can be absent, null or a value. The outer option is `None` only for an
/// absent field, which keeps the current value.
pub(crate) fn given<'de, T, D>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(from).map(Some)
}

pub(crate) fn metadata(given: Metadata) -> Result<Map<String, Value>, ApiError> {
    let lens = given.iter().map(|(name, value)| name.len() + value.len());
    if lens.sum::<usize>() > METADATA_BYTES_MAX {
        let message = format!("metadata must have at most {METADATA_BYTES_MAX} bytes");
        return Err(ApiError::invalid_field("metadata", message));
    }
    Ok(given.into_iter().map(|(name, value)| (name, Value::String(value))).collect())
}

/// Parses stored metadata.
pub(crate) fn stored_metadata(
    bytes: &[u8],
    id: &dyn std::fmt::Display,
) -> Result<Map<String, Value>, ApiError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt {
        what: "metadata of",
        id: id.to_string(),
        source: error.into(),
    };
    Ok(serde_json::from_slice(bytes).map_err(corrupt)?)
}

/// Validates a name or a description.
pub(crate) fn text(field: &str, text: String) -> Result<String, ApiError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("{field} must have at most {TEXT_BYTES_MAX} bytes");
        return Err(ApiError::invalid_field(field, message));
    }
    if text.contains('\0') {
        return Err(ApiError::invalid_field(field, format!("{field} must not contain U+0000")));
    }
    Ok(text)
}

pub(crate) fn patterns(given: Vec<String>) -> Result<Vec<EventPattern>, ApiError> {
    let read = |text: String| {
        EventPattern::new(text).map_err(|e| ApiError::invalid_field("eventTypes", e.to_string()))
    };
    given.into_iter().map(read).collect()
}

pub(crate) fn channels(given: Vec<String>, most: usize) -> Result<Vec<Channel>, ApiError> {
    if given.len() > most {
        let message = format!("channels must have at most {most} entries, not {}", given.len());
        return Err(ApiError::invalid_field("channels", message));
    }
    let read = |text: String| {
        Channel::new(text).map_err(|e| ApiError::invalid_field("channels", e.to_string()))
    };
    given.into_iter().map(read).collect()
}

pub(crate) fn type_name(field: &str, text: &str) -> Result<EventTypeName, ApiError> {
    EventTypeName::new(text).map_err(|error| ApiError::invalid_field(field, error.to_string()))
}

/// Validates a limit per second.
pub(crate) fn rate(given: Option<u32>) -> Result<Option<u32>, ApiError> {
    match given {
        Some(0) => {
            Err(ApiError::invalid_field("throttleRate", "throttleRate must be at least 1, not 0"))
        }
        other => Ok(other),
    }
}
