//! Commits turns: all effects of a turn, or none of them.

use wakeline_core::{FlowChange, FlowChangeKind};
use wakeline_store::flow::{
    ExecutionDetail, ExecutionEnd, HistoryBatch, InstanceState, StatusChange, TurnCommit,
    TurnOutcome, TurnReply,
};

use super::erase;
use super::instance::{self, InstanceRow};
use super::kv;
use super::lane::{InstanceLane, InstanceLanes, number};
use super::line;
use super::message;
use super::names;
use super::turn;
use super::work;
use crate::error::{Res, StoreFault};
use crate::hook;
use crate::queue::push;
use crate::session::DbSession;

/// Approximate size of a turn on disk without its payloads, and of each of its activities.
const TURN_BYTES: usize = 500;

/// Approximate size of a turn on disk.
pub(super) fn bytes(commit: &TurnCommit) -> usize {
    let work: usize = commit.work.iter().map(|work| TURN_BYTES + work.payload.len()).sum();
    let history = commit.history.as_ref().map_or(0, |batch| batch.events.len());
    let sent = message::bytes(&commit.messages) + push::bytes(&commit.pushes);
    TURN_BYTES + work + history + sent + hook::bytes(&commit.emits)
}

/// Commits a turn and ends its lease.
pub(super) fn commit(s: &mut DbSession<'_>, commit: &TurnCommit) -> Res<TurnReply> {
    let lane = InstanceLane::read(s, commit.token.lane)?;
    let Some(lane) = lane.filter(|lane| lane.is_held_by(commit.token, s.now)) else {
        return Ok(refused(TurnOutcome::Stale));
    };
    let found = CommitTarget::read(s, &lane, commit)?;
    let last_event = found.execution.as_ref().map_or(0, |execution| execution.events);
    if commit.history.as_ref().is_some_and(|batch| batch.first != last_event + 1) {
        return Ok(refused(TurnOutcome::Conflict { last_event }));
    }
    apply(s, lane, found, commit)
}

fn refused(outcome: TurnOutcome) -> TurnReply {
    TurnReply {
        outcome,
        turns: Vec::new(),
        work: Vec::new(),
        changes: Vec::new(),
        queue_changes: Vec::new(),
        hook_changes: Vec::new(),
    }
}

/// The instance and the execution to which a turn belongs, if they exist.
struct CommitTarget {
    instance: Option<InstanceRow>,
    execution: Option<ExecutionDetail>,
}

impl CommitTarget {
    /// Reads them. Fails if the command is invalid.
    fn read(s: &DbSession<'_>, lane: &InstanceLane, commit: &TurnCommit) -> Res<Self> {
        let invalid =
            |field, reason: &str| StoreFault::Invalid { field, reason: reason.to_owned() };
        let instance = InstanceRow::read(s, lane.id)?;
        let writes = commit.history.is_some()
            || !commit.status.is_empty()
            || !commit.kv.is_empty()
            || commit.end != ExecutionEnd::Open;
        if instance.is_none() && commit.new_instance.is_none() && writes {
            return Err(invalid(
                "new_instance",
                "is required, because the instance does not exist yet",
            ));
        }
        if commit.execution == 0 && (instance.is_some() || commit.new_instance.is_some()) {
            return Err(invalid("execution", "must be 1 or more"));
        }
        if commit.history.as_ref().is_some_and(|batch| batch.last < batch.first) {
            return Err(invalid("history", "must hold an event"));
        }
        if let ExecutionEnd::Ended { state, .. } = &commit.end
            && !state.is_ended()
        {
            return Err(invalid("end", "must be the state of an ended instance"));
        }
        let execution = instance::read_execution(s, lane.id, commit.execution)?;
        Ok(Self { instance, execution })
    }
}

fn apply(
    s: &mut DbSession<'_>,
    lane: InstanceLane,
    found: CommitTarget,
    commit: &TurnCommit,
) -> Res<TurnReply> {
    let (id, lease) = (lane.id, lane.lease.expect("the token was checked"));
    let mut lanes = InstanceLanes::default();
    lanes.add(lane);
    let RecordedTurn { state, changed } = record(s, lanes.get(id), found, commit)?;
    let inserted = insert_work(s, id, commit)?;
    let mut messages = Vec::with_capacity(commit.messages.len());
    for envelope in &commit.messages {
        messages.push(message::store(s, &mut lanes, envelope)?);
    }
    for key in &commit.cancelled_messages {
        message::cancel(s, id, *key)?;
    }
    let pushed = push::push_own(s, &commit.pushes)?;
    message::remove_taken(s, id, lease)?;
    if commit.clear {
        erase::clear(s, id)?;
    }
    let lane = lanes.get(id);
    lane.state = state;
    continue_as_new(s, lane, commit)?;
    lane.end_lease(s, false)?;
    let watched = changed && std::mem::take(&mut lane.watched);
    let outcome = FlowChange::now(FlowChangeKind::Outcome(lane.instance.clone()));
    let opened = lanes.finish(s)?;
    let (turns, mut changes) = turn::lease_on_insert(s, opened, &commit.turn_requests)?;
    let inserted = if commit.clear { Vec::new() } else { inserted };
    let (work, more) = line::lease_on_insert(s, inserted, &commit.work_requests)?;
    changes.extend(more);
    if changed {
        if watched {
            s.hint_flow(std::slice::from_ref(&outcome));
        }
        changes.push(outcome);
    }
    let (emits, hook_changes) = hook::emit_all(s, &commit.emits)?;
    let outcome = TurnOutcome::Committed { messages, pushes: pushed.outcomes, emits };
    let queue_changes = pushed.changes;
    Ok(TurnReply { outcome, turns, work, changes, queue_changes, hook_changes })
}

