//! Jobs, which change many deliveries in limited parts and survive a restart.
//!
//! # Invariants
//! * A job visits messages in the order of their commits, and stores its position with each part. A
//!   message's time is never earlier than that of an older message, so a job that starts at a time
//!   can start at a position.

use rusqlite::{OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EventTypeName, HookChange, HookChangeKind, JobId,
    Timestamp,
};
use wakeline_store::hook::{
    DeliveryFilter, DeliveryJob, DeliveryState, JobKind, JobSpec, JobState, ResendOutcome,
};

use super::cache::{self, json, number, to_json, uuid};
use super::delivery::{DeliveryClass, DeliveryRow};
use super::lane::EndpointLanes;
use super::{admin, endpoint, message, read, sql};
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The maximum number of messages that one part reads, regardless of what it finds.
const SCANNED_MAX: usize = 1_000;

/// A job and its progress.
pub(super) struct JobRow {
    no: i64,
    application: i64,
    pub(super) job: DeliveryJob,
    /// The last message that was visited.
    place: i64,
    /// The last endpoint of that message that was visited, or `None` if all were.
    place_endpoint: Option<Vec<u8>>,
}

/// A delivery filter as stored in the job's row.
#[derive(Serialize, Deserialize)]
struct StoredFilter {
    endpoint: Option<EndpointId>,
    event_types: Vec<EventTypeName>,
    since: Option<i64>,
    until: Option<i64>,
    states: Vec<StoredState>,
}

/// A delivery state as stored in the job's row.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Pending,
    InFlight,
    Retrying,
    Throttled,
    Delivered,
    Failed,
    Cancelled,
}

/// Starts a job. Returns `None` if there is no such application.
pub(super) fn start(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    spec: &JobSpec,
) -> Res<Option<(DeliveryJob, Vec<HookChange>)>> {
    let Some((application, _)) = cache::application(s, application)? else { return Ok(None) };
    let changes = vec![HookChange::now(HookChangeKind::Background)];
    if let Some(work) = by_id(s, spec.id)? {
        return Ok(Some((work.job, changes)));
    }
    let place = match spec.filter.since {
        Some(since) => before(s, since)?,
        None => 0,
    };
    s.conn.prepare_cached(sql!("job_add"))?.execute((
        spec.id.0.into_bytes(),
        application,
        kind_text(spec.kind),
        to_json(&StoredFilter::from(&spec.filter)),
        place,
        s.now.0,
    ))?;
    s.hint_hook(&changes);
    let work = by_id(s, spec.id)?.expect("it was just made");
    Ok(Some((work.job, changes)))
}

