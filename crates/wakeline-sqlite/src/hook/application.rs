//! Applications: the tenants of webhooks.

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{ApplicationId, ApplicationRef, HookChange, HookChangeKind, Timestamp, Uid};
use wakeline_store::hook::{
    Application, Created, HookPage, Idempotency, NewApplication, PageRequest, UpdateOutcome,
};

use super::background_task;
use super::cache::{self, uuid};
use super::key::{self, EarlierRequest, IdempotencyKeyScope, IdempotencyScope};
use super::page::IndexWalk;
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

const SCOPE: IdempotencyKeyScope = IdempotencyKeyScope::shared(IdempotencyScope::Application);
/// The maximum number of endpoints that one command stops.
const STOPPED_MAX: i64 = 500;

/// Looks up an application that is not deleted, with its number.
pub(super) fn find(s: &DbSession<'_>, which: &ApplicationRef) -> Res<Option<(i64, Application)>> {
    match which {
        ApplicationRef::Id(id) => by_id(s, *id),
        ApplicationRef::Own(uid) => by_uid(s, uid),
    }
}

fn by_id(s: &DbSession<'_>, id: ApplicationId) -> Res<Option<(i64, Application)>> {
    let mut statement = s.conn.prepare_cached(sql!("application_by_id"))?;
    let mut rows = statement.query([id.0.into_bytes()])?;
    rows.next()?.map(decode).transpose()
}

fn by_uid(s: &DbSession<'_>, uid: &Uid) -> Res<Option<(i64, Application)>> {
    let mut statement = s.conn.prepare_cached(sql!("application_by_uid"))?;
    let mut rows = statement.query([uid.as_str()])?;
    rows.next()?.map(decode).transpose()
}

/// Creates an application.
pub(super) fn create(
    s: &mut DbSession<'_>,
    new: &NewApplication,
    idempotency: Option<&Idempotency>,
) -> Res<Created<Application>> {
    match key::look(s, SCOPE, idempotency)? {
        EarlierRequest::Other => return Ok(Created::KeyReused),
        EarlierRequest::Made(id) => {
            let id: ApplicationId = id.parse().map_err(corrupt("idempotency key", &id))?;
            if let Some((_, made)) = by_id(s, id)? {
                return Ok(Created::Repeated(made));
            }
        }
        EarlierRequest::Nothing => {}
    }
    if let Some((_, same)) = by_id(s, new.id)? {
        return Ok(Created::Repeated(same));
    }
    if let Some((_, rival)) = new.uid.as_ref().map_or(Ok(None), |uid| by_uid(s, uid))? {
        return Ok(Created::Taken(rival));
    }
    add(s, new)?;
    key::remember(s, SCOPE, idempotency, &new.id.to_string())?;
    let (_, made) = by_id(s, new.id)?.expect("it was just made");
    Ok(Created::New(made))
}

/// Returns the application with the id, or the id chosen by its user. It is created if it does not
/// exist.
pub(super) fn ensure(s: &DbSession<'_>, new: &NewApplication) -> Res<(i64, ApplicationId)> {
    let same = match &new.uid {
        Some(uid) => by_uid(s, uid)?,
        None => None,
    };
    match same.map_or_else(|| by_id(s, new.id), |same| Ok(Some(same)))? {
        Some((no, same)) => Ok((no, same.id)),
        None => Ok((add(s, new)?, new.id)),
    }
}

fn add(s: &DbSession<'_>, new: &NewApplication) -> Res<i64> {
    s.conn.prepare_cached(sql!("application_add"))?.execute((
        new.id.0.into_bytes(),
        new.uid.as_ref().map(Uid::as_str),
        &new.name,
        new.rate_limit,
        &new.metadata[..],
        s.now.0,
    ))?;
    Ok(s.conn.last_insert_rowid())
}

