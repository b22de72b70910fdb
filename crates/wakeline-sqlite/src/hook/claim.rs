//! Leases deliveries to senders and to consumers that pull, by claims and in the commit that
//! creates the deliveries.
//!
//! # Invariants
//! * Endpoints are served in the order in which they became due. None gets more than its share, and
//!   its application no more than its limit. What an endpoint was not given stays due.
//! * An endpoint or a delivery with a corrupt row is skipped for a while, unchanged, so that it
//!   does not delay others. A claim that found nothing else returns the error, because corrupt rows
//!   must not be ignored silently.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use wakeline_core::{HookLine, Timestamp, error_chain};
use wakeline_store::hook::{DeliveryClaim, DeliveryClaimed, DeliveryGroup, DeliveryRequest};

use super::cache::{self, EndpointConfig, number};
use super::delivery::DeliveryRow;
use super::held_leases::{end_expired, remove_used_ids, remove_used_ids_of, return_held_leases};
use super::lane::{EndpointLane, EndpointLanes};
use super::lease::{self, ClaimMessages, NewLease};
use super::limits::ClaimLimits;
use super::slots::RequestSlots;
use super::waiting::WaitingDeliveries;
use super::{endpoint, lane, sql};
use crate::error::{Res, StoreFault};
use crate::session::DbSession;

/// How long claims skip an endpoint or a delivery with a corrupt row.
pub(super) const QUARANTINE: Duration = Duration::from_secs(300);

/// What the claim of one line has read and changed so far.
#[derive(Default)]
pub(super) struct HookClaimState {
    pub(super) lanes: EndpointLanes,
    pub(super) slots: RequestSlots,
    pub(super) messages: ClaimMessages,
    pub(super) limits: ClaimLimits,
    pub(super) corrupt_row: Option<StoreFault>,
}

impl HookClaimState {
    /// The state before anything was leased to the requests.
    pub(super) fn new(requests: &[DeliveryRequest]) -> Self {
        Self { slots: RequestSlots::new(requests), ..Self::default() }
    }
}

/// The outcomes of a claim, per line.
pub(super) struct DeliveryClaimOutcome {
    pub(super) outcomes: Vec<DeliveryClaimed>,
    /// The error of the first corrupt row, if no request got anything.
    pub(super) corrupt_row: Option<StoreFault>,
}

/// Leases deliveries to the requests of some lines.
pub(super) fn claim(s: &mut DbSession<'_>, lines: &[DeliveryClaim]) -> Res<DeliveryClaimOutcome> {
    let mut corrupt_row = None;
    let mut outcomes = Vec::with_capacity(lines.len());
    for claim in lines {
        let mut state = HookClaimState::new(&claim.requests);
        outcomes.push(match claim_line(s, &mut state, claim) {
            // The error concerns the line itself; the other lines of the call are served.
            Err(fault) if fault.is_corrupt_row() => {
                state.corrupt_row.get_or_insert(fault);
                let groups = claim.requests.iter().map(|_| Vec::new()).collect();
                DeliveryClaimed { groups, next_due: Some(QUARANTINE) }
            }
            claimed => claimed?,
        });
        corrupt_row = corrupt_row.or(state.corrupt_row);
    }
    let any = outcomes.iter().flat_map(|outcome| &outcome.groups).any(|got| !got.is_empty());
    Ok(DeliveryClaimOutcome { outcomes, corrupt_row: corrupt_row.filter(|_| !any) })
}

fn claim_line(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    claim: &DeliveryClaim,
) -> Res<DeliveryClaimed> {
    state.limits = ClaimLimits::new(s, &claim.limits)?;
    end_expired(s, state, &claim.line)?;
    // The lanes are written before they are searched, because deliveries whose leases expired may
    // be due again.
    std::mem::take(&mut state.lanes).finish(s)?;
    return_held_leases(s, &mut state.slots, &mut state.messages)?;
    serve(s, state, &claim.line)?;
    std::mem::take(&mut state.lanes).finish(s)?;
    let next_due = next_due(s, claim, &state.slots, &state.limits)?;
    Ok(DeliveryClaimed { groups: std::mem::take(&mut state.slots).groups(), next_due })
}

/// Answers a claim from a snapshot, if there is nothing to lease and no expired lease to end.
pub(super) fn peek(
    s: &mut DbSession<'_>,
    lines: &[DeliveryClaim],
) -> Res<Option<DeliveryClaimOutcome>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for claim in lines {
        let mut slots = RequestSlots::new(&claim.requests);
        let limits = ClaimLimits::new(s, &claim.limits)?;
        return_held_leases(s, &mut slots, &mut ClaimMessages::default())?;
        let end = lease_end(s, &claim.line)?;
        let due = lane_due(s, &claim.line, &limits, slots.fresh_only())?;
        if end.into_iter().chain(due).any(|at| at <= s.now.0) {
            return Ok(None);
        }
        let next_due = next_due(s, claim, &slots, &limits)?;
        outcomes.push(DeliveryClaimed { groups: slots.groups(), next_due });
    }
    Ok(Some(DeliveryClaimOutcome { outcomes, corrupt_row: None }))
}

