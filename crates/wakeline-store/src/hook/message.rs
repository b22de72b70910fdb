//! Messages: what happened, told once.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EventId, EventTypeName, HookChange,
    HookMessageId, Timestamp,
};

use super::catalog::{Idempotency, NewApplication};
use super::delivery::DeliveryGroup;

/// A message to store, with a delivery for every endpoint that wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id, made by the caller.
    pub id: HookMessageId,
    /// Whose endpoints get it.
    pub application: ApplicationRef,
    /// Makes the application in the same commit if `application` does not exist.
    pub create_application: Option<NewApplication>,
    /// What it tells of.
    pub event_type: EventTypeName,
    /// The user's own id; unique within the application.
    pub event_id: Option<EventId>,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// What is sent: the exact bytes.
    pub payload: Bytes,
    /// How long the payload is kept.
    pub retention: Duration,
    /// Only this endpoint gets it, whatever its filters, disabled or not.
    pub only: Option<EndpointId>,
    /// Makes repeating it harmless.
    pub idempotency: Option<Idempotency>,
}

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its id.
    pub id: HookMessageId,
    /// Whose.
    pub application: ApplicationId,
    /// What it tells of.
    pub event_type: EventTypeName,
    /// The user's own id.
    pub event_id: Option<EventId>,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// What is sent; `None` once it has expired, or if it was not asked for.
    pub payload: Option<Bytes>,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// A message for up to so many endpoints is stored with all its deliveries, always.
pub const FAN_OUT_SMALL: usize = 10;

/// Most deliveries that the messages for more endpoints than that get in the transaction that
/// stores them. The others are made in pieces afterwards, as background work.
pub const FAN_OUT_MAX: usize = 1_000;

/// How storing a message ended. The message comes without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmitOutcome {
    /// It is stored, and will be delivered to so many endpoints. Of a message for more than
    /// [`FAN_OUT_SMALL`] endpoints it may be an estimate, because the deliveries are made later.
    Stored(StoredMessage, u32),
    /// A request with the same idempotency key stored it before.
    Repeated(StoredMessage),
    /// Its own id is taken, by this one.
    Taken(StoredMessage),
    /// A different request had the same idempotency key.
    KeyReused,
    /// There is no such application.
    NoApplication,
    /// Its payload does not fit its event type, for this reason. Of messages that come along with
    /// another write: what is given by itself was checked before.
    Refused(String),
}

/// Answer to storing a message.
#[derive(Debug, Clone)]
pub struct EmitReply {
    /// How it ended.
    pub outcome: EmitOutcome,
    /// Deliveries that were leased to the asks that came along, with the asks' indices.
    pub leased: Vec<(usize, Vec<DeliveryGroup>)>,
    /// What the caller tells its own waiters.
    pub changes: Vec<HookChange>,
}