/// The number of the last message that was stored before a time, found by binary search.
fn before(s: &DbSession<'_>, since: Timestamp) -> Res<i64> {
    let mut low = 0;
    let mut high = number(s, sql!("message_last"), [])?.unwrap_or(0) + 1;
    let mut statement = s.conn.prepare_cached(sql!("message_at"))?;
    // The first message that is new enough has a number above `low` and at most `high`.
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> =
            statement.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some((no, at)) if at < since.0 => low = no.min(high - 1),
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Looks up a job of any application that is not deleted.
pub(super) fn by_id(s: &DbSession<'_>, id: JobId) -> Res<Option<JobRow>> {
    let mut statement = s.conn.prepare_cached(sql!("job_by_id"))?;
    let mut rows = statement.query([id.0.into_bytes()])?;
    rows.next()?.map(decode).transpose()
}

/// The oldest running job.
pub(super) fn oldest(s: &DbSession<'_>) -> Res<Option<JobRow>> {
    let mut statement = s.conn.prepare_cached(sql!("job_oldest"))?;
    let mut rows = statement.query([])?;
    rows.next()?.map(decode).transpose()
}

/// A message and an endpoint that a job visits.
struct JobTarget {
    message: i64,
    endpoint: i64,
    endpoint_id: Vec<u8>,
}

/// The next deliveries that a job visits.
struct JobStep {
    ahead: Vec<JobTarget>,
    /// The last message that was read, if there may be more after it.
    more_behind: Option<i64>,
}

/// Runs one part of a job: visits up to `most` deliveries. Returns their number and the hints.
pub(super) fn run_some(
    s: &mut DbSession<'_>,
    mut work: JobRow,
    most: usize,
) -> Res<(u64, Vec<HookChange>)> {
    let JobStep { mut ahead, more_behind } = look_ahead(s, &work, most)?;
    let unseen = ahead.len() > most;
    ahead.truncate(most);
    let mut lanes = EndpointLanes::default();
    for one in &ahead {
        work.job.changed += u64::from(change(s, &mut lanes, &work, one)?);
    }
    let seen = ahead.len() as u64;
    work.job.seen += seen;
    match (ahead.pop(), more_behind) {
        (Some(last), _) if unseen => {
            (work.place, work.place_endpoint) = (last.message, Some(last.endpoint_id));
        }
        (_, Some(last)) => (work.place, work.place_endpoint) = (last, None),
        (_, None) => work.job.state = JobState::Finished,
    }
    let finished_at = (work.job.state == JobState::Finished).then_some(s.now.0);
    s.conn.prepare_cached(sql!("job_write"))?.execute((
        work.no,
        work.place,
        work.place_endpoint,
        i64::try_from(work.job.seen).unwrap_or(i64::MAX),
        i64::try_from(work.job.changed).unwrap_or(i64::MAX),
        s.now.0,
        finished_at,
    ))?;
    Ok((seen, lanes.finish(s)?))
}

/// Reads the next deliveries, until there is one more than `most`.
fn look_ahead(s: &mut DbSession<'_>, work: &JobRow, most: usize) -> Res<JobStep> {
    let filter = &work.job.spec.filter;
    let only = match filter.endpoint {
        Some(id) => match endpoint::any(s, id)?.filter(|(_, owner)| *owner == work.application) {
            Some((no, _)) => Some((no, id)),
            None => return Ok(JobStep { ahead: Vec::new(), more_behind: None }),
        },
        None => None,
    };
    let replay = work.job.spec.kind == JobKind::ReplayMissing;
    let (sql, whose) = match only {
        None if replay => return Ok(JobStep { ahead: Vec::new(), more_behind: None }),
        Some((no, _)) if !replay => (sql!("message_ahead_of_endpoint"), no),
        _ => (sql!("message_ahead"), work.application),
    };
    let scan = SCANNED_MAX.max(most + 1);
    // A message whose endpoints were not all visited is read again.
    let from = if work.place_endpoint.is_some() { work.place } else { work.place + 1 };
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((whose, from, i64::try_from(scan).unwrap_or(i64::MAX)))?;
    let mut step = JobStep { ahead: Vec::new(), more_behind: None };
    let mut scanned = 0;
    while let Some(row) = rows.next()? {
        let (no, at): (i64, i64) = (row.get(0)?, row.get(2)?);
        if filter.until.is_some_and(|until| at >= until.0) {
            return Ok(JobStep { more_behind: None, ..step });
        }
        scanned += 1;
        step.more_behind = Some(no);
        let event_type: String = row.get(1)?;
        let meant = filter.event_types.iter().any(|wanted| wanted.as_str() == event_type);
        let young = filter.since.is_none_or(|since| at >= since.0);
        if !young || !(meant || filter.event_types.is_empty()) {
            continue;
        }
        match only {
            Some((endpoint, id)) => {
                let (message, endpoint_id) = (no, id.0.into_bytes().to_vec());
                let seen = no == work.place && work.place_endpoint.is_some();
                step.ahead.extend((!seen).then_some(JobTarget { message, endpoint, endpoint_id }));
            }
            None => step.ahead.extend(deliveries_of(s, work, no)?),
        }
        if step.ahead.len() > most {
            return Ok(step);
        }
    }
    let more_behind = step.more_behind.filter(|_| scanned == scan);
    Ok(JobStep { more_behind, ..step })
}

/// The deliveries of a message that the job has not visited, ordered by endpoint id.
fn deliveries_of(s: &DbSession<'_>, work: &JobRow, message: i64) -> Res<Vec<JobTarget>> {
    let mut statement = s.conn.prepare_cached(sql!("delivery_endpoints"))?;
    let mut rows = statement.query([message])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(JobTarget { message, endpoint: row.get(0)?, endpoint_id: row.get(1)? });
    }
    found.sort_by(|a, b| a.endpoint_id.cmp(&b.endpoint_id));
    if let Some(last) = work.place_endpoint.as_ref().filter(|_| message == work.place) {
        found.retain(|one| one.endpoint_id > *last);
    }
    Ok(found)
}

/// Applies a job to one delivery. Returns whether the delivery changed.
fn change(
    s: &mut DbSession<'_>,
    lanes: &mut EndpointLanes,
    work: &JobRow,
    one: &JobTarget,
) -> Res<bool> {
    let spec = &work.job.spec;
    let found = DeliveryRow::of(s, one.message, one.endpoint)?;
    if spec.kind == JobKind::ReplayMissing {
        return Ok(found.is_none() && replay(s, lanes, one)?);
    }
    let Some(delivery) = found else { return Ok(false) };
    let states = &spec.filter.states;
    if !states.is_empty() && !states.contains(&read::state(s, &delivery)?) {
        return Ok(false);
    }
    match spec.kind {
        JobKind::Recover => admin::recover(s, lanes, delivery),
        JobKind::Resend => Ok(admin::make_due(s, lanes, delivery)? == ResendOutcome::Due),
        JobKind::Cancel => admin::cancel_delivery(s, lanes, delivery),
        JobKind::ReplayMissing => unreachable!("done above"),
    }
}

