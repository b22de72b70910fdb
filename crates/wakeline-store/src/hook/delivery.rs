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

/// One waiter that can make attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAsk {
    /// Ids for the attempts, one per attempt that it can make: at least one. They become the keys
    /// of the leases; a claim repeated with the same ids returns what they hold.
    pub attempts: Vec<AttemptId>,
    /// How many of them are for first attempts only, so that retries never take all.
    pub fresh_only: u32,
    /// How long leases last; `None` is as long as the endpoint's options say.
    pub lease: Option<Duration>,
}

/// The waiters of one line: [`HookLine::Push`], [`HookLine::Pull`], or [`HookLine::PushFresh`],
/// whose asks are for first attempts only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// What they wait for.
    pub line: HookLine,
    /// The waiters, in order of arrival.
    pub asks: Vec<DeliveryAsk>,
    /// The applications that get no more than so much of this claim; no other is limited. Each is
    /// named once.
    pub limits: Vec<ApplicationLimit>,
    /// Whether to say what is next for another waiter of the line, even if every ask is filled.
    pub further: bool,
}

impl DeliveryClaim {
    /// A claim that limits no application, and does not look further.
    pub fn new(line: HookLine, asks: Vec<DeliveryAsk>) -> Self {
        Self { line, asks, limits: Vec::new(), further: false }
    }
}

/// How much of a claim one application gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApplicationLimit {
    /// Which application.
    pub application: ApplicationId,
    /// Most groups that the claim gives it.
    pub groups: u32,
}

/// What a claim found in one line.
#[derive(Debug, Clone, Default)]
pub struct DeliveryClaimed {
    /// One per ask, in order; empty where there was nothing left.
    pub groups: Vec<Vec<DeliveryGroup>>,
    /// If an ask was not filled: time until the next delivery for what it has left; of a claim
    /// that was to look further, the line's next one. Possibly early, never late. Applications
    /// that have reached their limit are not looked at.
    pub next_due: Option<Duration>,
}

/// Leased deliveries that go out in one request: one, or several of an endpoint in order that
/// takes batches.
#[derive(Debug, Clone)]
pub struct DeliveryGroup {
    /// Where they go.
    pub target: Arc<Target>,
    /// What goes there, in order.
    pub items: Vec<DeliveryItem>,
}

/// An endpoint as it was when the lease began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Whose it is.
    pub application: ApplicationId,
    /// Where it is.
    pub url: String,
    /// Its own headers, sealed.
    pub headers: Bytes,
    /// The keys that sign, the current one first.
    pub secrets: Vec<EndpointSecret>,
    /// How it is delivered to.
    pub options: EndpointOptions,
}

/// A leased delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryItem {
    /// Proves the lease.
    pub token: DeliveryToken,
    /// Which attempt this is, from 1.
    pub attempt_no: u32,
    /// Attempts of the current schedule, this one included; a manual one is not counted.
    pub scheduled_no: u32,
    /// Why it is made.
    pub trigger: Trigger,
    /// The message.
    pub message: HookMessageId,
    /// What it tells of.
    pub event_type: EventTypeName,
    /// The user's own id of the message.
    pub event_id: Option<EventId>,
    /// The message's channels.
    pub channels: Vec<Channel>,
    /// When the message was stored.
    pub created_at: Timestamp,
    /// What to send; `None` if it has expired: then there is nothing to try.
    pub payload: Option<Bytes>,
    /// The database's clock at the claim.
    pub now: Timestamp,
    /// How long the lease lasts.
    pub lease_for: Duration,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// How long before the settling it began.
    pub began_ago: Duration,
    /// How long it took.
    pub took: Duration,
    /// What the endpoint answered, if it did.
    pub status: Option<u16>,
    /// The beginning of the answer's body.
    pub response: Bytes,
    /// What went wrong, if no answer came.
    pub error: Option<String>,
    /// The URL that was called.
    pub url: String,
}

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryVerdict {
    /// It has arrived.
    Delivered,
    /// It failed and is tried again after so long. Of a manual attempt: only if the delivery had
    /// no later attempt planned anyway.
    Retry(Duration),
    /// It failed, and its schedule is used up. Of a manual attempt: back to what it was before,
    /// with its next attempt if one was planned.
    Failed,
}

/// What an attempt says about its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerSample {
    /// It works.
    Success,
    /// It does not.
    Failure,
    /// Nothing: the fault was ours, or the owner's answer is about the message only.
    None,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct SettleDelivery {
    /// Proves the lease; a stale one changes nothing.
    pub token: DeliveryToken,
    /// What is kept of the attempt.
    pub record: AttemptRecord,
    /// What becomes of the delivery.
    pub verdict: DeliveryVerdict,
    /// What it says about the endpoint.
    pub sample: BreakerSample,
    /// The whole endpoint gets nothing for so long.
    pub throttle: Option<Duration>,
    /// The endpoint says that it is gone: it is disabled.
    pub gone: bool,
    /// Operational messages that go out with it, if it is not stale.
    pub announce: Vec<NewMessage>,
    /// One that goes out if this disables the endpoint, for whatever reason.
    pub announce_disabled: Option<NewMessage>,
}

/// How an attempt is kept in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// Nobody said how it ended: its lease expired.
    Unknown,
}

/// Answer to the end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledDelivery {
    /// What was done.
    pub state: SettledState,
    /// Why the endpoint was disabled by it, if it was.
    pub disabled: Option<super::catalog::DisableReason>,
    /// Whether it opened the endpoint's breaker, for the first time or again.
    pub opened: bool,
    /// What the caller tells its own waiters.
    pub changes: Vec<HookChange>,
}

/// What was done with the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettledState {
    /// The delivery has arrived.
    Delivered,
    /// It will be tried again.
    Retrying,
    /// It has failed.
    Failed,
    /// The attempt is in the log, but the delivery was cancelled, or its endpoint deleted,
    /// meanwhile.
    Cancelled,
    /// The lease has expired or was ended; nothing changed.
    Stale,
}

/// The hot path: storing messages, leasing deliveries, writing outcomes.
#[async_trait]
pub trait HookStore: Send + Sync {
    /// Stores a message and its deliveries in one commit. `asks` are senders that can take
    /// deliveries which this makes: of endpoints for which nothing else waits.
    async fn emit(
        &self,
        message: NewMessage,
        asks: Vec<DeliveryAsk>,
    ) -> Result<EmitReply, StoreError>;

    /// Leases deliveries: one call, one commit, one outcome per line.
    async fn claim_deliveries(
        &self,
        lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError>;

    /// Writes how attempts ended: one call, one commit, one answer per attempt.
    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError>;

    /// Gives deliveries back whose attempts were not made: uncounted, at once. Stale tokens are
    /// passed over.
    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError>;

    /// Moves the end of leases to `span` from now. True for those that go on.
    async fn extend_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError>;

    /// Reads, without claiming, how long until each line has something: zero if it has now.
    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError>;
}
