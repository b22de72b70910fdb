//! Leases deliveries to senders and to those who fetch, by claims and in the commit that made
//! them.
//!
//! # Invariants
//! * Endpoints are offered in the order in which they became due, and none of them more than its
//!   share, nor its application more than its limit; what it was not given stays due.
//! * What cannot be read is left alone for a while, as it is, so that it holds up no other. It is
//!   an error for whoever's claim found nothing else (trap 46).

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use wakeline_core::{HookLine, Timestamp, error_chain};
use wakeline_store::hook::{DeliveryClaim, DeliveryClaimed, DeliveryGroup};

use super::delivery::{Class, Delivery, State};
use super::held::{again, drop_used, drop_used_of, end_expired};
use super::known::{self, Config, number};
use super::lane::{Lane, Lanes};
use super::lease::{self, Messages};
use super::limits::Limits;
use super::slots::Slots;
use super::{endpoint, lane, sql};
use crate::error::{Fault, Res};
use crate::session::Session;

/// How long claims keep away from what cannot be read.
pub(super) const SET_ASIDE: Duration = Duration::from_secs(300);

/// What a call deals with.
#[derive(Default)]
pub(super) struct Books {
    pub(super) lanes: Lanes,
    pub(super) messages: Messages,
    pub(super) limits: Limits,
    pub(super) spoilt: Option<Fault>,
}

/// What claims found, or what kept them from finding anything.
pub(super) struct Found {
    pub(super) outcomes: Vec<DeliveryClaimed>,
    /// What could not be read, if nothing else was found.
    pub(super) spoilt: Option<Fault>,
}

/// Leases deliveries for the asks of some lines.
pub(super) fn claim(s: &mut Session<'_>, lines: &[DeliveryClaim]) -> Res<Found> {
    let mut spoilt = None;
    let mut outcomes = Vec::with_capacity(lines.len());
    for claim in lines {
        let mut books = Books::default();
        outcomes.push(match claim_line(s, &mut books, claim) {
            // Of the line itself: the others of the call are served.
            Err(fault) if fault.is_of_a_row() => {
                books.spoilt.get_or_insert(fault);
                let groups = claim.asks.iter().map(|_| Vec::new()).collect();
                DeliveryClaimed { groups, next_due: Some(SET_ASIDE) }
            }
            claimed => claimed?,
        });
        spoilt = spoilt.or(books.spoilt);
    }
    let any = outcomes.iter().flat_map(|outcome| &outcome.groups).any(|got| !got.is_empty());
    Ok(Found { outcomes, spoilt: spoilt.filter(|_| !any) })
}

fn claim_line(
    s: &mut Session<'_>,
    books: &mut Books,
    DeliveryClaim { line, asks, limits, further }: &DeliveryClaim,
) -> Res<DeliveryClaimed> {
    let mut slots = Slots::new(asks);
    books.limits = Limits::new(s, limits)?;
    end_expired(s, books, line)?;
    // Written before claims look at them: what expired may be due again.
    std::mem::take(&mut books.lanes).finish(s)?;
    again(s, &mut slots, &mut books.messages)?;
    serve(s, books, line, &mut slots)?;
    std::mem::take(&mut books.lanes).finish(s)?;
    let next_due = next_due(s, (line, *further), (&slots, &books.limits))?;
    Ok(DeliveryClaimed { groups: slots.groups(), next_due })
}

/// Answers a claim from a snapshot, if there is nothing in it to lease or to end.
pub(super) fn peek(s: &mut Session<'_>, lines: &[DeliveryClaim]) -> Res<Option<Found>> {
    let mut outcomes = Vec::with_capacity(lines.len());
    for DeliveryClaim { line, asks, limits, further } in lines {
        let mut slots = Slots::new(asks);
        let limits = Limits::new(s, limits)?;
        again(s, &mut slots, &mut Messages::default())?;
        let end = lease_end(s, line)?;
        let due = lane_due(s, (line, &limits), slots.fresh_only())?;
        if end.into_iter().chain(due).any(|at| at <= s.now.0) {
            return Ok(None);
        }
        let next_due = next_due(s, (line, *further), (&slots, &limits))?;
        outcomes.push(DeliveryClaimed { groups: slots.groups(), next_due });
    }
    Ok(Some(Found { outcomes, spoilt: None }))
}

/// When a line has something; it may have passed.
pub(super) fn line_due(s: &mut Session<'_>, line: &HookLine) -> Res<Option<i64>> {
    let fresh_only = *line == HookLine::PushFresh;
    line_due_within(s, (line, &Limits::default()), fresh_only)
}

fn line_due_within(
    s: &mut Session<'_>,
    (line, limits): (&HookLine, &Limits),
    fresh_only: bool,
) -> Res<Option<i64>> {
    let due = lane_due(s, (line, limits), fresh_only)?;
    let end = if fresh_only { None } else { lease_end(s, line)? };
    Ok(end.into_iter().chain(due).min())
}

