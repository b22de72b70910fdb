//! Removes the rows of instances in several steps: messages and activities, whole instances, and
//! old executions.
//!
//! # Invariants
//! * A deletion takes several short commands, so that it does not delay the commands of others. The
//!   first command removes the rows by which requests find the instances; the remaining rows are
//!   recorded in `lane_leftovers`.
//! * No command removes more than a few thousand rows, and none reads a row twice.

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind, InstanceId, Timestamp};
use wakeline_store::Consequence;
use wakeline_store::flow::{DeleteInstances, DeleteReport, PruneOptions};

use super::instance::InstanceRow;
use super::lane::{InstanceLane, count, number};
use super::message;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The maximum number of rows that one step of a command removes.
const ROWS_MAX: i64 = 500;
/// The maximum number of entries of `lane_leftovers` that one step of a command processes.
const NOTES_MAX: i64 = 200;
/// How long a deletion belongs to the call that started it. After that, housekeeping continues it.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Removes all messages and activities of a lane. Returns their number.
pub(super) fn clear(s: &DbSession<'_>, lane: i64) -> Res<u64> {
    let mut gone = 0;
    for sql in [
        include_str!("../../sql/queries/flow_message_clear.sql"),
        include_str!("../../sql/queries/flow_work_clear.sql"),
    ] {
        gone += s.conn.prepare_cached(sql)?.execute([lane])? as u64;
    }
    Ok(gone)
}

/// What one command of a deletion did.
#[derive(Debug, Default)]
pub(super) struct DeletionStep {
    pub(super) report: DeleteReport,
    /// Whether the deletion has rows left to remove.
    pub(super) more: bool,
}

impl Consequence for DeletionStep {
    fn changed(&self) -> bool {
        self.report.changed()
    }
}

/// Removes instances so that requests no longer find them, and starts to remove the rows that they
/// own. Instances that have not ended are only removed with `force`.
pub(super) fn begin(
    s: &mut DbSession<'_>,
    command: &DeleteInstances,
    deletion: Uuid,
) -> Res<DeletionStep> {
    let mut lanes = Vec::new();
    for id in command.instances.iter().collect::<HashSet<_>>() {
        let Some(lane) = InstanceLane::named(s, id)? else { continue };
        let early = command.force && message::due(s, lane.id)?.is_some();
        if early || lane.state.is_some() || message::start_waits(s, lane.id)? {
            lanes.push(lane);
        }
    }
    let mut step = DeletionStep::default();
    if !command.force {
        let goes_on = |lane: &&InstanceLane| !lane.state.is_some_and(|state| state.is_ended());
        step.report.running =
            lanes.iter().filter(goes_on).map(|lane| lane.instance.clone()).collect();
        if !step.report.running.is_empty() {
            return Ok(step);
        }
    }
    for lane in lanes {
        unlink(s, lane, deletion, &mut step.report)?;
    }
    step.more = step.report.instances > 0;
    // A small deletion finishes in this command.
    for _ in 0..4 {
        if step.more {
            continue_deletion(s, deletion, &mut step)?;
        }
    }
    Ok(step)
}

/// Removes the rows by which requests find a lane and its instance, and records that other rows are
/// left.
fn unlink(
    s: &mut DbSession<'_>,
    lane: InstanceLane,
    deletion: Uuid,
    report: &mut DeleteReport,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_instance_has_children.sql");
    let parents: bool =
        s.conn.prepare_cached(sql)?.query_row([lane.instance.as_str()], |row| row.get(0))?;
    for sql in [
        include_str!("../../sql/queries/flow_instance_delete.sql"),
        include_str!("../../sql/queries/flow_lane_delete.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([lane.id])?;
    }
    let name = Some(lane.instance.as_str()).filter(|_| parents);
    let leftover = Leftover { lane: lane.id, execution: None, parent: name };
    add_leftover(s, deletion, &leftover)?;
    report.instances += 1;
    if lane.watched {
        s.hint_flow(&[FlowChange::now(FlowChangeKind::Outcome(lane.instance.clone()))]);
        report.watched.push(lane.instance);
    }
    Ok(())
}

/// A lane, or one of its executions, whose rows are still to be removed.
struct Leftover<'l> {
    lane: i64,
    execution: Option<i64>,
    /// The id of the instance, if it may have children to delete.
    parent: Option<&'l str>,
}

