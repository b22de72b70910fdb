//! Pulled deliveries on the wire.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_hook::{PulledSettle, PulledSigner, PulledToken};
use wakeline_store::hook::{DeliveryItem, SettledState};

use crate::error::ApiError;
use crate::render;

/// Longest wait before a refused message comes again.
const DELAY_SECS_MAX: u64 = 30 * 24 * 60 * 60;

/// Longest reason that is kept of a refused message.
const ERROR_BYTES_MAX: usize = 4096;

/// What a pull got.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PulledOut {
    /// Messages, in order.
    pub(crate) messages: Vec<PulledMessage>,
}

/// A message that was pulled, and has to be settled.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PulledMessage {
    /// Names it when it is settled.
    token: String,
    /// Its id: the same over all attempts.
    id: String,
    /// The attempt that this is.
    attempt_id: String,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// What it tells of.
    event_type: String,
    /// Your own id of it.
    event_id: Option<String>,
    /// Its channels.
    channels: Option<Vec<String>>,
    /// When it was stored.
    timestamp: String,
    /// For how long it is yours.
    lease_ms: u64,
    /// With `signed=true`: the headers of a webhook with this payload, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    /// What it carries.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
}

impl PulledMessage {
    pub(crate) fn new(
        token: PulledToken,
        item: &DeliveryItem,
        signer: Option<&PulledSigner>,
    ) -> Result<Self, ApiError> {
        let payload = item.payload.as_ref().expect("a pop gives out nothing without a payload");
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

/// Messages that were dealt with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullAckIn {
    /// Their tokens.
    tokens: Vec<String>,
}

/// Messages that were not dealt with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullNackIn {
    /// Them.
    items: Vec<PullNackItem>,
}

/// A message that was not dealt with: it comes again by the endpoint's schedule.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PullNackItem {
    /// Its token.
    token: String,
    /// Why, for the log of attempts.
    error: Option<String>,
    /// Not before so many seconds.
    delay_seconds: Option<u64>,
}

/// Messages to hold on to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullExtendIn {
    /// Their tokens.
    tokens: Vec<String>,
    /// For how much longer, from now.
    pub(crate) seconds: u64,
}

/// What became of messages, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullSettledOut {
    /// One per token.
    results: Vec<PullSettled>,
}

/// What became of one message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullSettled {
    /// False if the token was stale: somebody else may have the message.
    success: bool,
    /// delivered, retrying, failed, cancelled, extended or stale.
    state: &'static str,
}

fn token(text: &str) -> Result<PulledToken, ApiError> {
    text.parse().map_err(|_| {
        ApiError::invalid_field("tokens", format!("{text:?} is not a token of a pulled message"))
    })
}

impl PullAckIn {
    pub(crate) fn settles(&self) -> Result<Vec<(PulledToken, PulledSettle)>, ApiError> {
        self.tokens.iter().map(|text| Ok((token(text)?, PulledSettle::Ack))).collect()
    }
}

impl PullNackIn {
    pub(crate) fn settles(self) -> Result<Vec<(PulledToken, PulledSettle)>, ApiError> {
        let read = |item: PullNackItem| {
            let field = "delaySeconds";
            if item.delay_seconds.is_some_and(|secs| secs > DELAY_SECS_MAX) {
                let message = format!("{field} must be at most {DELAY_SECS_MAX}");
                return Err(ApiError::invalid_field(field, message));
            }
            let delay = item.delay_seconds.map(Duration::from_secs);
            let error = item.error.map(shortened);
            Ok((token(&item.token)?, PulledSettle::Nack { delay, error }))
        };
        self.items.into_iter().map(read).collect()
    }
}

/// A reason as it is kept: of bounded length, without what a database cannot hold in a text.
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
        let word = |state| match state {
            SettledState::Delivered => "delivered",
            SettledState::Retrying => "retrying",
            SettledState::Failed => "failed",
            SettledState::Cancelled => "cancelled",
            SettledState::Stale => "stale",
        };
        let shown =
            |state| PullSettled { success: state != SettledState::Stale, state: word(state) };
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
    fn tokens_and_delays_that_cannot_be_are_refused() {
        let ack: PullAckIn = serde_json::from_str(r#"{"tokens":["x"]}"#).expect("a body");
        assert!(ack.settles().is_err());
        let json = r#"{"items":[{"token":"d1-1.1.1.1","delaySeconds":99999999}]}"#;
        let nack: PullNackIn = serde_json::from_str(json).expect("a body");
        assert!(format!("{:?}", nack.settles().expect_err("too long")).contains("delaySeconds"));
    }

    #[test]
    fn reasons_are_cut_between_characters_and_hold_no_nul() {
        let long = "ü".repeat(ERROR_BYTES_MAX);
        assert!(shortened(long).len() <= ERROR_BYTES_MAX);
        assert_eq!(shortened("a\0b".to_owned()), "a\u{fffd}b");
    }
}
