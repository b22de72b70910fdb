//! Removes what instances own: messages and activities, whole instances, old executions.

use std::collections::HashSet;

use wakeline_core::InstanceId;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, InstanceFilter, PruneOptions, PruneReport,
};

use super::instance::Instance;
use super::lane::{Lane, count, number};
use super::message;
use super::read;
use crate::error::{Res, corrupt};
use crate::session::Session;

/// Instances that are looked at together for deletion.
const ROOTS_LEN: usize = 100;

/// Removes all messages and activities of a lane. Returns how many.
pub(super) fn clear(s: &Session<'_>, lane: i64) -> Res<u64> {
    let mut gone = 0;
    for sql in [
        include_str!("../../sql/queries/flow_message_clear.sql"),
        include_str!("../../sql/queries/flow_work_clear.sql"),
    ] {
        gone += s.conn.prepare_cached(sql)?.execute([lane])? as u64;
    }
    Ok(gone)
}

/// Removes an instance, or one that waits to be started, with everything that it owns.
pub(super) fn remove(s: &Session<'_>, lane: i64, report: &mut DeleteReport) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_execution_count.sql");
    let (executions, events): (i64, i64) =
        s.conn.prepare_cached(sql)?.query_row([lane], |row| Ok((row.get(0)?, row.get(1)?)))?;
    report.instances += 1;
    report.executions += count("execution", executions)?;
    report.events += count("execution", events)?;
    report.messages += clear(s, lane)?;
    for sql in [
        include_str!("../../sql/queries/flow_history_delete.sql"),
        include_str!("../../sql/queries/flow_execution_delete.sql"),
        include_str!("../../sql/queries/flow_kv_changes_delete.sql"),
        include_str!("../../sql/queries/flow_kv_delete.sql"),
        include_str!("../../sql/queries/flow_instance_delete.sql"),
        include_str!("../../sql/queries/flow_lane_delete.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([lane])?;
    }
    Ok(())
}

/// Deletes instances with all below them, or none.
pub(super) fn delete(s: &Session<'_>, command: &DeleteInstances) -> Res<DeleteReport> {
    let mut doomed = Vec::new();
    let mut seen = HashSet::new();
    for id in &command.instances {
        for id in below(s, id)? {
            if seen.insert(id.clone()) {
                doomed.push(id);
            }
        }
    }
    let mut report = DeleteReport::default();
    if !command.force {
        report.running = not_ended(s, &doomed)?;
        report.orphans = orphans(s, &command.instances, &seen)?;
        if !report.running.is_empty() || !report.orphans.is_empty() {
            return Ok(report);
        }
    }
    remove_all(s, &doomed, &mut report)?;
    Ok(report)
}

/// An instance with all below it, or one that waits to be started.
fn below(s: &Session<'_>, id: &InstanceId) -> Res<Vec<InstanceId>> {
    let Some(lane) = Lane::named(s, id)? else { return Ok(Vec::new()) };
    match lane.state {
        Some(_) => read::tree(s, id),
        None if message::start_waits(s, lane.id)? => Ok(vec![id.clone()]),
        None => Ok(Vec::new()),
    }
}

fn not_ended(s: &Session<'_>, ids: &[InstanceId]) -> Res<Vec<InstanceId>> {
    let mut running = Vec::new();
    for id in ids {
        let ended = |lane: Lane| lane.state.is_some_and(|state| state.is_ended());
        if Lane::named(s, id)?.is_some_and(|lane| !ended(lane)) {
            running.push(id.clone());
        }
    }
    Ok(running)
}

/// Those whose parent exists and stays.
fn orphans(
    s: &Session<'_>,
    named: &[InstanceId],
    doomed: &HashSet<InstanceId>,
) -> Res<Vec<InstanceId>> {
    let mut orphans = Vec::new();
    for id in named {
        let Some(instance) = Instance::named(s, id)? else { continue };
        let Some((parent, _)) = instance.parent else { continue };
        let stays = Lane::named(s, &parent)?.is_some_and(|lane| lane.state.is_some());
        if stays && !doomed.contains(&parent) {
            orphans.push(id.clone());
        }
    }
    Ok(orphans)
}

fn remove_all(s: &Session<'_>, ids: &[InstanceId], report: &mut DeleteReport) -> Res<()> {
    for id in ids {
        if let Some(lane) = Lane::named(s, id)? {
            remove(s, lane.id, report)?;
        }
    }
    Ok(())
}

/// Deletes ended instances that have no parent, with all below them.
pub(super) fn delete_matching(s: &Session<'_>, filter: &InstanceFilter) -> Res<DeleteReport> {
    let mut report = DeleteReport::default();
    let mut left = filter.limit;
    if let Some(named) = &filter.instances {
        for id in matching(s, filter, named)? {
            let root = Instance::named(s, &id)?.is_some_and(|instance| instance.parent.is_none());
            if left > 0 && root {
                left -= u32::from(delete_root(s, &id, &mut report)?);
            }
        }
        return Ok(report);
    }
    let mut place = (i64::MIN, String::new());
    while left > 0 {
        let roots = ended_roots(s, filter, &place)?;
        let Some(last) = roots.last() else { break };
        place.clone_from(last);
        for (_, id) in roots {
            let id = InstanceId::new(&id).map_err(corrupt("instance", format!("{id:?}")))?;
            if left > 0 {
                left -= u32::from(delete_root(s, &id, &mut report)?);
            }
        }
    }
    Ok(report)
}

/// Deletes an instance with all below it, if all of them have ended.
fn delete_root(s: &Session<'_>, id: &InstanceId, report: &mut DeleteReport) -> Res<bool> {
    let tree = read::tree(s, id)?;
    let ended = not_ended(s, &tree)?.is_empty();
    if ended {
        remove_all(s, &tree, report)?;
    }
    Ok(ended)
}

/// Some ended instances that have no parent, by their end and id.
fn ended_roots(
    s: &Session<'_>,
    filter: &InstanceFilter,
    after: &(i64, String),
) -> Res<Vec<(i64, String)>> {
    let sql = include_str!("../../sql/queries/flow_instance_ended.sql");
    let before = filter.ended_before.map_or(i64::MAX, |at| at.0);
    let limit = i64::try_from(ROOTS_LEN).expect("a small constant");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement
        .query_map((before, after.0, &after.1, limit), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Removes old executions.
pub(super) fn prune(
    s: &Session<'_>,
    filter: &InstanceFilter,
    options: PruneOptions,
) -> Res<PruneReport> {
    let mut report = PruneReport::default();
    let ids = match &filter.instances {
        Some(named) => matching(s, filter, named)?,
        None => prunable(s, filter, options)?,
    };
    for id in ids {
        if report.instances == u64::from(filter.limit) {
            break;
        }
        let Some(instance) = Instance::named(s, &id)? else { continue };
        let old = old_executions(s, &instance, options)?;
        report.instances += u64::from(!old.is_empty());
        for (execution, events) in old {
            for sql in [
                include_str!("../../sql/queries/flow_history_remove.sql"),
                include_str!("../../sql/queries/flow_execution_remove.sql"),
            ] {
                s.conn.prepare_cached(sql)?.execute((instance.lane, execution))?;
            }
            report.executions += 1;
            report.events += count("execution", events)?;
        }
    }
    Ok(report)
}

/// The instances that a filter names and speaks of, those that ended first in front.
fn matching(
    s: &Session<'_>,
    filter: &InstanceFilter,
    named: &[InstanceId],
) -> Res<Vec<InstanceId>> {
    let before = filter.ended_before.map(|at| at.0);
    let mut found = Vec::new();
    for id in named.iter().collect::<HashSet<_>>() {
        let Some(instance) = Instance::named(s, id)? else { continue };
        let ended_at = instance.ended_at.map(|at| at.0);
        if before.is_none_or(|before| ended_at.is_some_and(|ended_at| ended_at < before)) {
            found.push((ended_at, id.clone()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Instances that a filter speaks of and that can be pruned, as many as its limit says, those that
/// ended first in front.
fn prunable(
    s: &Session<'_>,
    filter: &InstanceFilter,
    options: PruneOptions,
) -> Res<Vec<InstanceId>> {
    let sql = include_str!("../../sql/queries/flow_instance_prunable.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let before = filter.ended_before.map(|at| at.0);
    let params =
        (before, filter.limit, options.keep_last.unwrap_or(0), options.ended_before.map(|at| at.0));
    let found = statement.query_map(params, |row| row.get::<_, String>(0))?;
    let mut ids = Vec::new();
    for id in found {
        let id = id?;
        ids.push(InstanceId::new(&id).map_err(corrupt("instance", format!("{id:?}")))?);
    }
    Ok(ids)
}

/// The executions of an instance that go, each with how many events it has.
fn old_executions(
    s: &Session<'_>,
    instance: &Instance,
    options: PruneOptions,
) -> Res<Vec<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/flow_execution_prunable.sql");
    let current = number("execution", instance.execution)?;
    let keep = options.keep_last.unwrap_or(0);
    let before = options.ended_before.map(|at| at.0);
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement
        .query_map((instance.lane, keep, current, before), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}
