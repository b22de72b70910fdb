//! Interventions: holding instances back, letting them go on, ending them.

use wakeline_core::{Capabilities, FlowChange, FlowToken, FlowWhat, InstanceId};
use wakeline_store::flow::{
    ExecutionDetail, InstanceBirth, InstanceState, RetriedPiece, RetryPlace, Suspension,
    TerminateInstance,
};

use super::erase;
use super::instance::{self, Instance};
use super::kv;
use super::lane::{Held, Lane, Lanes};
use super::message;
use super::names;
use super::turn;
use crate::error::{Fault, Res};
use crate::session::Session;

/// Holds an instance back. False if that cannot be, or is so already.
pub(super) fn suspend(s: &Session<'_>, id: &InstanceId, suspension: &Suspension) -> Res<bool> {
    match Lane::named(s, id)? {
        Some(lane) => hold(s, lane, suspension),
        None => Ok(false),
    }
}

/// The same by the holder of a turn.
pub(super) fn suspend_turn(
    s: &Session<'_>,
    token: FlowToken,
    suspension: &Suspension,
) -> Res<bool> {
    let lane = Lane::read(s, token.lane)?;
    match lane.filter(|lane| lane.is_held_by(token, s.now)) {
        Some(lane) => hold(s, lane, suspension),
        None => Ok(false),
    }
}

fn hold(s: &Session<'_>, mut lane: Lane, suspension: &Suspension) -> Res<bool> {
    let goes_on = match lane.state {
        Some(state) => !state.is_ended(),
        None => message::start_waits(s, lane.id)?,
    };
    if !goes_on || lane.held.is_some() {
        return Ok(false);
    }
    let (kind, reason) = match suspension {
        Suspension::Operator { reason } => ("operator", reason),
        Suspension::Mismatch { reason } => ("mismatch", reason),
    };
    lane.held = Some(Held { kind: kind.to_owned(), reason: reason.clone() });
    let expired = lane.lease.is_some_and(|lease| lease.until <= s.now.0);
    lane.end_lease(s, expired)?;
    lane.write(s)?;
    Ok(true)
}

/// Lets an instance go on. False if it was not held back.
pub(super) fn resume(s: &mut Session<'_>, id: &InstanceId) -> Res<(bool, Vec<FlowChange>)> {
    let lane = Lane::named(s, id)?.filter(|lane| lane.held.is_some());
    let resumed = lane.is_some();
    Ok((resumed, let_go(s, lane.into_iter().collect())?))
}

/// Lets those go on whose code and history did not agree, and that need one of these: a piece of
/// those behind a place.
pub(super) fn retry_mismatched(
    s: &mut Session<'_>,
    capabilities: &Capabilities,
    after: Option<RetryPlace>,
) -> Res<RetriedPiece> {
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
        let next = Some(RetryPlace { capability, lane: *last });
        let mut lanes = Vec::new();
        for id in ids {
            lanes.extend(Lane::read(s, id)?);
        }
        return Ok(RetriedPiece { count: lanes.len() as u64, changes: let_go(s, lanes)?, next });
    }
    Ok(RetriedPiece::default())
}

fn let_go(s: &mut Session<'_>, held: Vec<Lane>) -> Res<Vec<FlowChange>> {
    let mut lanes = Lanes::default();
    for lane in held {
        let lane = lanes.add(lane);
        lane.held = None;
        lane.due_at = lane.free_due(s)?;
    }
    let opened = lanes.finish(s)?;
    Ok(turn::born(s, opened, &[])?.1)
}

/// Ends an instance without its code. False if there is nothing to end.
pub(super) fn terminate(
    s: &mut Session<'_>,
    command: &TerminateInstance,
) -> Res<(bool, Vec<FlowChange>)> {
    if !command.state.is_ended() {
        let reason = "must be a state in which nothing follows".to_owned();
        return Err(Fault::Invalid { field: "state", reason });
    }
    let Some(lane) = Lane::named(s, &command.instance)? else { return Ok((false, Vec::new())) };
    let told = FlowChange::now(FlowWhat::Outcome(command.instance.clone()));
    let watched = lane.watched;
    let mut changes = match Instance::read(s, lane.id)? {
        Some(instance) if instance.state.is_ended() || command.birth.is_some() => {
            return Ok((false, Vec::new()));
        }
        Some(instance) => end(s, lane, instance, command)?,
        None => match &command.birth {
            Some(birth) if message::start_waits(s, lane.id)? => {
                let instance = record(s, &lane, birth)?;
                end(s, lane, instance, command)?
            }
            _ => return Ok((false, Vec::new())),
        },
    };
    if watched {
        s.hint_flow(std::slice::from_ref(&told));
    }
    changes.push(told);
    Ok((true, changes))
}

/// Records a pending instance, so that it can be ended.
fn record(s: &Session<'_>, lane: &Lane, birth: &InstanceBirth) -> Res<Instance> {
    let instance = Instance { execution: 1, ..Instance::born(s, lane, birth) };
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
    s: &mut Session<'_>,
    lane: Lane,
    mut instance: Instance,
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
    let mut lanes = Lanes::default();
    let lane = lanes.add(lane);
    lane.held = None;
    lane.watched = false;
    lane.state = Some(command.state);
    lane.end_lease(s, false)?;
    for envelope in &command.messages {
        message::store(s, &mut lanes, envelope)?;
    }
    let opened = lanes.finish(s)?;
    Ok(turn::born(s, opened, &[])?.1)
}
