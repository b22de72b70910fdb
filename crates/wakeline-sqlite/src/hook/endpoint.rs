//! Endpoints: the destinations of an application's messages.

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointRef, EventPattern, HookChange,
    HookChangeKind, Timestamp, Uid,
};
use wakeline_store::hook::{
    Created, DisableReason, Endpoint, EndpointSecret, EndpointUpdate, HookPage, Idempotency,
    NewEndpoint, PageRequest, RotateOutcome, Rotation, UpdateOutcome,
};

use super::cache::{self, json, number, reason, reason_text, to_json, uuid};
use super::key::{self, EarlierRequest, IdempotencyKeyScope, IdempotencyScope};
use super::lane::EndpointLanes;
use super::page::IndexWalk;
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The maximum number of deliveries that are cancelled in the commit that deletes their endpoint.
/// Background work cancels the rest.
const CANCELLED_MAX: i64 = 500;

/// Looks up the number of an endpoint that is not deleted.
pub(super) fn find(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    endpoint: &EndpointRef,
) -> Res<Option<i64>> {
    match cache::application(s, application)? {
        Some((application, _)) => find_of(s, application, endpoint),
        None => Ok(None),
    }
}

/// Like [`find`], for an application that was already looked up.
pub(super) fn find_of(
    s: &DbSession<'_>,
    application: i64,
    endpoint: &EndpointRef,
) -> Res<Option<i64>> {
    match endpoint {
        EndpointRef::Id(id) => number(s, sql!("endpoint_by_id"), (application, id.0.into_bytes())),
        EndpointRef::Own(uid) => number(s, sql!("endpoint_by_uid"), (application, uid.as_str())),
    }
}

