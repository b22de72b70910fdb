//! Leases turns to dispatchers, by claims and in the commit that makes them available.
//!
//! # Invariants
//! * A lane with a corrupt row is skipped for a while, unchanged, so that it does not delay other
//!   lanes. A claim that found nothing else returns the error, because corrupt rows must not be
//!   ignored silently.

use std::collections::BTreeSet;

use uuid::Uuid;
use wakeline_core::{Capabilities, FlowChange, FlowChangeKind, FlowToken, Timestamp, error_chain};
use wakeline_store::flow::{
    InlineHistory, LaneMessage, TurnClaim, TurnClaimed, TurnItem, TurnRequest,
};

use super::claim_outcome::{FlowClaimOutcome, QUARANTINE};
use super::instance::{self, HistoryPosition, InstanceRow};
use super::kv;
use super::lane::{InstanceLane, LaneLease, OpenedLanes};
use super::message;
use super::names;
use crate::error::{Res, StoreFault};
use crate::session::DbSession;

/// A claim returns the history of an instance only up to this size.
const HISTORY_BYTES_MAX: u64 = 32 * 1024;

/// Leases turns for the requests of some lines.
pub(super) fn claim(
    s: &mut DbSession<'_>,
    lines: &[TurnClaim],
) -> Res<FlowClaimOutcome<TurnClaimed>> {
    let mut state = TurnClaimState::default();
    let mut outcomes = Vec::with_capacity(lines.len());
    for TurnClaim { capabilities, requests, further } in lines {
        let known = names::capabilities(s, capabilities)?;
        let mut candidates = TurnCandidates { known: &known, ids: Vec::new() };
        let mut turns = Vec::with_capacity(requests.len());
        for (n, request) in requests.iter().enumerate() {
            let mut turn = held(s, &known, request.key)?;
            while turn.is_none() {
                let Some(id) = candidates.next(s, &mut state, requests.len() - n)? else { break };
                turn = state.take(s, id, request)?;
            }
            turns.push(turn);
        }
        let next_due = if *further || turns.iter().any(Option::is_none) {
            next_due(s, &known)?.map(|due| s.now.until(Timestamp(due)))
        } else {
            None
        };
        outcomes.push(TurnClaimed { turns, next_due });
    }
    let any = outcomes.iter().flat_map(|outcome| &outcome.turns).any(Option::is_some);
    Ok(FlowClaimOutcome::new(outcomes, any, state.corrupt_row))
}

/// Answers a claim from a snapshot, if there is nothing to lease.
pub(super) fn peek(
    s: &mut DbSession<'_>,
    lines: &[TurnClaim],
) -> Res<Option<FlowClaimOutcome<TurnClaimed>>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for TurnClaim { capabilities, requests, further } in lines {
        let known = names::capabilities(s, capabilities)?;
        let due = next_due(s, &known)?;
        if due.is_some_and(|due| due <= s.now.0) {
            return Ok(None);
        }
        let mut turns = Vec::with_capacity(requests.len());
        for request in requests {
            turns.push(held(s, &known, request.key)?);
        }
        let missing = *further || turns.iter().any(Option::is_none);
        let next_due = due.map(|due| s.now.until(Timestamp(due))).filter(|_| missing);
        outcomes.push(TurnClaimed { turns, next_due });
    }
    Ok(Some(FlowClaimOutcome::new(outcomes, true, None)))
}

/// When the next lane with one of these capabilities can be claimed, possibly in the past.
pub(super) fn next_due(s: &DbSession<'_>, capabilities: &[i64]) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/flow_lane_next_due.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut next: Option<i64> = None;
    for capability in capabilities {
        let mut rows = statement.query([capability])?;
        if let Some(row) = rows.next()? {
            next = next.into_iter().chain([row.get(0)?]).min();
        }
    }
    Ok(next)
}

/// When a line of dispatchers has something to claim next.
pub(super) fn line_due(s: &mut DbSession<'_>, capabilities: &Capabilities) -> Res<Option<i64>> {
    let known = names::capabilities(s, capabilities)?;
    next_due(s, &known)
}

/// What a claim call has processed so far.
#[derive(Default)]
struct TurnClaimState {
    /// Lanes that were leased to a request or had a corrupt row. Each is processed once per call.
    seen: BTreeSet<i64>,
    corrupt_row: Option<StoreFault>,
}

