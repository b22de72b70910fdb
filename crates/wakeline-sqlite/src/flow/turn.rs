//! Leases turns to dispatchers, by claims and in the commit that made them available.
//!
//! # Invariants
//! * A lane with something that cannot be read is left alone for a while, as it is, so that it
//!   holds up no other. It is an error for whoever's claim found nothing else (trap 46).

use std::collections::BTreeSet;

use uuid::Uuid;
use wakeline_core::{Capabilities, FlowChange, FlowToken, FlowWhat, Timestamp, error_chain};
use wakeline_store::flow::{
    InlineHistory, LaneMessage, TurnClaim, TurnClaimed, TurnItem, TurnRequest,
};

use super::found::{Found, SET_ASIDE};
use super::instance::{self, Instance};
use super::kv;
use super::lane::{Lane, LaneLease, Opened};
use super::message;
use super::names;
use crate::error::{Fault, Res};
use crate::session::Session;

/// A longer history is not brought along by a claim.
const HISTORY_BYTES_MAX: u64 = 32 * 1024;

/// Leases turns for the requests of some lines.
pub(super) fn claim(s: &mut Session<'_>, lines: &[TurnClaim]) -> Res<Found<TurnClaimed>> {
    let mut books = Books::default();
    let mut outcomes = Vec::with_capacity(lines.len());
    for TurnClaim { capabilities, requests, further } in lines {
        let known = names::capabilities(s, capabilities)?;
        let mut offered = Offered { known: &known, ids: Vec::new() };
        let mut turns = Vec::with_capacity(requests.len());
        for (n, request) in requests.iter().enumerate() {
            let mut turn = held(s, &known, request.key)?;
            while turn.is_none() {
                let Some(id) = offered.next(s, &mut books, requests.len() - n)? else { break };
                turn = books.take(s, id, request)?;
            }
            turns.push(turn);
        }
        let next_due = match *further || turns.iter().any(Option::is_none) {
            true => next_due(s, &known)?.map(|due| s.now.until(Timestamp(due))),
            false => None,
        };
        outcomes.push(TurnClaimed { turns, next_due });
    }
    let any = outcomes.iter().flat_map(|outcome| &outcome.turns).any(Option::is_some);
    Ok(Found::new(outcomes, any, books.spoilt))
}

/// Answers a claim from a snapshot, if there is nothing in it to lease.
pub(super) fn peek(s: &mut Session<'_>, lines: &[TurnClaim]) -> Res<Option<Found<TurnClaimed>>> {
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
    Ok(Some(Found::new(outcomes, true, None)))
}

/// The time at which the next of these can be claimed; it may have passed.
pub(super) fn next_due(s: &Session<'_>, capabilities: &[i64]) -> Res<Option<i64>> {
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

/// When a line of turns has something.
pub(super) fn line_due(s: &mut Session<'_>, capabilities: &Capabilities) -> Res<Option<i64>> {
    let known = names::capabilities(s, capabilities)?;
    next_due(s, &known)
}

/// What a call has dealt with.
#[derive(Default)]
struct Books {
    /// Lanes that went to a request, or could not be read: each is looked at once.
    seen: BTreeSet<i64>,
    spoilt: Option<Fault>,
}

impl Books {
    /// Leases a lane. One that cannot be read is left alone for a while.
    fn take(
        &mut self,
        s: &mut Session<'_>,
        id: i64,
        request: &TurnRequest,
    ) -> Res<Option<TurnItem>> {
        match lease_whole(s, id, request) {
            Err(fault @ Fault::Corrupt { .. }) => {
                tracing::error!(error = error_chain(&fault), lane = id, "skipped a corrupt row");
                let sql = include_str!("../../sql/queries/flow_lane_set_aside.sql");
                s.conn.prepare_cached(sql)?.execute((id, s.now.plus(SET_ASIDE).0))?;
                self.spoilt.get_or_insert(fault);
                Ok(None)
            }
            taken => taken,
        }
    }
}

/// Lanes that can be claimed, in the order in which they became due.
struct Offered<'o> {
    known: &'o [i64],
    /// Those that were looked up already, the next one last.
    ids: Vec<i64>,
}

