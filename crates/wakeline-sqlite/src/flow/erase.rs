//! Removes what instances own, in pieces: messages and activities, whole instances, old executions.
//!
//! # Invariants
//! * A deletion takes several short commands, so that it does not hold up those of others. The
//!   first removes what was named for everybody who asks; what is left is noted in
//!   `lane_leftovers`.
//! * No command removes more than some thousand rows, and none looks at a row twice.

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{FlowChange, FlowWhat, InstanceId, Timestamp};
use wakeline_store::Consequence;
use wakeline_store::flow::{DeleteInstances, DeleteReport, PruneOptions};

use super::instance::Instance;
use super::lane::{Lane, count, number};
use super::message;
use crate::error::{Res, corrupt};
use crate::session::Session;

/// Rows that one step of a command removes.
const ROWS_MAX: i64 = 500;
/// Lanes that one step of a command goes on with.
const NOTES_MAX: i64 = 200;
/// Whoever deletes has so long before housekeeping goes on with it.
const LEFT_ALONE: Duration = Duration::from_secs(60);

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

/// What a command of a deletion did.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) report: DeleteReport,
    /// Something is left of the deletion.
    pub(super) more: bool,
}

impl Consequence for Piece {
    fn changed(&self) -> bool {
        self.report.changed()
    }
}

/// Removes instances for everybody who asks, and begins with what they own. Those that have not
/// ended only by force.
pub(super) fn begin(s: &mut Session<'_>, command: &DeleteInstances, deletion: Uuid) -> Res<Piece> {
    let mut lanes = Vec::new();
    for id in command.instances.iter().collect::<HashSet<_>>() {
        let Some(lane) = Lane::named(s, id)? else { continue };
        let early = command.force && message::due(s, lane.id)?.is_some();
        if early || lane.state.is_some() || message::start_waits(s, lane.id)? {
            lanes.push(lane);
        }
    }
    let mut piece = Piece::default();
    if !command.force {
        let goes_on = |lane: &&Lane| !lane.state.is_some_and(|state| state.is_ended());
        piece.report.running =
            lanes.iter().filter(goes_on).map(|lane| lane.instance.clone()).collect();
        if !piece.report.running.is_empty() {
            return Ok(piece);
        }
    }
    for lane in lanes {
        unlink(s, lane, deletion, &mut piece.report)?;
    }
    piece.more = piece.report.instances > 0;
    // What is small goes at once.
    for _ in 0..4 {
        if piece.more {
            go_on(s, deletion, &mut piece)?;
        }
    }
    Ok(piece)
}

/// Removes the rows by which everybody finds a lane and its instance, and notes what is left.
fn unlink(s: &mut Session<'_>, lane: Lane, deletion: Uuid, report: &mut DeleteReport) -> Res<()> {
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
    note(s, deletion, (lane.id, None), name)?;
    report.instances += 1;
    if lane.watched {
        s.hint_flow(&[FlowChange::now(FlowWhat::Outcome(lane.instance.clone()))]);
        report.watched.push(lane.instance);
    }
    Ok(())
}

/// Notes what is left of a lane, or of one of its executions.
fn note(
    s: &Session<'_>,
    deletion: Uuid,
    (lane, execution): (i64, Option<i64>),
    parent: Option<&str>,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_leftover_add.sql");
    let due = s.now.plus(LEFT_ALONE).0;
    let params = (deletion.into_bytes(), lane, execution, parent, s.now.0, due);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// Goes on with a deletion.
pub(super) fn go_on(s: &mut Session<'_>, deletion: Uuid, piece: &mut Piece) -> Res<()> {
    let followed = follow(s, deletion, &mut piece.report)?;
    let left = ROWS_MAX - i64::try_from(followed).unwrap_or(ROWS_MAX);
    if left > 0 {
        erase(s, deletion, left, &mut piece.report)?;
    }
    let sql = include_str!("../../sql/queries/flow_leftover_more.sql");
    let deletion = [deletion.into_bytes()];
    piece.more = s.conn.prepare_cached(sql)?.query_row(deletion, |row| row.get(0))?;
    Ok(())
}

/// Goes on with a deletion that nobody finished. Returns when there is more to do.
pub(super) fn clear_deleted(s: &mut Session<'_>) -> Res<Option<Duration>> {
    match first_due(s)? {
        Some((deletion, due)) if due <= s.now.0 => {
            go_on(s, deletion, &mut Piece::default())?;
            Ok(first_due(s)?.map(|(_, due)| s.now.until(Timestamp(due))))
        }
        later => Ok(later.map(|(_, due)| s.now.until(Timestamp(due)))),
    }
}

/// Answers from a snapshot, if there is nothing to go on with.
pub(super) fn peek_deleted(s: &Session<'_>) -> Res<Option<Option<Duration>>> {
    let first = first_due(s)?;
    let idle = first.is_none_or(|(_, due)| due > s.now.0);
    Ok(idle.then(|| first.map(|(_, due)| s.now.until(Timestamp(due)))))
}

fn first_due(s: &Session<'_>) -> Res<Option<(Uuid, i64)>> {
    let sql = include_str!("../../sql/queries/flow_leftover_due.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let deletion: Vec<u8> = row.get(0)?;
    let deletion = Uuid::from_slice(&deletion).map_err(corrupt("leftover", "deletion"))?;
    Ok(Some((deletion, row.get(1)?)))
}

/// Deletes children of deleted instances, as many as one command may. Returns how many.
fn follow(s: &mut Session<'_>, deletion: Uuid, report: &mut DeleteReport) -> Res<usize> {
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
            if let Some(lane) = Lane::read(s, child)? {
                unlink(s, lane, deletion, report)?;
            }
        }
    }
    Ok(followed)
}

/// Removes rows that lanes and executions of a deletion own, so many at most.
fn erase(s: &Session<'_>, deletion: Uuid, mut left: i64, report: &mut DeleteReport) -> Res<()> {
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

/// Removes some activities, messages and values of a lane.
fn erase_lane(s: &Session<'_>, lane: i64, left: &mut i64, report: &mut DeleteReport) -> Res<()> {
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
    s: &Session<'_>,
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

/// Removes old executions of instances, so many at most; their history is noted as left.
pub(super) fn prune_some(
    s: &mut Session<'_>,
    ids: &[InstanceId],
    options: PruneOptions,
    deletion: Uuid,
) -> Res<PrunedPiece> {
    let mut pruned = PrunedPiece::default();
    for id in ids {
        let Some(instance) = Instance::named(s, id)? else { continue };
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
            note(s, deletion, (instance.lane, Some(execution)), None)?;
            pruned.executions += 1;
            pruned.events += count("execution", events)?;
        }
    }
    if pruned.executions > 0 {
        let mut piece = Piece::default();
        go_on(s, deletion, &mut piece)?;
        pruned.more = piece.more;
    }
    Ok(pruned)
}

/// What a command of a pruning did.
#[derive(Debug, Default)]
pub(super) struct PrunedPiece {
    pub(super) instances: Vec<InstanceId>,
    pub(super) executions: u64,
    pub(super) events: u64,
    /// Some history is left.
    pub(super) more: bool,
}

impl Consequence for PrunedPiece {
    fn changed(&self) -> bool {
        self.executions > 0
    }
}

/// Some of the executions of an instance that go, each with how many events it has.
pub(super) fn old_executions(
    s: &Session<'_>,
    instance: &Instance,
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
