//! Wire types of webhook messages.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::{EventId, MESSAGE_RETENTION_DEFAULT};
use wakeline_hook::Example;
use wakeline_store::hook::StoredMessage;

use super::application::ApplicationBody;
use super::{Metadata, type_name};
use crate::error::ApiError;
use crate::render;

/// The maximum number of channels of a message.
pub(crate) const CHANNELS_MAX: usize = 5;

/// Bounds of the retention of a payload.
const RETENTION_DAYS: std::ops::RangeInclusive<u64> = 5..=90;
const RETENTION_HOURS: std::ops::RangeInclusive<u64> = 6..=2160;

/// A message to send to every endpoint whose filters match it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIn<'a> {
    /// The event type, for example `invoice.paid`.
    pub(crate) event_type: String,
    /// Your own id of the message, unique within the application. A second message with the same id
    /// is refused.
    event_id: Option<String>,
    /// The payload: a JSON object, which is sent byte for byte.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// The channels of the message, at most 5.
    pub(crate) channels: Option<Vec<String>>,
    /// The application to create if it does not exist yet.
    pub(crate) application: Option<ApplicationBody>,
    /// How long the payload is kept, from 5 to 90 days (default 90).
    payload_retention_period: Option<u64>,
    /// How long the payload is kept, from 6 to 2160 hours. Takes precedence over
    /// `payloadRetentionPeriod`.
    payload_retention_hours: Option<u64>,
    /// Contains `rawPayload`, a text that is sent unchanged instead of `payload`.
    transformations_params: Option<RawParams>,
    /// Not supported: messages are sent immediately.
    #[schema(value_type = Option<String>)]
    deliver_at: Option<serde::de::IgnoredAny>,
    /// Not supported: use channels.
    #[schema(value_type = Option<Vec<String>>)]
    tags: Option<Vec<serde::de::IgnoredAny>>,
}

/// A text to send unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawParams {
    /// A JSON object as text.
    raw_payload: Option<String>,
    /// Not supported: messages are JSON, and additional headers belong to the endpoint.
    #[serde(default)]
    headers: Metadata,
}

/// A webhook message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageOut {
    /// The id of the message, which is the `webhook-id` of every attempt.
    id: String,
    /// The name of the event type.
    event_type: String,
    /// Your own id of the message.
    event_id: Option<String>,
    /// The channels of the message.
    channels: Option<Vec<String>>,
    /// The payload: empty if it was not requested, `{"expired":true}` if it was deleted.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
    /// When the message was stored.
    timestamp: String,
    /// Always null.
    tags: Option<Vec<String>>,
}

impl MessageIn<'_> {
    /// Returns the bytes to send. They refer to the request body where possible.
    pub(crate) fn payload(&self, body: &Bytes) -> Result<Bytes, ApiError> {
        let raw = self.transformations_params.as_ref().and_then(|raw| raw.raw_payload.as_ref());
        let Some(raw) = raw else {
            return object(self.payload, body);
        };
        let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(raw);
        match object {
            Ok(_) => Ok(Bytes::from(raw.clone())),
            Err(error) => {
                let field = "transformationsParams.rawPayload";
                let message = format!("{field} must be a JSON object: {error}");
                Err(ApiError::invalid_field(field, message))
            }
        }
    }

    /// Parses the user's own id of the message.
    pub(crate) fn event_id(&self) -> Result<Option<EventId>, ApiError> {
        let read = |text: &String| {
            EventId::parse(text)
                .map_err(|error| ApiError::invalid_field("eventId", error.to_string()))
        };
        self.event_id.as_ref().map(read).transpose()
    }

    /// Validates how long the payload is kept.
    pub(crate) fn retention(&self) -> Result<Duration, ApiError> {
        const HOUR: u64 = 60 * 60;
        let bounded = |field: &str, n: u64, bounds: std::ops::RangeInclusive<u64>| {
            let (least, most) = (bounds.start(), bounds.end());
            let message = format!("{field} must be from {least} to {most}, not {n}");
            bounds.contains(&n).then_some(n).ok_or_else(|| ApiError::invalid_field(field, message))
        };
        Ok(match (self.payload_retention_hours, self.payload_retention_period) {
            (Some(hours), _) => {
                let hours = bounded("payloadRetentionHours", hours, RETENTION_HOURS)?;
                Duration::from_secs(hours * HOUR)
            }
            (None, Some(days)) => {
                let days = bounded("payloadRetentionPeriod", days, RETENTION_DAYS)?;
                Duration::from_secs(days * 24 * HOUR)
            }
            (None, None) => MESSAGE_RETENTION_DEFAULT,
        })
    }

    /// Refuses fields that the server would otherwise silently ignore.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.deliver_at.is_some() {
            let message = "deliverAt is not supported: messages are sent immediately";
            return Err(ApiError::invalid_field("deliverAt", message));
        }
        if self.tags.as_ref().is_some_and(|tags| !tags.is_empty()) {
            let message = "tags are not supported: use channels";
            return Err(ApiError::invalid_field("tags", message));
        }
        let raw = self.transformations_params.iter().flat_map(|raw| &raw.headers);
        let json = |(name, value): (&String, &String)| {
            name.eq_ignore_ascii_case("content-type") && value == "application/json"
        };
        if !raw.clone().all(json) {
            let field = "transformationsParams.headers";
            let message = "headers of a message are not supported: set them on the endpoint";
            return Err(ApiError::invalid_field(field, message));
        }
        Ok(())
    }
}

