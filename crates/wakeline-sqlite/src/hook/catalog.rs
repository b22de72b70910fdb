//! Implements the store traits for applications, event types and endpoints.

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointRef, EventTypeName, HookChange, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Created, Endpoint, EndpointSecret, EndpointUpdate, EventType, HookApplications,
    HookEndpoints, HookEventTypes, HookPage, Idempotency, NewApplication, NewEndpoint, PageRequest,
    RotateOutcome, Rotation, UpdateOutcome,
};

use super::{application, endpoint, event_type};
use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::session::DbSession;

/// Approximate size of an application, an event type or an endpoint on disk.
const ROW_BYTES: usize = 2_000;

#[async_trait]
impl HookApplications for SqliteStore {
    async fn create_application(
        &self,
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError> {
        let work = WriteCommand::new("create_application", move |s| {
            application::create(s, &application, idempotency.as_ref())
        })
        .recorded();
        self.write(work.growing(ROW_BYTES)).await
    }

    async fn application(
        &self,
        application: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError> {
        let application = application.clone();
        let work = move |s: &mut DbSession<'_>| {
            Ok(application::find(s, &application)?.map(|found| found.1))
        };
        self.read("application", work).await
    }

    async fn applications(
        &self,
        page: PageRequest<ApplicationId>,
        reserved: &str,
    ) -> Result<HookPage<Application>, StoreError> {
        let reserved = reserved.to_owned();
        self.read("applications", move |s| application::list(s, &page, &reserved)).await
    }

    async fn update_application(
        &self,
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError> {
        let which = which.clone();
        self.write(
            WriteCommand::new("update_application", move |s| {
                application::update(s, &which, &application, expected)
            })
            .recorded(),
        )
        .await
    }

    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let application = application.clone();
        let deleted = self.write(
            WriteCommand::new("delete_application", move |s| application::delete(s, &application))
                .recorded(),
        );
        let deleted = deleted.await?;
        // The application is already marked as deleted. If stopping its endpoints fails here,
        // background work does it.
        let stop = || WriteCommand::new("delete_application", application::stop_any);
        while deleted.0 && self.write(stop()).await.unwrap_or(false) {}
        Ok(deleted)
    }
}

#[async_trait]
impl HookEventTypes for SqliteStore {
    async fn create_event_type(
        &self,
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> Result<(Created<EventType>, Vec<HookChange>), StoreError> {
        let work = WriteCommand::new("create_event_type", move |s| {
            event_type::create(s, &event_type, idempotency.as_ref())
        })
        .recorded();
        self.write(work.growing(ROW_BYTES)).await
    }

    async fn event_type(&self, name: &EventTypeName) -> Result<Option<EventType>, StoreError> {
        let name = name.clone();
        self.read("event_type", move |s| event_type::find(s, &name)).await
    }

    async fn event_types(
        &self,
        page: PageRequest<EventTypeName>,
        archived: bool,
    ) -> Result<HookPage<EventType>, StoreError> {
        self.read("event_types", move |s| event_type::list(s, &page, archived)).await
    }

    async fn put_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(EventType, Vec<HookChange>), StoreError> {
        let work = WriteCommand::new("put_event_type", move |s| event_type::put(s, &event_type))
            .recorded();
        self.write(work.growing(ROW_BYTES)).await
    }

    async fn replace_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(UpdateOutcome<EventType>, Vec<HookChange>), StoreError> {
        let work =
            WriteCommand::new("replace_event_type", move |s| event_type::replace(s, &event_type))
                .recorded();
        self.write(work.growing(ROW_BYTES)).await
    }

    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let name = name.clone();
        self.write(
            WriteCommand::new("delete_event_type", move |s| event_type::delete(s, &name))
                .recorded(),
        )
        .await
    }
}

#[async_trait]
impl HookEndpoints for SqliteStore {
    async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError> {
        let application = application.clone();
        let work = WriteCommand::new("create_endpoint", move |s| {
            endpoint::create(s, &application, &endpoint, idempotency.as_ref())
        })
        .recorded();
        self.write(work.growing(ROW_BYTES)).await
    }

    async fn endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError> {
        let (application, endpoint) = (application.clone(), endpoint.clone());
        self.read("endpoint", move |s| {
            let found = endpoint::find(s, &application, &endpoint)?;
            found.map(|no| endpoint::detail(s, no)).transpose()
        })
        .await
    }

    async fn endpoints(
        &self,
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Result<Option<HookPage<Endpoint>>, StoreError> {
        let application = application.clone();
        self.read("endpoints", move |s| endpoint::list(s, &application, &page)).await
    }

    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError> {
        let (application, endpoint) = (application.clone(), endpoint.clone());
        self.write(
            WriteCommand::new("update_endpoint", move |s| {
                endpoint::update(s, &application, &endpoint, &update)
            })
            .recorded(),
        )
        .await
    }

    async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let (application, endpoint) = (application.clone(), endpoint.clone());
        self.write(
            WriteCommand::new("delete_endpoint", move |s| {
                endpoint::delete(s, &application, &endpoint)
            })
            .recorded(),
        )
        .await
    }

    async fn secrets(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Vec<EndpointSecret>, StoreError> {
        let (application, endpoint) = (application.clone(), endpoint.clone());
        self.read("secrets", move |s| endpoint::secrets(s, &application, &endpoint)).await
    }

    async fn rotate_secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        rotation: Rotation,
    ) -> Result<RotateOutcome, StoreError> {
        let (application, endpoint) = (application.clone(), endpoint.clone());
        self.write(
            WriteCommand::new("rotate_secret", move |s| {
                endpoint::rotate(s, &application, &endpoint, &rotation)
            })
            .recorded(),
        )
        .await
    }
}
