//! Applications, event types and endpoints.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EndpointOptions, EndpointRef, EventPattern,
    EventTypeName, HookChange, IdempotencyKey, Timestamp, Uid,
};

use super::page::{Page, PageRequest};
use crate::error::StoreError;

/// Makes a repeated request harmless: within 12 hours, one with the same key and print makes
/// nothing and is answered with what the first one made; one with another print is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key that the request names.
    pub key: IdempotencyKey,
    /// A digest of what it asks for.
    pub print: [u8; 32],
}

/// How a creation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created<T> {
    /// It was made.
    New(T),
    /// A request with the same idempotency key made it before.
    Repeated(T),
    /// Its own id is taken, by this one.
    Taken(T),
    /// A different request had the same idempotency key.
    KeyReused,
    /// There is no such application.
    NoApplication,
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome<T> {
    /// As it is now.
    Updated(T),
    /// There is none.
    Missing,
    /// The new own id is taken.
    Taken,
    /// It is not the one that was expected any more: somebody changed it. Nothing was done.
    Stale,
}

/// A tenant to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplication {
    /// Its id, made by the caller.
    pub id: ApplicationId,
    /// Its name, for people.
    pub name: String,
    /// Its user's own id.
    pub uid: Option<Uid>,
    /// Most messages a second, as a note: not enforced by a store.
    pub rate_limit: Option<u32>,
    /// A JSON object of the user's.
    pub metadata: Bytes,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Its id.
    pub id: ApplicationId,
    /// Its name, for people.
    pub name: String,
    /// Its user's own id.
    pub uid: Option<Uid>,
    /// Most messages a second, as a note.
    pub rate_limit: Option<u32>,
    /// A JSON object of the user's.
    pub metadata: Bytes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// An event type. They are shared by all applications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    /// Its name.
    pub name: EventTypeName,
    /// What it tells of.
    pub description: String,
    /// JSON schemas by version, as a JSON object.
    pub schemas: Option<Bytes>,
    /// Whether messages that do not fit the newest schema are refused.
    pub enforced: bool,
    /// Whether it is out of use: kept, but left out of lists.
    pub archived: bool,
    /// Whether it is discouraged.
    pub deprecated: bool,
    /// Shown only to those with this flag; a note.
    pub feature_flag: Option<String>,
    /// Groups types in lists; a note.
    pub group_name: Option<String>,
    /// When it was made; ignored in a write.
    pub created_at: Timestamp,
    /// When it was last changed; in a write, only a replacement looks at it.
    pub updated_at: Timestamp,
}

/// A signing key, sealed by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSecret {
    /// The sealed key.
    pub sealed: Bytes,
    /// Until when it signs; `None` is the current one.
    pub expires_at: Option<Timestamp>,
}

/// Why an endpoint gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisableReason {
    /// Somebody switched it off.
    Asked,
    /// It answered 410.
    Gone,
    /// It did nothing but fail for too long.
    Failing,
}

/// An endpoint to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEndpoint {
    /// Its id, made by the caller.
    pub id: EndpointId,
    /// Its user's own id, unique within the application.
    pub uid: Option<Uid>,
    /// Where it is; empty for one that is pulled from.
    pub url: String,
    /// What it is for.
    pub description: String,
    /// Which types it gets; empty is all.
    pub event_types: Vec<EventPattern>,
    /// Which channels it gets; empty is all messages, whatever their channels.
    pub channels: Vec<Channel>,
    /// Whether it gets nothing for now.
    pub disabled: Option<DisableReason>,
    /// A JSON object of the user's.
    pub metadata: Bytes,
    /// Its own headers, sealed.
    pub headers: Bytes,
    /// Its signing key, sealed.
    pub secret: Bytes,
    /// How it is delivered to.
    pub options: EndpointOptions,
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Whose it is.
    pub application: ApplicationId,
    /// Its user's own id.
    pub uid: Option<Uid>,
    /// Where it is.
    pub url: String,
    /// What it is for.
    pub description: String,
    /// Which types it gets; empty is all.
    pub event_types: Vec<EventPattern>,
    /// Which channels it gets; empty is all messages.
    pub channels: Vec<Channel>,
    /// Why it gets nothing, if so.
    pub disabled: Option<DisableReason>,
    /// A JSON object of the user's.
    pub metadata: Bytes,
    /// Its own headers, sealed.
    pub headers: Bytes,
    /// How it is delivered to.
    pub options: EndpointOptions,
    /// Counts its changes, from 1.
    pub version: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Since when it does nothing but fail.
    pub failing_since: Option<Timestamp>,
    /// How long its breaker stays open.
    pub paused_for: Option<Duration>,
}

