//! Webhooks on the wire: Svix's shapes, so that its published clients work here, with what
//! Wakeline adds to them.
//!
//! # Invariants
//! * Fields that clients send and this server has no use for are ignored; those that ask for
//!   something which it does not do are refused by name.
//! * Both generations of clients are understood: `eventTypes` and `filterTypes`, `throttleRate` and
//!   `rateLimit`. Clients that send back what they got name both: then the first counts.

pub(crate) mod application;
pub(crate) mod attempt;
pub(crate) mod delivery;
pub(crate) mod endpoint;
pub(crate) mod event_type;
pub(crate) mod job;
pub(crate) mod list;
pub(crate) mod message;
pub(crate) mod plain;
pub(crate) mod pull;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use wakeline_core::{Channel, EventPattern, EventTypeName};
use wakeline_store::StoreError;

use crate::error::ApiError;

/// What went wrong, as these routes say it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HookProblem {
    /// A stable code; see the reference of errors.
    pub(crate) code: &'static str,
    /// In words.
    pub(crate) detail: String,
}

/// What is wrong with a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HookInvalid {
    /// One entry per mistake.
    pub(crate) detail: Vec<Mistake>,
}

/// One thing that is wrong with a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Mistake {
    /// Where: `body`, `query`, `path` or `header`, and the way to the field.
    pub(crate) loc: Vec<String>,
    /// In words.
    pub(crate) msg: String,
    /// Always `value_error`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
}

/// Most bytes of a user's own names and values on an application or endpoint.
const METADATA_BYTES_MAX: usize = 4096;

/// Longest description or name, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// A user's own names and values.
pub(crate) type Metadata = BTreeMap<String, String>;

/// Reads a field that can be absent, null or a value; only the first leaves things as they are.
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

/// Names and values as they are stored.
pub(crate) fn stored_metadata(
    bytes: &[u8],
    id: &dyn std::fmt::Display,
) -> Result<Map<String, Value>, ApiError> {
    let damaged = |error: serde_json::Error| StoreError::Corrupt {
        what: "metadata of",
        id: id.to_string(),
        source: error.into(),
    };
    Ok(serde_json::from_slice(bytes).map_err(damaged)?)
}

/// A name or a description for people.
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

/// A limit in things a second.
pub(crate) fn rate(given: Option<u32>) -> Result<Option<u32>, ApiError> {
    match given {
        Some(0) => {
            Err(ApiError::invalid_field("throttleRate", "throttleRate must be at least 1, not 0"))
        }
        other => Ok(other),
    }
}
