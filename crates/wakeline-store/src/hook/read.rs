//! Read access to messages, deliveries and attempts.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, Channel, EndpointId, EventTypeName, HookMessageId,
    MessageRef, Timestamp,
};

use super::delivery::AttemptOutcome;
use super::message::StoredMessage;
use super::page::{HookPage, PageRequest};
use crate::error::StoreError;

/// Why an attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The retry schedule.
    Scheduled,
    /// A manual request.
    Manual,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// Waiting for its first attempt.
    Pending,
    /// An attempt is in flight.
    InFlight,
    /// Waiting for another attempt.
    Retrying,
    /// Ready, but its endpoint is held back by a rate limit, an open breaker or a throttle, or is
    /// disabled.
    Throttled,
    /// The endpoint accepted the message.
    Delivered,
    /// All attempts are used up.
    Failed,
    /// Cancelled on request, or because its endpoint was deleted.
    Cancelled,
}

/// A delivery: one message for one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The id of the message.
    pub message: HookMessageId,
    /// The id of the endpoint.
    pub endpoint: EndpointId,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// The number of attempts that have ended.
    pub attempts: u32,
    /// When the next attempt is due, if there is one. Rate limit, throttle and breaker are taken
    /// into account; `None` while the endpoint is disabled.
    pub next_attempt_at: Option<Timestamp>,
    /// When the delivery was created.
    pub created_at: Timestamp,
    /// When the delivery last changed.
    pub updated_at: Timestamp,
}

/// An attempt as recorded in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The attempt's id.
    pub id: AttemptId,
    /// The id of the message.
    pub message: HookMessageId,
    /// The id of the endpoint.
    pub endpoint: EndpointId,
    /// The number of the attempt within its delivery, from 1.
    pub attempt_no: u32,
    /// The outcome of the attempt.
    pub outcome: AttemptOutcome,
    /// Why the attempt was made.
    pub trigger: Trigger,
    /// When the attempt began; for an unknown outcome, when its lease began.
    pub began_at: Timestamp,
    /// How long the attempt took; zero for an unknown outcome.
    pub took: Duration,
    /// The response status, if the endpoint responded.
    pub status: Option<u16>,
    /// The beginning of the response body; `None` if it was removed or not requested.
    pub response: Option<Bytes>,
    /// The error, if there was no response.
    pub error: Option<String>,
    /// The URL that was called.
    pub url: String,
}

/// Selects messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookMessageFilter {
    /// Only messages on this channel.
    pub channel: Option<Channel>,
    /// Only messages of these types; empty means all.
    pub event_types: Vec<EventTypeName>,
    /// Only messages stored before this time.
    pub before: Option<Timestamp>,
    /// Only messages stored after this time.
    pub after: Option<Timestamp>,
    /// Only messages with a delivery to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Whether to include payloads.
    pub with_content: bool,
}

/// Selects attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptFilter {
    /// Only attempts for this message.
    pub message: Option<HookMessageId>,
    /// Only attempts to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only attempts with this outcome; those with an unknown outcome also count as failed.
    pub outcome: Option<AttemptOutcome>,
    /// Only attempts whose status is in this class (for example 200); 0 selects those without a
    /// response.
    pub status_class: Option<u16>,
    /// Only attempts for messages on this channel.
    pub channel: Option<Channel>,
    /// Only attempts for messages of these types; empty means all.
    pub event_types: Vec<EventTypeName>,
    /// Only attempts that began before this time.
    pub before: Option<Timestamp>,
    /// Only attempts that began after this time.
    pub after: Option<Timestamp>,
    /// Whether to include response bodies.
    pub with_content: bool,
}

/// The number of an endpoint's deliveries by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// The number of successful deliveries.
    pub delivered: u64,
    /// The number that wait for an attempt.
    pub waiting: u64,
    /// The number with an attempt in flight.
    pub in_flight: u64,
    /// The number that have failed.
    pub failed: u64,
    /// The number that were cancelled.
    pub cancelled: u64,
}

/// Read access to webhooks for clients and operators.
#[async_trait]
pub trait HookReader: Send + Sync {
    /// A message; `None` if it does not exist.
    async fn message(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<Option<StoredMessage>, StoreError>;

    /// A page of an application's messages, ordered by id.
    async fn messages(
        &self,
        application: ApplicationId,
        filter: HookMessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> Result<HookPage<StoredMessage>, StoreError>;

    /// A page of a message's deliveries, ordered by endpoint.
    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> Result<HookPage<Delivery>, StoreError>;

    /// The deliveries of the given messages to one endpoint, in the order of the messages; `None`
    /// where there is none.
    async fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Result<Vec<Option<Delivery>>, StoreError>;

    /// A page of an application's attempts, ordered by id.
    async fn attempts(
        &self,
        application: ApplicationId,
        filter: AttemptFilter,
        page: PageRequest<AttemptId>,
    ) -> Result<HookPage<Attempt>, StoreError>;

    /// One attempt by its id.
    async fn attempt(
        &self,
        application: ApplicationId,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, StoreError>;

    /// The number of an endpoint's deliveries by state, of those created at or after `since` (all
    /// if `None`). A store may omit all but the newest 100,000.
    async fn endpoint_stats(
        &self,
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError>;
}
