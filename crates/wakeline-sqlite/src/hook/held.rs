//! What leases hold when a claim looks: those that have expired, and those that its own ids have
//! from an earlier try.
//!
//! # Invariants
//! * A lease that cannot be ended, because something of it cannot be read, is left alone for a
//!   while: it holds up no other (trap 46).
//! * An id is the name of one attempt: one that was used is never leased again.

use std::collections::BTreeMap;
use std::sync::Arc;

use wakeline_core::HookLine;
use wakeline_store::hook::DeliveryGroup;

use super::claim::{Books, SET_ASIDE, pulled, tell};
use super::delivery::Delivery;
use super::known::{self, Config};
use super::lease::{self, Messages};
use super::slots::{Slot, Slots};
use super::{attempt, sql};
use crate::error::{Fault, Res};
use crate::session::Session;

/// Expired leases that one claim ends at most; the next one goes on.
const EXPIRED_LEN_MAX: i64 = 1_000;

/// Ends the leases of a line that have expired.
pub(super) fn end_expired(s: &mut Session<'_>, books: &mut Books, line: &HookLine) -> Res<()> {
    let over = match line {
        HookLine::Pull(id) => match pulled(s, *id)? {
            Some(no) => {
                let params = (no, s.now.0, EXPIRED_LEN_MAX);
                Delivery::each(s, sql!("delivery_expired"), params)?
            }
            None => Vec::new(),
        },
        HookLine::Chores => Vec::new(),
        _sent => Delivery::each(s, sql!("delivery_sent_expired"), (s.now.0, EXPIRED_LEN_MAX))?,
    };
    for (no, delivery) in over {
        match delivery.and_then(|delivery| lease::expire(s, &mut books.lanes, delivery)) {
            Err(fault) if fault.is_of_a_row() => set_aside(s, books, no, fault)?,
            ended => ended.map(drop)?,
        }
    }
    Ok(())
}

/// Keeps claims away from an expired lease that cannot be ended.
fn set_aside(s: &Session<'_>, books: &mut Books, delivery: i64, fault: Fault) -> Res<()> {
    tell(&fault, "delivery", delivery);
    let until = s.now.plus(SET_ASIDE).0;
    s.conn.prepare_cached(sql!("delivery_set_aside"))?.execute((delivery, until))?;
    books.spoilt.get_or_insert(fault);
    Ok(())
}

/// Gives asks what their ids hold already.
pub(super) fn again(s: &mut Session<'_>, slots: &mut Slots, messages: &mut Messages) -> Res<()> {
    for slot in slots.each() {
        let mut held: BTreeMap<i64, Vec<Delivery>> = BTreeMap::new();
        for id in slot.ids() {
            let params = (id.0.into_bytes(), s.now.0);
            let found = Delivery::several(s, sql!("delivery_by_lease"), params)?;
            if let Some(delivery) = found.into_iter().next() {
                slot.remove(id);
                held.entry(delivery.endpoint).or_default().push(delivery);
            }
        }
        for (endpoint, deliveries) in held {
            let config = known::endpoint(s, endpoint)?;
            if !config.gone {
                give_back(s, slot, (&config, deliveries), messages)?;
            }
        }
    }
    Ok(())
}

/// Gives an ask what it holds of one endpoint.
fn give_back(
    s: &Session<'_>,
    slot: &mut Slot,
    (config, mut deliveries): (&Config, Vec<Delivery>),
    messages: &mut Messages,
) -> Res<()> {
    deliveries.sort_by_key(|delivery| delivery.no);
    let target = config.target(s.now);
    let mut items = Vec::with_capacity(deliveries.len());
    for delivery in &deliveries {
        let lease = delivery.lease.expect("it was found by its lease");
        items.push(lease::held(s, delivery, lease, messages)?);
    }
    let whole = config.options().fifo.is_some();
    let len = if whole { items.len() } else { 1 };
    while !items.is_empty() {
        let group = items.drain(..len).collect();
        slot.groups.push(DeliveryGroup { target: Arc::clone(&target), items: group });
    }
    Ok(())
}

/// Drops the ids that would be next and are used up: of a claim that is repeated after its leases
/// have ended, or of an ask that holds something unheard of.
pub(super) fn drop_used(s: &Session<'_>, slots: &mut Slots, config: &Config) -> Res<()> {
    let mut unused = None;
    // Retries may be for another ask than first attempts are.
    for fresh in [true, false] {
        while let Some(slot) = slots.first(fresh).filter(|slot| slot.next() != unused) {
            drop_used_of(s, slot, config)?;
            unused = slot.next().or(unused);
        }
    }
    Ok(())
}

/// The same for one ask.
pub(super) fn drop_used_of(s: &Session<'_>, slot: &mut Slot, config: &Config) -> Res<()> {
    while let Some(id) = slot.next() {
        if !attempt::is_used(s, config.application, id)? {
            break;
        }
        slot.remove(id);
    }
    Ok(())
}