/// Whether a response includes payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadContent {
    /// Payloads are included. A missing payload was deleted.
    Included,
    /// Payloads are left out.
    Omitted,
}

impl PayloadContent {
    /// Converts the parameter `with_content`.
    pub(crate) fn of(with_content: bool) -> Self {
        if with_content { Self::Included } else { Self::Omitted }
    }
}

impl MessageOut {
    pub(crate) fn new(message: StoredMessage, content: PayloadContent) -> Result<Self, ApiError> {
        let fixed = |text: &str| RawValue::from_string(text.to_owned()).expect("this text is JSON");
        let payload = match (content, &message.payload) {
            (PayloadContent::Omitted, _) => fixed("{}"),
            (PayloadContent::Included, None) => fixed(r#"{"expired":true}"#),
            (PayloadContent::Included, Some(bytes)) => {
                render::payload(bytes, &message.id)?.to_owned()
            }
        };
        let channels: Vec<String> = message.channels.into_iter().map(Into::into).collect();
        Ok(Self {
            id: message.id.to_string(),
            event_type: message.event_type.into(),
            event_id: message.event_id.map(Into::into),
            channels: (!channels.is_empty()).then_some(channels),
            payload,
            timestamp: render::time(message.created_at),
            tags: None,
        })
    }
}

/// A message to check.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrecheckIn {
    /// The event type of the message.
    pub(crate) event_type: String,
    /// The channels of the message.
    pub(crate) channels: Option<Vec<String>>,
}

/// The result of checking a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PrecheckOut {
    /// Whether at least one endpoint would receive the message.
    pub(crate) active: bool,
}

/// An example message to send to one endpoint.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExampleIn<'a> {
    /// The name of the event type.
    event_type: String,
    /// The payload, a JSON object. If absent, an example of the newest schema of the event type.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// The index of the schema's example, from 0 (default 0).
    example_index: Option<usize>,
}

impl ExampleIn<'_> {
    pub(crate) fn into_example(self, body: &Bytes) -> Result<Example, ApiError> {
        let payload = self.payload.map(|payload| object(payload, body)).transpose()?;
        let event_type = type_name("eventType", &self.event_type)?;
        Ok(Example { event_type, payload, index: self.example_index })
    }
}

/// Returns a JSON object as a part of the request body.
pub(crate) fn object(payload: &RawValue, body: &Bytes) -> Result<Bytes, ApiError> {
    let text = payload.get();
    if !text.starts_with('{') {
        return Err(ApiError::invalid_field("payload", "payload must be a JSON object"));
    }
    Ok(body.slice_ref(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> (Bytes, MessageIn<'_>) {
        let body = Bytes::copy_from_slice(json.as_bytes());
        (body, serde_json::from_str(json).expect("a body"))
    }

    #[test]
    fn payload_bytes_are_unchanged() {
        let json = r#"{"eventType":"a","payload":{ "n": 1e400,  "big":12345678901234567890123}}"#;
        let body = Bytes::from_static(json.as_bytes());
        let message: MessageIn<'_> = serde_json::from_slice(&body).expect("a body");
        let payload = message.payload(&body).expect("an object");
        assert_eq!(payload, r#"{ "n": 1e400,  "big":12345678901234567890123}"#);
    }

    #[test]
    fn raw_payload_is_parsed_from_its_text() {
        let json = r#"{"eventType":"a","payload":{},
            "transformationsParams":{"rawPayload":"{ \"x\":1 }"}}"#;
        let (body, message) = parsed(json);
        assert_eq!(message.payload(&body).expect("an object"), r#"{ "x":1 }"#);
        let json = r#"{"eventType":"a","payload":{},"transformationsParams":{"rawPayload":"x"}}"#;
        let (body, message) = parsed(json);
        assert!(message.payload(&body).is_err());
    }

    #[test]
    fn error_names_the_unsupported_field() {
        for (more, field) in [
            (r#""deliverAt":"2030-01-01T00:00:00Z""#, "deliverAt"),
            (r#""tags":["x"]"#, "tags"),
            (r#""payloadRetentionPeriod":4"#, "payloadRetentionPeriod"),
            (r#""payloadRetentionHours":5"#, "payloadRetentionHours"),
            (r#""eventId":"a b""#, "eventId"),
            (r#""transformationsParams":{"headers":{"content-type":"text/html"}}"#, "headers"),
        ] {
            let json = format!(r#"{{"eventType":"a","payload":{{}},{more}}}"#);
            let (_, message) = parsed(&json);
            let checks = message.check().and(message.retention().map(|_| ()));
            let error = checks.and(message.event_id().map(|_| ())).expect_err(field);
            assert!(format!("{error:?}").contains(field), "{error:?}");
        }
        let (_, message) = parsed(r#"{"eventType":"a","payload":{},"tags":[],"deliverAt":null}"#);
        message.check().expect("empty fields request nothing");
        assert_eq!(message.retention().expect("valid"), MESSAGE_RETENTION_DEFAULT);
    }
}
