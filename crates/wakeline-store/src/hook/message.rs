//! Webhook messages: events to deliver to the endpoints of an application.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EventId, EventTypeName, HookChange,
    HookMessageId, Timestamp,
};

use super::catalog::{Idempotency, NewApplication};
use super::delivery::DeliveryGroup;

/// A message to store, with a delivery for every endpoint that subscribes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The message's id, chosen by the caller.
    pub id: HookMessageId,
    /// The application whose endpoints receive it.
    pub application: ApplicationRef,
    /// Creates the application in the same commit if `application` does not exist.
    pub create_application: Option<NewApplication>,
    /// The message's event type.
    pub event_type: EventTypeName,
    /// The user's own id; unique within the application.
    pub event_id: Option<EventId>,
    /// The channels that the message is sent on.
    pub channels: Vec<Channel>,
    /// The payload, sent byte for byte.
    pub payload: Bytes,
    /// How long the payload is kept.
    pub retention: Duration,
    /// Deliver only to this endpoint, regardless of its filters and of whether it is disabled.
    pub only: Option<EndpointId>,
    /// Makes repeating the request harmless.
    pub idempotency: Option<Idempotency>,
}

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// The message's id.
    pub id: HookMessageId,
    /// The application that the message belongs to.
    pub application: ApplicationId,
    /// The message's event type.
    pub event_type: EventTypeName,
    /// The user's own id of the message.
    pub event_id: Option<EventId>,
    /// The channels that the message is sent on.
    pub channels: Vec<Channel>,
    /// The payload; `None` once it has expired, or if it was not requested.
    pub payload: Option<Bytes>,
    /// When the message was stored.
    pub created_at: Timestamp,
}

/// A message for at most this many endpoints is always stored with all its deliveries.
pub const FAN_OUT_SMALL: usize = 10;

/// The maximum number of deliveries that are created in the transaction that stores messages for
/// more endpoints than [`FAN_OUT_SMALL`]. The rest are created in batches afterwards, as background
/// work.
pub const FAN_OUT_MAX: usize = 1_000;

/// The outcome of storing a message. The message is returned without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmitOutcome {
    /// The message was stored and will be delivered to this many endpoints. For a message to more
    /// than [`FAN_OUT_SMALL`] endpoints the number may be an estimate, because the deliveries are
    /// created later.
    Stored(StoredMessage, u32),
    /// A request with the same idempotency key stored it earlier.
    Repeated(StoredMessage),
    /// The requested event id belongs to this existing message.
    Taken(StoredMessage),
    /// A different request used the same idempotency key.
    KeyReused,
    /// The application does not exist.
    NoApplication,
    /// The payload does not match its event type, for this reason. Only for messages that are part
    /// of another write: single messages are checked before.
    Refused(String),
}

/// The result of storing a message.
#[derive(Debug, Clone)]
pub struct EmitReply {
    /// The outcome of the call.
    pub outcome: EmitOutcome,
    /// Deliveries that were leased to the requests passed with the call, with the requests'
    /// indices.
    pub leased: Vec<(usize, Vec<DeliveryGroup>)>,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<HookChange>,
}