impl TurnClaimState {
    /// Leases a lane. If it has a corrupt row, the lane is quarantined.
    fn take(
        &mut self,
        s: &mut DbSession<'_>,
        id: i64,
        request: &TurnRequest,
    ) -> Res<Option<TurnItem>> {
        match lease_or_roll_back(s, id, request) {
            Err(fault @ StoreFault::Corrupt { .. }) => {
                tracing::error!(error = error_chain(&fault), lane = id, "skipped a corrupt row");
                let sql = include_str!("../../sql/queries/flow_lane_quarantine.sql");
                s.conn.prepare_cached(sql)?.execute((id, s.now.plus(QUARANTINE).0))?;
                self.corrupt_row.get_or_insert(fault);
                Ok(None)
            }
            taken => taken,
        }
    }
}

/// Lanes that can be claimed, in the order in which they became due.
struct TurnCandidates<'o> {
    known: &'o [i64],
    /// The lanes that were already looked up, the next one last.
    ids: Vec<i64>,
}

impl TurnCandidates<'_> {
    /// The next lane. Each is offered to one request of a call only.
    fn next(
        &mut self,
        s: &DbSession<'_>,
        state: &mut TurnClaimState,
        wanted: usize,
    ) -> Res<Option<i64>> {
        if self.ids.is_empty() {
            // Processed lanes may still be due, for example after a lease of length zero.
            let found = first(s, self.known, wanted + state.seen.len())?;
            let fresh = found.into_iter().map(|(_, id)| id).filter(|id| !state.seen.contains(id));
            self.ids = fresh.take(wanted).collect();
            self.ids.reverse();
        }
        let next = self.ids.pop();
        state.seen.extend(next);
        Ok(next)
    }
}

fn first(s: &DbSession<'_>, capabilities: &[i64], len: usize) -> Res<Vec<(i64, i64)>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    let sql = include_str!("../../sql/queries/flow_lane_candidates.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let limit = i64::try_from(len).unwrap_or(i64::MAX);
    let mut found: Vec<(i64, i64)> = Vec::new();
    for capability in capabilities {
        let mut rows = statement.query((capability, s.now.0, limit))?;
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, row.get(1)?));
        }
    }
    found.sort_unstable();
    found.truncate(len);
    Ok(found)
}

/// Leases a lane that is due. If that fails, its writes are rolled back.
fn lease_or_roll_back(
    s: &mut DbSession<'_>,
    id: i64,
    request: &TurnRequest,
) -> Res<Option<TurnItem>> {
    match InstanceLane::read(s, id)? {
        None => Ok(None),
        Some(lane) if lane.lease.is_none() => lease(s, lane, request),
        Some(lane) => s.attempt(|s| lease(s, lane, request)),
    }
}

fn lease(
    s: &mut DbSession<'_>,
    mut lane: InstanceLane,
    request: &TurnRequest,
) -> Res<Option<TurnItem>> {
    if lane.lease.is_some() {
        lane.end_lease(s, true)?;
    }
    let until = s.now.plus(request.lease).0;
    let mut lease = LaneLease { key: request.key, until, at: s.now.0, seq: i64::MAX };
    let messages = message::take(s, lane.id, lease)?;
    let Some(last) = messages.last() else {
        lane.due_at = lane.free_due(s)?;
        lane.write(s)?;
        return Ok(None);
    };
    lease.seq = last.seq;
    let item = item(s, &lane, lease, messages)?;
    lane.lease = Some(lease);
    lane.due_at = Some(until);
    lane.write(s)?;
    if let Some(capability) = &item.capability {
        let change =
            FlowChange { what: FlowChangeKind::Turn(capability.clone()), due_in: item.lease_for };
        s.hint_flow_lease_end(change);
    }
    Ok(Some(item))
}

