//! Attempts and deliveries on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::HookMessageId;
use wakeline_store::hook::{
    Attempt, AttemptOutcome, Delivery, DeliveryState, Endpoint, EndpointStats, StoredMessage,
    Trigger,
};

use super::endpoint::EndpointOut;
use super::message::{Content, MessageOut};
use crate::error::ApiError;
use crate::render;

/// How something stands: a number, and the word for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Success = 0,
    Pending = 1,
    Fail = 2,
    Sending = 3,
    Canceled = 4,
}

impl Standing {
    /// Reads the number of a filter.
    pub(crate) fn read(text: &str) -> Option<Self> {
        [Self::Success, Self::Pending, Self::Fail, Self::Sending, Self::Canceled]
            .into_iter()
            .find(|standing| standing.number().to_string() == text)
    }

    fn number(self) -> u8 {
        self as u8
    }

    fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Fail => "fail",
            Self::Sending => "sending",
            Self::Canceled => "canceled",
        }
    }

    /// The states of deliveries that count as it.
    pub(crate) fn states(self) -> &'static [DeliveryState] {
        match self {
            Self::Success => &[DeliveryState::Delivered],
            Self::Pending => {
                &[DeliveryState::Pending, DeliveryState::Retrying, DeliveryState::Throttled]
            }
            Self::Fail => &[DeliveryState::Failed],
            Self::Sending => &[DeliveryState::InFlight],
            Self::Canceled => &[DeliveryState::Cancelled],
        }
    }
}

impl From<DeliveryState> for Standing {
    fn from(state: DeliveryState) -> Self {
        match state {
            DeliveryState::Pending | DeliveryState::Retrying | DeliveryState::Throttled => {
                Self::Pending
            }
            DeliveryState::InFlight => Self::Sending,
            DeliveryState::Delivered => Self::Success,
            DeliveryState::Failed => Self::Fail,
            DeliveryState::Cancelled => Self::Canceled,
        }
    }
}

/// The word for a delivery's state.
pub(crate) fn state_word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "pending",
        DeliveryState::InFlight => "in_flight",
        DeliveryState::Retrying => "retrying",
        DeliveryState::Throttled => "throttled",
        DeliveryState::Delivered => "delivered",
        DeliveryState::Failed => "failed",
        DeliveryState::Cancelled => "cancelled",
    }
}

/// Reads the word for a delivery's state.
pub(crate) fn read_state(word: &str) -> Option<DeliveryState> {
    use DeliveryState::{Cancelled, Delivered, Failed, InFlight, Pending, Retrying, Throttled};
    [Pending, InFlight, Retrying, Throttled, Delivered, Failed, Cancelled]
        .into_iter()
        .find(|state| state_word(*state) == word)
}

/// One attempt to deliver a message to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageAttemptOut {
    /// Its id.
    id: String,
    /// The message.
    msg_id: String,
    /// The endpoint.
    endpoint_id: String,
    /// The URL that was called.
    url: String,
    /// 0 success, 2 fail.
    status: u8,
    /// The same in a word.
    status_text: &'static str,
    /// How it ended: succeeded, failed or unknown (a crash swallowed its end).
    outcome: &'static str,
    /// What the endpoint answered; base64 if it is no text. Empty if it was removed.
    response: String,
    /// The answer's status; 0 if none came.
    response_status_code: u16,
    /// How long it took.
    response_duration_ms: u64,
    /// What went wrong, if no answer came.
    error: Option<String>,
    /// Which attempt of its delivery it was, from 1.
    attempt_number: u32,
    /// 0 by schedule, 1 because somebody asked.
    trigger_type: u8,
    /// When it began.
    timestamp: String,
    /// The message, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<MessageOut>,
}

impl MessageAttemptOut {
    pub(crate) fn new(attempt: Attempt, msg: Option<MessageOut>) -> Self {
        let (standing, outcome) = match attempt.outcome {
            AttemptOutcome::Succeeded => (Standing::Success, "succeeded"),
            AttemptOutcome::Failed => (Standing::Fail, "failed"),
            AttemptOutcome::Unknown => (Standing::Fail, "unknown"),
        };
        Self {
            id: attempt.id.to_string(),
            msg_id: attempt.message.to_string(),
            endpoint_id: attempt.endpoint.to_string(),
            url: attempt.url,
            status: standing.number(),
            status_text: standing.word(),
            outcome,
            response: attempt.response.map(|bytes| shown(&bytes)).unwrap_or_default(),
            response_status_code: attempt.status.unwrap_or_default(),
            response_duration_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
            error: attempt.error,
            attempt_number: attempt.attempt_no,
            trigger_type: match attempt.trigger {
                Trigger::Scheduled => 0,
                Trigger::Manual => 1,
            },
            timestamp: render::time(attempt.began_at),
            msg,
        }
    }
}

