//! Event types, which all applications share.

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{EventTypeName, HookChange, HookChangeKind, Timestamp};
use wakeline_store::hook::{Created, EventType, HookPage, Idempotency, PageRequest, UpdateOutcome};

use super::key::{self, EarlierRequest, IdempotencyKeyScope, IdempotencyScope};
use super::page::IndexWalk;
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

const SCOPE: IdempotencyKeyScope = IdempotencyKeyScope::shared(IdempotencyScope::EventType);
/// A string above every name, because names are ASCII.
const HIGHEST: &str = "\u{7f}";

/// Looks up an event type.
pub(super) fn find(s: &DbSession<'_>, name: &EventTypeName) -> Res<Option<EventType>> {
    let mut statement = s.conn.prepare_cached(sql!("event_type_read"))?;
    let mut rows = statement.query([name.as_str()])?;
    rows.next()?.map(decode).transpose()
}

/// Creates an event type.
pub(super) fn create(
    s: &mut DbSession<'_>,
    new: &EventType,
    idempotency: Option<&Idempotency>,
) -> Res<(Created<EventType>, Vec<HookChange>)> {
    let unchanged = |outcome| Ok((outcome, Vec::new()));
    match key::look(s, SCOPE, idempotency)? {
        EarlierRequest::Other => return unchanged(Created::KeyReused),
        EarlierRequest::Made(name) => {
            let name = EventTypeName::new(&name).map_err(corrupt("idempotency key", &name))?;
            if let Some(made) = find(s, &name)? {
                return unchanged(Created::Repeated(made));
            }
        }
        EarlierRequest::Nothing => {}
    }
    if let Some(rival) = find(s, &new.name)? {
        return unchanged(Created::Taken(rival));
    }
    let (made, changes) = put(s, new)?;
    key::remember(s, SCOPE, idempotency, made.name.as_str())?;
    Ok((Created::New(made), changes))
}

/// Creates an event type, or replaces it if it exists.
pub(super) fn put(s: &mut DbSession<'_>, new: &EventType) -> Res<(EventType, Vec<HookChange>)> {
    s.conn.prepare_cached(sql!("event_type_put"))?.execute((
        new.name.as_str(),
        &new.description,
        new.schemas.as_deref(),
        new.enforced,
        new.archived,
        new.deprecated,
        &new.feature_flag,
        &new.group_name,
        s.now.0,
    ))?;
    let written = find(s, &new.name)?.expect("it was just written");
    Ok((written, hint_event_types(s)))
}

/// Replaces an event type, unless it was changed after the given `updated_at`.
pub(super) fn replace(
    s: &mut DbSession<'_>,
    new: &EventType,
) -> Res<(UpdateOutcome<EventType>, Vec<HookChange>)> {
    match find(s, &new.name)? {
        None => Ok((UpdateOutcome::Missing, Vec::new())),
        Some(old) if old.updated_at != new.updated_at => Ok((UpdateOutcome::Stale, Vec::new())),
        Some(_) => {
            let (written, changes) = put(s, new)?;
            Ok((UpdateOutcome::Updated(written), changes))
        }
    }
}

/// Deletes an event type. Returns whether it existed.
pub(super) fn delete(s: &mut DbSession<'_>, name: &EventTypeName) -> Res<(bool, Vec<HookChange>)> {
    let removed = s.conn.prepare_cached(sql!("event_type_delete"))?.execute([name.as_str()])? > 0;
    Ok((removed, if removed { hint_event_types(s) } else { Vec::new() }))
}

fn hint_event_types(s: &mut DbSession<'_>) -> Vec<HookChange> {
    let changes = vec![HookChange::now(HookChangeKind::EventTypes)];
    s.hint_hook(&changes);
    changes
}

/// Lists event types by name.
pub(super) fn list(
    s: &DbSession<'_>,
    page: &PageRequest<EventTypeName>,
    archived: bool,
) -> Res<HookPage<EventType>> {
    let edge = |up: bool| if up { String::new() } else { HIGHEST.to_owned() };
    let walk = IndexWalk::new(page, |name| name.as_str().to_owned(), edge);
    let sql = walk.pick(sql!("event_type_list_up"), sql!("event_type_list_down"));
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((&walk.bound, archived, walk.rows))?;
    walk.read(&mut rows, decode)
}

fn decode(row: &Row<'_>) -> Res<EventType> {
    let name: String = row.get(0)?;
    Ok(EventType {
        name: EventTypeName::new(&name).map_err(corrupt("event type", &name))?,
        description: row.get(1)?,
        schemas: row.get::<_, Option<Vec<u8>>>(2)?.map(Bytes::from),
        enforced: row.get(3)?,
        archived: row.get(4)?,
        deprecated: row.get(5)?,
        feature_flag: row.get(6)?,
        group_name: row.get(7)?,
        created_at: Timestamp(row.get(8)?),
        updated_at: Timestamp(row.get(9)?),
    })
}
