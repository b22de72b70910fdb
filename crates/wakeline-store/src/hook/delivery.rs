//! Deliveries: one per message and endpoint, leased for one attempt at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ApplicationId, AttemptId, Channel, DeliveryToken, EndpointId, EndpointOptions, EventId,
    EventTypeName, HookChange, HookLine, HookMessageId, Timestamp,
};

use super::catalog::EndpointSecret;
use super::message::{EmitReply, NewMessage};
use super::read::Trigger;
use crate::error::StoreError;

/// A waiter that can make delivery attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRequest {
    /// Ids for the attempts that it can make, at least one. They become the keys of the leases; a
    /// claim repeated with the same ids returns what they hold.
    pub attempts: Vec<AttemptId>,
    /// How many of them are reserved for first attempts, so that retries never take all.
    pub fresh_only: u32,
    /// How long leases last; `None` uses the endpoint's options.
    pub lease: Option<Duration>,
}

/// The claim of all waiters of one line: [`HookLine::Push`], [`HookLine::Pull`], or
/// [`HookLine::PushFresh`], whose waiters make first attempts only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// The line that the waiters wait for.
    pub line: HookLine,
    /// The waiters, in order of arrival.
    pub requests: Vec<DeliveryRequest>,
    /// Applications that may get only a limited share of this claim, each named once; all others
    /// are unlimited.
    pub limits: Vec<ApplicationLimit>,
    /// Whether to report when the line's next delivery is due even if every waiter is served.
    pub further: bool,
}

impl DeliveryClaim {
    /// A claim without limits that does not report the next due time once it is served.
    pub fn new(line: HookLine, requests: Vec<DeliveryRequest>) -> Self {
        Self { line, requests, limits: Vec::new(), further: false }
    }
}

/// The share of a claim that one application may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplicationLimit {
    /// The application that is limited.
    pub application: ApplicationId,
    /// The maximum number of delivery groups for the application.
    pub groups: u32,
}

/// The result of a claim of deliveries in one line.
#[derive(Debug, Clone, Default)]
pub struct DeliveryClaimed {
    /// One entry per waiter, in order; empty where nothing was left.
    pub groups: Vec<Vec<DeliveryGroup>>,
    /// If a waiter was not fully served: time until the next delivery for its remaining attempts.
    /// If `further` was set: time until the line's next delivery. Possibly early, never late.
    /// Applications that have reached their limit are not considered.
    pub next_due: Option<Duration>,
}

/// Leased deliveries that are sent in one request: a single one, or several of an ordered endpoint
/// that takes batches.
#[derive(Debug, Clone)]
pub struct DeliveryGroup {
    /// The endpoint that they are sent to.
    pub target: Arc<DeliveryTarget>,
    /// The deliveries, in the order in which they are sent.
    pub items: Vec<DeliveryItem>,
}

/// The configuration of an endpoint when the lease began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTarget {
    /// The endpoint's id.
    pub endpoint: EndpointId,
    /// The application that owns the endpoint.
    pub application: ApplicationId,
    /// The URL to call.
    pub url: String,
    /// Additional request headers, encrypted.
    pub headers: Bytes,
    /// The keys that sign, the current one first.
    pub secrets: Vec<EndpointSecret>,
    /// The options for delivering to it.
    pub options: EndpointOptions,
}

/// A leased delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryItem {
    /// The fencing token that proves the lease.
    pub token: DeliveryToken,
    /// The number of this attempt, from 1.
    pub attempt_no: u32,
    /// The number of attempts of the current schedule, this one included; manual attempts do not
    /// count.
    pub scheduled_no: u32,
    /// Why the attempt is made.
    pub trigger: Trigger,
    /// The id of the message.
    pub message: HookMessageId,
    /// The message's event type.
    pub event_type: EventTypeName,
    /// The user's own id of the message.
    pub event_id: Option<EventId>,
    /// The message's channels.
    pub channels: Vec<Channel>,
    /// When the message was stored.
    pub created_at: Timestamp,
    /// The payload to send; `None` if it has expired, so that no attempt can be made.
    pub payload: Option<Bytes>,
    /// The database's clock when the delivery was claimed.
    pub now: Timestamp,
    /// How long the lease lasts.
    pub lease_for: Duration,
}