/// Records that rows of a lane, or of one of its executions, are left.
fn add_leftover(s: &DbSession<'_>, deletion: Uuid, leftover: &Leftover<'_>) -> Res<()> {
    let Leftover { lane, execution, parent } = leftover;
    let sql = include_str!("../../sql/queries/flow_leftover_add.sql");
    let due = s.now.plus(ABANDONED_AFTER).0;
    let params = (deletion.into_bytes(), lane, execution, parent, s.now.0, due);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// Runs one step of a deletion.
pub(super) fn continue_deletion(
    s: &mut DbSession<'_>,
    deletion: Uuid,
    step: &mut DeletionStep,
) -> Res<()> {
    let followed = follow(s, deletion, &mut step.report)?;
    let left = ROWS_MAX - i64::try_from(followed).unwrap_or(ROWS_MAX);
    if left > 0 {
        erase(s, deletion, left, &mut step.report)?;
    }
    let sql = include_str!("../../sql/queries/flow_leftover_more.sql");
    let deletion = [deletion.into_bytes()];
    step.more = s.conn.prepare_cached(sql)?.query_row(deletion, |row| row.get(0))?;
    Ok(())
}

/// Continues a deletion whose caller did not finish it. Returns when to call again.
pub(super) fn clear_deleted(s: &mut DbSession<'_>) -> Res<Option<Duration>> {
    match first_due(s)? {
        Some((deletion, due)) if due <= s.now.0 => {
            continue_deletion(s, deletion, &mut DeletionStep::default())?;
            Ok(first_due(s)?.map(|(_, due)| s.now.until(Timestamp(due))))
        }
        later => Ok(later.map(|(_, due)| s.now.until(Timestamp(due)))),
    }
}

/// Answers from a snapshot, if no unfinished deletion is due.
pub(super) fn peek_deleted(s: &DbSession<'_>) -> Res<Option<Option<Duration>>> {
    let first = first_due(s)?;
    let idle = first.is_none_or(|(_, due)| due > s.now.0);
    Ok(idle.then(|| first.map(|(_, due)| s.now.until(Timestamp(due)))))
}

fn first_due(s: &DbSession<'_>) -> Res<Option<(Uuid, i64)>> {
    let sql = include_str!("../../sql/queries/flow_leftover_due.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let deletion: Vec<u8> = row.get(0)?;
    let deletion = Uuid::from_slice(&deletion).map_err(corrupt("leftover", "deletion"))?;
    Ok(Some((deletion, row.get(1)?)))
}

/// Deletes children of deleted instances, up to [`ROWS_MAX`]. Returns their number.
fn follow(s: &mut DbSession<'_>, deletion: Uuid, report: &mut DeleteReport) -> Res<usize> {
    let parents: Vec<(i64, String, i64, i64)> = {
        let sql = include_str!("../../sql/queries/flow_leftover_parents.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let found = statement.query_map((deletion.into_bytes(), NOTES_MAX), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
        found.collect::<Result<_, _>>()?
    };
    let mut followed = 0;
    for (note, parent, after, until) in parents {
        let left = ROWS_MAX - i64::try_from(followed).unwrap_or(ROWS_MAX);
        if left <= 0 {
            break;
        }
        let children: Vec<i64> = {
            let sql = include_str!("../../sql/queries/flow_instance_below.sql");
            let mut statement = s.conn.prepare_cached(sql)?;
            let found = statement.query_map((&parent, after, until, left), |row| row.get(0))?;
            found.collect::<Result<_, _>>()?
        };
        let sql = include_str!("../../sql/queries/flow_leftover_place.sql");
        let whole = i64::try_from(children.len()).unwrap_or(left) < left;
        let last = children.last().copied().unwrap_or(after);
        s.conn.prepare_cached(sql)?.execute((note, last, whole))?;
        followed += children.len();
        for child in children {
            if let Some(lane) = InstanceLane::read(s, child)? {
                unlink(s, lane, deletion, report)?;
            }
        }
    }
    Ok(followed)
}

/// Removes up to `left` rows that lanes and executions of a deletion own.
fn erase(s: &DbSession<'_>, deletion: Uuid, mut left: i64, report: &mut DeleteReport) -> Res<()> {
    let notes: Vec<(i64, i64, Option<i64>)> = {
        let sql = include_str!("../../sql/queries/flow_leftover_rows.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let found = statement.query_map((deletion.into_bytes(), NOTES_MAX), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        found.collect::<Result<_, _>>()?
    };
    for (note, lane, execution) in notes {
        if execution.is_none() {
            erase_lane(s, lane, &mut left, report)?;
        }
        let sql = include_str!("../../sql/queries/flow_erase_history.sql");
        left -= rows(s.conn.prepare_cached(sql)?.execute((lane, left, execution))?);
        if execution.is_none() {
            erase_executions(s, lane, &mut left, report)?;
        }
        if left <= 0 {
            break;
        }
        let sql = include_str!("../../sql/queries/flow_leftover_remove.sql");
        s.conn.prepare_cached(sql)?.execute([note])?;
    }
    Ok(())
}

/// Removes some activities, messages and key-value entries of a lane.
fn erase_lane(s: &DbSession<'_>, lane: i64, left: &mut i64, report: &mut DeleteReport) -> Res<()> {
    for (sql, counts) in [
        (include_str!("../../sql/queries/flow_erase_work.sql"), true),
        (include_str!("../../sql/queries/flow_erase_messages.sql"), true),
        (include_str!("../../sql/queries/flow_erase_kv.sql"), false),
        (include_str!("../../sql/queries/flow_erase_kv_changes.sql"), false),
    ] {
        let gone = s.conn.prepare_cached(sql)?.execute((lane, *left))?;
        *left -= rows(gone);
        report.messages += if counts { gone as u64 } else { 0 };
    }
    Ok(())
}

fn erase_executions(
    s: &DbSession<'_>,
    lane: i64,
    left: &mut i64,
    report: &mut DeleteReport,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_erase_executions.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let gone = statement.query_map((lane, *left), |row| row.get::<_, i64>(0))?;
    for events in gone {
        *left -= 1;
        report.executions += 1;
        report.events += count("execution", events?)?;
    }
    Ok(())
}

fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Removes up to [`ROWS_MAX`] old executions of instances, and records their history as left.
pub(super) fn prune_some(
    s: &mut DbSession<'_>,
    ids: &[InstanceId],
    options: PruneOptions,
    deletion: Uuid,
) -> Res<PruneStep> {
    let mut pruned = PruneStep::default();
    for id in ids {
        let Some(instance) = InstanceRow::named(s, id)? else { continue };
        let left = ROWS_MAX - i64::try_from(pruned.executions).unwrap_or(ROWS_MAX);
        if left <= 0 {
            break;
        }
        let old = old_executions(s, &instance, options)?;
        if !old.is_empty() {
            pruned.instances.push(id.clone());
        }
        for (execution, events) in old.into_iter().take(usize::try_from(left).unwrap_or(0)) {
            let sql = include_str!("../../sql/queries/flow_execution_remove.sql");
            s.conn.prepare_cached(sql)?.execute((instance.lane, execution))?;
            let leftover =
                Leftover { lane: instance.lane, execution: Some(execution), parent: None };
            add_leftover(s, deletion, &leftover)?;
            pruned.executions += 1;
            pruned.events += count("execution", events)?;
        }
    }
    if pruned.executions > 0 {
        let mut step = DeletionStep::default();
        continue_deletion(s, deletion, &mut step)?;
        pruned.more = step.more;
    }
    Ok(pruned)
}

/// What one command of a pruning did.
#[derive(Debug, Default)]
pub(super) struct PruneStep {
    pub(super) instances: Vec<InstanceId>,
    pub(super) executions: u64,
    pub(super) events: u64,
    /// Whether history of the removed executions is left.
    pub(super) more: bool,
}

impl Consequence for PruneStep {
    fn changed(&self) -> bool {
        self.executions > 0
    }
}

/// Up to [`ROWS_MAX`] executions of an instance that the options let go, each with its number of
/// events.
pub(super) fn old_executions(
    s: &DbSession<'_>,
    instance: &InstanceRow,
    options: PruneOptions,
) -> Res<Vec<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/flow_execution_prunable.sql");
    let current = number("execution", instance.execution)?;
    let keep = options.keep_last.unwrap_or(0);
    let before = options.ended_before.map(|at| at.0);
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement.query_map((instance.lane, keep, current, before, ROWS_MAX), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
