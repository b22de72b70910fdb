//! Finds turns and activities that could be claimed but were not, usually because no worker has
//! their code.

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{InstanceId, Timestamp};
use wakeline_store::flow::{FindUnclaimed, InstanceState, Unclaimed, UnclaimedWork, WorkKey};

use super::lane::{InstanceLane, count};
use super::names::{self, RouteIds};
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// Which turns and activities a search returns.
#[derive(Debug, Clone, Copy)]
struct SearchBounds {
    /// They could be claimed at this time or before.
    until: i64,
    limit: u32,
}

/// The statements that search one of the two indexes over activities.
struct WorkStatements {
    /// Finds the next route and taker.
    next_stream: &'static str,
    /// Finds the activities of a route and taker.
    activities: &'static str,
}

/// Turns and activities that no worker has claimed for a while, longest waiting first.
pub(super) fn find(s: &mut DbSession<'_>, find: &FindUnclaimed) -> Res<Vec<Unclaimed>> {
    let span = i64::try_from(find.waited_min.as_micros()).unwrap_or(i64::MAX);
    let bounds = SearchBounds { until: s.now.0.saturating_sub(span), limit: find.limit };
    let mut found = Vec::new();
    match &find.instances {
        None => all(s, bounds, &mut found)?,
        Some(instances) => {
            for instance in instances {
                of_instance(s, instance, bounds, &mut found)?;
            }
        }
    }
    let key = |what: &UnclaimedWork| match what {
        UnclaimedWork::Turn(_) => None,
        UnclaimedWork::Work(key, _) => Some(*key),
    };
    found.sort_by_key(|one| (one.since, one.instance.clone(), key(&one.what)));
    if find.instances.is_none() {
        found.truncate(find.limit as usize);
    }
    Ok(found)
}

fn all(s: &mut DbSession<'_>, bounds: SearchBounds, found: &mut Vec<Unclaimed>) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_unclaimed_lanes.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    for capability in names::all_capabilities(s)? {
        let mut rows = statement.query((capability, bounds.until, bounds.limit))?;
        while let Some(row) = rows.next()? {
            let what = UnclaimedWork::Turn(names::capability_name(s, capability)?);
            let since = Timestamp(row.get(1)?);
            found.push(Unclaimed { instance: instance(row)?, what, since });
        }
    }
    let ready = WorkStatements {
        next_stream: include_str!("../../sql/queries/flow_unclaimed_ready_next.sql"),
        activities: include_str!("../../sql/queries/flow_unclaimed_ready.sql"),
    };
    let due = WorkStatements {
        next_stream: include_str!("../../sql/queries/flow_unclaimed_due_next.sql"),
        activities: include_str!("../../sql/queries/flow_unclaimed_due.sql"),
    };
    for statements in [ready, due] {
        all_work(s, &statements, bounds, found)?;
    }
    Ok(())
}

/// Walks the activities by one of the two indexes that claims use, from one route and taker to the
/// next, and reads up to `limit` of each. So it does not read more if many are leased or delayed.
fn all_work(
    s: &mut DbSession<'_>,
    statements: &WorkStatements,
    bounds: SearchBounds,
    found: &mut Vec<Unclaimed>,
) -> Res<()> {
    let mut next = s.conn.prepare_cached(statements.next_stream)?;
    let mut activities = s.conn.prepare_cached(statements.activities)?;
    let mut place = (i64::MIN, i64::MIN, String::new());
    loop {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (tag, name, taker) = &place;
        let Some(stream) = next.query_row((tag, name, taker), read).optional()? else {
            return Ok(());
        };
        place = stream;
        let (tag, name, taker) = &place;
        let mut rows = activities.query((tag, name, taker, bounds.until, bounds.limit))?;
        while let Some(row) = rows.next()? {
            found.push(work(s, instance(row)?, row, 1)?);
        }
    }
}

/// Adds the turn and the activities of one instance.
fn of_instance(
    s: &mut DbSession<'_>,
    instance: &InstanceId,
    bounds: SearchBounds,
    found: &mut Vec<Unclaimed>,
) -> Res<()> {
    let Some(lane) = InstanceLane::named(s, instance)? else { return Ok(()) };
    let mut own = Vec::new();
    let ended = lane.state.is_some_and(InstanceState::is_ended);
    let due_at = lane.due_at.filter(|due_at| *due_at <= bounds.until && !ended);
    if let (Some(capability), Some(since)) = (lane.capability, due_at) {
        let what = UnclaimedWork::Turn(names::capability_name(s, capability)?);
        own.push(Unclaimed { instance: instance.clone(), what, since: Timestamp(since) });
    }
    let sql = include_str!("../../sql/queries/flow_unclaimed_work_of.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((lane.id, bounds.until, bounds.limit))?;
    while let Some(row) = rows.next()? {
        own.push(work(s, instance.clone(), row, 0)?);
    }
    // The sort is stable: the turn stays before activities of the same time.
    own.sort_by_key(|one| one.since);
    own.truncate(bounds.limit as usize);
    found.append(&mut own);
    Ok(())
}

fn instance(row: &Row<'_>) -> Res<InstanceId> {
    InstanceId::new(row.get::<_, String>(0)?).map_err(corrupt("lane", 0))
}

/// Decodes an activity whose columns begin at `first`.
fn work(
    s: &mut DbSession<'_>,
    instance: InstanceId,
    row: &Row<'_>,
    first: usize,
) -> Res<Unclaimed> {
    let execution = count("work", row.get(first)?)?;
    let activity = count("work", row.get(first + 1)?)?;
    let route = RouteIds { tag: row.get(first + 2)?, name: row.get(first + 3)? };
    let what = UnclaimedWork::Work(WorkKey { execution, activity }, names::route(s, route)?);
    Ok(Unclaimed { instance, what, since: Timestamp(row.get(first + 4)?) })
}
