//! The plain routes on the wire: events and subscriptions of one default application.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakeline_core::{EndpointOptions, RETRY_SCHEDULE_DEFAULT, Timestamp};
use wakeline_store::hook::{
    Attempt, AttemptOutcome, Delivery, DeliveryState, Endpoint, StoredMessage,
};

use super::attempt::shown;
use crate::error::ApiError;
use crate::render;

/// An event to deliver to every subscription that wants it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EventIn<'a> {
    /// Your id of it. Posting it again changes nothing.
    pub(crate) id: String,
    /// What it tells of: `order.created`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Who tells it.
    pub(crate) source: String,
    /// Any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(crate) data: Option<&'a RawValue>,
}

/// An event as it is sent, and as it is read back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EventBody<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    /// Owned where it is escaped: then the text is not to be found in the bytes.
    #[serde(borrow)]
    pub(crate) source: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) data: Option<&'a RawValue>,
}

/// That an event was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventTaken {
    /// Your id of it.
    pub(crate) id: String,
    /// How it stands.
    pub(crate) status: &'static str,
    /// When it was stored.
    pub(crate) created_at: String,
}

/// An event, and how its deliveries stand together.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventOut {
    /// Your id of it.
    id: String,
    /// What it tells of.
    #[serde(rename = "type")]
    kind: String,
    /// Who told it; absent once the event has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// What it carries; absent once the event has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    data: Option<Box<RawValue>>,
    /// pending, processing, retrying, throttled, delivered, failed or cancelled.
    status: &'static str,
    /// Attempts that have ended, of the delivery with the most.
    attempts: u32,
    /// Most attempts that the default schedule makes.
    max_attempts: usize,
    /// When the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// When it was stored.
    created_at: String,
    /// When something last changed.
    updated_at: String,
    /// When the last of its deliveries had arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<String>,
}

/// One attempt to deliver an event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventAttemptOut {
    /// Its id.
    id: String,
    /// Your id of the event.
    event_id: String,
    /// The subscription, by the server's id.
    endpoint_id: String,
    /// Which attempt of its delivery it was, from 1.
    attempt_number: u32,
    /// The answer's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    /// The beginning of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<String>,
    /// What went wrong, if no answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How long it took.
    duration_ms: u64,
    /// When it began.
    created_at: String,
}

/// A subscription to make.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SubscriptionIn {
    /// Your id of it.
    pub(crate) id: String,
    /// Where events go.
    pub(crate) url: String,
    /// Which types: whole ones, `order.*`, or `*`.
    pub(crate) event_types: Vec<String>,
    /// The signing secret, `whsec_` and base64; made by the server if absent.
    pub(crate) secret: Option<String>,
    /// Most events a second (100).
    pub(crate) rate_limit: Option<u32>,
}

/// A subscription.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubscriptionOut {
    /// Your id of it.
    id: String,
    /// Where events go.
    url: String,
    /// Which types.
    event_types: Vec<String>,
    /// The signing secret; only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Most events a second.
    rate_limit: Option<u32>,
    /// When it was made.
    created_at: String,
    /// Whether it gets events.
    active: bool,
}

/// Most events a second that a subscription gets if it does not say.
pub(crate) const RATE_LIMIT_DEFAULT: u32 = 100;

/// How several deliveries stand together: what still moves comes first, then what went wrong.
pub(crate) fn status(deliveries: &[Delivery]) -> &'static str {
    use DeliveryState::{Cancelled, Delivered, Failed, InFlight, Pending, Retrying, Throttled};
    let order = [
        (InFlight, "processing"),
        (Retrying, "retrying"),
        (Throttled, "throttled"),
        (Pending, "pending"),
        (Failed, "failed"),
        (Delivered, "delivered"),
        (Cancelled, "cancelled"),
    ];
    let has = |state| deliveries.iter().any(|delivery| delivery.state == state);
    let found = order.into_iter().find(|(state, _)| has(*state));
    // Nobody wants it: there is nothing left to do.
    found.map_or("delivered", |(_, word)| word)
}

