//! Applications and event types, and the three traits as a whole.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointRef, EventTypeName, HookChange, HookWhat,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Created, Endpoint, EndpointSecret, EndpointUpdate, EventType, HookApplications,
    HookEndpoints, HookEventTypes, Idempotency, NewApplication, NewEndpoint, Page, PageRequest,
    RotateOutcome, Rotation, UpdateOutcome,
};

use super::wire::{self, bytes, bytes_if, plain};
use super::{Core, sql};
use crate::PostgresStore;
use crate::rows::Columns;

const APPLICATION: &str = "application";
const EVENT_TYPE: &str = "event type";

/// Sorts behind every event type.
const LAST_NAME: &str = "\u{7f}";

pub(super) type Prints<'a> = (Option<&'a str>, Option<&'a [u8]>);

/// An idempotency key and its print.
pub(super) fn prints(idempotency: Option<&Idempotency>) -> Prints<'_> {
    (idempotency.map(|one| one.key.as_str()), idempotency.map(|one| one.print.as_slice()))
}

/// What was made is gone already.
pub(super) fn vanished(operation: &'static str) -> StoreError {
    StoreError::Transient { operation, source: "it was removed meanwhile".into() }
}

/// Where a page by ids begins: behind an id, or at the very beginning.
pub(super) fn place(up: bool, after: Option<Uuid>) -> Uuid {
    after.unwrap_or(if up { Uuid::nil() } else { Uuid::max() })
}

/// Cuts what was read, one more than a page holds, to the page, and puts it into its order.
pub(super) fn page<K, T>(request: &PageRequest<K>, mut items: Vec<T>) -> Page<T> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let done = items.len() <= limit;
    items.truncate(limit);
    if request.backwards && request.after.is_some() {
        items.reverse();
    }
    Page { items, done }
}

/// How many rows a page asks for: one more, to know whether there are more.
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

fn event_type(row: &Row) -> Result<EventType, StoreError> {
    let mut columns = Columns::new(EVENT_TYPE, row);
    Ok(EventType {
        name: wire::text("event type", columns.take()?)?,
        description: columns.take()?,
        schemas: bytes_if(&mut columns)?,
        enforced: columns.take()?,
        archived: columns.take()?,
        deprecated: columns.take()?,
        feature_flag: columns.take()?,
        group_name: columns.take()?,
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
    })
}

