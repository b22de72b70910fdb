//! Applications, event types and endpoints.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EndpointOptions, EndpointRef, EventPattern,
    EventTypeName, HookChange, IdempotencyKey, Timestamp, Uid,
};

use super::page::{HookPage, PageRequest};
use crate::error::StoreError;

/// Makes a repeated request harmless. Within 12 hours a request with the same key and digest
/// creates nothing and gets the first one's result; one with another digest is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The idempotency key of the request.
    pub key: IdempotencyKey,
    /// A digest of the request's content.
    pub digest: [u8; 32],
}

/// The outcome of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created<T> {
    /// The object was created.
    New(T),
    /// A request with the same idempotency key created it earlier.
    Repeated(T),
    /// The requested uid belongs to this existing object.
    Taken(T),
    /// A different request used the same idempotency key.
    KeyReused,
    /// The application does not exist.
    NoApplication,
}

/// The outcome of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome<T> {
    /// The object after the update.
    Updated(T),
    /// The object does not exist.
    Missing,
    /// The new uid belongs to another object.
    Taken,
    /// The object was changed since the caller read it; nothing was updated.
    Stale,
}

/// An application (tenant) to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplication {
    /// The application's id, chosen by the caller.
    pub id: ApplicationId,
    /// The display name.
    pub name: String,
    /// The user's own id for the application.
    pub uid: Option<Uid>,
    /// The maximum messages per second; stores record it but do not enforce it.
    pub rate_limit: Option<u32>,
    /// The user's metadata, a JSON object.
    pub metadata: Bytes,
}

/// An application: one tenant of the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The application's id.
    pub id: ApplicationId,
    /// The display name.
    pub name: String,
    /// The user's own id for the application.
    pub uid: Option<Uid>,
    /// The maximum messages per second, recorded only.
    pub rate_limit: Option<u32>,
    /// The user's metadata, a JSON object.
    pub metadata: Bytes,
    /// When the application was created.
    pub created_at: Timestamp,
    /// When the application was last changed.
    pub updated_at: Timestamp,
}

/// An event type. Event types are shared by all applications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    /// The event type's name.
    pub name: EventTypeName,
    /// A description of the event, for readers.
    pub description: String,
    /// JSON schemas by version, as a JSON object.
    pub schemas: Option<Bytes>,
    /// Whether messages that do not match the newest schema are refused.
    pub enforced: bool,
    /// Whether it is archived: kept, but omitted from lists.
    pub archived: bool,
    /// Whether its use is discouraged.
    pub deprecated: bool,
    /// A feature flag that readers need in order to see it; recorded only.
    pub feature_flag: Option<String>,
    /// A label that groups types in lists; recorded only.
    pub group_name: Option<String>,
    /// When the type was created; ignored in writes.
    pub created_at: Timestamp,
    /// When the type was last changed; in writes only a conditional replacement reads it.
    pub updated_at: Timestamp,
}

/// A signing key, encrypted by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSecret {
    /// The encrypted key.
    pub encrypted: Bytes,
    /// Until when the key signs; `None` for the current key.
    pub expires_at: Option<Timestamp>,
}

/// Why an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisableReason {
    /// It was disabled by a request.
    Requested,
    /// It answered with status 410 (Gone).
    Gone,
    /// All attempts failed for too long.
    Failing,
}

/// An endpoint to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEndpoint {
    /// The endpoint's id, chosen by the caller.
    pub id: EndpointId,
    /// The user's own id, unique within the application.
    pub uid: Option<Uid>,
    /// The URL to call; empty for an endpoint that consumers pull from.
    pub url: String,
    /// A description for readers.
    pub description: String,
    /// The event types that it receives; empty means all.
    pub event_types: Vec<EventPattern>,
    /// The channels that it receives; empty means all messages, with or without channels.
    pub channels: Vec<Channel>,
    /// Why it is disabled; `None` if it is enabled.
    pub disabled: Option<DisableReason>,
    /// The user's metadata, a JSON object.
    pub metadata: Bytes,
    /// Additional request headers, encrypted.
    pub headers: Bytes,
    /// The signing key, encrypted.
    pub secret: Bytes,
    /// The options for delivering to it.
    pub options: EndpointOptions,
}