/// When a line has something to claim next, possibly in the past.
pub(super) fn line_due(s: &mut DbSession<'_>, line: &HookLine) -> Res<Option<i64>> {
    let fresh_only = *line == HookLine::PushFresh;
    line_due_within(s, line, &ClaimLimits::default(), fresh_only)
}

fn line_due_within(
    s: &mut DbSession<'_>,
    line: &HookLine,
    limits: &ClaimLimits,
    fresh_only: bool,
) -> Res<Option<i64>> {
    let due = lane_due(s, line, limits, fresh_only)?;
    let end = if fresh_only { None } else { lease_end(s, line)? };
    Ok(end.into_iter().chain(due).min())
}

fn next_due(
    s: &mut DbSession<'_>,
    claim: &DeliveryClaim,
    slots: &RequestSlots,
    limits: &ClaimLimits,
) -> Res<Option<Duration>> {
    let DeliveryClaim { line, further, .. } = claim;
    if slots.left() == 0 && !*further {
        return Ok(None);
    }
    // Another waiter of the line may take what these requests have no slots left for.
    let fresh_only = if *further { *line == HookLine::PushFresh } else { slots.fresh_only() };
    let due = line_due_within(s, line, limits, fresh_only)?;
    Ok(due.map(|due| s.now.until(Timestamp(due))))
}

/// When the first endpoint of a line can be served whose application has not reached its limit.
fn lane_due(
    s: &mut DbSession<'_>,
    line: &HookLine,
    limits: &ClaimLimits,
    fresh_only: bool,
) -> Res<Option<i64>> {
    match line {
        HookLine::Push | HookLine::PushFresh if fresh_only => {
            number(s, sql!("lane_next_fresh"), [limits.reached()])
        }
        HookLine::Push | HookLine::PushFresh => {
            number(s, sql!("lane_next_due"), [limits.reached()])
        }
        HookLine::Pull(id) => {
            let Some(no) = pull_endpoint_no(s, *id)? else { return Ok(None) };
            let lane = EndpointLane::read(s, no)?;
            Ok(if fresh_only { lane.fresh_at } else { lane.due_at })
        }
        HookLine::Background => Ok(None),
    }
}

/// When the first lease of the line's deliveries ends.
fn lease_end(s: &mut DbSession<'_>, line: &HookLine) -> Res<Option<i64>> {
    match line {
        HookLine::Push | HookLine::PushFresh => number(s, sql!("delivery_sent_end"), []),
        HookLine::Pull(id) => match pull_endpoint_no(s, *id)? {
            Some(no) => number(s, sql!("delivery_pulled_end"), [no]),
            None => Ok(None),
        },
        HookLine::Background => Ok(None),
    }
}

/// The row number of an endpoint, if its deliveries are pulled.
pub(super) fn pull_endpoint_no(
    s: &mut DbSession<'_>,
    id: wakeline_core::EndpointId,
) -> Res<Option<i64>> {
    let Some((no, _)) = endpoint::any(s, id)? else { return Ok(None) };
    Ok(cache::endpoint(s, no)?.options().pull.then_some(no))
}

/// Leases deliveries of due endpoints to requests.
fn serve(s: &mut DbSession<'_>, state: &mut HookClaimState, line: &HookLine) -> Res<()> {
    let mut seen = HashSet::new();
    while state.slots.left() > 0 {
        let mut due = due_endpoints(s, state, line, &seen)?;
        if due.is_empty() {
            break;
        }
        while let Some(endpoint) = due.pop_front() {
            seen.insert(endpoint);
            let share = state.slots.left().div_ceil(due.len() + 1);
            match serve_endpoint(s, state, endpoint, share) {
                Err(fault) if fault.is_corrupt_row() => quarantine(s, state, endpoint, fault)?,
                served => served?,
            }
        }
    }
    Ok(())
}

