//! Webhook delivery as a store sees it: applications with endpoints, messages, one delivery per
//! message and endpoint, and the attempts made.
//!
//! A store knows nothing of HTTP, signatures or keys: secrets and headers come sealed, and what an
//! answer means for a delivery is decided by the caller. The rules, with their reasons, are in
//! `docs/reference/hook.md`.

mod admin;
mod catalog;
mod delivery;
mod message;
mod page;
mod read;
mod schema;

pub use admin::{
    ChoreReport, DeliveryFilter, ExpireMessages, ExpiredMessages, HookAdmin, Job, JobKind, JobSpec,
    JobState, MessagePlace, ResendOutcome,
};
pub use catalog::{
    Application, Created, DisableReason, Endpoint, EndpointSecret, EndpointUpdate, EventType,
    HookApplications, HookEndpoints, HookEventTypes, Idempotency, NewApplication, NewEndpoint,
    RotateOutcome, Rotation, UpdateOutcome,
};
pub use delivery::{
    ApplicationLimit, AttemptOutcome, AttemptRecord, BreakerSample, DeliveryAsk, DeliveryClaim,
    DeliveryClaimed, DeliveryGroup, DeliveryItem, DeliveryVerdict, HookStore, SettleDelivery,
    SettledDelivery, SettledState, Target,
};
pub use message::{EmitOutcome, EmitReply, FAN_OUT_MAX, FAN_OUT_SMALL, NewMessage, StoredMessage};
pub use page::{Page, PageOrder, PageRequest};
pub use read::{
    Attempt, AttemptFilter, Delivery, DeliveryState, EndpointStats, HookReader, MessageFilter,
    Trigger,
};
pub use schema::{EventSchema, SchemaError, newest_schema};

/// Everything that the hook face asks of a store.
pub trait HookBackend:
    HookStore + HookApplications + HookEventTypes + HookEndpoints + HookReader + HookAdmin
{
}

impl<T> HookBackend for T where
    T: HookStore + HookApplications + HookEventTypes + HookEndpoints + HookReader + HookAdmin
{
}
