//! Commits turns: everything that a turn did, or nothing of it.

use wakeline_core::{FlowChange, FlowWhat};
use wakeline_store::flow::{
    ExecutionDetail, ExecutionEnd, HistoryBatch, InstanceState, StatusChange, TurnCommit,
    TurnOutcome, TurnReply,
};

use super::erase;
use super::instance::{self, Instance};
use super::kv;
use super::lane::{Lane, Lanes, number};
use super::line;
use super::message;
use super::names;
use super::turn;
use super::work;
use crate::error::{Fault, Res};
use crate::hook;
use crate::queue::push;
use crate::session::Session;

/// Space that a turn takes besides what it carries, roughly.
const TURN_BYTES: usize = 500;

/// What a turn takes of the disk, roughly.
pub(super) fn bytes(commit: &TurnCommit) -> usize {
    let work: usize = commit.work.iter().map(|work| TURN_BYTES + work.payload.len()).sum();
    let history = commit.history.as_ref().map_or(0, |batch| batch.events.len());
    let sent = message::bytes(&commit.messages) + push::bytes(&commit.pushes);
    TURN_BYTES + work + history + sent + hook::bytes(&commit.emits)
}

/// Commits a turn and ends its lease.
pub(super) fn commit(s: &mut Session<'_>, commit: &TurnCommit) -> Res<TurnReply> {
    let lane = Lane::read(s, commit.token.lane)?;
    let Some(lane) = lane.filter(|lane| lane.is_held_by(commit.token, s.now)) else {
        return Ok(refused(TurnOutcome::Stale));
    };
    let found = Found::read(s, &lane, commit)?;
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

/// What a turn is about.
struct Found {
    instance: Option<Instance>,
    execution: Option<ExecutionDetail>,
}

impl Found {
    /// Fails if the command is wrong in itself.
    fn read(s: &Session<'_>, lane: &Lane, commit: &TurnCommit) -> Res<Self> {
        let invalid = |field, reason: &str| Fault::Invalid { field, reason: reason.to_owned() };
        let instance = Instance::read(s, lane.id)?;
        let writes = commit.history.is_some()
            || !commit.status.is_empty()
            || !commit.kv.is_empty()
            || commit.end != ExecutionEnd::Open;
        if instance.is_none() && commit.birth.is_none() && writes {
            return Err(invalid("birth", "is missing, and there is no instance"));
        }
        if commit.execution == 0 && (instance.is_some() || commit.birth.is_some()) {
            return Err(invalid("execution", "must be 1 or more"));
        }
        if commit.history.as_ref().is_some_and(|batch| batch.last < batch.first) {
            return Err(invalid("history", "must hold an event"));
        }
        if let ExecutionEnd::Ended { state, .. } = &commit.end
            && !state.is_ended()
        {
            return Err(invalid("end", "must be a state in which nothing follows"));
        }
        let execution = instance::read_execution(s, lane.id, commit.execution)?;
        Ok(Self { instance, execution })
    }
}

fn apply(s: &mut Session<'_>, lane: Lane, found: Found, commit: &TurnCommit) -> Res<TurnReply> {
    let (id, lease) = (lane.id, lane.lease.expect("the token was checked"));
    let mut lanes = Lanes::default();
    lanes.add(lane);
    let Recorded { state, changed } = record(s, lanes.get(id), found, commit)?;
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
    let told = changed && std::mem::take(&mut lane.watched);
    let outcome = FlowChange::now(FlowWhat::Outcome(lane.instance.clone()));
    let opened = lanes.finish(s)?;
    let (turns, mut changes) = turn::born(s, opened, &commit.turn_requests)?;
    let inserted = if commit.clear { Vec::new() } else { inserted };
    let (work, more) = line::born(s, inserted, &commit.work_requests)?;
    changes.extend(more);
    if changed {
        if told {
            s.hint_flow(std::slice::from_ref(&outcome));
        }
        changes.push(outcome);
    }
    let (emits, hook_changes) = hook::emit_all(s, &commit.emits)?;
    let outcome = TurnOutcome::Committed { messages, pushes: pushed.outcomes, emits };
    let queue_changes = pushed.changes;
    Ok(TurnReply { outcome, turns, work, changes, queue_changes, hook_changes })
}

/// What became of the instance.
struct Recorded {
    /// How it stands after the turn. Messages of the turn are stored before that.
    state: Option<InstanceState>,
    /// Whether there is something to tell those who wait for its outcome.
    changed: bool,
}

/// Writes down what became of the instance.
fn record(
    s: &mut Session<'_>,
    lane: &mut Lane,
    found: Found,
    commit: &TurnCommit,
) -> Res<Recorded> {
    if let Some(pinned) = &commit.pinned {
        lane.capability = Some(names::ensure_capability(s, &pinned.capability)?);
    }
    let Found { instance, execution } = found;
    let (mut instance, born) = match (instance, &commit.birth) {
        (Some(instance), _) => (instance, false),
        (None, Some(birth)) => (Instance::born(s, lane, birth), true),
        (None, None) => return Ok(Recorded { state: None, changed: false }),
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
    let changed = born || ended || before != instance.state;
    match changed {
        true if born => instance.add(s)?,
        true => instance.write(s)?,
        false => instance.touch(s)?,
    }
    let changed = changed || !commit.status.is_empty() || !commit.kv.is_empty();
    Ok(Recorded { state: Some(instance.state), changed })
}

/// A new execution is the current one, and goes on.
fn begin_execution(instance: &mut Instance, execution: u64) {
    if execution > instance.execution {
        instance.execution = execution;
        instance.state = InstanceState::Running;
        instance.output = None;
        instance.ended_at = None;
    }
}

/// The execution with what the turn added to it; made if it does not exist.
fn write_execution(
    s: &Session<'_>,
    instance: &mut Instance,
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

fn end_execution(s: &Session<'_>, execution: &mut ExecutionDetail, state: InstanceState) {
    execution.state = state;
    execution.ended_at = Some(s.now);
}

fn append(s: &Session<'_>, lane: i64, execution: u64, batch: &HistoryBatch) -> Res<()> {
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

/// Adds and takes back activities. What was added is returned, and when it can be taken.
fn insert_work(s: &mut Session<'_>, lane: i64, commit: &TurnCommit) -> Res<Vec<(i64, FlowChange)>> {
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

/// What the next execution needs is said by the message that begins it.
fn continue_as_new(s: &mut Session<'_>, lane: &mut Lane, commit: &TurnCommit) -> Res<()> {
    if !matches!(commit.end, ExecutionEnd::ContinuedAsNew { .. }) {
        return Ok(());
    }
    let own = commit.messages.iter().filter(|envelope| envelope.instance == lane.instance);
    if let Some(needed) = own.filter_map(|envelope| envelope.starts.as_ref()).next() {
        lane.capability = Some(names::ensure_capability(s, needed)?);
    }
    Ok(())
}