/// Looks up the numbers of an endpoint, deleted or not, and of its application.
pub(super) fn any(s: &DbSession<'_>, id: EndpointId) -> Res<Option<(i64, i64)>> {
    let mut statement = s.conn.prepare_cached(sql!("endpoint_any"))?;
    let row = statement.query_row([id.0.into_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(row.optional()?)
}

/// Reads an endpoint.
pub(super) fn detail(s: &DbSession<'_>, no: i64) -> Res<Endpoint> {
    let mut statement = s.conn.prepare_cached(sql!("endpoint_read"))?;
    let mut rows = statement.query([no])?;
    let row = rows.next()?.ok_or_else(|| corrupt("endpoint", no)("its row is missing"))?;
    decode(s, no, row)
}

/// Creates an endpoint.
pub(super) fn create(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    new: &NewEndpoint,
    idempotency: Option<&Idempotency>,
) -> Res<Created<Endpoint>> {
    let Some((application, _)) = cache::application(s, application)? else {
        return Ok(Created::NoApplication);
    };
    let scope = IdempotencyKeyScope::new(IdempotencyScope::Endpoint, application);
    match key::look(s, scope, idempotency)? {
        EarlierRequest::Other => return Ok(Created::KeyReused),
        EarlierRequest::Made(id) => {
            let id: EndpointId = id.parse().map_err(corrupt("idempotency key", &id))?;
            if let Some(no) = find_of(s, application, &EndpointRef::Id(id))? {
                return Ok(Created::Repeated(detail(s, no)?));
            }
        }
        EarlierRequest::Nothing => {}
    }
    if let Some(no) = find_of(s, application, &EndpointRef::Id(new.id))? {
        return Ok(Created::Repeated(detail(s, no)?));
    }
    if let Some(no) = holder(s, application, new.uid.as_ref())? {
        return Ok(Created::Taken(detail(s, no)?));
    }
    let no = add(s, application, new)?;
    key::remember(s, scope, idempotency, &new.id.to_string())?;
    Ok(Created::New(detail(s, no)?))
}

/// The endpoint that has an id chosen by its user.
fn holder(s: &DbSession<'_>, application: i64, uid: Option<&Uid>) -> Res<Option<i64>> {
    uid.map_or(Ok(None), |uid| find_of(s, application, &EndpointRef::Own(uid.clone())))
}

fn add(s: &mut DbSession<'_>, application: i64, new: &NewEndpoint) -> Res<i64> {
    s.conn.prepare_cached(sql!("endpoint_add"))?.execute((
        application,
        new.id.0.into_bytes(),
        new.uid.as_ref().map(Uid::as_str),
        &new.url,
        &new.description,
        to_json(&new.event_types),
        to_json(&new.channels),
        new.disabled.map(reason_text),
        &new.metadata[..],
        &new.headers[..],
        to_json(&new.options),
        s.now.0,
    ))?;
    let no = s.conn.last_insert_rowid();
    s.conn.prepare_cached(sql!("lane_add"))?.execute((no, new.options.pull))?;
    s.conn.prepare_cached(sql!("secret_add"))?.execute((no, &new.secret[..]))?;
    let change = FilterChange { old: Vec::new(), new: patterns(&new.event_types) };
    write_filters(s, application, no, &change)?;
    Ok(no)
}

/// The patterns under which an endpoint is looked up.
fn patterns(event_types: &[EventPattern]) -> Vec<EventPattern> {
    if event_types.is_empty() { vec![EventPattern::all()] } else { event_types.to_vec() }
}

/// The patterns of an endpoint before and after a change of it.
struct FilterChange {
    old: Vec<EventPattern>,
    new: Vec<EventPattern>,
}

fn write_filters(
    s: &mut DbSession<'_>,
    application: i64,
    endpoint: i64,
    change: &FilterChange,
) -> Res<()> {
    let FilterChange { old, new } = change;
    let mut remove = s.conn.prepare_cached(sql!("filter_remove"))?;
    for pattern in old.iter().filter(|pattern| !new.contains(pattern)) {
        remove.execute((application, pattern.as_str(), endpoint))?;
    }
    let mut add = s.conn.prepare_cached(sql!("filter_add"))?;
    for pattern in new.iter().filter(|pattern| !old.contains(pattern)) {
        add.execute((application, pattern.as_str(), endpoint))?;
    }
    s.cache.hook.forget_filters();
    Ok(())
}

/// Updates an endpoint.
pub(super) fn update(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    endpoint: &EndpointRef,
    update: &EndpointUpdate,
) -> Res<(UpdateOutcome<Endpoint>, Vec<HookChange>)> {
    let Some(no) = find(s, application, endpoint)? else {
        return Ok((UpdateOutcome::Missing, Vec::new()));
    };
    let old = detail(s, no)?;
    if update.expected_version.is_some_and(|expected| expected != old.version) {
        return Ok((UpdateOutcome::Stale, Vec::new()));
    }
    let owner = cache::endpoint(s, no)?.application;
    let uid = update.uid.as_ref().and_then(Option::as_ref);
    if holder(s, owner, uid)?.is_some_and(|holder| holder != no) {
        return Ok((UpdateOutcome::Taken, Vec::new()));
    }
    let mut lanes = EndpointLanes::default();
    if update.disabled == Some(false) && old.disabled.is_some() {
        lanes.get(s, no)?.0.forgive();
    }
    let new = changed(old.clone(), update);
    write(s, no, &new)?;
    let change = FilterChange { old: patterns(&old.event_types), new: patterns(&new.event_types) };
    write_filters(s, owner, no, &change)?;
    s.cache.hook.forget_endpoint(no);
    let (fifo, pull) = (new.options.fifo.is_some(), new.options.pull);
    if old.options.fifo.is_some() != fifo {
        s.conn.prepare_cached(sql!("delivery_reorder"))?.execute((no, fifo.then_some(1)))?;
    }
    if old.options.pull != pull {
        s.conn.prepare_cached(sql!("delivery_mark_pulled"))?.execute((no, pull))?;
    }
    lanes.get(s, no)?;
    let changes = lanes.finish(s)?;
    Ok((UpdateOutcome::Updated(detail(s, no)?), changes))
}

fn changed(mut endpoint: Endpoint, update: &EndpointUpdate) -> Endpoint {
    fn set<T: Clone>(field: &mut T, value: &Option<T>) {
        if let Some(value) = value {
            field.clone_from(value);
        }
    }
    match update.disabled {
        Some(true) => endpoint.disabled = endpoint.disabled.or(Some(DisableReason::Requested)),
        Some(false) => endpoint.disabled = None,
        None => {}
    }
    set(&mut endpoint.uid, &update.uid);
    set(&mut endpoint.url, &update.url);
    set(&mut endpoint.description, &update.description);
    set(&mut endpoint.event_types, &update.event_types);
    set(&mut endpoint.channels, &update.channels);
    set(&mut endpoint.metadata, &update.metadata);
    set(&mut endpoint.headers, &update.headers);
    set(&mut endpoint.options, &update.options);
    endpoint
}

fn write(s: &DbSession<'_>, no: i64, endpoint: &Endpoint) -> Res<()> {
    s.conn.prepare_cached(sql!("endpoint_write"))?.execute((
        no,
        endpoint.uid.as_ref().map(Uid::as_str),
        &endpoint.url,
        &endpoint.description,
        to_json(&endpoint.event_types),
        to_json(&endpoint.channels),
        endpoint.disabled.map(reason_text),
        &endpoint.metadata[..],
        &endpoint.headers[..],
        to_json(&endpoint.options),
        s.now.0,
    ))?;
    Ok(())
}

/// Deletes an endpoint. Returns whether it existed.
pub(super) fn delete(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    endpoint: &EndpointRef,
) -> Res<(bool, Vec<HookChange>)> {
    let Some(no) = find(s, application, endpoint)? else { return Ok((false, Vec::new())) };
    let changes =
        if remove(s, no)? { vec![HookChange::now(HookChangeKind::Background)] } else { Vec::new() };
    s.hint_hook(&changes);
    Ok((true, changes))
}

/// Cancels some waiting deliveries of a deleted endpoint. Returns their number.
pub(super) fn cancel_some(s: &DbSession<'_>, no: i64, most: i64) -> Res<i64> {
    let cancelled =
        s.conn.prepare_cached(sql!("delivery_cancel_waiting"))?.execute((no, s.now.0, most))?;
    let cancelled = i64::try_from(cancelled).unwrap_or(most);
    s.conn.prepare_cached(sql!("endpoint_cancelling"))?.execute((no, cancelled >= most))?;
    Ok(cancelled)
}

/// Marks an endpoint as deleted, and cancels its open deliveries. Returns whether so many are
/// waiting that background work has to continue.
fn remove(s: &mut DbSession<'_>, no: i64) -> Res<bool> {
    let config = cache::endpoint(s, no)?;
    let more = cancel_some(s, no, CANCELLED_MAX)? >= CANCELLED_MAX;
    s.conn.prepare_cached(sql!("delivery_cancel_leased"))?.execute((no, s.now.0))?;
    let change = FilterChange { old: patterns(&config.event_types), new: Vec::new() };
    write_filters(s, config.application, no, &change)?;
    s.conn.prepare_cached(sql!("endpoint_delete"))?.execute((no, s.now.0))?;
    s.cache.hook.forget_endpoint(no);
    let mut lanes = EndpointLanes::default();
    lanes.get(s, no)?;
    lanes.finish(s)?;
    Ok(more)
}

/// Lists the endpoints of an application by age.
pub(super) fn list(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    page: &PageRequest<EndpointId>,
) -> Res<Option<HookPage<Endpoint>>> {
    let Some((application, _)) = cache::application(s, application)? else { return Ok(None) };
    let walk = IndexWalk::ids(page, |id| id.0);
    let sql = walk.pick(sql!("endpoint_list_up"), sql!("endpoint_list_down"));
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((application, &walk.bound, walk.rows))?;
    walk.read(&mut rows, |row| detail(s, row.get(0)?)).map(Some)
}

/// The signing keys of an endpoint that have not expired.
pub(super) fn secrets(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    endpoint: &EndpointRef,
) -> Res<Vec<EndpointSecret>> {
    let Some(no) = find(s, application, endpoint)? else { return Ok(Vec::new()) };
    let mut secrets = cache::secrets(s, no)?;
    secrets.retain(|secret| secret.expires_at.is_none_or(|at| at > s.now));
    Ok(secrets)
}

/// Replaces the current signing key of an endpoint.
pub(super) fn rotate(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    endpoint: &EndpointRef,
    rotation: &Rotation,
) -> Res<RotateOutcome> {
    let Some(no) = find(s, application, endpoint)? else { return Ok(RotateOutcome::Missing) };
    let signing = secrets(s, application, endpoint)?.len();
    // The current key is among them. It counts as an old one if it stays valid for a grace period.
    let old = if rotation.grace.is_zero() { signing.saturating_sub(1) } else { signing };
    if old > rotation.old_max as usize {
        return Ok(RotateOutcome::TooMany);
    }
    let end = s.now.plus(rotation.grace).0;
    s.conn.prepare_cached(sql!("secret_retire"))?.execute((no, end))?;
    s.conn.prepare_cached(sql!("secret_tidy"))?.execute((no, s.now.0))?;
    s.conn.prepare_cached(sql!("secret_add"))?.execute((no, &rotation.encrypted[..]))?;
    s.cache.hook.forget_endpoint(no);
    Ok(RotateOutcome::Rotated)
}

/// Columns: id, application id, uid, url, description, event_types, channels, disabled, metadata,
/// headers, options, version, created_at, updated_at, failing_since, open_until.
fn decode(s: &DbSession<'_>, no: i64, row: &Row<'_>) -> Res<Endpoint> {
    let uid: Option<String> = row.get(2)?;
    let disabled: Option<String> = row.get(7)?;
    let options: wakeline_core::EndpointOptions = json("endpoint", no, &row.get::<_, String>(10)?)?;
    let version: i64 = row.get(11)?;
    let open_until = options.breaker.and(row.get::<_, Option<i64>>(15)?);
    let paused_until = open_until.filter(|until| *until > s.now.0);
    Ok(Endpoint {
        id: EndpointId(uuid("endpoint", row, 0)?),
        application: ApplicationId(uuid("endpoint", row, 1)?),
        uid: uid.map(Uid::new).transpose().map_err(corrupt("endpoint", no))?,
        url: row.get(3)?,
        description: row.get(4)?,
        event_types: json("endpoint", no, &row.get::<_, String>(5)?)?,
        channels: json("endpoint", no, &row.get::<_, String>(6)?)?,
        disabled: disabled.map(|text| reason(no, &text)).transpose()?,
        metadata: Bytes::from(row.get::<_, Vec<u8>>(8)?),
        headers: Bytes::from(row.get::<_, Vec<u8>>(9)?),
        options,
        version: u64::try_from(version).map_err(corrupt("endpoint", no))?,
        created_at: Timestamp(row.get(12)?),
        updated_at: Timestamp(row.get(13)?),
        failing_since: row.get::<_, Option<i64>>(14)?.map(Timestamp),
        paused_for: paused_until.map(|until| s.now.until(Timestamp(until))),
    })
}