/// What to change of an endpoint; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointUpdate {
    /// Only if this is its version; `None` is whatever it is.
    pub expected_version: Option<u64>,
    /// Its user's own id.
    pub uid: Option<Option<Uid>>,
    /// Where it is.
    pub url: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Which types it gets.
    pub event_types: Option<Vec<EventPattern>>,
    /// Which channels it gets.
    pub channels: Option<Vec<Channel>>,
    /// Whether it gets nothing. Switching it on again forgets its failures and closes its breaker.
    pub disabled: Option<bool>,
    /// A JSON object of the user's.
    pub metadata: Option<Bytes>,
    /// Its own headers, sealed.
    pub headers: Option<Bytes>,
    /// How it is delivered to.
    pub options: Option<EndpointOptions>,
}

/// A new signing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The new key, sealed.
    pub sealed: Bytes,
    /// How much longer the old one signs too.
    pub grace: Duration,
    /// Most old keys that may still sign afterwards.
    pub old_max: u32,
}

/// How a rotation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotateOutcome {
    /// The new key signs.
    Rotated,
    /// There is no such endpoint.
    Missing,
    /// Too many old keys still sign; nothing changed.
    TooMany,
}

/// Applications.
#[async_trait]
pub trait HookApplications: Send + Sync {
    /// Makes an application.
    async fn create_application(
        &self,
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError>;

    /// An application.
    async fn application(
        &self,
        application: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError>;

    /// Applications by age. Those whose uid begins with `reserved` are left out.
    async fn applications(
        &self,
        page: PageRequest<ApplicationId>,
        reserved: &str,
    ) -> Result<Page<Application>, StoreError>;

    /// Replaces name, uid, limit and metadata; the id in `application` is not looked at. With
    /// `expected` only if that is when it was last changed.
    async fn update_application(
        &self,
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError>;

    /// Removes an application with all that is its own: at once for everybody who asks; its
    /// messages go in pieces, by chores. False if there is none.
    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError>;
}

/// Event types.
#[async_trait]
pub trait HookEventTypes: Send + Sync {
    /// Makes an event type.
    async fn create_event_type(
        &self,
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> Result<(Created<EventType>, Vec<HookChange>), StoreError>;

    /// An event type.
    async fn event_type(&self, name: &EventTypeName) -> Result<Option<EventType>, StoreError>;

    /// Event types by name; archived ones only on request.
    async fn event_types(
        &self,
        page: PageRequest<EventTypeName>,
        archived: bool,
    ) -> Result<Page<EventType>, StoreError>;

    /// Makes it as given, or replaces all of it but `created_at`.
    async fn put_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(EventType, Vec<HookChange>), StoreError>;

    /// Replaces all of it but `created_at`, if it was last changed at its `updated_at`.
    async fn replace_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(UpdateOutcome<EventType>, Vec<HookChange>), StoreError>;

    /// Removes an event type for good. False if there is none.
    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError>;
}

/// Endpoints and their keys.
#[async_trait]
pub trait HookEndpoints: Send + Sync {
    /// Makes an endpoint.
    async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError>;

    /// An endpoint.
    async fn endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Endpoints of an application by age; `None` if there is no such application.
    async fn endpoints(
        &self,
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Result<Option<Page<Endpoint>>, StoreError>;

    /// Changes an endpoint.
    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError>;

    /// Removes an endpoint; what waits for it is cancelled. False if there is none.
    async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError>;

    /// The keys that sign for an endpoint: the current one first, then those that have not
    /// expired, youngest first. Empty if there is no such endpoint.
    async fn secrets(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Vec<EndpointSecret>, StoreError>;

    /// Replaces the current key of an endpoint.
    async fn rotate_secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        rotation: Rotation,
    ) -> Result<RotateOutcome, StoreError>;
}
