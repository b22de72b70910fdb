//! Messages on the wire.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::{EventId, MESSAGE_RETENTION_DEFAULT};
use wakeline_hook::Example;
use wakeline_store::hook::StoredMessage;

use super::application::ApplicationIn;
use super::{Metadata, type_name};
use crate::error::ApiError;
use crate::render;

/// Most channels of a message.
pub(crate) const CHANNELS_MAX: usize = 5;

/// Bounds of how long a payload can be kept.
const RETENTION_DAYS: std::ops::RangeInclusive<u64> = 5..=90;
const RETENTION_HOURS: std::ops::RangeInclusive<u64> = 6..=2160;

/// A message to send to every endpoint that wants it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIn<'a> {
    /// What it tells of: `invoice.paid`.
    pub(crate) event_type: String,
    /// Your own id of it, unique within the application: a second message with it is refused.
    event_id: Option<String>,
    /// What is sent, byte by byte: a JSON object.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// Its channels: at most 5.
    pub(crate) channels: Option<Vec<String>>,
    /// Makes the application if it is not there yet.
    pub(crate) application: Option<ApplicationIn>,
    /// How long the payload is kept, in days: 5 to 90 (90).
    payload_retention_period: Option<u64>,
    /// The same in hours: 6 to 2160. Goes before the days.
    payload_retention_hours: Option<u64>,
    /// `rawPayload`: a text that is sent as it stands, instead of `payload`.
    transformations_params: Option<RawParams>,
    /// Not supported: messages are sent at once.
    #[schema(value_type = Option<String>)]
    deliver_at: Option<serde::de::IgnoredAny>,
    /// Not supported: use channels.
    #[schema(value_type = Option<Vec<String>>)]
    tags: Option<Vec<serde::de::IgnoredAny>>,
}

/// A text to send as it stands.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawParams {
    /// A JSON object as text.
    raw_payload: Option<String>,
    /// Not supported: what is sent is JSON, and headers are the endpoint's.
    #[serde(default)]
    headers: Metadata,
}

/// A message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageOut {
    /// Its id, and the `webhook-id` of every attempt.
    id: String,
    /// What it tells of.
    event_type: String,
    /// Your own id of it.
    event_id: Option<String>,
    /// Its channels.
    channels: Option<Vec<String>>,
    /// What is sent; empty if it was not asked for, `{"expired":true}` once it is gone.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
    /// When it was stored.
    timestamp: String,
    /// Always null.
    tags: Option<Vec<String>>,
}

impl MessageIn<'_> {
    /// The bytes to send. They stay where they are in the request's body where that is possible.
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

    /// Its own id.
    pub(crate) fn event_id(&self) -> Result<Option<EventId>, ApiError> {
        let read = |text: &String| {
            EventId::parse(text)
                .map_err(|error| ApiError::invalid_field("eventId", error.to_string()))
        };
        self.event_id.as_ref().map(read).transpose()
    }

    /// How long the payload is kept.
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

    /// Refuses what would quietly not be done.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.deliver_at.is_some() {
            let message = "deliverAt is not supported: messages are sent at once";
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

/// What stands for a payload in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// It was asked for; none means that it is gone.
    Asked,
    /// It was not.
    Left,
}

impl Content {
    /// Reads `with_content`, which is true unless said otherwise.
    pub(crate) fn of(with_content: bool) -> Self {
        if with_content { Self::Asked } else { Self::Left }
    }
}

impl MessageOut {
    pub(crate) fn new(message: StoredMessage, content: Content) -> Result<Self, ApiError> {
        let fixed = |text: &str| RawValue::from_string(text.to_owned()).expect("this text is JSON");
        let payload = match (content, &message.payload) {
            (Content::Left, _) => fixed("{}"),
            (Content::Asked, None) => fixed(r#"{"expired":true}"#),
            (Content::Asked, Some(bytes)) => render::payload(bytes, &message.id)?.to_owned(),
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

/// A message that might be sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrecheckIn {
    /// What it would tell of.
    pub(crate) event_type: String,
    /// Its channels.
    pub(crate) channels: Option<Vec<String>>,
}

/// Whether anybody would get a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PrecheckOut {
    /// True if an endpoint would.
    pub(crate) active: bool,
}

/// An example to send to one endpoint.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExampleIn<'a> {
    /// What it tells of.
    event_type: String,
    /// What to send: a JSON object; an example of the type's newest schema if absent.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// Which of the schema's examples, from 0 (0).
    example_index: Option<usize>,
}

impl ExampleIn<'_> {
    pub(crate) fn into_example(self, body: &Bytes) -> Result<Example, ApiError> {
        let payload = self.payload.map(|payload| object(payload, body)).transpose()?;
        let event_type = type_name("eventType", &self.event_type)?;
        Ok(Example { event_type, payload, index: self.example_index })
    }
}

/// The bytes of an object within a request's body.
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
    fn payloads_stay_as_they_were_written() {
        let json = r#"{"eventType":"a","payload":{ "n": 1e400,  "big":12345678901234567890123}}"#;
        let body = Bytes::from_static(json.as_bytes());
        let message: MessageIn<'_> = serde_json::from_slice(&body).expect("a body");
        let payload = message.payload(&body).expect("an object");
        assert_eq!(payload, r#"{ "n": 1e400,  "big":12345678901234567890123}"#);
    }

    #[test]
    fn raw_payloads_are_taken_as_text() {
        let json = r#"{"eventType":"a","payload":{},
            "transformationsParams":{"rawPayload":"{ \"x\":1 }"}}"#;
        let (body, message) = parsed(json);
        assert_eq!(message.payload(&body).expect("an object"), r#"{ "x":1 }"#);
        let json = r#"{"eventType":"a","payload":{},"transformationsParams":{"rawPayload":"x"}}"#;
        let (body, message) = parsed(json);
        assert!(message.payload(&body).is_err());
    }

    #[test]
    fn what_is_not_done_is_refused_by_name() {
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
        message.check().expect("nothing is asked for");
        assert_eq!(message.retention().expect("valid"), MESSAGE_RETENTION_DEFAULT);
    }
}