/// Creates the missing delivery for an endpoint, if the endpoint would receive the message now.
fn replay(s: &mut DbSession<'_>, lanes: &mut EndpointLanes, one: &JobTarget) -> Res<bool> {
    let config = cache::endpoint(s, one.endpoint)?;
    let (event_type, channels) = message::filtered(s, one.message)?;
    let can = config.is_on()
        && config.wants(&event_type, &channels)
        && message::has_payload(s, one.message)?;
    if can {
        DeliveryRow::new(s, &config, one.message, DeliveryClass::FreshBehind).add(s, &config)?;
        lanes.get(s, one.endpoint)?;
    }
    Ok(can)
}

/// Columns: job_no, application_no, id, application id, kind, filter, place, place_endpoint, seen,
/// changed, created_at, updated_at, finished_at.
fn decode(row: &Row<'_>) -> Res<JobRow> {
    let no: i64 = row.get(0)?;
    let filter: StoredFilter = json("job", no, &row.get::<_, String>(5)?)?;
    let count = |value: i64| u64::try_from(value).map_err(corrupt("job", no));
    let finished: Option<i64> = row.get(12)?;
    let spec = JobSpec {
        id: JobId(uuid("job", row, 2)?),
        kind: kind(no, &row.get::<_, String>(4)?)?,
        filter: filter.into(),
    };
    let job = DeliveryJob {
        spec,
        application: ApplicationId(uuid("job", row, 3)?),
        state: if finished.is_some() { JobState::Finished } else { JobState::Running },
        seen: count(row.get(8)?)?,
        changed: count(row.get(9)?)?,
        created_at: Timestamp(row.get(10)?),
        updated_at: Timestamp(row.get(11)?),
    };
    let (application, place, place_endpoint) = (row.get(1)?, row.get(6)?, row.get(7)?);
    Ok(JobRow { no, application, job, place, place_endpoint })
}

fn kind_text(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Recover => "recover",
        JobKind::ReplayMissing => "replay",
        JobKind::Resend => "resend",
        JobKind::Cancel => "cancel",
    }
}

fn kind(no: i64, text: &str) -> Res<JobKind> {
    Ok(match text {
        "recover" => JobKind::Recover,
        "replay" => JobKind::ReplayMissing,
        "resend" => JobKind::Resend,
        "cancel" => JobKind::Cancel,
        other => return Err(corrupt("job", no)(format!("{other:?} is not a kind of job"))),
    })
}

impl From<&DeliveryFilter> for StoredFilter {
    fn from(filter: &DeliveryFilter) -> Self {
        let state = |state: &DeliveryState| match state {
            DeliveryState::Pending => StoredState::Pending,
            DeliveryState::InFlight => StoredState::InFlight,
            DeliveryState::Retrying => StoredState::Retrying,
            DeliveryState::Throttled => StoredState::Throttled,
            DeliveryState::Delivered => StoredState::Delivered,
            DeliveryState::Failed => StoredState::Failed,
            DeliveryState::Cancelled => StoredState::Cancelled,
        };
        Self {
            endpoint: filter.endpoint,
            event_types: filter.event_types.clone(),
            since: filter.since.map(|at| at.0),
            until: filter.until.map(|at| at.0),
            states: filter.states.iter().map(state).collect(),
        }
    }
}

impl From<StoredFilter> for DeliveryFilter {
    fn from(filter: StoredFilter) -> Self {
        let state = |state: StoredState| match state {
            StoredState::Pending => DeliveryState::Pending,
            StoredState::InFlight => DeliveryState::InFlight,
            StoredState::Retrying => DeliveryState::Retrying,
            StoredState::Throttled => DeliveryState::Throttled,
            StoredState::Delivered => DeliveryState::Delivered,
            StoredState::Failed => DeliveryState::Failed,
            StoredState::Cancelled => DeliveryState::Cancelled,
        };
        Self {
            endpoint: filter.endpoint,
            event_types: filter.event_types,
            since: filter.since.map(Timestamp),
            until: filter.until.map(Timestamp),
            states: filter.states.into_iter().map(state).collect(),
        }
    }
}
