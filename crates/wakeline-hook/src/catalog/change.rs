//! Changes of what is there: read, changed, and stored if it is still as it was read.
//!
//! # Invariants
//! * Of two who change different things at once, both get what they want: who comes second begins
//!   anew from what the first one left.
//! * A change is one store call: it happens as a whole or not at all.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{ApplicationRef, EndpointRef, EventTypeName};
use wakeline_store::hook::{Application, Endpoint, EndpointUpdate, EventType, UpdateOutcome};

use super::{ApplicationIn, EndpointPatch, check, new_application, object};
use crate::error::HookError;
use crate::headers::{self, Headers};
use crate::service::HookService;

/// How often a change is made anew because somebody else came first.
const TRIES_MAX: u32 = 30;
/// The longest pause before it is made anew.
const PAUSE_MAX_MS: u64 = 50;

/// Counts how often somebody else came first.
#[derive(Default)]
pub(crate) struct Tries(u32);

impl Tries {
    /// Pauses before another try; fails if there were enough of them.
    pub(crate) async fn again(&mut self) -> Result<(), HookError> {
        self.0 += 1;
        if self.0 >= TRIES_MAX {
            return Err(HookError::Contended);
        }
        // By chance, so that those who met do not meet again.
        let most = PAUSE_MAX_MS.min(1 << self.0.min(10));
        let pause = Uuid::new_v4().as_u64_pair().1 % (most + 1);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        Ok(())
    }
}

impl HookService {
    /// Changes an application into what `change` makes of it. It is called again if somebody else
    /// came first.
    pub async fn change_application<E: From<HookError>>(
        &self,
        which: &ApplicationRef,
        change: impl Fn(Application) -> Result<ApplicationIn, E>,
    ) -> Result<UpdateOutcome<Application>, E> {
        let mut tries = Tries::default();
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

    /// Changes an event type into what `change` makes of it. It is called again if somebody else
    /// came first.
    pub async fn change_event_type<E: From<HookError>>(
        &self,
        name: &EventTypeName,
        change: impl Fn(EventType) -> Result<EventType, E>,
    ) -> Result<UpdateOutcome<EventType>, E> {
        let mut tries = Tries::default();
        loop {
            let found = self.store().event_type(name).await.map_err(HookError::from)?;
            let Some(now) = found else { return Ok(UpdateOutcome::Missing) };
            let new = EventType { updated_at: now.updated_at, ..change(now)? };
            self.event_types().check_schemas(&new).await?;
            let store = self.shared_store();
            let replaced = async move { store.replace_event_type(new).await };
            match self.to_the_end(replaced).await? {
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

    /// Changes an endpoint by the patch that `change` makes from what it is. It is called again
    /// if somebody else came first.
    pub async fn change_endpoint<E: From<HookError>>(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        change: impl Fn(&Endpoint) -> Result<EndpointPatch, E>,
    ) -> Result<UpdateOutcome<Endpoint>, E> {
        let mut tries = Tries::default();
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

    /// What a patch changes of an endpoint, checked and sealed.
    fn update_of(&self, now: &Endpoint, patch: EndpointPatch) -> Result<EndpointUpdate, HookError> {
        check::patch(&patch, now, self.guard())?;
        let (url, credentials) = patch.url.map(headers::out_of_url).unzip();
        let own = match (patch.headers, credentials.flatten()) {
            (Some(own), credentials) => Some(headers::with_credentials(own, credentials)?),
            (None, Some(credentials)) => {
                let mut own = self.vault().open_headers(now.id, &now.headers)?;
                own.insert(headers::AUTHORIZATION.to_owned(), credentials);
                Some(headers::checked(own)?)
            }
            (None, None) => None,
        };
        let seal = |own: &Headers| self.vault().seal_headers(now.id, own);
        Ok(EndpointUpdate {
            expected_version: Some(now.version),
            uid: patch.uid,
            url,
            description: patch.description,
            event_types: patch.event_types,
            channels: patch.channels,
            disabled: patch.disabled,
            metadata: patch.metadata.as_ref().map(object),
            headers: own.as_ref().map(seal).transpose()?,
            options: patch.options,
        })
    }

    /// Stores a change of an endpoint that was found, and tells whom it concerns.
    pub(crate) async fn store_update(
        &self,
        application: &ApplicationRef,
        found: &Endpoint,
        update: EndpointUpdate,
    ) -> Result<UpdateOutcome<Endpoint>, HookError> {
        let (store, application) = (self.shared_store(), application.clone());
        let endpoint = EndpointRef::Id(found.id);
        self.to_the_end(async move { store.update_endpoint(&application, &endpoint, update).await })
            .await
    }
}