fn next_due(
    s: &mut Session<'_>,
    (line, further): (&HookLine, bool),
    (slots, limits): (&Slots, &Limits),
) -> Res<Option<Duration>> {
    if slots.left() == 0 && !further {
        return Ok(None);
    }
    // Another waiter of the line may take what these asks have no slots left for.
    let fresh_only = if further { *line == HookLine::PushFresh } else { slots.fresh_only() };
    let due = line_due_within(s, (line, limits), fresh_only)?;
    Ok(due.map(|due| s.now.until(Timestamp(due))))
}

/// When the first endpoint of a line can be served, of an application that may get something.
fn lane_due(
    s: &mut Session<'_>,
    (line, limits): (&HookLine, &Limits),
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
            let Some(no) = pulled(s, *id)? else { return Ok(None) };
            let lane = Lane::read(s, no)?;
            Ok(if fresh_only { lane.fresh_at } else { lane.due_at })
        }
        HookLine::Chores => Ok(None),
    }
}

/// When the first lease of a line ends.
fn lease_end(s: &mut Session<'_>, line: &HookLine) -> Res<Option<i64>> {
    match line {
        HookLine::Push | HookLine::PushFresh => number(s, sql!("delivery_sent_end"), []),
        HookLine::Pull(id) => match pulled(s, *id)? {
            Some(no) => number(s, sql!("delivery_pulled_end"), [no]),
            None => Ok(None),
        },
        HookLine::Chores => Ok(None),
    }
}

/// An endpoint whose owner fetches.
pub(super) fn pulled(s: &mut Session<'_>, id: wakeline_core::EndpointId) -> Res<Option<i64>> {
    let Some((no, _)) = endpoint::any(s, id)? else { return Ok(None) };
    Ok(known::endpoint(s, no)?.options().pull.then_some(no))
}

/// Gives asks what endpoints have for them.
fn serve(s: &mut Session<'_>, books: &mut Books, line: &HookLine, slots: &mut Slots) -> Res<()> {
    let mut seen = HashSet::new();
    while slots.left() > 0 {
        let mut due = offered(s, (line, &books.limits), slots, &seen)?;
        if due.is_empty() {
            break;
        }
        while let Some(endpoint) = due.pop_front() {
            seen.insert(endpoint);
            let share = slots.left().div_ceil(due.len() + 1);
            match give_share(s, books, (endpoint, share), slots) {
                Err(fault) if fault.is_of_a_row() => set_aside(s, books, endpoint, fault)?,
                served => served?,
            }
        }
    }
    Ok(())
}

