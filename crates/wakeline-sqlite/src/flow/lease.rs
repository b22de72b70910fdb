//! Renewing and abandoning the leases of turns and activities.

use std::time::Duration;

use wakeline_core::{FlowChange, FlowChangeKind, FlowToken, Timestamp};
use wakeline_store::flow::{AbandonOutcome, RenewOutcome};

use super::instance::{InstanceRow, read_execution};
use super::lane::{InstanceLane, InstanceLanes};
use super::message::{self, ReturnOptions};
use super::names;
use super::session;
use super::turn;
use super::work::WorkRow;
use crate::error::Res;
use crate::session::DbSession;

/// Moves the ends of leases to `span` from now, but never to an earlier time.
pub(super) fn renew(
    s: &mut DbSession<'_>,
    tokens: &[FlowToken],
    span: Duration,
) -> Res<Vec<RenewOutcome>> {
    let until = s.now.plus(span).0;
    tokens
        .iter()
        .map(|token| match token.work {
            Some(_) => renew_work(s, *token, until),
            None => renew_turn(s, *token, until),
        })
        .collect()
}

fn renew_turn(s: &DbSession<'_>, token: FlowToken, until: i64) -> Res<RenewOutcome> {
    let lane = InstanceLane::read(s, token.lane)?;
    let Some(mut lane) = lane.filter(|lane| lane.is_held_by(token, s.now)) else {
        return Ok(RenewOutcome::Stale);
    };
    if let Some(lease) = &mut lane.lease
        && lease.until < until
    {
        lease.until = until;
        lane.due_at = Some(until);
        lane.write(s)?;
    }
    let execution = match InstanceRow::read(s, lane.id)? {
        Some(instance) => read_execution(s, lane.id, instance.execution)?,
        None => None,
    };
    Ok(RenewOutcome::Renewed(execution.map(|execution| execution.state)))
}

fn renew_work(s: &DbSession<'_>, token: FlowToken, until: i64) -> Res<RenewOutcome> {
    let Some(mut row) = WorkRow::held_by(s, token)? else { return Ok(RenewOutcome::Stale) };
    if let Some((_, end)) = &mut row.lease
        && *end < until
    {
        *end = until;
        row.due_at = Some(until);
        row.write(s)?;
    }
    session::touch(s, row.session.as_ref())?;
    Ok(RenewOutcome::Renewed(row.state(s)?))
}

/// How a lease is abandoned.
#[derive(Debug, Clone, Copy)]
pub(super) struct AbandonOptions {
    pub(super) delay: Duration,
    pub(super) uncounted: bool,
}

/// Returns a turn or an activity, so that it can be claimed again.
pub(super) fn abandon(
    s: &mut DbSession<'_>,
    token: FlowToken,
    options: AbandonOptions,
) -> Res<(AbandonOutcome, Vec<FlowChange>)> {
    let abandoned = match token.work {
        Some(_) => abandon_work(s, token, options)?,
        None => abandon_turn(s, token, options)?,
    };
    Ok(match abandoned {
        Some(changes) => (AbandonOutcome::Abandoned, changes),
        None => (AbandonOutcome::Stale, Vec::new()),
    })
}

fn abandon_turn(
    s: &mut DbSession<'_>,
    token: FlowToken,
    options: AbandonOptions,
) -> Res<Option<Vec<FlowChange>>> {
    let Some(lane) = InstanceLane::read(s, token.lane)? else { return Ok(None) };
    let Some(lease) = lane.lease.filter(|lease| lease.key == token.key) else { return Ok(None) };
    let mut lanes = InstanceLanes::default();
    let lane = lanes.add(lane);
    let visible_at = Some(s.now.plus(options.delay).0);
    message::return_taken(
        s,
        lane.id,
        lease,
        ReturnOptions { visible_at, counted: !options.uncounted },
    )?;
    lane.end_lease(s, false)?;
    let opened = lanes.finish(s)?;
    let (_, changes) = turn::lease_on_insert(s, opened, &[])?;
    Ok(Some(changes))
}

fn abandon_work(
    s: &mut DbSession<'_>,
    token: FlowToken,
    options: AbandonOptions,
) -> Res<Option<Vec<FlowChange>>> {
    let Some(mut row) = WorkRow::leased_by(s, token)? else { return Ok(None) };
    let at = s.now.plus(options.delay).0;
    row.lease = None;
    row.due_at = Some(at).filter(|at| *at > s.now.0);
    row.attempts = row.attempts.saturating_sub(u32::from(options.uncounted));
    row.write(s)?;
    let what = FlowChangeKind::Work(names::route(s, row.route)?);
    let changes = vec![FlowChange { what, due_in: s.now.until(Timestamp(at)) }];
    s.hint_flow(&changes);
    Ok(Some(changes))
}
