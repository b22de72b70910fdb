//! The body and the headers of requests to endpoints.
//!
//! # Invariants
//! * The body of a single message is its payload, byte for byte.
//! * An endpoint's additional headers never replace those that identify and sign the request.

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use ring::digest;
use serde::Serialize;
use serde_json::value::RawValue;
use wakeline_core::{HeaderStyle, Timestamp};
use wakeline_store::hook::DeliveryItem;

use crate::headers::{Headers, is_ours};
use crate::sign::{SigningKey, signatures};

/// The values that identify and authenticate one request.
pub(crate) struct SigningContext<'a> {
    /// The id of the message, or of a batch of messages.
    pub(crate) id: &'a str,
    /// When this attempt is made.
    pub(crate) at: Timestamp,
    /// The keys that sign.
    pub(crate) keys: &'a [SigningKey],
    /// The names of the headers to set.
    pub(crate) style: HeaderStyle,
}

/// All headers of a request.
pub(crate) fn headers(
    context: &SigningContext<'_>,
    body: &[u8],
    own: &Headers,
    user_agent: &str,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(agent) = HeaderValue::from_str(user_agent)
        && !agent.is_empty()
    {
        headers.insert(USER_AGENT, agent);
    }
    for (name, value) in own {
        let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value))
        else {
            continue;
        };
        if !is_ours(name.as_str()) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let timestamp = context.at.0.div_euclid(1_000_000);
    let signature = signatures(context.keys, context.id, timestamp, body);
    let values = [
        ("id", context.id.to_owned()),
        ("timestamp", timestamp.to_string()),
        ("signature", signature),
    ];
    let prefixes: &[&str] = match context.style {
        HeaderStyle::Webhook => &["webhook"],
        HeaderStyle::Svix => &["svix"],
        HeaderStyle::Both => &["webhook", "svix"],
    };
    for prefix in prefixes {
        for (name, value) in &values {
            let name: HeaderName = format!("{prefix}-{name}").parse().expect("plain letters");
            headers.insert(name, HeaderValue::from_str(value).expect("ids and base64"));
        }
    }
    headers
}

/// One message in a batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchMessage<'a> {
    id: String,
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    channels: Vec<&'a str>,
    timestamp: String,
    payload: &'a RawValue,
}

/// The body of a batch of messages. `None` if a payload is not JSON or has expired.
pub(crate) fn list(items: &[DeliveryItem]) -> Option<Bytes> {
    let listed: Option<Vec<_>> = items.iter().map(listed).collect();
    serde_json::to_vec(&listed?).ok().map(Bytes::from)
}

fn listed(item: &DeliveryItem) -> Option<BatchMessage<'_>> {
    Some(BatchMessage {
        id: item.message.to_string(),
        event_type: item.event_type.as_str(),
        event_id: item.event_id.as_ref().map(|id| id.as_str()),
        channels: item.channels.iter().map(|channel| channel.as_str()).collect(),
        timestamp: rfc3339(item.created_at),
        payload: serde_json::from_slice(item.payload.as_deref()?).ok()?,
    })
}

/// The id of a batch. It is the same for the same messages, so that a receiver can recognize a
/// repetition.
pub(crate) fn list_id(items: &[DeliveryItem]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    items.iter().for_each(|item| context.update(item.message.0.as_bytes()));
    let digest = context.finish();
    let hex = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}"));
    format!("batch_{}", hex.collect::<String>())
}

/// A time in the format of RFC 3339.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map(|at| at.to_string()).unwrap_or_default()
}