/// Replaces name, uid, rate limit and metadata.
pub(super) fn update(
    s: &mut DbSession<'_>,
    which: &ApplicationRef,
    new: &NewApplication,
    expected: Option<Timestamp>,
) -> Res<UpdateOutcome<Application>> {
    let Some((no, old)) = find(s, which)? else { return Ok(UpdateOutcome::Missing) };
    if expected.is_some_and(|at| at != old.updated_at) {
        return Ok(UpdateOutcome::Stale);
    }
    if let Some(uid) = &new.uid
        && by_uid(s, uid)?.is_some_and(|(other, _)| other != no)
    {
        return Ok(UpdateOutcome::Taken);
    }
    s.conn.prepare_cached(sql!("application_write"))?.execute((
        no,
        new.uid.as_ref().map(Uid::as_str),
        &new.name,
        new.rate_limit,
        &new.metadata[..],
        s.now.0,
    ))?;
    s.cache.hook.forget_applications();
    let (_, updated) = by_id(s, old.id)?.expect("it was just written");
    Ok(UpdateOutcome::Updated(updated))
}

/// Marks an application and its endpoints as deleted, so that no request finds them.
pub(super) fn delete(
    s: &mut DbSession<'_>,
    which: &ApplicationRef,
) -> Res<(bool, Vec<HookChange>)> {
    let Some((no, _)) = cache::application(s, which)? else { return Ok((false, Vec::new())) };
    // Waiting deliveries stay unchanged until background work removes them, because there may be
    // very many. Idempotency keys of its requests are removed when they expire.
    s.conn.prepare_cached(sql!("application_delete"))?.execute((no, s.now.0))?;
    stop_some(s, no)?;
    s.conn.prepare_cached(sql!("job_forget"))?.execute([no])?;
    s.conn.prepare_cached(sql!("fan_out_forget"))?.execute([no])?;
    background_task::forget_if_empty(s, no)?;
    s.cache.clear();
    let changes = vec![HookChange::now(HookChangeKind::Background)];
    s.hint_hook(&changes);
    Ok((true, changes))
}

/// Stops some endpoints of a deleted application, in order, so that no more deliveries to them are
/// claimed. Returns whether there are more.
pub(super) fn stop_some(s: &mut DbSession<'_>, no: i64) -> Res<bool> {
    let after: Option<Vec<u8>> =
        s.conn.prepare_cached(sql!("application_stopping"))?.query_row([no], |row| row.get(0))?;
    let Some(after) = after else { return Ok(false) };
    let page: Vec<(i64, Vec<u8>)> = {
        let mut statement = s.conn.prepare_cached(sql!("application_endpoints"))?;
        let found =
            statement.query_map((no, after, STOPPED_MAX), |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.collect::<Result<_, _>>()?
    };
    for (endpoint, _) in &page {
        s.conn.prepare_cached(sql!("endpoint_gone"))?.execute((endpoint, s.now.0))?;
        s.conn.prepare_cached(sql!("lane_stop"))?.execute([endpoint])?;
    }
    let last = page.last().map(|(_, id)| id).filter(|_| page.len() as i64 >= STOPPED_MAX);
    s.conn.prepare_cached(sql!("application_stopped"))?.execute((no, last))?;
    s.cache.clear();
    Ok(last.is_some())
}

/// Stops some endpoints of deleted applications. Returns whether there are more.
pub(super) fn stop_any(s: &mut DbSession<'_>) -> Res<bool> {
    match cache::number(s, sql!("background_deleted"), [])? {
        Some(no) => stop_some(s, no),
        None => Ok(false),
    }
}

/// Lists applications by age.
pub(super) fn list(
    s: &DbSession<'_>,
    page: &PageRequest<ApplicationId>,
    reserved: &str,
) -> Res<HookPage<Application>> {
    let walk = IndexWalk::ids(page, |id| id.0);
    let sql = walk.pick(sql!("application_list_up"), sql!("application_list_down"));
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((&walk.bound, reserved, walk.rows))?;
    walk.read(&mut rows, |row| Ok(decode(row)?.1))
}

/// Columns: application_no, id, uid, name, rate_limit, metadata, created_at, updated_at.
fn decode(row: &Row<'_>) -> Res<(i64, Application)> {
    let no: i64 = row.get(0)?;
    let uid: Option<String> = row.get(2)?;
    let application = Application {
        id: ApplicationId(uuid("application", row, 1)?),
        uid: uid.map(Uid::new).transpose().map_err(corrupt("application", no))?,
        name: row.get(3)?,
        rate_limit: row.get(4)?,
        metadata: Bytes::from(row.get::<_, Vec<u8>>(5)?),
        created_at: Timestamp(row.get(6)?),
        updated_at: Timestamp(row.get(7)?),
    };
    Ok((no, application))
}
