//! Updates of applications, event types and endpoints. An object is read, changed, and stored only
//! if it has not changed since it was read.
//!
//! # Invariants
//! * Two concurrent updates of different fields both take effect: the second one begins again with
//!   the result of the first.
//! * An update is one store call, which takes effect completely or not at all.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{ApplicationRef, EndpointRef, EventTypeName};
use wakeline_store::hook::{Application, Endpoint, EndpointUpdate, EventType, UpdateOutcome};

use super::{ApplicationIn, EndpointPatch, check, new_application, object};
use crate::error::HookError;
use crate::headers::{self, Headers};
use crate::service::HookService;

/// How often an update is tried if other updates come first.
const TRIES_MAX: u32 = 30;
/// The longest pause before the next try, in milliseconds.
const PAUSE_MAX_MS: u64 = 50;

/// Counts the tries of an update that other updates came before.
#[derive(Default)]
pub(crate) struct UpdateTries(u32);

impl UpdateTries {
    /// Pauses before another try; fails if there were too many.
    pub(crate) async fn again(&mut self) -> Result<(), HookError> {
        self.0 += 1;
        if self.0 >= TRIES_MAX {
            return Err(HookError::Contended);
        }
        // Random, so that updates that collided do not collide again.
        let most = PAUSE_MAX_MS.min(1 << self.0.min(10));
        let pause = Uuid::new_v4().as_u64_pair().1 % (most + 1);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        Ok(())
    }
}

impl HookService {
    /// Replaces an application by the result of `change`, which is called again if another update
    /// came first.
    pub async fn change_application<E: From<HookError>>(
        &self,
        which: &ApplicationRef,
        change: impl Fn(Application) -> Result<ApplicationIn, E>,
    ) -> Result<UpdateOutcome<Application>, E> {
        let mut tries = UpdateTries::default();
        loop {
            let found = self.store().application(which).await.map_err(HookError::from)?;
            let Some(now) = found else { return Ok(UpdateOutcome::Missing) };
            let (id, read_at) = (ApplicationRef::Id(now.id), now.updated_at);
            let new = change(now)?;
            check::replacement(&id, &new)?;
            let new = new_application(new);
            let updated = self.store().update_application(&id, new, Some(read_at)).await;
            match updated.map_err(HookError::from)? {
                UpdateOutcome::Stale => tries.again().await?,
                outcome => return Ok(outcome),
            }
        }
    }

    /// Replaces an event type by the result of `change`, which is called again if another update
    /// came first.
    pub async fn change_event_type<E: From<HookError>>(
        &self,
        name: &EventTypeName,
        change: impl Fn(EventType) -> Result<EventType, E>,
    ) -> Result<UpdateOutcome<EventType>, E> {
        let mut tries = UpdateTries::default();
        loop {
            let found = self.store().event_type(name).await.map_err(HookError::from)?;
            let Some(now) = found else { return Ok(UpdateOutcome::Missing) };
            let new = EventType { updated_at: now.updated_at, ..change(now)? };
            self.event_types().check_schemas(&new).await?;
            let store = self.shared_store();
            let replaced = async move { store.replace_event_type(new).await };
            match self.run_to_completion(replaced).await? {
                UpdateOutcome::Stale => tries.again().await?,
                outcome => return Ok(outcome),
            }
        }
    }

    /// Changes an endpoint.
    pub async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        patch: EndpointPatch,
    ) -> Result<UpdateOutcome<Endpoint>, HookError> {
        self.change_endpoint(application, endpoint, |_| Ok(patch.clone())).await
    }

    /// Changes an endpoint by the patch that `change` derives from its current state. It is called
    /// again if another update came first.
    pub async fn change_endpoint<E: From<HookError>>(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        change: impl Fn(&Endpoint) -> Result<EndpointPatch, E>,
    ) -> Result<UpdateOutcome<Endpoint>, E> {
        let mut tries = UpdateTries::default();
        loop {
            let found = self.store().endpoint(application, endpoint).await;
            let found = found.map_err(HookError::from)?;
            let Some(now) = found else { return Ok(UpdateOutcome::Missing) };
            let update = self.update_of(&now, change(&now)?)?;
            match self.store_update(application, &now, update).await? {
                UpdateOutcome::Stale => tries.again().await?,
                outcome => return Ok(outcome),
            }
        }
    }

    /// The update that a patch makes to an endpoint, validated and encrypted.
    fn update_of(&self, now: &Endpoint, patch: EndpointPatch) -> Result<EndpointUpdate, HookError> {
        check::patch(&patch, now, self.guard())?;
        let (url, credentials) = patch.url.map(headers::out_of_url).unzip();
        let own = match (patch.headers, credentials.flatten()) {
            (Some(own), credentials) => Some(headers::with_credentials(own, credentials)?),
            (None, Some(credentials)) => {
                let mut own = self.encryption().decrypt_headers(now.id, &now.headers)?;
                own.insert(headers::AUTHORIZATION.to_owned(), credentials);
                Some(headers::checked(own)?)
            }
            (None, None) => None,
        };
        let encrypt = |own: &Headers| self.encryption().encrypt_headers(now.id, own);
        Ok(EndpointUpdate {
            expected_version: Some(now.version),
            uid: patch.uid,
            url,
            description: patch.description,
            event_types: patch.event_types,
            channels: patch.channels,
            disabled: patch.disabled,
            metadata: patch.metadata.as_ref().map(object),
            headers: own.as_ref().map(encrypt).transpose()?,
            options: patch.options,
        })
    }

    /// Stores an update of an endpoint, and publishes its changes.
    pub(crate) async fn store_update(
        &self,
        application: &ApplicationRef,
        found: &Endpoint,
        update: EndpointUpdate,
    ) -> Result<UpdateOutcome<Endpoint>, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let endpoint = EndpointRef::Id(found.id);
        self.run_to_completion(async move {
            store.update_endpoint(&application, &endpoint, update).await
        })
        .await
    }
}