/// The endpoints that can be served now. Each is returned once per call.
fn due_endpoints(
    s: &mut DbSession<'_>,
    state: &HookClaimState,
    line: &HookLine,
    seen: &HashSet<i64>,
) -> Res<VecDeque<i64>> {
    let HookClaimState { slots, limits, .. } = state;
    let fresh_only = slots.fresh_only();
    let sql = match line {
        HookLine::Push | HookLine::PushFresh if fresh_only => sql!("lane_fresh"),
        HookLine::Push | HookLine::PushFresh => sql!("lane_due"),
        HookLine::Pull(_) | HookLine::Background => {
            let due = lane_due(s, line, limits, fresh_only)?.is_some_and(|due| due <= s.now.0);
            let HookLine::Pull(id) = line else { return Ok(VecDeque::new()) };
            let found = if due { pull_endpoint_no(s, *id)? } else { None };
            return Ok(found.into_iter().filter(|no| !seen.contains(no)).collect());
        }
    };
    let limit = i64::try_from(slots.left() + seen.len()).unwrap_or(i64::MAX);
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((s.now.0, limit, limits.reached()))?;
    let mut found = VecDeque::new();
    while let Some(row) = rows.next()? {
        let no: i64 = row.get(0)?;
        if !seen.contains(&no) {
            found.push_back(no);
        }
    }
    Ok(found)
}

/// Leases up to `share` groups of an endpoint to requests.
fn serve_endpoint(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    endpoint: i64,
    share: usize,
) -> Res<()> {
    let mut waiting = WaitingDeliveries::default();
    if state.limits.is_reached(cache::endpoint(s, endpoint)?.application) {
        return Ok(());
    }
    let (lane, config) = state.lanes.get(s, endpoint)?;
    let capacity = lane.capacity(s, &config)? as usize;
    for _ in 0..share.min(capacity) {
        let (lane, _) = state.lanes.get(s, endpoint)?;
        if lane.is_held_back(&config, s.now) || state.limits.is_reached(config.application) {
            break;
        }
        remove_used_ids(s, &mut state.slots, &config)?;
        let next = waiting.next(s, &config, &mut state.slots, share)?;
        let Some(next) = next else { break };
        lease_group(s, state, &config, next)?;
    }
    Ok(())
}

/// Leases a group of deliveries to the first request that can take it.
fn lease_group(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    config: &EndpointConfig,
    group: Vec<DeliveryRow>,
) -> Res<()> {
    let fresh = group.first().is_some_and(|first| first.class.is_fresh());
    let Some(slot) = state.slots.first(fresh) else { return Ok(()) };
    let mut items = Vec::with_capacity(group.len());
    for mut delivery in group {
        if !items.is_empty() {
            remove_used_ids_of(s, slot, config)?;
        }
        let Some(key) = slot.offer(delivery.class.is_fresh()) else { break };
        let new = NewLease { delivery: &mut delivery, config, key, span: slot.lease };
        match lease::take(s, new, &mut state.messages) {
            Err(fault) if fault.is_corrupt_row() => {
                log_skipped_row(&fault, "endpoint", config.no);
                delivery.due_at = Some(s.now.plus(QUARANTINE).0);
                delivery.restore(s, config)?;
                state.corrupt_row.get_or_insert(fault);
                break;
            }
            taken => items.push(taken?),
        }
        slot.take(delivery.class.is_fresh());
    }
    if items.is_empty() {
        return Ok(());
    }
    slot.groups.push(DeliveryGroup { target: config.target(s.now), items });
    state.limits.count(config.application);
    let (lane, _) = state.lanes.get(s, config.no)?;
    lane.spend(config, s.now);
    Ok(())
}

/// Moves the due time of an endpoint with a corrupt row into the future, so that claims skip it.
fn quarantine(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    endpoint: i64,
    fault: StoreFault,
) -> Res<()> {
    log_skipped_row(&fault, "endpoint", endpoint);
    state.lanes.forget(endpoint);
    let until = s.now.plus(QUARANTINE).0;
    s.conn.prepare_cached(sql!("lane_quarantine"))?.execute((endpoint, until))?;
    state.corrupt_row.get_or_insert(fault);
    Ok(())
}

/// Logs which corrupt row was skipped.
pub(super) fn log_skipped_row(fault: &StoreFault, place: &'static str, no: i64) {
    let error = error_chain(fault);
    tracing::error!(error, place, no, "skipped a corrupt row");
}

/// Adds a delivery. It is leased on insert to a piggybacked request if no other delivery waits for
/// its endpoint.
pub(super) fn add_delivery(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    mut delivery: DeliveryRow,
    config: &EndpointConfig,
) -> Res<()> {
    remove_used_ids(s, &mut state.slots, config)?;
    let (lane, _) = state.lanes.get(s, config.no)?;
    let can_lease_now = state.slots.left() > 0
        && !config.options().pull
        && !lane.is_held_back(config, s.now)
        && lane.capacity(s, config)? > 0
        && !lane::has_others(s, config)?;
    if can_lease_now {
        lease_group(s, state, config, vec![delivery])
    } else {
        delivery.add(s, config)
    }
}