/// Endpoints that can be served, each once in a call.
fn offered(
    s: &mut Session<'_>,
    (line, limits): (&HookLine, &Limits),
    slots: &Slots,
    seen: &HashSet<i64>,
) -> Res<VecDeque<i64>> {
    let fresh_only = slots.fresh_only();
    let sql = match line {
        HookLine::Push | HookLine::PushFresh if fresh_only => sql!("lane_fresh"),
        HookLine::Push | HookLine::PushFresh => sql!("lane_due"),
        HookLine::Pull(_) | HookLine::Chores => {
            let due = lane_due(s, (line, limits), fresh_only)?.is_some_and(|due| due <= s.now.0);
            let HookLine::Pull(id) = line else { return Ok(VecDeque::new()) };
            let found = if due { pulled(s, *id)? } else { None };
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

/// Gives asks up to so many groups of an endpoint.
fn give_share(
    s: &mut Session<'_>,
    books: &mut Books,
    (endpoint, share): (i64, usize),
    slots: &mut Slots,
) -> Res<()> {
    let mut waiting = Waiting::default();
    if books.limits.is_reached(known::endpoint(s, endpoint)?.application) {
        return Ok(());
    }
    let (lane, config) = books.lanes.get(s, endpoint)?;
    let room = lane.room(s, &config)? as usize;
    for _ in 0..share.min(room) {
        let (lane, _) = books.lanes.get(s, endpoint)?;
        if lane.is_held_back(&config, s.now) || books.limits.is_reached(config.application) {
            break;
        }
        drop_used(s, slots, &config)?;
        let Some(next) = waiting.next(s, &config, slots, share)? else { break };
        give(s, books, (&config, next), slots)?;
    }
    Ok(())
}

/// Leases a delivery, and those that go with it, to the first ask that can take it.
fn give(
    s: &mut Session<'_>,
    books: &mut Books,
    (config, group): (&Config, Vec<Delivery>),
    slots: &mut Slots,
) -> Res<()> {
    let fresh = group.first().is_some_and(|first| first.class.is_fresh());
    let Some(slot) = slots.first(fresh) else { return Ok(()) };
    let mut items = Vec::with_capacity(group.len());
    for mut delivery in group {
        if !items.is_empty() {
            drop_used_of(s, slot, config)?;
        }
        let Some(key) = slot.offer(delivery.class.is_fresh()) else { break };
        let what = (&mut delivery, config);
        match lease::take(s, what, (key, slot.lease), &mut books.messages) {
            Err(fault) if fault.is_of_a_row() => {
                tell(&fault, "endpoint", config.no);
                delivery.due_at = Some(s.now.plus(SET_ASIDE).0);
                delivery.restore(s, config)?;
                books.spoilt.get_or_insert(fault);
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
    books.limits.count(config.application);
    let (lane, _) = books.lanes.get(s, config.no)?;
    lane.spend(config, s.now);
    Ok(())
}

/// Deliveries of an endpoint that can go, in their order.
#[derive(Default)]
struct Waiting {
    /// What was read of each class; `None` before.
    read: [Option<VecDeque<Delivery>>; 4],
}

impl Waiting {
    /// The next one that an ask can take; of an endpoint in strict order, with those behind it.
    fn next(
        &mut self,
        s: &Session<'_>,
        config: &Config,
        slots: &mut Slots,
        wanted: usize,
    ) -> Res<Option<Vec<Delivery>>> {
        if let Some(fifo) = config.options().fifo {
            let group = head(s, config, fifo.batch.max(1))?;
            let fresh = group.first().map(|first| first.class.is_fresh());
            let fits = fresh.is_some_and(|fresh| slots.first(fresh).is_some());
            return Ok(fits.then_some(group));
        }
        let fresh_only = slots.first(false).is_none();
        if fresh_only && slots.first(true).is_none() {
            return Ok(None);
        }
        let mut best: Option<(bool, Option<i64>, i64, Class)> = None;
        for class in Class::ALL.into_iter().filter(|class| class.is_fresh() || !fresh_only) {
            if let Some(first) = self.first(s, config, class, wanted)? {
                let place = (class.is_behind(), first.due_at, first.no, class);
                if best.is_none_or(|best| (place.0, place.1, place.2) < (best.0, best.1, best.2)) {
                    best = Some(place);
                }
            }
        }
        let next = best.and_then(|(.., class)| self.read[class as usize].as_mut()?.pop_front());
        Ok(next.map(|next| vec![next]))
    }

    fn first(
        &mut self,
        s: &Session<'_>,
        config: &Config,
        class: Class,
        wanted: usize,
    ) -> Res<Option<&Delivery>> {
        let read = &mut self.read[class as usize];
        if read.is_none() {
            let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
            let params = (config.no, class as i64, s.now.0, limit);
            *read = Some(Delivery::several(s, sql!("delivery_due"), params)?.into());
        }
        Ok(read.as_ref().and_then(VecDeque::front))
    }
}

/// The first delivery of an endpoint in strict order, if it is due, with those right behind it that
/// were last attempted together with it, or like it never.
fn head(s: &Session<'_>, config: &Config, batch: u32) -> Res<Vec<Delivery>> {
    let open = Delivery::several(s, sql!("delivery_in_order"), (config.no, batch))?;
    let Some(attempted_at) = open.first().map(|head| head.attempted_at) else {
        return Ok(Vec::new());
    };
    let goes_now = |delivery: &Delivery| {
        delivery.state == State::Waiting
            && delivery.due_at.is_some_and(|due| due <= s.now.0)
            && delivery.attempted_at == attempted_at
    };
    Ok(open.into_iter().take_while(goes_now).collect())
}

/// Keeps claims away from an endpoint with something that cannot be read.
fn set_aside(s: &mut Session<'_>, books: &mut Books, endpoint: i64, fault: Fault) -> Res<()> {
    tell(&fault, "endpoint", endpoint);
    books.lanes.forget(endpoint);
    let until = s.now.plus(SET_ASIDE).0;
    s.conn.prepare_cached(sql!("lane_set_aside"))?.execute((endpoint, until))?;
    books.spoilt.get_or_insert(fault);
    Ok(())
}

/// Tells the operator which corrupt row a claim skipped.
pub(super) fn tell(fault: &Fault, place: &'static str, no: i64) {
    let error = error_chain(fault);
    tracing::error!(error, place, no, "skipped a corrupt row");
}

/// Adds a delivery, leased to an ask that came along if nothing else waits for its endpoint.
pub(super) fn give_new(
    s: &mut Session<'_>,
    books: &mut Books,
    (mut delivery, config): (Delivery, &Config),
    slots: &mut Slots,
) -> Res<()> {
    drop_used(s, slots, config)?;
    let (lane, _) = books.lanes.get(s, config.no)?;
    let born = slots.left() > 0
        && !config.options().pull
        && !lane.is_held_back(config, s.now)
        && lane.room(s, config)? > 0
        && !lane::has_others(s, config)?;
    match born {
        true => give(s, books, (config, vec![delivery]), slots),
        false => delivery.add(s, config),
    }
}