/// The result of recording a turn in the instance's rows.
struct RecordedTurn {
    /// The instance's state after the turn. The turn's messages are stored while the lane still has
    /// the state before it.
    state: Option<InstanceState>,
    /// Whether callers that wait for the instance are notified.
    changed: bool,
}

/// Writes the instance, its execution and its key-value changes.
fn record(
    s: &mut DbSession<'_>,
    lane: &mut InstanceLane,
    found: CommitTarget,
    commit: &TurnCommit,
) -> Res<RecordedTurn> {
    if let Some(pinned) = &commit.pinned {
        lane.capability = Some(names::ensure_capability(s, &pinned.capability)?);
    }
    let CommitTarget { instance, execution } = found;
    let (mut instance, is_new) = match (instance, &commit.new_instance) {
        (Some(instance), _) => (instance, false),
        (None, Some(new_instance)) => (InstanceRow::new(s, lane, new_instance), true),
        (None, None) => return Ok(RecordedTurn { state: None, changed: false }),
    };
    let before = instance.state;
    begin_execution(&mut instance, commit.execution);
    lane.state = Some(instance.state);
    write_execution(s, &mut instance, execution, commit)?;
    kv::apply(s, lane.id, commit.execution, &commit.kv)?;
    if commit.end != ExecutionEnd::Open {
        kv::merge(s, lane.id)?;
    }
    for change in &commit.status {
        instance.status_version += 1;
        instance.status = match change {
            StatusChange::Set(text) => Some(text.clone()),
            StatusChange::Clear => None,
        };
    }
    if !commit.kv.is_empty() {
        instance.kv_version += 1;
    }
    instance.updated_at = s.now;
    let ended = matches!(commit.end, ExecutionEnd::Ended { .. });
    let changed = is_new || ended || before != instance.state;
    if is_new {
        instance.add(s)?;
    } else if changed {
        instance.write(s)?;
    } else {
        instance.touch(s)?;
    }
    let changed = changed || !commit.status.is_empty() || !commit.kv.is_empty();
    Ok(RecordedTurn { state: Some(instance.state), changed })
}

/// Makes a new execution the current one.
fn begin_execution(instance: &mut InstanceRow, execution: u64) {
    if execution > instance.execution {
        instance.execution = execution;
        instance.state = InstanceState::Running;
        instance.output = None;
        instance.ended_at = None;
    }
}

/// Writes the execution with what the turn added to it. It is created if it does not exist.
fn write_execution(
    s: &DbSession<'_>,
    instance: &mut InstanceRow,
    execution: Option<ExecutionDetail>,
    commit: &TurnCommit,
) -> Res<()> {
    let mut execution = execution.unwrap_or_else(|| ExecutionDetail {
        execution: commit.execution,
        version: None,
        state: InstanceState::Running,
        output: None,
        events: 0,
        history_bytes: 0,
        started_at: s.now,
        ended_at: None,
    });
    if let Some(pinned) = &commit.pinned {
        execution.version.clone_from(&pinned.version);
    }
    if let Some(batch) = &commit.history {
        append(s, instance.lane, commit.execution, batch)?;
        execution.events = batch.last;
        execution.history_bytes += batch.events.len() as u64;
    }
    match &commit.end {
        ExecutionEnd::Open => {}
        ExecutionEnd::Ended { state, output } => {
            end_execution(s, &mut execution, *state);
            execution.output.clone_from(output);
            instance.state = *state;
            instance.output.clone_from(output);
            instance.ended_at = Some(s.now);
        }
        ExecutionEnd::ContinuedAsNew { output } => {
            end_execution(s, &mut execution, InstanceState::ContinuedAsNew);
            execution.output.clone_from(output);
        }
    }
    instance::write_execution(s, instance.lane, &execution)
}

fn end_execution(s: &DbSession<'_>, execution: &mut ExecutionDetail, state: InstanceState) {
    execution.state = state;
    execution.ended_at = Some(s.now);
}

fn append(s: &DbSession<'_>, lane: i64, execution: u64, batch: &HistoryBatch) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_history_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        lane,
        number("execution", execution)?,
        number("history", batch.first)?,
        number("history", batch.last)?,
        batch.events.as_ref(),
    ))?;
    Ok(())
}

/// Inserts and cancels activities. Returns the inserted ones that were not cancelled, each with the
/// hint of when it can be claimed.
fn insert_work(
    s: &mut DbSession<'_>,
    lane: i64,
    commit: &TurnCommit,
) -> Res<Vec<(i64, FlowChange)>> {
    let mut inserted = Vec::new();
    for work in &commit.work {
        if let Some((id, change)) = work::insert(s, lane, work)?
            && !commit.cancelled_work.contains(&work.key)
        {
            inserted.push((id, change));
        }
    }
    let sql = include_str!("../../sql/queries/flow_work_cancel.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    for key in &commit.cancelled_work {
        let (execution, activity) =
            (number("execution", key.execution)?, number("activity", key.activity)?);
        statement.execute((lane, execution, activity))?;
    }
    Ok(inserted)
}

/// If the turn continues as new, takes over the capability that the starting message of the next
/// execution needs.
fn continue_as_new(s: &mut DbSession<'_>, lane: &mut InstanceLane, commit: &TurnCommit) -> Res<()> {
    if !matches!(commit.end, ExecutionEnd::ContinuedAsNew { .. }) {
        return Ok(());
    }
    let own = commit.messages.iter().filter(|envelope| envelope.instance == lane.instance);
    if let Some(needed) = own.filter_map(|envelope| envelope.starts.as_ref()).next() {
        lane.capability = Some(names::ensure_capability(s, needed)?);
    }
    Ok(())
}