/// The turn of the line that is still leased under the key of a repeated claim.
fn held(s: &mut DbSession<'_>, known: &[i64], key: Uuid) -> Res<Option<TurnItem>> {
    let sql = include_str!("../../sql/queries/flow_lane_by_lease.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((key.into_bytes(), s.now.0))?;
    while let Some(row) = rows.next()? {
        let Some(lane) = InstanceLane::read(s, row.get(0)?)? else { continue };
        if let Some(lease) = lane.lease
            && lane.capability.is_some_and(|capability| known.contains(&capability))
        {
            let messages = message::taken(s, lane.id, lease)?;
            return Ok(Some(item(s, &lane, lease, messages)?));
        }
    }
    Ok(None)
}

/// Builds the leased turn that the dispatcher receives.
fn item(
    s: &mut DbSession<'_>,
    lane: &InstanceLane,
    lease: LaneLease,
    messages: Vec<LaneMessage>,
) -> Res<TurnItem> {
    let instance = InstanceRow::read(s, lane.id)?;
    let execution = match &instance {
        Some(instance) => instance::read_execution(s, lane.id, instance.execution)?,
        None => None,
    };
    let history = match &execution {
        Some(execution) if execution.history_bytes > HISTORY_BYTES_MAX => InlineHistory::TooLong,
        Some(execution) => {
            let execution = execution.execution;
            let position = HistoryPosition { lane: lane.id, execution, from: 0 };
            let (batches, _) = instance::batches(s, position, |_| false)?;
            InlineHistory::Complete(batches)
        }
        None => InlineHistory::Complete(Vec::new()),
    };
    let capability = lane.capability.map(|id| names::capability_name(s, id)).transpose()?;
    let (name, parent) = instance.map(|instance| (instance.name, instance.parent)).unzip();
    Ok(TurnItem {
        token: FlowToken { lane: lane.id, work: None, key: lease.key },
        attempt: messages.iter().map(|message| message.attempt).max().unwrap_or(1),
        instance: lane.instance.clone(),
        name,
        parent: parent.flatten(),
        capability,
        execution: execution.as_ref().map_or(0, |execution| execution.execution),
        last_event: execution.as_ref().map_or(0, |execution| execution.events),
        state: execution.as_ref().map(|execution| execution.state),
        messages,
        history,
        kv: kv::state(s, lane.id)?,
        now: s.now,
        lease_for: s.now.until(Timestamp(lease.until)),
    })
}

/// Turns that were leased in the commit that made them available, with their requests' indices.
pub(super) type TurnsLeasedOnInsert = Vec<(usize, TurnItem)>;

/// Leases lanes that a command made available to the requests that are piggybacked on it, unless
/// older lanes wait for them. Also returns the hints for the lanes that were not leased.
pub(super) fn lease_on_insert(
    s: &mut DbSession<'_>,
    opened: OpenedLanes,
    requests: &[TurnRequest],
) -> Res<(TurnsLeasedOnInsert, Vec<FlowChange>)> {
    let mut open = opened.lanes;
    let mut leased = BTreeSet::new();
    let mut turns = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        let known = names::capabilities(s, &request.capabilities)?;
        let Some(place) = first_open(s, &known, &open)? else { continue };
        match lease_or_roll_back(s, open[place], request) {
            Ok(None) | Err(StoreFault::Corrupt { .. }) => {}
            item => {
                turns.extend(item?.map(|item| (n, item)));
                leased.insert(open.remove(place));
            }
        }
    }
    let unleased = opened.changes.into_iter().filter(|(lane, _)| !leased.contains(lane));
    let changes = merged(unleased.map(|(_, change)| change));
    s.hint_flow(&changes);
    Ok((turns, changes))
}

/// The index of the lane in `open` that became due first, or `None` if another lane with these
/// capabilities can be claimed first.
fn first_open(s: &DbSession<'_>, known: &[i64], open: &[i64]) -> Res<Option<usize>> {
    let mut lowest: Option<(i64, usize)> = None;
    for (due_at, id) in first(s, known, open.len() + 1)? {
        let Some(place) = open.iter().position(|lane| *lane == id) else { return Ok(None) };
        lowest = lowest.into_iter().chain([(due_at, place)]).min();
    }
    Ok(lowest.map(|(_, place)| place))
}

/// Merges hints: one per line, with its earliest time.
pub(super) fn merged(changes: impl IntoIterator<Item = FlowChange>) -> Vec<FlowChange> {
    let mut merged: Vec<FlowChange> = Vec::new();
    for change in changes {
        match merged.iter_mut().find(|other| other.what == change.what) {
            Some(other) => other.due_in = other.due_in.min(change.due_in),
            None => merged.push(change),
        }
    }
    merged
}
