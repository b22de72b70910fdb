//! Wire types of pulled deliveries.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_hook::{PulledSigner, PulledToken, PulledVerdict};
use wakeline_store::hook::{DeliveryItem, SettledState};

use crate::error::ApiError;
use crate::render;

/// The maximum delay before a message that was not processed is delivered again.
const DELAY_SECS_MAX: u64 = 30 * 24 * 60 * 60;

/// The maximum length of a stored error.
const ERROR_BYTES_MAX: usize = 4096;

/// The messages that a pull claimed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PulledOut {
    /// The messages in order.
    pub(crate) messages: Vec<PulledMessage>,
}

/// A pulled message, which must be settled.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PulledMessage {
    /// The token that is needed to settle the message.
    token: String,
    /// The id of the message, which is the same for all attempts.
    id: String,
    /// The id of this attempt.
    attempt_id: String,
    /// The number of this attempt, from 1.
    attempt: u32,
    /// The name of the event type.
    event_type: String,
    /// Your own id of the message.
    event_id: Option<String>,
    /// The channels of the message.
    channels: Option<Vec<String>>,
    /// When the message was stored.
    timestamp: String,
    /// The length of the lease in milliseconds.
    lease_ms: u64,
    /// With `signed=true`, the headers of a webhook request with exactly this payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    /// The payload.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
}

impl PulledMessage {
    pub(crate) fn new(
        token: PulledToken,
        item: &DeliveryItem,
        signer: Option<&PulledSigner>,
    ) -> Result<Self, ApiError> {
        let payload = item.payload.as_ref().expect("claimed messages have payloads");
        let payload = render::payload(payload, &item.message)?.to_owned();
        let channels: Vec<String> = item.channels.iter().map(ToString::to_string).collect();
        Ok(Self {
            token: token.to_string(),
            id: item.message.to_string(),
            attempt_id: item.token.attempt.to_string(),
            attempt: item.attempt_no,
            event_type: item.event_type.to_string(),
            event_id: item.event_id.as_ref().map(ToString::to_string),
            channels: (!channels.is_empty()).then_some(channels),
            timestamp: render::time(item.created_at),
            lease_ms: u64::try_from(item.lease_for.as_millis()).unwrap_or(u64::MAX),
            headers: signer.map(|signer| headers(signer, item, payload.get())),
            payload,
        })
    }
}

fn headers(signer: &PulledSigner, item: &DeliveryItem, body: &str) -> BTreeMap<String, String> {
    signer.headers(item, body.as_bytes()).into_iter().collect()
}

/// Messages that were processed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullAckIn {
    /// The tokens of the messages.
    tokens: Vec<String>,
}

/// Messages that were not processed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullNackIn {
    /// The messages.
    items: Vec<PullNackItem>,
}

/// A message that was not processed. It is delivered again at the times of the endpoint's retry
/// schedule.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PullNackItem {
    /// The token of the message.
    token: String,
    /// Why the message was not processed, for the log of attempts.
    error: Option<String>,
    /// The minimum number of seconds before the message is delivered again.
    delay_seconds: Option<u64>,
}

/// Messages whose leases to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullExtendIn {
    /// The tokens of the messages.
    tokens: Vec<String>,
    /// The new length of the leases in seconds, from now.
    pub(crate) seconds: u64,
}

/// The results of settling or extending pulled messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullSettledOut {
    /// One result per token, in the order of the request.
    results: Vec<PullSettled>,
}

/// The result of settling or extending one message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullSettled {
    /// False if the token was stale; another client may have claimed the message.
    success: bool,
    /// `delivered`, `retrying`, `failed`, `cancelled`, `extended` or `stale`.
    state: &'static str,
}

fn token(text: &str) -> Result<PulledToken, ApiError> {
    text.parse().map_err(|_| {
        ApiError::invalid_field("tokens", format!("{text:?} is not a token of a pulled message"))
    })
}

impl PullAckIn {
    pub(crate) fn settles(&self) -> Result<Vec<(PulledToken, PulledVerdict)>, ApiError> {
        self.tokens.iter().map(|text| Ok((token(text)?, PulledVerdict::Ack))).collect()
    }
}

impl PullNackIn {
    pub(crate) fn settles(self) -> Result<Vec<(PulledToken, PulledVerdict)>, ApiError> {
        let read = |item: PullNackItem| {
            let field = "delaySeconds";
            if item.delay_seconds.is_some_and(|secs| secs > DELAY_SECS_MAX) {
                let message = format!("{field} must be at most {DELAY_SECS_MAX}");
                return Err(ApiError::invalid_field(field, message));
            }
            let delay = item.delay_seconds.map(Duration::from_secs);
            let error = item.error.map(shortened);
            Ok((token(&item.token)?, PulledVerdict::Nack { delay, error }))
        };
        self.items.into_iter().map(read).collect()
    }
}

/// Shortens an error to the maximum length and replaces NUL characters, which databases cannot
/// store in text.
fn shortened(error: String) -> String {
    let end = error.floor_char_boundary(ERROR_BYTES_MAX);
    error[..end].replace('\0', "\u{fffd}")
}

impl PullExtendIn {
    pub(crate) fn tokens(&self) -> Result<Vec<PulledToken>, ApiError> {
        self.tokens.iter().map(|text| token(text)).collect()
    }
}

impl PullSettledOut {
    pub(crate) fn of_states(states: Vec<SettledState>) -> Self {
        let name = |state| match state {
            SettledState::Delivered => "delivered",
            SettledState::Retrying => "retrying",
            SettledState::Failed => "failed",
            SettledState::Cancelled => "cancelled",
            SettledState::Stale => "stale",
        };
        let shown =
            |state| PullSettled { success: state != SettledState::Stale, state: name(state) };
        Self { results: states.into_iter().map(shown).collect() }
    }

    pub(crate) fn of_extensions(extended: Vec<bool>) -> Self {
        let shown =
            |success| PullSettled { success, state: if success { "extended" } else { "stale" } };
        Self { results: extended.into_iter().map(shown).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tokens_and_delays_are_refused() {
        let ack: PullAckIn = serde_json::from_str(r#"{"tokens":["x"]}"#).expect("a body");
        assert!(ack.settles().is_err());
        let json = r#"{"items":[{"token":"d1-1.1.1.1","delaySeconds":99999999}]}"#;
        let nack: PullNackIn = serde_json::from_str(json).expect("a body");
        assert!(format!("{:?}", nack.settles().expect_err("too long")).contains("delaySeconds"));
    }

    #[test]
    fn errors_are_cut_between_characters_and_contain_no_nul() {
        let long = "ü".repeat(ERROR_BYTES_MAX);
        assert!(shortened(long).len() <= ERROR_BYTES_MAX);
        assert_eq!(shortened("a\0b".to_owned()), "a\u{fffd}b");
    }
}
