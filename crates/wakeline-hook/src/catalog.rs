//! Creation and removal of applications, event types and endpoints: validation, encryption, and the
//! store calls.

mod change;
mod check;

use std::collections::BTreeMap;

use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::{Map, Value};
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EndpointId, EndpointOptions, EndpointRef, EventPattern,
    EventTypeName, IdempotencyKey, Uid,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Created, DisableReason, Endpoint, EventType, Idempotency, NewApplication,
    NewEndpoint,
};

use crate::announce::operational_application;
use crate::error::HookError;
use crate::headers;
use crate::secrets::secret_error;
use crate::service::HookService;
use crate::sign::SigningKey;

/// An application to create, or the values that replace an existing one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ApplicationIn {
    /// The display name.
    pub name: String,
    /// The user's own id for the application.
    pub uid: Option<Uid>,
    /// The maximum messages per second, recorded only.
    pub rate_limit: Option<u32>,
    /// The user's metadata.
    pub metadata: Map<String, Value>,
}

/// An endpoint to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EndpointIn {
    /// The user's own id for the endpoint.
    pub uid: Option<Uid>,
    /// The URL to call; empty for an endpoint that consumers pull from. Credentials in it become a
    /// header.
    pub url: String,
    /// A description for readers.
    pub description: String,
    /// The event types that it receives; empty means all.
    pub event_types: Vec<EventPattern>,
    /// The channels that it receives; empty means all messages.
    pub channels: Vec<Channel>,
    /// Whether it is created disabled.
    pub disabled: bool,
    /// The user's metadata.
    pub metadata: Map<String, Value>,
    /// Additional request headers.
    pub headers: BTreeMap<String, String>,
    /// The signing key, `whsec_...` or `whsk_...`; `None` generates one.
    pub secret: Option<String>,
    /// The options for delivering to it.
    pub options: EndpointOptions,
}

/// Changes to an endpoint; a field that is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointPatch {
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
    /// Whether it is disabled.
    pub disabled: Option<bool>,
    /// The user's metadata.
    pub metadata: Option<Map<String, Value>>,
    /// The additional request headers, which replace all existing ones.
    pub headers: Option<BTreeMap<String, String>>,
    /// The options for delivering to it.
    pub options: Option<EndpointOptions>,
}

impl HookService {
    /// Creates an application.
    pub async fn create_application(
        &self,
        application: ApplicationIn,
        key: Option<IdempotencyKey>,
    ) -> Result<Created<Application>, HookError> {
        check::application(&application)?;
        let idempotency = idempotency(key, &application);
        let new = new_application(application);
        Ok(self.store().create_application(new, idempotency).await?)
    }

    /// Removes an application with all its data. Returns false if it does not exist.
    pub async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<bool, HookError> {
        check::deletion(application)?;
        let (store, application) = (self.shared_store(), application.clone());
        self.run_to_completion(async move { store.delete_application(&application).await }).await
    }

    /// Creates an event type.
    pub async fn create_event_type(
        &self,
        event_type: EventType,
        key: Option<IdempotencyKey>,
    ) -> Result<Created<EventType>, HookError> {
        self.event_types().check_schemas(&event_type).await?;
        let idempotency = idempotency(key, &content_of(&event_type));
        let store = self.shared_store();
        self.run_to_completion(
            async move { store.create_event_type(event_type, idempotency).await },
        )
        .await
    }

    /// Creates an event type, or replaces it.
    pub async fn put_event_type(&self, event_type: EventType) -> Result<EventType, HookError> {
        self.event_types().check_schemas(&event_type).await?;
        let store = self.shared_store();
        self.run_to_completion(async move { store.put_event_type(event_type).await }).await
    }

    /// Removes an event type permanently. Returns false if it does not exist.
    pub async fn delete_event_type(&self, name: &EventTypeName) -> Result<bool, HookError> {
        let (store, name) = (self.shared_store(), name.clone());
        self.run_to_completion(async move { store.delete_event_type(&name).await }).await
    }

    /// Creates an endpoint.
    pub async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: EndpointIn,
        key: Option<IdempotencyKey>,
    ) -> Result<Created<Endpoint>, HookError> {
        check::endpoint(&endpoint, self.guard())?;
        let idempotency = idempotency(key, &endpoint);
        let (url, credentials) = headers::out_of_url(endpoint.url);
        let signing = match &endpoint.secret {
            Some(text) => SigningKey::parse(text),
            None => SigningKey::generate(),
        };
        let signing = signing.map_err(|error| secret_error(&error))?;
        let id = EndpointId::generate();
        let own_headers = headers::with_credentials(endpoint.headers, credentials)?;
        let new = NewEndpoint {
            id,
            uid: endpoint.uid,
            url,
            description: endpoint.description,
            event_types: endpoint.event_types,
            channels: endpoint.channels,
            disabled: endpoint.disabled.then_some(DisableReason::Requested),
            metadata: object(&endpoint.metadata),
            headers: self.encryption().encrypt_headers(id, &own_headers)?,
            secret: self.encryption().encrypt_secret(id, &signing)?,
            options: endpoint.options,
        };
        if !check::is_own(application) {
            return Ok(self.store().create_endpoint(application, new, idempotency).await?);
        }
        // The application is created with its first endpoint, because operational messages are
        // dropped as long as there is no endpoint to receive them.
        self.store().create_application(operational_application(), None).await?;
        let created = self.store().create_endpoint(application, new, idempotency).await;
        Ok(created.map_err(StoreError::after_write)?)
    }

    /// Removes an endpoint and cancels its waiting deliveries. Returns false if it does not exist.
    pub async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<bool, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let endpoint = endpoint.clone();
        self.run_to_completion(async move { store.delete_endpoint(&application, &endpoint).await })
            .await
    }
}

/// An application to store, with a new id.
pub(crate) fn new_application(application: ApplicationIn) -> NewApplication {
    NewApplication {
        id: ApplicationId::generate(),
        name: application.name,
        uid: application.uid,
        rate_limit: application.rate_limit,
        metadata: object(&application.metadata),
    }
}

pub(crate) use change::UpdateTries;
pub(crate) use check::application as check_application;

/// The idempotency key of a request, with a digest of the request's content.
pub(crate) fn idempotency(
    key: Option<IdempotencyKey>,
    request: &impl Serialize,
) -> Option<Idempotency> {
    let text = serde_json::to_vec(request).expect("requests are always JSON");
    let digest = digest(&SHA256, &text);
    let digest = digest.as_ref().try_into().expect("32 bytes");
    key.map(|key| Idempotency { key, digest })
}

/// The content of a request to create an event type, from which its digest is computed.
fn content_of(event_type: &EventType) -> Value {
    serde_json::json!({
        "name": event_type.name,
        "description": event_type.description,
        "schemas": event_type.schemas.as_ref().map(|text| String::from_utf8_lossy(text)),
        "flags": [event_type.enforced, event_type.archived, event_type.deprecated],
        "notes": [event_type.feature_flag, event_type.group_name],
    })
}

fn object(map: &Map<String, Value>) -> Bytes {
    serde_json::to_vec(map).expect("a map of JSON is JSON").into()
}