/// An endpoint: where messages of an application are delivered to or pulled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The endpoint's id.
    pub id: EndpointId,
    /// The application that owns it.
    pub application: ApplicationId,
    /// The user's own id for the endpoint.
    pub uid: Option<Uid>,
    /// The URL to call; empty for an endpoint that consumers pull from.
    pub url: String,
    /// A description for readers.
    pub description: String,
    /// The event types that it receives; empty means all.
    pub event_types: Vec<EventPattern>,
    /// The channels that it receives; empty means all messages.
    pub channels: Vec<Channel>,
    /// Why it is disabled; `None` if it is enabled.
    pub disabled: Option<DisableReason>,
    /// The user's metadata, a JSON object.
    pub metadata: Bytes,
    /// Additional request headers, encrypted.
    pub headers: Bytes,
    /// The options for delivering to it.
    pub options: EndpointOptions,
    /// The number of changes so far, starting at 1.
    pub version: u64,
    /// When the endpoint was created.
    pub created_at: Timestamp,
    /// When the endpoint was last changed.
    pub updated_at: Timestamp,
    /// Since when all attempts have failed, if they do.
    pub failing_since: Option<Timestamp>,
    /// How long the circuit breaker stays open.
    pub paused_for: Option<Duration>,
}

/// Changes to an endpoint; a field that is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointUpdate {
    /// Update only if this is the current version; `None` updates any version.
    pub expected_version: Option<u64>,
    /// The user's own id; the inner `None` removes it.
    pub uid: Option<Option<Uid>>,
    /// The URL to call.
    pub url: Option<String>,
    /// A description for readers.
    pub description: Option<String>,
    /// The event types that it receives; empty means all.
    pub event_types: Option<Vec<EventPattern>>,
    /// The channels that it receives; empty means all messages.
    pub channels: Option<Vec<Channel>>,
    /// Whether it is disabled. Enabling it forgets its failures and closes its circuit breaker.
    pub disabled: Option<bool>,
    /// The user's metadata, a JSON object.
    pub metadata: Option<Bytes>,
    /// Additional request headers, encrypted.
    pub headers: Option<Bytes>,
    /// The options for delivering to it.
    pub options: Option<EndpointOptions>,
}

/// A new signing key for an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The new key, encrypted.
    pub encrypted: Bytes,
    /// How long the previous key continues to sign as well.
    pub grace: Duration,
    /// The maximum number of old keys that may still sign afterwards.
    pub old_max: u32,
}

/// The outcome of a key rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotateOutcome {
    /// The new key signs from now on.
    Rotated,
    /// The endpoint does not exist.
    Missing,
    /// Too many old keys still sign; nothing changed.
    TooMany,
}

/// Storage of applications.
#[async_trait]
pub trait HookApplications: Send + Sync {
    /// Creates an application.
    async fn create_application(
        &self,
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError>;

    /// An application; `None` if it does not exist.
    async fn application(
        &self,
        application: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError>;

    /// Applications by age. Those whose uid begins with `reserved` are omitted.
    async fn applications(
        &self,
        page: PageRequest<ApplicationId>,
        reserved: &str,
    ) -> Result<HookPage<Application>, StoreError>;

    /// Replaces name, uid, limit and metadata; the id in `application` is ignored. With `expected`,
    /// only if the application was last changed at that time.
    async fn update_application(
        &self,
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError>;

    /// Removes an application with all its data. It disappears for readers at once; its messages
    /// are removed in batches by maintenance tasks. Returns false if it does not exist.
    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError>;
}

/// Storage of event types.
#[async_trait]
pub trait HookEventTypes: Send + Sync {
    /// Creates an event type.
    async fn create_event_type(
        &self,
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> Result<(Created<EventType>, Vec<HookChange>), StoreError>;

    /// An event type; `None` if it does not exist.
    async fn event_type(&self, name: &EventTypeName) -> Result<Option<EventType>, StoreError>;

    /// Event types by name; archived ones only if `archived` is set.
    async fn event_types(
        &self,
        page: PageRequest<EventTypeName>,
        archived: bool,
    ) -> Result<HookPage<EventType>, StoreError>;

    /// Creates the event type, or replaces all of it except `created_at`.
    async fn put_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(EventType, Vec<HookChange>), StoreError>;

    /// Replaces all of it except `created_at`, if it was last changed at the given `updated_at`.
    async fn replace_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(UpdateOutcome<EventType>, Vec<HookChange>), StoreError>;

    /// Removes an event type permanently. Returns false if it does not exist.
    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError>;
}

/// Storage of endpoints and their signing keys.
#[async_trait]
pub trait HookEndpoints: Send + Sync {
    /// Creates an endpoint.
    async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError>;

    /// An endpoint; `None` if it does not exist.
    async fn endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Endpoints of an application by age; `None` if the application does not exist.
    async fn endpoints(
        &self,
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Result<Option<HookPage<Endpoint>>, StoreError>;

    /// Changes an endpoint.
    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError>;

    /// Removes an endpoint and cancels its waiting deliveries. Returns false if it does not exist.
    async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError>;

    /// The keys that sign for an endpoint: the current one first, then unexpired old ones, newest
    /// first. Empty if the endpoint does not exist.
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
