//! Applications, event types and endpoints: checked, sealed, stored.

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

/// An application to make or to replace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ApplicationIn {
    /// Its name, for people.
    pub name: String,
    /// Its user's own id.
    pub uid: Option<Uid>,
    /// Most messages a second, as a note.
    pub rate_limit: Option<u32>,
    /// The user's own notes.
    pub metadata: Map<String, Value>,
}

/// An endpoint to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EndpointIn {
    /// Its user's own id.
    pub uid: Option<Uid>,
    /// Where it is; empty for one that is pulled from. Credentials in it become a header.
    pub url: String,
    /// What it is for.
    pub description: String,
    /// Which types it gets; empty is all.
    pub event_types: Vec<EventPattern>,
    /// Which channels it gets; empty is all messages.
    pub channels: Vec<Channel>,
    /// Whether it gets nothing for now.
    pub disabled: bool,
    /// The user's own notes.
    pub metadata: Map<String, Value>,
    /// Its own headers.
    pub headers: BTreeMap<String, String>,
    /// Its signing key, `whsec_...` or `whsk_...`; `None` makes one.
    pub secret: Option<String>,
    /// How it is delivered to.
    pub options: EndpointOptions,
}

/// What to change of an endpoint; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointPatch {
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
    /// Whether it gets nothing.
    pub disabled: Option<bool>,
    /// The user's own notes.
    pub metadata: Option<Map<String, Value>>,
    /// Its own headers: all of them.
    pub headers: Option<BTreeMap<String, String>>,
    /// How it is delivered to.
    pub options: Option<EndpointOptions>,
}

impl HookService {
    /// Makes an application.
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

    /// Removes an application with all that is its own. False if there is none.
    pub async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<bool, HookError> {
        check::deletion(application)?;
        let (store, application) = (self.shared_store(), application.clone());
        self.to_the_end(async move { store.delete_application(&application).await }).await
    }

    /// Makes an event type.
    pub async fn create_event_type(
        &self,
        event_type: EventType,
        key: Option<IdempotencyKey>,
    ) -> Result<Created<EventType>, HookError> {
        self.event_types().check_schemas(&event_type).await?;
        let idempotency = idempotency(key, &print_of(&event_type));
        let store = self.shared_store();
        self.to_the_end(async move { store.create_event_type(event_type, idempotency).await }).await
    }

    /// Makes an event type as given, or replaces it.
    pub async fn put_event_type(&self, event_type: EventType) -> Result<EventType, HookError> {
        self.event_types().check_schemas(&event_type).await?;
        let store = self.shared_store();
        self.to_the_end(async move { store.put_event_type(event_type).await }).await
    }

    /// Removes an event type for good. False if there is none.
    pub async fn delete_event_type(&self, name: &EventTypeName) -> Result<bool, HookError> {
        let (store, name) = (self.shared_store(), name.clone());
        self.to_the_end(async move { store.delete_event_type(&name).await }).await
    }

    /// Makes an endpoint.
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
            disabled: endpoint.disabled.then_some(DisableReason::Asked),
            metadata: object(&endpoint.metadata),
            headers: self.vault().seal_headers(id, &own_headers)?,
            secret: self.vault().seal_secret(id, &signing)?,
            options: endpoint.options,
        };
        if !check::is_own(application) {
            return Ok(self.store().create_endpoint(application, new, idempotency).await?);
        }
        // Made when first wanted: operational messages are dropped where nobody gets them.
        self.store().create_application(operational_application(), None).await?;
        let created = self.store().create_endpoint(application, new, idempotency).await;
        Ok(created.map_err(StoreError::after_write)?)
    }

    /// Removes an endpoint; what waits for it is cancelled. False if there is none.
    pub async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<bool, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let endpoint = endpoint.clone();
        self.to_the_end(async move { store.delete_endpoint(&application, &endpoint).await }).await
    }
}

/// An application as a store wants it, with an id of its own.
pub(crate) fn new_application(application: ApplicationIn) -> NewApplication {
    NewApplication {
        id: ApplicationId::generate(),
        name: application.name,
        uid: application.uid,
        rate_limit: application.rate_limit,
        metadata: object(&application.metadata),
    }
}

pub(crate) use change::Tries;
pub(crate) use check::application as check_application;

/// What makes repeating a request harmless: its key, and a digest of all that it asks for.
pub(crate) fn idempotency(
    key: Option<IdempotencyKey>,
    request: &impl Serialize,
) -> Option<Idempotency> {
    let text = serde_json::to_vec(request).expect("requests are always JSON");
    let print = digest(&SHA256, &text);
    let print = print.as_ref().try_into().expect("32 bytes");
    key.map(|key| Idempotency { key, print })
}

fn print_of(event_type: &EventType) -> Value {
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
