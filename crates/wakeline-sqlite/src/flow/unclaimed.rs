//! What could be claimed and was not: most often no worker has its code.

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{InstanceId, Timestamp};
use wakeline_store::flow::{FindUnclaimed, InstanceState, Unclaimed, UnclaimedWhat, WorkKey};

use super::lane::{Lane, count};
use super::names::{self, Route};
use crate::error::{Res, corrupt};
use crate::session::Session;

/// Turns and activities that nobody has claimed for a while; longest first.
pub(super) fn find(s: &mut Session<'_>, find: &FindUnclaimed) -> Res<Vec<Unclaimed>> {
    let span = i64::try_from(find.waited_min.as_micros()).unwrap_or(i64::MAX);
    let until = s.now.0.saturating_sub(span);
    let mut found = Vec::new();
    match &find.instances {
        None => all(s, (until, find.limit), &mut found)?,
        Some(instances) => {
            for instance in instances {
                of(s, instance, (until, find.limit), &mut found)?;
            }
        }
    }
    let key = |what: &UnclaimedWhat| match what {
        UnclaimedWhat::Turn(_) => None,
        UnclaimedWhat::Work(key, _) => Some(*key),
    };
    found.sort_by_key(|one| (one.since, one.instance.clone(), key(&one.what)));
    if find.instances.is_none() {
        found.truncate(find.limit as usize);
    }
    Ok(found)
}

fn all(s: &mut Session<'_>, bounds: (i64, u32), found: &mut Vec<Unclaimed>) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_unclaimed_lanes.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    for capability in names::all_capabilities(s)? {
        let mut rows = statement.query((capability, bounds.0, bounds.1))?;
        while let Some(row) = rows.next()? {
            let what = UnclaimedWhat::Turn(names::capability_name(s, capability)?);
            let since = Timestamp(row.get(1)?);
            found.push(Unclaimed { instance: instance(row)?, what, since });
        }
    }
    let ready = (
        include_str!("../../sql/queries/flow_unclaimed_ready_next.sql"),
        include_str!("../../sql/queries/flow_unclaimed_ready.sql"),
    );
    let due = (
        include_str!("../../sql/queries/flow_unclaimed_due_next.sql"),
        include_str!("../../sql/queries/flow_unclaimed_due.sql"),
    );
    for statements in [ready, due] {
        all_work(s, statements, bounds, found)?;
    }
    Ok(())
}

/// Activities by the index of one kind of claim: from one route and kind of taker to the next, and
/// of each so many at most. So it reads no more, however many are leased or wait for their time.
fn all_work(
    s: &mut Session<'_>,
    (next, of): (&'static str, &'static str),
    (until, limit): (i64, u32),
    found: &mut Vec<Unclaimed>,
) -> Res<()> {
    let (mut next, mut of) = (s.conn.prepare_cached(next)?, s.conn.prepare_cached(of)?);
    let mut place = (i64::MIN, i64::MIN, String::new());
    loop {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (tag, name, taker) = &place;
        let Some(stream) = next.query_row((tag, name, taker), read).optional()? else {
            return Ok(());
        };
        place = stream;
        let (tag, name, taker) = &place;
        let mut rows = of.query((tag, name, taker, until, limit))?;
        while let Some(row) = rows.next()? {
            found.push(work(s, instance(row)?, row, 1)?);
        }
    }
}

fn of(
    s: &mut Session<'_>,
    instance: &InstanceId,
    (until, limit): (i64, u32),
    found: &mut Vec<Unclaimed>,
) -> Res<()> {
    let Some(lane) = Lane::named(s, instance)? else { return Ok(()) };
    let mut own = Vec::new();
    let ended = lane.state.is_some_and(InstanceState::is_ended);
    let due_at = lane.due_at.filter(|due_at| *due_at <= until && !ended);
    if let (Some(capability), Some(since)) = (lane.capability, due_at) {
        let what = UnclaimedWhat::Turn(names::capability_name(s, capability)?);
        own.push(Unclaimed { instance: instance.clone(), what, since: Timestamp(since) });
    }
    let sql = include_str!("../../sql/queries/flow_unclaimed_work_of.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((lane.id, until, limit))?;
    while let Some(row) = rows.next()? {
        own.push(work(s, instance.clone(), row, 0)?);
    }
    // The turn stands before activities of the same moment.
    own.sort_by_key(|one| one.since);
    own.truncate(limit as usize);
    found.append(&mut own);
    Ok(())
}

fn instance(row: &Row<'_>) -> Res<InstanceId> {
    InstanceId::new(row.get::<_, String>(0)?).map_err(corrupt("lane", 0))
}

/// An activity whose columns begin at `first`.
fn work(s: &mut Session<'_>, instance: InstanceId, row: &Row<'_>, first: usize) -> Res<Unclaimed> {
    let execution = count("work", row.get(first)?)?;
    let activity = count("work", row.get(first + 1)?)?;
    let route = Route { tag: row.get(first + 2)?, name: row.get(first + 3)? };
    let what = UnclaimedWhat::Work(WorkKey { execution, activity }, names::route(s, route)?);
    Ok(Unclaimed { instance, what, since: Timestamp(row.get(first + 4)?) })
}
