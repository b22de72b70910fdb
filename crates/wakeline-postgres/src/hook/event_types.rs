//! `HookEventTypes` on PostgreSQL. Event types are shared by all applications.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::{EventTypeName, HookChange, HookChangeKind};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Created, EventType, HookEventTypes, HookPage, Idempotency, PageRequest, UpdateOutcome,
};

use super::catalog::{digests, limit, page, vanished};
use super::wire::{self, bytes_if, plain};
use super::{HookCore, sql};
use crate::PostgresStore;
use crate::access::Act;
use crate::connect::Params;
use crate::rows::{self, Columns};

const EVENT_TYPE: &str = "event type";

/// Sorts behind every event type.
const LAST_NAME: &str = "\u{7f}";

/// The way in which an event type is written.
enum EventTypeWrite<'a> {
    /// The type is created only if none of its name exists.
    Create(Option<&'a Idempotency>),
    /// The type is created or replaced.
    Put,
    /// The type is replaced only if it was last changed at its `updated_at`.
    Replace,
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

impl HookCore {
    async fn event_type(&self, name: &str) -> Result<Option<EventType>, StoreError> {
        let rows = self.general(EVENT_TYPE, &self.sql.event_type, &[&name]).await?;
        rows.first().map(event_type).transpose()
    }

    /// Creates or replaces an event type. Returns the code of the outcome, and the current type.
    async fn put_event_type(
        &self,
        write: EventTypeWrite<'_>,
        new: &EventType,
    ) -> Result<(i16, Option<EventType>), StoreError> {
        let texts = [
            ("description", Some(&new.description)),
            ("featureFlag", new.feature_flag.as_ref()),
            ("groupName", new.group_name.as_ref()),
        ];
        for (field, text) in texts {
            text.map_or(Ok(()), |text| plain(field, text))?;
        }
        let (create, idempotency, expected) = match write {
            EventTypeWrite::Create(idempotency) => (true, idempotency, None),
            EventTypeWrite::Put => (false, None, None),
            EventTypeWrite::Replace => (false, None, Some(rows::system_time(new.updated_at))),
        };
        let (key, digest) = digests(idempotency);
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
            &digest,
            &expected,
        ];
        let sql = &self.sql.event_type_put;
        let rows = self.act(EVENT_TYPE, sql, params, Act::coded).await?;
        let Some(row) = rows.first() else { return Err(vanished(EVENT_TYPE)) };
        let mut columns = Columns::new(EVENT_TYPE, row);
        let code: i16 = columns.take()?;
        let found = self.event_type(columns.take()?).await.map_err(StoreError::after_write)?;
        Ok((code, found))
    }

    fn types_changed(&self) -> Vec<HookChange> {
        let changes = vec![HookChange::now(HookChangeKind::EventTypes)];
        self.notify(&changes);
        changes
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
        let (code, found) =
            core.put_event_type(EventTypeWrite::Create(idempotency.as_ref()), &event_type).await?;
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
    ) -> Result<HookPage<EventType>, StoreError> {
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
        let (_, found) = core.put_event_type(EventTypeWrite::Put, &event_type).await?;
        Ok((found.ok_or_else(|| vanished(EVENT_TYPE))?, core.types_changed()))
    }

    async fn replace_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(UpdateOutcome<EventType>, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let (code, found) = core.put_event_type(EventTypeWrite::Replace, &event_type).await?;
        Ok(match code {
            0 => {
                let found = found.ok_or_else(|| vanished(EVENT_TYPE))?;
                (UpdateOutcome::Updated(found), core.types_changed())
            }
            4 => (UpdateOutcome::Missing, Vec::new()),
            _ => (UpdateOutcome::Stale, Vec::new()),
        })
    }

    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let params: Params<'_> = &[&name.as_str()];
        let sql = &core.sql.event_type_delete;
        let rows = core.act(EVENT_TYPE, sql, params, Act::any).await?;
        if rows.is_empty() {
            return Ok((false, Vec::new()));
        }
        Ok((true, core.types_changed()))
    }
}
