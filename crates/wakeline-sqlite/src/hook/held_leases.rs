//! The leases that exist when a claim runs: expired ones, and those that the claim's own attempt
//! ids hold from an earlier call.
//!
//! # Invariants
//! * An expired lease that cannot be ended because of a corrupt row is skipped for a while, so that
//!   it does not delay others.
//! * An attempt id identifies one attempt. An id that was used is never leased again.

use std::collections::BTreeMap;
use std::sync::Arc;

use wakeline_core::HookLine;
use wakeline_store::hook::DeliveryGroup;

use super::cache::{self, EndpointConfig};
use super::claim::{HookClaimState, QUARANTINE, log_skipped_row, pulled};
use super::delivery::DeliveryRow;
use super::lease::{self, ClaimMessages};
use super::slots::{RequestSlot, RequestSlots};
use super::{attempt, sql};
use crate::error::{Res, StoreFault};
use crate::session::DbSession;

/// Most expired leases that one claim ends; the next claim continues.
const EXPIRED_LEN_MAX: i64 = 1_000;

/// Ends the expired leases of a line.
pub(super) fn end_expired(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    line: &HookLine,
) -> Res<()> {
    let over = match line {
        HookLine::Pull(id) => match pulled(s, *id)? {
            Some(no) => {
                let params = (no, s.now.0, EXPIRED_LEN_MAX);
                DeliveryRow::each(s, sql!("delivery_expired"), params)?
            }
            None => Vec::new(),
        },
        HookLine::Background => Vec::new(),
        _sent => DeliveryRow::each(s, sql!("delivery_sent_expired"), (s.now.0, EXPIRED_LEN_MAX))?,
    };
    for (no, delivery) in over {
        match delivery.and_then(|delivery| lease::expire(s, &mut state.lanes, delivery)) {
            Err(fault) if fault.is_of_a_row() => quarantine(s, state, no, fault)?,
            ended => ended.map(drop)?,
        }
    }
    Ok(())
}

/// Moves the end of an expired lease that cannot be ended into the future, so that claims skip it.
fn quarantine(
    s: &DbSession<'_>,
    state: &mut HookClaimState,
    delivery: i64,
    fault: StoreFault,
) -> Res<()> {
    log_skipped_row(&fault, "delivery", delivery);
    let until = s.now.plus(QUARANTINE).0;
    s.conn.prepare_cached(sql!("delivery_quarantine"))?.execute((delivery, until))?;
    state.corrupt_row.get_or_insert(fault);
    Ok(())
}

/// Returns to requests the deliveries that their attempt ids already hold.
pub(super) fn return_held_leases(
    s: &mut DbSession<'_>,
    slots: &mut RequestSlots,
    messages: &mut ClaimMessages,
) -> Res<()> {
    for slot in slots.each() {
        let mut held: BTreeMap<i64, Vec<DeliveryRow>> = BTreeMap::new();
        for id in slot.ids() {
            let params = (id.0.into_bytes(), s.now.0);
            let found = DeliveryRow::several(s, sql!("delivery_by_lease"), params)?;
            if let Some(delivery) = found.into_iter().next() {
                slot.remove(id);
                held.entry(delivery.endpoint).or_default().push(delivery);
            }
        }
        for (endpoint, deliveries) in held {
            let config = cache::endpoint(s, endpoint)?;
            if !config.gone {
                let held = HeldDeliveries { config: &config, deliveries };
                return_endpoint_leases(s, slot, held, messages)?;
            }
        }
    }
    Ok(())
}

/// The deliveries of one endpoint that a request holds from an earlier call.
struct HeldDeliveries<'a> {
    config: &'a EndpointConfig,
    deliveries: Vec<DeliveryRow>,
}

/// Returns to a request the deliveries of one endpoint that it already holds.
fn return_endpoint_leases(
    s: &DbSession<'_>,
    slot: &mut RequestSlot,
    held: HeldDeliveries<'_>,
    messages: &mut ClaimMessages,
) -> Res<()> {
    let HeldDeliveries { config, mut deliveries } = held;
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

/// Removes the next attempt ids that are already used: after the leases of a repeated claim have
/// ended, or if a request names the id of another attempt.
pub(super) fn drop_used(
    s: &DbSession<'_>,
    slots: &mut RequestSlots,
    config: &EndpointConfig,
) -> Res<()> {
    let mut unused = None;
    // Retries may go to another request than first attempts.
    for fresh in [true, false] {
        while let Some(slot) = slots.first(fresh).filter(|slot| slot.next() != unused) {
            drop_used_of(s, slot, config)?;
            unused = slot.next().or(unused);
        }
    }
    Ok(())
}

/// Like [`drop_used`], for one request.
pub(super) fn drop_used_of(
    s: &DbSession<'_>,
    slot: &mut RequestSlot,
    config: &EndpointConfig,
) -> Res<()> {
    while let Some(id) = slot.next() {
        if !attempt::is_used(s, config.application, id)? {
            break;
        }
        slot.remove(id);
    }
    Ok(())
}