impl EventOut {
    pub(crate) fn new(
        message: &StoredMessage,
        deliveries: &[Delivery],
        last: Option<&Attempt>,
    ) -> Result<Self, ApiError> {
        let payload = message.payload.as_deref();
        // What came by other routes has no source.
        let body: Option<EventBody<'_>> =
            payload.and_then(|bytes| serde_json::from_slice(bytes).ok());
        let whole = || payload.map(|bytes| render::payload(bytes, &message.id)).transpose();
        let data = match &body {
            Some(body) => body.data.map(ToOwned::to_owned),
            None => whole()?.map(ToOwned::to_owned),
        };
        let status = status(deliveries);
        let latest = deliveries.iter().map(|delivery| delivery.updated_at).max();
        let next = deliveries.iter().filter_map(|delivery| delivery.next_attempt_at).min();
        let arrived = (status == "delivered").then_some(latest.unwrap_or(message.created_at));
        let shown = |moment: Timestamp| render::time(moment);
        Ok(Self {
            id: event_id(message),
            kind: message.event_type.to_string(),
            source: body.as_ref().map(|body| body.source.clone().into_owned()),
            data,
            status,
            attempts: deliveries.iter().map(|delivery| delivery.attempts).max().unwrap_or(0),
            max_attempts: RETRY_SCHEDULE_DEFAULT.len() + 1,
            next_attempt_at: next.map(shown),
            last_error: last.and_then(failure),
            created_at: render::time(message.created_at),
            updated_at: render::time(latest.unwrap_or(message.created_at)),
            delivered_at: arrived.map(shown),
        })
    }
}

/// The user's id of a message; ours, if it came by other routes without one.
pub(crate) fn event_id(message: &StoredMessage) -> String {
    match &message.event_id {
        Some(id) => id.to_string(),
        None => message.id.to_string(),
    }
}

fn failure(attempt: &Attempt) -> Option<String> {
    match (attempt.outcome, &attempt.error, attempt.status) {
        (AttemptOutcome::Succeeded, ..) => None,
        (AttemptOutcome::Unknown, ..) => Some("the result of the attempt is unknown".to_owned()),
        (_, Some(error), _) => Some(error.clone()),
        (_, None, Some(status)) => Some(format!("the endpoint answered {status}")),
        (_, None, None) => Some("the endpoint did not answer".to_owned()),
    }
}

impl EventAttemptOut {
    pub(crate) fn new(attempt: Attempt, event_id: &str) -> Self {
        Self {
            id: attempt.id.to_string(),
            event_id: event_id.to_owned(),
            endpoint_id: attempt.endpoint.to_string(),
            attempt_number: attempt.attempt_no,
            status_code: attempt.status,
            response_body: attempt.response.map(|bytes| shown(&bytes)),
            error: attempt.error,
            duration_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
            created_at: render::time(attempt.began_at),
        }
    }
}

impl SubscriptionIn {
    /// How it is delivered to.
    pub(crate) fn options(&self) -> Result<EndpointOptions, ApiError> {
        let rate = self.rate_limit.unwrap_or(RATE_LIMIT_DEFAULT);
        if rate == 0 {
            return Err(ApiError::invalid_field(
                "rate_limit",
                "rate_limit must be at least 1, not 0",
            ));
        }
        Ok(EndpointOptions { rate_per_second: Some(rate), ..EndpointOptions::default() })
    }
}

impl SubscriptionOut {
    pub(crate) fn new(endpoint: Endpoint, secret: Option<String>) -> Self {
        let types: Vec<String> = endpoint.event_types.into_iter().map(Into::into).collect();
        Self {
            id: endpoint.uid.map_or_else(|| endpoint.id.to_string(), Into::into),
            url: endpoint.url,
            event_types: if types.is_empty() { vec!["*".to_owned()] } else { types },
            secret,
            rate_limit: endpoint.options.rate_per_second,
            created_at: render::time(endpoint.created_at),
            active: endpoint.disabled.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use wakeline_core::{EndpointId, HookMessageId};

    use super::*;

    fn together(states: &[DeliveryState]) -> &'static str {
        let delivery = |state: &DeliveryState| Delivery {
            message: HookMessageId::generate(),
            endpoint: EndpointId::generate(),
            state: *state,
            attempts: 0,
            next_attempt_at: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        };
        status(&states.iter().map(delivery).collect::<Vec<_>>())
    }

    #[test]
    fn an_event_is_done_when_all_of_its_deliveries_are() {
        use DeliveryState::{Cancelled, Delivered, Failed, InFlight, Pending, Retrying, Throttled};
        assert_eq!(together(&[]), "delivered");
        assert_eq!(together(&[Delivered, Delivered]), "delivered");
        assert_eq!(together(&[Delivered, Cancelled]), "delivered");
        assert_eq!(together(&[Delivered, Failed]), "failed");
        assert_eq!(together(&[Failed, Retrying]), "retrying");
        assert_eq!(together(&[Pending, Delivered]), "pending");
        assert_eq!(together(&[Throttled, Pending]), "throttled");
        assert_eq!(together(&[Retrying, InFlight]), "processing");
    }
}