impl Offered<'_> {
    /// The next lane, each for one request of a call only.
    fn next(&mut self, s: &Session<'_>, books: &mut Books, wanted: usize) -> Res<Option<i64>> {
        if self.ids.is_empty() {
            // A lease that ends at once leaves its lane due.
            let found = first(s, self.known, wanted + books.seen.len())?;
            let fresh = found.into_iter().map(|(_, id)| id).filter(|id| !books.seen.contains(id));
            self.ids = fresh.take(wanted).collect();
            self.ids.reverse();
        }
        let next = self.ids.pop();
        books.seen.extend(next);
        Ok(next)
    }
}

fn first(s: &Session<'_>, capabilities: &[i64], len: usize) -> Res<Vec<(i64, i64)>> {
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

/// Leases a lane that is due. Where that fails, nothing was written.
fn lease_whole(s: &mut Session<'_>, id: i64, request: &TurnRequest) -> Res<Option<TurnItem>> {
    match Lane::read(s, id)? {
        None => Ok(None),
        Some(lane) if lane.lease.is_none() => lease(s, lane, request),
        Some(lane) => s.attempt(|s| lease(s, lane, request)),
    }
}

fn lease(s: &mut Session<'_>, mut lane: Lane, request: &TurnRequest) -> Res<Option<TurnItem>> {
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
            FlowChange { what: FlowWhat::Turn(capability.clone()), due_in: item.lease_for };
        s.hint_flow_lease_end(change);
    }
    Ok(Some(item))
}

/// What the key of a repeated claim holds in its line.
fn held(s: &mut Session<'_>, known: &[i64], key: Uuid) -> Res<Option<TurnItem>> {
    let sql = include_str!("../../sql/queries/flow_lane_by_lease.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((key.into_bytes(), s.now.0))?;
    while let Some(row) = rows.next()? {
        let Some(lane) = Lane::read(s, row.get(0)?)? else { continue };
        if let Some(lease) = lane.lease
            && lane.capability.is_some_and(|capability| known.contains(&capability))
        {
            let messages = message::taken(s, lane.id, lease)?;
            return Ok(Some(item(s, &lane, lease, messages)?));
        }
    }
    Ok(None)
}

/// A leased turn as its dispatcher gets it.
fn item(
    s: &mut Session<'_>,
    lane: &Lane,
    lease: LaneLease,
    messages: Vec<LaneMessage>,
) -> Res<TurnItem> {
    let instance = Instance::read(s, lane.id)?;
    let execution = match &instance {
        Some(instance) => instance::read_execution(s, lane.id, instance.execution)?,
        None => None,
    };
    let history = match &execution {
        Some(execution) if execution.history_bytes > HISTORY_BYTES_MAX => InlineHistory::TooLong,
        Some(execution) => {
            let (batches, _) = instance::batches(s, (lane.id, execution.execution, 0), |_| false)?;
            InlineHistory::Whole(batches)
        }
        None => InlineHistory::Whole(Vec::new()),
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
pub(super) type BornTurns = Vec<(usize, TurnItem)>;

/// Leases what a command made available to the requests that came along with it, unless
/// something older waits for them; and what is left to tell.
pub(super) fn born(
    s: &mut Session<'_>,
    opened: Opened,
    requests: &[TurnRequest],
) -> Res<(BornTurns, Vec<FlowChange>)> {
    let mut open = opened.lanes;
    let mut leased = BTreeSet::new();
    let mut turns = Vec::new();
    for (n, request) in requests.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        let known = names::capabilities(s, &request.capabilities)?;
        let Some(place) = first_open(s, &known, &open)? else { continue };
        match lease_whole(s, open[place], request) {
            Ok(None) | Err(Fault::Corrupt { .. }) => {}
            item => {
                turns.extend(item?.map(|item| (n, item)));
                leased.insert(open.remove(place));
            }
        }
    }
    let told = opened.told.into_iter().filter(|(lane, _)| !leased.contains(lane));
    let changes = merged(told.map(|(_, change)| change));
    s.hint_flow(&changes);
    Ok((turns, changes))
}

/// Which of the lanes that a command opened, in its order, became due first; `None` if another
/// one is there to be taken.
fn first_open(s: &Session<'_>, known: &[i64], open: &[i64]) -> Res<Option<usize>> {
    let mut least: Option<(i64, usize)> = None;
    for (due_at, id) in first(s, known, open.len() + 1)? {
        let Some(place) = open.iter().position(|lane| *lane == id) else { return Ok(None) };
        least = least.into_iter().chain([(due_at, place)]).min();
    }
    Ok(least.map(|(_, place)| place))
}

/// One hint for each thing, for its earliest time.
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