impl Core {
    pub(super) async fn application(
        &self,
        which: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError> {
        let (id, uid) = wire::application(which);
        let rows = self.general(APPLICATION, &self.sql.application, &[&id, &uid]).await?;
        rows.first().map(application).transpose()
    }

    async fn create_application(
        &self,
        new: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError> {
        plain("name", &new.name)?;
        let (key, print) = prints(idempotency.as_ref());
        let params: &[&(dyn ToSql + Sync)] = &[
            &new.id.0,
            &new.uid.as_ref().map(|uid| uid.as_str()),
            &new.name,
            &new.rate_limit.map(i64::from),
            &new.metadata.as_ref(),
            &key,
            &print,
        ];
        let rows = self.general(APPLICATION, &self.sql.application_create, params).await?;
        let Some(row) = rows.first() else { return Err(vanished(APPLICATION)) };
        let mut columns = Columns::new(APPLICATION, row);
        let code: i16 = columns.take()?;
        if code == 3 {
            return Ok(Created::KeyReused);
        }
        let id = columns.take::<Option<Uuid>>()?.ok_or_else(|| vanished(APPLICATION))?;
        let found = self.application(&ApplicationRef::Id(ApplicationId(id))).await?;
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
        ];
        let rows = self.general(APPLICATION, &self.sql.application_update, params).await?;
        let Some(row) = rows.first() else { return Ok(UpdateOutcome::Missing) };
        let mut columns = Columns::new(APPLICATION, row);
        match columns.take::<i16>()? {
            0 => {
                let id = ApplicationId(columns.take()?);
                let found = self.application(&ApplicationRef::Id(id)).await?;
                Ok(found.map_or(UpdateOutcome::Missing, UpdateOutcome::Updated))
            }
            1 => Ok(UpdateOutcome::Missing),
            _ => Ok(UpdateOutcome::Taken),
        }
    }

    async fn event_type(&self, name: &str) -> Result<Option<EventType>, StoreError> {
        let rows = self.general(EVENT_TYPE, &self.sql.event_type, &[&name]).await?;
        rows.first().map(event_type).transpose()
    }

    /// Makes or replaces one; its code, and what it is now.
    async fn put_event_type(
        &self,
        create: bool,
        new: &EventType,
        idempotency: Option<&Idempotency>,
    ) -> Result<(i16, Option<EventType>), StoreError> {
        let texts = [
            ("description", Some(&new.description)),
            ("featureFlag", new.feature_flag.as_ref()),
            ("groupName", new.group_name.as_ref()),
        ];
        for (field, text) in texts {
            text.map_or(Ok(()), |text| plain(field, text))?;
        }
        let (key, print) = prints(idempotency);
        let params: &[&(dyn ToSql + Sync)] = &[
            &create,
            &new.name.as_str(),
            &new.description,
            &new.schemas.as_deref(),
            &new.enforced,
            &new.archived,
            &new.deprecated,
            &new.feature_flag,
            &new.group_name,
            &key,
            &print,
        ];
        let rows = self.general(EVENT_TYPE, &self.sql.event_type_put, params).await?;
        let Some(row) = rows.first() else { return Err(vanished(EVENT_TYPE)) };
        let mut columns = Columns::new(EVENT_TYPE, row);
        let code: i16 = columns.take()?;
        Ok((code, self.event_type(columns.take()?).await?))
    }

    fn types_changed(&self) -> Vec<HookChange> {
        let changes = vec![HookChange::now(HookWhat::EventTypes)];
        self.tell(&changes);
        changes
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
    ) -> Result<Page<Application>, StoreError> {
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
    ) -> Result<UpdateOutcome<Application>, StoreError> {
        self.hook.core.update_application(which, application).await
    }

    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let (id, uid) = wire::application(application);
        let rows = core.general(APPLICATION, &core.sql.application_delete, &[&id, &uid]).await?;
        let gone = rows.first().map(|row| Columns::new(APPLICATION, row).take()).transpose()?;
        if gone != Some(true) {
            return Ok((false, Vec::new()));
        }
        let changes = vec![HookChange::now(HookWhat::Chores)];
        core.tell(&changes);
        Ok((true, changes))
    }
}

#[async_trait]
impl HookEventTypes for PostgresStore {
    async fn create_event_type(
        &self,
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> Result<(Created<EventType>, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let (code, found) = core.put_event_type(true, &event_type, idempotency.as_ref()).await?;
        if code == 3 {
            return Ok((Created::KeyReused, Vec::new()));
        }
        let found = found.ok_or_else(|| vanished(EVENT_TYPE))?;
        Ok(match code {
            0 => (Created::New(found), core.types_changed()),
            1 => (Created::Repeated(found), Vec::new()),
            _ => (Created::Taken(found), Vec::new()),
        })
    }

    async fn event_type(&self, name: &EventTypeName) -> Result<Option<EventType>, StoreError> {
        self.hook.core.event_type(name.as_str()).await
    }

    async fn event_types(
        &self,
        request: PageRequest<EventTypeName>,
        archived: bool,
    ) -> Result<Page<EventType>, StoreError> {
        let core = &self.hook.core;
        let up = sql::goes_up(&request);
        let edge = if up { "" } else { LAST_NAME };
        let after = request.after.as_ref().map_or(edge, |name| name.as_str());
        let params: &[&(dyn ToSql + Sync)] = &[&after, &archived, &limit(&request)];
        let rows = core.general("event types", core.sql.event_types.way(up), params).await?;
        let items = rows.iter().map(event_type).collect::<Result<_, _>>()?;
        Ok(page(&request, items))
    }

    async fn put_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(EventType, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let (_, found) = core.put_event_type(false, &event_type, None).await?;
        Ok((found.ok_or_else(|| vanished(EVENT_TYPE))?, core.types_changed()))
    }

    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let sql = &core.sql.event_type_delete;
        let rows = core.general(EVENT_TYPE, sql, &[&name.as_str()]).await?;
        if rows.is_empty() {
            return Ok((false, Vec::new()));
        }
        Ok((true, core.types_changed()))
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
    ) -> Result<Option<Page<Endpoint>>, StoreError> {
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
        Ok((self.hook.core.delete_endpoint(application, endpoint).await?, Vec::new()))
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
