//! What could be claimed and was not: most often no worker has its code.

use rusqlite::Row;
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
    found.truncate(find.limit as usize);
    Ok(found)
}

fn all(s: &mut Session<'_>, bounds: (i64, u32), found: &mut Vec<Unclaimed>) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_unclaimed_lanes.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        let what = UnclaimedWhat::Turn(names::capability_name(s, row.get(1)?)?);
        let since = Timestamp(row.get(2)?);
        found.push(Unclaimed { instance: instance(row)?, what, since });
    }
    let sql = include_str!("../../sql/queries/flow_unclaimed_work.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        found.push(work(s, instance(row)?, row, 1)?);
    }
    Ok(())
}

fn of(
    s: &mut Session<'_>,
    instance: &InstanceId,
    (until, limit): (i64, u32),
    found: &mut Vec<Unclaimed>,
) -> Res<()> {
    let Some(lane) = Lane::named(s, instance)? else { return Ok(()) };
    let ended = lane.state.is_some_and(InstanceState::is_ended);
    let due_at = lane.due_at.filter(|due_at| *due_at <= until && !ended);
    if let (Some(capability), Some(since)) = (lane.capability, due_at) {
        let what = UnclaimedWhat::Turn(names::capability_name(s, capability)?);
        found.push(Unclaimed { instance: instance.clone(), what, since: Timestamp(since) });
    }
    let sql = include_str!("../../sql/queries/flow_unclaimed_work_of.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((lane.id, until, limit))?;
    while let Some(row) = rows.next()? {
        found.push(work(s, instance.clone(), row, 0)?);
    }
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