/// An answer's body as text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // Cut within a character by the limit of what is kept: still a text.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => STANDARD.encode(bytes),
    }
}

/// A message, and how it stands with one endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointMessageOut {
    #[serde(flatten)]
    message: MessageOut,
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    status: u8,
    /// The same in a word.
    status_text: &'static str,
    /// When the next attempt is due.
    next_attempt: Option<String>,
}

impl EndpointMessageOut {
    pub(crate) fn new(
        message: StoredMessage,
        delivery: &Delivery,
        content: Content,
    ) -> Result<Self, ApiError> {
        let standing = Standing::from(delivery.state);
        Ok(Self {
            message: MessageOut::new(message, content)?,
            status: standing.number(),
            status_text: standing.word(),
            next_attempt: delivery.next_attempt_at.map(render::time),
        })
    }
}

/// An endpoint, and how a message stands with it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageEndpointOut {
    #[serde(flatten)]
    endpoint: EndpointOut,
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    status: u8,
    /// The same in a word.
    status_text: &'static str,
    /// When the next attempt is due.
    next_attempt: Option<String>,
}

impl MessageEndpointOut {
    pub(crate) fn new(endpoint: Endpoint, delivery: &Delivery) -> Result<Self, ApiError> {
        let standing = Standing::from(delivery.state);
        Ok(Self {
            endpoint: EndpointOut::new(endpoint)?,
            status: standing.number(),
            status_text: standing.word(),
            next_attempt: delivery.next_attempt_at.map(render::time),
        })
    }
}

/// How a message stands with one endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryStateOut {
    /// The message.
    msg_id: String,
    /// The endpoint; it may have been deleted since.
    endpoint_id: String,
    /// pending, in_flight, retrying, throttled, delivered, failed or cancelled.
    state: &'static str,
    /// Attempts that have ended.
    attempts: u32,
    /// When the next attempt is due.
    next_attempt: Option<String>,
    /// When it was made.
    created_at: String,
    /// When it last changed.
    updated_at: String,
}

impl From<Delivery> for DeliveryStateOut {
    fn from(delivery: Delivery) -> Self {
        Self {
            msg_id: delivery.message.to_string(),
            endpoint_id: delivery.endpoint.to_string(),
            state: state_word(delivery.state),
            attempts: delivery.attempts,
            next_attempt: delivery.next_attempt_at.map(render::time),
            created_at: render::time(delivery.created_at),
            updated_at: render::time(delivery.updated_at),
        }
    }
}

/// How many deliveries of an endpoint stand how.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndpointStatsOut {
    /// Have arrived.
    success: u64,
    /// Wait for an attempt.
    pending: u64,
    /// Have one under way.
    sending: u64,
    /// Have failed.
    fail: u64,
    /// Were cancelled.
    canceled: u64,
}

impl From<EndpointStats> for EndpointStatsOut {
    fn from(stats: EndpointStats) -> Self {
        Self {
            success: stats.delivered,
            pending: stats.waiting,
            sending: stats.in_flight,
            fail: stats.failed,
            canceled: stats.cancelled,
        }
    }
}

/// How many deliveries of a message were cancelled.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelOut {
    /// The message.
    msg_id: String,
    /// So many.
    cancelled: u64,
}

impl CancelOut {
    pub(crate) fn new(message: HookMessageId, cancelled: u64) -> Self {
        Self { msg_id: message.to_string(), cancelled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_standing_and_a_word_that_is_read_back() {
        use DeliveryState::{Cancelled, Delivered, Failed, InFlight, Pending, Retrying, Throttled};
        for state in [Pending, InFlight, Retrying, Throttled, Delivered, Failed, Cancelled] {
            assert_eq!(read_state(state_word(state)), Some(state));
            assert!(Standing::from(state).states().contains(&state), "{state:?}");
        }
        assert_eq!(Standing::read("3"), Some(Standing::Sending));
        assert_eq!((Standing::read("5"), Standing::read("x")), (None, None));
    }

    #[test]
    fn answers_are_shown_as_text_where_they_are() {
        assert_eq!(shown("grün".as_bytes()), "grün");
        assert_eq!(shown(&"grün".as_bytes()[..3]), "gr", "cut within a character");
        assert_eq!(shown(b"\xff\x00"), "/wA=");
    }
}