/// The record of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// How long before settling the attempt began.
    pub began_ago: Duration,
    /// How long the attempt took.
    pub took: Duration,
    /// The response status, if the endpoint responded.
    pub status: Option<u16>,
    /// The beginning of the response body.
    pub response: Bytes,
    /// The error, if there was no response.
    pub error: Option<String>,
    /// The URL that was called.
    pub url: String,
}

/// What happens to a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryVerdict {
    /// The message was delivered.
    Delivered,
    /// The attempt failed and is retried after this long. After a manual attempt, only if a later
    /// attempt was scheduled anyway.
    Retry(Duration),
    /// The attempt failed and the schedule is used up. After a manual attempt, the delivery returns
    /// to its previous state, including its next scheduled attempt.
    Failed,
}

/// What an attempt shows about the health of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerSample {
    /// The endpoint works.
    Success,
    /// The endpoint does not work.
    Failure,
    /// Nothing: the fault was on this side, or the response concerns only the message.
    None,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct SettleDelivery {
    /// The fencing token that proves the lease; a stale one changes nothing.
    pub token: DeliveryToken,
    /// The record of the attempt for the log.
    pub record: AttemptRecord,
    /// What happens to the delivery.
    pub verdict: DeliveryVerdict,
    /// What the attempt shows about the endpoint.
    pub sample: BreakerSample,
    /// Suspends the whole endpoint for this long, as requested by its response.
    pub throttle: Option<Duration>,
    /// Whether the endpoint reported that it is gone, so that it is disabled.
    pub gone: bool,
    /// Operational messages to emit in the same commit, unless the lease is stale.
    pub announce: Vec<NewMessage>,
    /// An operational message to emit if this disables the endpoint, for whatever reason.
    pub announce_disabled: Option<NewMessage>,
}

/// The outcome of an attempt as recorded in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The endpoint accepted the message.
    Succeeded,
    /// The attempt failed.
    Failed,
    /// The outcome is unknown because the lease expired before it was reported.
    Unknown,
}

/// The result of reporting the end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledDelivery {
    /// The resulting state of the delivery.
    pub state: SettledState,
    /// Why the endpoint was disabled as a result, if it was.
    pub disabled: Option<super::catalog::DisableReason>,
    /// Whether the endpoint's circuit breaker was opened or opened again.
    pub opened: bool,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<HookChange>,
}

/// The state of a delivery after the end of an attempt was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettledState {
    /// The message was delivered.
    Delivered,
    /// Another attempt is scheduled.
    Retrying,
    /// The delivery has failed.
    Failed,
    /// The attempt was recorded, but the delivery was cancelled or its endpoint deleted in the
    /// meantime.
    Cancelled,
    /// The lease has expired or was ended; nothing changed.
    Stale,
}

/// The main write path of webhooks: storing messages, leasing deliveries, recording outcomes.
#[async_trait]
pub trait HookStore: Send + Sync {
    /// Stores a message and its deliveries in one commit. `requests` are senders that can take new
    /// deliveries to endpoints for which nothing else is waiting.
    async fn emit(
        &self,
        message: NewMessage,
        requests: Vec<DeliveryRequest>,
    ) -> Result<EmitReply, StoreError>;

    /// Leases deliveries: one call, one commit, one outcome per line.
    async fn claim_deliveries(
        &self,
        lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError>;

    /// Records how attempts ended: one call, one commit, one result per attempt.
    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError>;

    /// Gives back deliveries whose attempts were not made: immediately, and without counting an
    /// attempt. Stale tokens are skipped.
    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError>;

    /// Extends leases to `span` from now. Returns true for those that are still held.
    async fn extend_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError>;

    /// Reads, without claiming, how long until each line has a delivery: zero if it has one now.
    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError>;
}
