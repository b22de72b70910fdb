//! Wire types of attempts and deliveries.

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
use super::message::{MessageOut, PayloadContent};
use crate::error::ApiError;
use crate::render;

/// The status of a delivery or an attempt in the Svix API, which has a number and a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SvixStatus {
    Success = 0,
    Pending = 1,
    Fail = 2,
    Sending = 3,
    Canceled = 4,
}

impl SvixStatus {
    /// Reads the number of a filter.
    pub(crate) fn read(text: &str) -> Option<Self> {
        [Self::Success, Self::Pending, Self::Fail, Self::Sending, Self::Canceled]
            .into_iter()
            .find(|status| status.number().to_string() == text)
    }

    fn number(self) -> u8 {
        self as u8
    }

    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Pending => "pending",
            Self::Fail => "fail",
            Self::Sending => "sending",
            Self::Canceled => "canceled",
        }
    }

    /// The delivery states that have this status.
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

impl From<DeliveryState> for SvixStatus {
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

/// The name of a delivery state.
pub(crate) fn state_name(state: DeliveryState) -> &'static str {
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

/// Parses the name of a delivery state.
pub(crate) fn parse_state(name: &str) -> Option<DeliveryState> {
    use DeliveryState::{Cancelled, Delivered, Failed, InFlight, Pending, Retrying, Throttled};
    [Pending, InFlight, Retrying, Throttled, Delivered, Failed, Cancelled]
        .into_iter()
        .find(|state| state_name(*state) == name)
}

/// An attempt to deliver a message to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageAttemptOut {
    /// The id of the attempt.
    id: String,
    /// The id of the message.
    msg_id: String,
    /// The id of the endpoint.
    endpoint_id: String,
    /// The URL of the request.
    url: String,
    /// The status: 0 success, 2 fail.
    status: u8,
    /// The name of the status.
    status_text: &'static str,
    /// `succeeded`, `failed`, or `unknown` if a crash prevented the result from being recorded.
    outcome: &'static str,
    /// The body of the response, in base64 if it is not text. Empty if it was deleted.
    response: String,
    /// The status code of the response; 0 if there was no response.
    response_status_code: u16,
    /// The duration of the request in milliseconds.
    response_duration_ms: u64,
    /// Why there was no response.
    error: Option<String>,
    /// The number of the attempt within its delivery, from 1.
    attempt_number: u32,
    /// 0 for an attempt of the retry schedule, 1 for one that a request started.
    trigger_type: u8,
    /// When the attempt began.
    timestamp: String,
    /// The message, if the request included `with_msg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<MessageOut>,
}

impl MessageAttemptOut {
    pub(crate) fn new(attempt: Attempt, msg: Option<MessageOut>) -> Self {
        let (status, outcome) = match attempt.outcome {
            AttemptOutcome::Succeeded => (SvixStatus::Success, "succeeded"),
            AttemptOutcome::Failed => (SvixStatus::Fail, "failed"),
            AttemptOutcome::Unknown => (SvixStatus::Fail, "unknown"),
        };
        Self {
            id: attempt.id.to_string(),
            msg_id: attempt.message.to_string(),
            endpoint_id: attempt.endpoint.to_string(),
            url: attempt.url,
            status: status.number(),
            status_text: status.name(),
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

/// Renders the body of a response as text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // The size limit cut the text within a character.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => STANDARD.encode(bytes),
    }
}

/// A message and the state of its delivery to one endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointMessageOut {
    #[serde(flatten)]
    message: MessageOut,
    /// The status of the delivery: 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    status: u8,
    /// The name of the status.
    status_text: &'static str,
    /// When the next attempt is due.
    next_attempt: Option<String>,
}

impl EndpointMessageOut {
    pub(crate) fn new(
        message: StoredMessage,
        delivery: &Delivery,
        content: PayloadContent,
    ) -> Result<Self, ApiError> {
        let status = SvixStatus::from(delivery.state);
        Ok(Self {
            message: MessageOut::new(message, content)?,
            status: status.number(),
            status_text: status.name(),
            next_attempt: delivery.next_attempt_at.map(render::time),
        })
    }
}

/// An endpoint and the state of the delivery of a message to it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageEndpointOut {
    #[serde(flatten)]
    endpoint: EndpointOut,
    /// The status of the delivery: 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    status: u8,
    /// The name of the status.
    status_text: &'static str,
    /// When the next attempt is due.
    next_attempt: Option<String>,
}

impl MessageEndpointOut {
    pub(crate) fn new(endpoint: Endpoint, delivery: &Delivery) -> Result<Self, ApiError> {
        let status = SvixStatus::from(delivery.state);
        Ok(Self {
            endpoint: EndpointOut::new(endpoint)?,
            status: status.number(),
            status_text: status.name(),
            next_attempt: delivery.next_attempt_at.map(render::time),
        })
    }
}

/// The delivery of a message to one endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryStateOut {
    /// The id of the message.
    msg_id: String,
    /// The id of the endpoint, which may have been deleted.
    endpoint_id: String,
    /// `pending`, `in_flight`, `retrying`, `throttled`, `delivered`, `failed` or `cancelled`.
    state: &'static str,
    /// The number of attempts that have ended.
    attempts: u32,
    /// When the next attempt is due.
    next_attempt: Option<String>,
    /// When the delivery was created.
    created_at: String,
    /// When the delivery last changed.
    updated_at: String,
}

impl From<Delivery> for DeliveryStateOut {
    fn from(delivery: Delivery) -> Self {
        Self {
            msg_id: delivery.message.to_string(),
            endpoint_id: delivery.endpoint.to_string(),
            state: state_name(delivery.state),
            attempts: delivery.attempts,
            next_attempt: delivery.next_attempt_at.map(render::time),
            created_at: render::time(delivery.created_at),
            updated_at: render::time(delivery.updated_at),
        }
    }
}

/// The numbers of deliveries to an endpoint by state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndpointStatsOut {
    /// The number of successful deliveries.
    success: u64,
    /// The number of deliveries that wait for an attempt.
    pending: u64,
    /// The number of deliveries with an attempt in progress.
    sending: u64,
    /// The number of failed deliveries.
    fail: u64,
    /// The number of cancelled deliveries.
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

/// The result of cancelling the deliveries of a message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelOut {
    /// The id of the message.
    msg_id: String,
    /// The number of deliveries that were cancelled.
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
    fn every_state_has_a_status_and_a_name_that_parses_back() {
        use DeliveryState::{Cancelled, Delivered, Failed, InFlight, Pending, Retrying, Throttled};
        for state in [Pending, InFlight, Retrying, Throttled, Delivered, Failed, Cancelled] {
            assert_eq!(parse_state(state_name(state)), Some(state));
            assert!(SvixStatus::from(state).states().contains(&state), "{state:?}");
        }
        assert_eq!(SvixStatus::read("3"), Some(SvixStatus::Sending));
        assert_eq!((SvixStatus::read("5"), SvixStatus::read("x")), (None, None));
    }

    #[test]
    fn responses_that_are_text_are_rendered_as_text() {
        assert_eq!(shown("grün".as_bytes()), "grün");
        assert_eq!(shown(&"grün".as_bytes()[..3]), "gr", "cut within a character");
        assert_eq!(shown(b"\xff\x00"), "/wA=");
    }
}
