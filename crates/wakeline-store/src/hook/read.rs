//! What was sent to whom, when, and how it ended.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, Channel, EndpointId, EventTypeName, HookMessageId,
    MessageRef, Timestamp,
};

use super::delivery::AttemptOutcome;
use super::message::StoredMessage;
use super::page::{Page, PageRequest};
use crate::error::StoreError;

/// Why an attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// By the schedule.
    Scheduled,
    /// Somebody asked for it.
    Manual,
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// It waits for its first attempt.
    Pending,
    /// An attempt is under way.
    InFlight,
    /// It waits for another attempt.
    Retrying,
    /// It could go, but its endpoint is held back: rate limit, breaker, throttle, or disabled.
    Throttled,
    /// It has arrived.
    Delivered,
    /// It used up its attempts.
    Failed,
    /// Somebody gave it up, or its endpoint was deleted.
    Cancelled,
}

/// A delivery: one message for one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: HookMessageId,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// How it stands.
    pub state: DeliveryState,
    /// Attempts that have ended.
    pub attempts: u32,
    /// When the next attempt is made, if one is: not before rate, throttle and breaker let it, and
    /// at no known time while the endpoint is off.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// An attempt as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// The message.
    pub message: HookMessageId,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Which attempt of its delivery it was, from 1.
    pub attempt_no: u32,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why it was made.
    pub trigger: Trigger,
    /// When it began; of an unknown one, when its lease began.
    pub began_at: Timestamp,
    /// How long it took; zero of an unknown one.
    pub took: Duration,
    /// What the endpoint answered.
    pub status: Option<u16>,
    /// The beginning of the answer's body; `None` if it was removed or not asked for.
    pub response: Option<Bytes>,
    /// What went wrong, if no answer came.
    pub error: Option<String>,
    /// The URL that was called.
    pub url: String,
}

/// Which messages to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageFilter {
    /// Only with this channel.
    pub channel: Option<Channel>,
    /// Only of these types; empty is all.
    pub event_types: Vec<EventTypeName>,
    /// Only older than.
    pub before: Option<Timestamp>,
    /// Only younger than.
    pub after: Option<Timestamp>,
    /// Only those with a delivery for this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Whether payloads come along.
    pub with_content: bool,
}

/// Which attempts to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttemptFilter {
    /// Only of this message.
    pub message: Option<HookMessageId>,
    /// Only to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only with this outcome; `Unknown` ones count as failed too.
    pub outcome: Option<AttemptOutcome>,
    /// Only with a status from this hundred (200, say); 0 is no answer.
    pub status_class: Option<u16>,
    /// Only of messages with this channel.
    pub channel: Option<Channel>,
    /// Only of messages of these types; empty is all.
    pub event_types: Vec<EventTypeName>,
    /// Only that began before.
    pub before: Option<Timestamp>,
    /// Only that began after.
    pub after: Option<Timestamp>,
    /// Whether answers come along.
    pub with_content: bool,
}

/// How many deliveries of an endpoint stand how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Have arrived.
    pub delivered: u64,
    /// Wait for an attempt.
    pub waiting: u64,
    /// Have one under way.
    pub in_flight: u64,
    /// Have failed.
    pub failed: u64,
    /// Were cancelled.
    pub cancelled: u64,
}

/// Reads for clients and operators.
#[async_trait]
pub trait HookReader: Send + Sync {
    /// A message.
    async fn message(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<Option<StoredMessage>, StoreError>;

    /// Messages of an application, by id.
    async fn messages(
        &self,
        application: ApplicationId,
        filter: MessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> Result<Page<StoredMessage>, StoreError>;

    /// The deliveries of a message, by endpoint.
    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> Result<Page<Delivery>, StoreError>;

    /// The deliveries of some messages to one endpoint, in the order of the messages; `None`
    /// where there is none.
    async fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Result<Vec<Option<Delivery>>, StoreError>;

    /// Attempts of an application, by id.
    async fn attempts(
        &self,
        application: ApplicationId,
        filter: AttemptFilter,
        page: PageRequest<AttemptId>,
    ) -> Result<Page<Attempt>, StoreError>;

    /// One attempt.
    async fn attempt(
        &self,
        application: ApplicationId,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, StoreError>;

    /// How the deliveries of an endpoint stand that were made at or after `since` (all if `None`).
    /// A store may leave out all but the newest 100,000.
    async fn endpoint_stats(
        &self,
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError>;
}
