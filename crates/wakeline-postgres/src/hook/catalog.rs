//! `HookApplications` and `HookEndpoints` on PostgreSQL. The queries of endpoints are in
//! [`super::endpoints`].

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointRef, HookChange, HookChangeKind, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Created, Endpoint, EndpointSecret, EndpointUpdate, HookApplications,
    HookEndpoints, HookPage, Idempotency, NewApplication, NewEndpoint, PageRequest, RotateOutcome,
    Rotation, UpdateOutcome,
};

use super::wire::{self, bytes, plain};
use super::{HookCore, sql};
use crate::PostgresStore;
use crate::access::Act;
use crate::rows::{self, Columns};

const APPLICATION: &str = "application";

pub(super) type KeyAndDigest<'a> = (Option<&'a str>, Option<&'a [u8]>);

/// An idempotency key and its digest.
pub(super) fn digests(idempotency: Option<&Idempotency>) -> KeyAndDigest<'_> {
    (idempotency.map(|one| one.key.as_str()), idempotency.map(|one| one.digest.as_slice()))
}

/// The error for an object that was deleted concurrently after it was created.
pub(super) fn vanished(operation: &'static str) -> StoreError {
    StoreError::Transient { operation, source: "the object was deleted at the same time".into() }
}

/// Returns the id after which a page begins: the given one, or one before all others.
pub(super) fn place(up: bool, after: Option<Uuid>) -> Uuid {
    after.unwrap_or(if up { Uuid::nil() } else { Uuid::max() })
}

/// Builds a page of the items that were read, which are one more than the limit if there are more
/// pages, and restores the order of a page that was read backwards.
pub(super) fn page<K, T>(request: &PageRequest<K>, mut items: Vec<T>) -> HookPage<T> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let done = items.len() <= limit;
    items.truncate(limit);
    if request.backwards && request.after.is_some() {
        items.reverse();
    }
    HookPage { items, done }
}

/// Returns the number of rows to read for a page: one more than its limit, to know whether there
/// are more pages.
pub(super) fn limit<K>(request: &PageRequest<K>) -> i64 {
    i64::from(request.limit) + 1
}

fn application(row: &Row) -> Result<Application, StoreError> {
    let mut columns = Columns::new(APPLICATION, row);
    Ok(Application {
        id: ApplicationId(columns.take()?),
        uid: columns.name_if("uid")?,
        name: columns.take()?,
        rate_limit: columns.take::<Option<i64>>()?.and_then(|rate| u32::try_from(rate).ok()),
        metadata: bytes(&mut columns)?,
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
    })
}

