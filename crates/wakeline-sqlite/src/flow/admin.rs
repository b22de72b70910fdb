//! Interventions by operators: suspending, resuming and terminating instances.

use wakeline_core::{Capabilities, FlowChange, FlowChangeKind, FlowToken, InstanceId};
use wakeline_store::flow::{
    ExecutionDetail, InstanceState, NewInstance, RetriedBatch, RetryPosition, Suspension,
    TerminateInstance,
};

use super::erase;
use super::instance::{self, InstanceRow};
use super::kv;
use super::lane::{InstanceLane, InstanceLanes, LaneSuspension};
use super::message;
use super::names;
use super::turn;
use crate::error::{Res, StoreFault};
use crate::session::DbSession;

/// Suspends an instance. Returns false if it has ended, does not exist, or is already suspended.
pub(super) fn suspend(s: &DbSession<'_>, id: &InstanceId, suspension: &Suspension) -> Res<bool> {
    match InstanceLane::named(s, id)? {
        Some(lane) => suspend_lane(s, lane, suspension),
        None => Ok(false),
    }
}

/// Suspends an instance on behalf of the dispatcher that holds its turn.
pub(super) fn suspend_turn(
    s: &DbSession<'_>,
    token: FlowToken,
    suspension: &Suspension,
) -> Res<bool> {
    let lane = InstanceLane::read(s, token.lane)?;
    match lane.filter(|lane| lane.is_held_by(token, s.now)) {
        Some(lane) => suspend_lane(s, lane, suspension),
        None => Ok(false),
    }
}

fn suspend_lane(s: &DbSession<'_>, mut lane: InstanceLane, suspension: &Suspension) -> Res<bool> {
    let goes_on = match lane.state {
        Some(state) => !state.is_ended(),
        None => message::start_waits(s, lane.id)?,
    };
    if !goes_on || lane.suspension.is_some() {
        return Ok(false);
    }
    let (kind, reason) = match suspension {
        Suspension::Operator { reason } => ("operator", reason),
        Suspension::Mismatch { reason } => ("mismatch", reason),
    };
    lane.suspension = Some(LaneSuspension { kind: kind.to_owned(), reason: reason.clone() });
    let expired = lane.lease.is_some_and(|lease| lease.until <= s.now.0);
    lane.end_lease(s, expired)?;
    lane.write(s)?;
    Ok(true)
}

/// Resumes an instance. Returns whether it was suspended.
pub(super) fn resume(s: &mut DbSession<'_>, id: &InstanceId) -> Res<(bool, Vec<FlowChange>)> {
    let lane = InstanceLane::named(s, id)?.filter(|lane| lane.suspension.is_some());
    let resumed = lane.is_some();
    Ok((resumed, resume_lanes(s, lane.into_iter().collect())?))
}

/// Resumes a page of the instances that were suspended because their code did not match their
/// history, and that need one of the given capabilities.
pub(super) fn retry_mismatched(
    s: &mut DbSession<'_>,
    capabilities: &Capabilities,
    after: Option<RetryPosition>,
) -> Res<RetriedBatch> {
    let mut needed = names::capabilities(s, capabilities)?;
    needed.sort_unstable();
    let after = after.map_or((i64::MIN, i64::MIN), |place| (place.capability, place.lane));
    for capability in needed.into_iter().filter(|needed| *needed >= after.0) {
        let sql = include_str!("../../sql/queries/flow_lane_mismatched.sql");
        let behind = if capability == after.0 { after.1 } else { i64::MIN };
        let ids: Vec<i64> = {
            let mut statement = s.conn.prepare_cached(sql)?;
            let found = statement.query_map((capability, behind), |row| row.get(0))?;
            found.collect::<Result<_, _>>()?
        };
        let Some(last) = ids.last() else { continue };
        let next = Some(RetryPosition { capability, lane: *last });
        let mut lanes = Vec::new();
        for id in ids {
            lanes.extend(InstanceLane::read(s, id)?);
        }
        return Ok(RetriedBatch {
            count: lanes.len() as u64,
            changes: resume_lanes(s, lanes)?,
            next,
        });
    }
    Ok(RetriedBatch::default())
}

fn resume_lanes(s: &mut DbSession<'_>, suspended: Vec<InstanceLane>) -> Res<Vec<FlowChange>> {
    let mut lanes = InstanceLanes::default();
    for lane in suspended {
        let lane = lanes.add(lane);
        lane.suspension = None;
        lane.due_at = lane.free_due(s)?;
    }
    let opened = lanes.finish(s)?;
    Ok(turn::lease_on_insert(s, opened, &[])?.1)
}

/// Ends an instance without running its code. Returns whether there was an instance to end.
pub(super) fn terminate(
    s: &mut DbSession<'_>,
    command: &TerminateInstance,
) -> Res<(bool, Vec<FlowChange>)> {
    if !command.state.is_ended() {
        let reason = "must be the state of an ended instance".to_owned();
        return Err(StoreFault::Invalid { field: "state", reason });
    }
    let Some(lane) = InstanceLane::named(s, &command.instance)? else {
        return Ok((false, Vec::new()));
    };
    let outcome = FlowChange::now(FlowChangeKind::Outcome(command.instance.clone()));
    let watched = lane.watched;
    let mut changes = match InstanceRow::read(s, lane.id)? {
        Some(instance) if instance.state.is_ended() || command.new_instance.is_some() => {
            return Ok((false, Vec::new()));
        }
        Some(instance) => end(s, lane, instance, command)?,
        None => match &command.new_instance {
            Some(new_instance) if message::start_waits(s, lane.id)? => {
                let instance = record(s, &lane, new_instance)?;
                end(s, lane, instance, command)?
            }
            _ => return Ok((false, Vec::new())),
        },
    };
    if watched {
        s.hint_flow(std::slice::from_ref(&outcome));
    }
    changes.push(outcome);
    Ok((true, changes))
}

/// Inserts the row of a pending instance, so that it can be ended.
fn record(s: &DbSession<'_>, lane: &InstanceLane, new_instance: &NewInstance) -> Res<InstanceRow> {
    let instance = InstanceRow { execution: 1, ..InstanceRow::new(s, lane, new_instance) };
    instance.add(s)?;
    let execution = ExecutionDetail {
        execution: instance.execution,
        version: None,
        state: InstanceState::Running,
        output: None,
        events: 0,
        history_bytes: 0,
        started_at: s.now,
        ended_at: None,
    };
    instance::write_execution(s, lane.id, &execution)?;
    Ok(instance)
}

fn end(
    s: &mut DbSession<'_>,
    lane: InstanceLane,
    mut instance: InstanceRow,
    command: &TerminateInstance,
) -> Res<Vec<FlowChange>> {
    if let Some(mut execution) = instance::read_execution(s, lane.id, instance.execution)? {
        execution.state = command.state;
        execution.output = Some(command.output.clone());
        execution.ended_at = Some(s.now);
        instance::write_execution(s, lane.id, &execution)?;
    }
    kv::merge(s, lane.id)?;
    instance.state = command.state;
    instance.output = Some(command.output.clone());
    instance.ended_at = Some(s.now);
    instance.write(s)?;
    erase::clear(s, lane.id)?;
    let mut lanes = InstanceLanes::default();
    let lane = lanes.add(lane);
    lane.suspension = None;
    lane.watched = false;
    lane.state = Some(command.state);
    lane.end_lease(s, false)?;
    for envelope in &command.messages {
        message::store(s, &mut lanes, envelope)?;
    }
    let opened = lanes.finish(s)?;
    Ok(turn::lease_on_insert(s, opened, &[])?.1)
}
