//! Webhook delivery as a store sees it: applications with endpoints, messages, one delivery per
//! message and endpoint, and the attempts made.
//!
//! A store does not handle HTTP, signatures or keys: secrets and headers are passed encrypted, and
//! the caller decides what a response means for a delivery. The rules, with their reasons, are in
//! `docs/reference/hook.md`.

mod admin;
mod catalog;
mod delivery;
mod message;
mod page;
mod read;
mod schema;

pub use admin::{
    DeliveryFilter, DeliveryJob, ExpireMessages, ExpiredMessages, ExpiryPosition, HookAdmin,
    HookBackgroundReport, JobKind, JobSpec, JobState, ResendOutcome,
};
pub use catalog::{
    Application, Created, DisableReason, Endpoint, EndpointSecret, EndpointUpdate, EventType,
    HookApplications, HookEndpoints, HookEventTypes, Idempotency, NewApplication, NewEndpoint,
    RotateOutcome, Rotation, UpdateOutcome,
};
pub use delivery::{
    ApplicationLimit, AttemptOutcome, AttemptRecord, BreakerSample, DeliveryClaim, DeliveryClaimed,
    DeliveryGroup, DeliveryItem, DeliveryRequest, DeliveryTarget, DeliveryVerdict, HookStore,
    SettleDelivery, SettledDelivery, SettledState,
};
pub use message::{EmitOutcome, EmitReply, FAN_OUT_MAX, FAN_OUT_SMALL, NewMessage, StoredMessage};
pub use page::{HookPage, PageOrder, PageRequest};
pub use read::{
    Attempt, AttemptFilter, Delivery, DeliveryState, EndpointStats, HookMessageFilter, HookReader,
    Trigger,
};
pub use schema::{EventSchema, SchemaError, newest_schema};

/// Everything that the webhook domain needs from a store.
pub trait HookBackend:
    HookStore + HookApplications + HookEventTypes + HookEndpoints + HookReader + HookAdmin
{
}

impl<T> HookBackend for T where
    T: HookStore + HookApplications + HookEventTypes + HookEndpoints + HookReader + HookAdmin
{
}