impl HookCore {
    pub(super) async fn application(
        &self,
        which: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError> {
        let (id, uid) = wire::application(which);
        let rows = self.general(APPLICATION, &self.sql.application, &[&id, &uid]).await?;
        rows.first().map(application).transpose()
    }

    /// Reads an application that was just written.
    async fn written_application(
        &self,
        id: ApplicationId,
    ) -> Result<Option<Application>, StoreError> {
        self.application(&ApplicationRef::Id(id)).await.map_err(StoreError::after_write)
    }

    async fn create_application(
        &self,
        new: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError> {
        plain("name", &new.name)?;
        let (key, digest) = digests(idempotency.as_ref());
        let params: &[&(dyn ToSql + Sync)] = &[
            &new.id.0,
            &new.uid.as_ref().map(|uid| uid.as_str()),
            &new.name,
            &new.rate_limit.map(i64::from),
            &new.metadata.as_ref(),
            &key,
            &digest,
        ];
        let sql = &self.sql.application_create;
        let rows = self.act(APPLICATION, sql, params, Act::coded).await?;
        let Some(row) = rows.first() else { return Err(vanished(APPLICATION)) };
        let mut columns = Columns::new(APPLICATION, row);
        let code: i16 = columns.take()?;
        if code == 3 {
            return Ok(Created::KeyReused);
        }
        let id = columns.take::<Option<Uuid>>()?.ok_or_else(|| vanished(APPLICATION))?;
        let found = self.written_application(ApplicationId(id)).await?;
        let found = found.ok_or_else(|| vanished(APPLICATION))?;
        Ok(match code {
            0 => Created::New(found),
            1 => Created::Repeated(found),
            _ => Created::Taken(found),
        })
    }

    async fn update_application(
        &self,
        which: &ApplicationRef,
        new: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError> {
        plain("name", &new.name)?;
        let (id, uid) = wire::application(which);
        let params: &[&(dyn ToSql + Sync)] = &[
            &id,
            &uid,
            &new.uid.as_ref().map(|uid| uid.as_str()),
            &new.name,
            &new.rate_limit.map(i64::from),
            &new.metadata.as_ref(),
            &expected.map(rows::system_time),
        ];
        let rows = self.naming(APPLICATION, &self.sql.application_update, params).await?;
        let Some(row) = rows.first() else { return Ok(UpdateOutcome::Missing) };
        let mut columns = Columns::new(APPLICATION, row);
        match columns.take::<i16>()? {
            0 => {
                let id = ApplicationId(columns.take()?);
                let found = self.written_application(id).await?;
                Ok(found.map_or(UpdateOutcome::Missing, UpdateOutcome::Updated))
            }
            1 => Ok(UpdateOutcome::Missing),
            2 => Ok(UpdateOutcome::Taken),
            _ => Ok(UpdateOutcome::Stale),
        }
    }
}

#[async_trait]
impl HookApplications for PostgresStore {
    async fn create_application(
        &self,
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError> {
        self.hook.core.create_application(application, idempotency).await
    }

    async fn application(
        &self,
        application: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError> {
        self.hook.core.application(application).await
    }

    async fn applications(
        &self,
        request: PageRequest<ApplicationId>,
        reserved: &str,
    ) -> Result<HookPage<Application>, StoreError> {
        let core = &self.hook.core;
        let up = sql::goes_up(&request);
        let params: &[&(dyn ToSql + Sync)] =
            &[&place(up, request.after.map(|id| id.0)), &reserved, &limit(&request)];
        let rows = core.general("applications", core.sql.applications.way(up), params).await?;
        let items = rows.iter().map(application).collect::<Result<_, _>>()?;
        Ok(page(&request, items))
    }

    async fn update_application(
        &self,
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError> {
        self.hook.core.update_application(which, application, expected).await
    }

    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let (id, uid) = wire::application(application);
        let (sql, params) = (&core.sql.application_delete, &[&id as _, &uid as _]);
        let rows = core.act(APPLICATION, sql, params, Act::said).await?;
        let Some(row) = rows.first() else { return Ok((false, Vec::new())) };
        let mut columns = Columns::new(APPLICATION, row);
        if !columns.take::<bool>()? {
            return Ok((false, Vec::new()));
        }
        let id: Option<Uuid> = columns.take()?;
        let mut more: bool = columns.take()?;
        while more {
            // The application is deleted already. If this fails, background work continues.
            let stopped = core.general(APPLICATION, &core.sql.application_stop, &[&id]).await;
            let row = stopped.ok().and_then(|rows| rows.into_iter().next());
            more = row.is_some_and(|row| row.try_get(0).unwrap_or(false));
        }
        let changes = vec![HookChange::now(HookChangeKind::Background)];
        core.notify(&changes);
        Ok((true, changes))
    }
}

#[async_trait]
impl HookEndpoints for PostgresStore {
    async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError> {
        self.hook.core.create_endpoint(application, endpoint, idempotency).await
    }

    async fn endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError> {
        self.hook.core.endpoint(application, endpoint).await
    }

    async fn endpoints(
        &self,
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Result<Option<HookPage<Endpoint>>, StoreError> {
        self.hook.core.endpoints(application, page).await
    }

    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError> {
        self.hook.core.update_endpoint(application, endpoint, update).await
    }

    async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let (gone, more) = self.hook.core.delete_endpoint(application, endpoint).await?;
        let changes: Vec<_> =
            more.then(|| HookChange::now(HookChangeKind::Background)).into_iter().collect();
        self.hook.core.notify(&changes);
        Ok((gone, changes))
    }

    async fn secrets(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Vec<EndpointSecret>, StoreError> {
        self.hook.core.secrets(application, endpoint).await
    }

    async fn rotate_secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        rotation: Rotation,
    ) -> Result<RotateOutcome, StoreError> {
        self.hook.core.rotate(application, endpoint, rotation).await
    }
}
