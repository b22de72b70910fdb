//! The leases that a claim finds: it ends expired ones, and returns again those that an earlier
//! call with the same attempt ids created.
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
use super::claim::{HookClaimState, QUARANTINE, log_skipped_row, pull_endpoint_no};
use super::delivery::DeliveryRow;
use super::lease::{self, ClaimMessages};
use super::slots::{RequestSlot, RequestSlots};
use super::{attempt, sql};
use crate::error::{Res, StoreFault};
use crate::session::DbSession;

/// The maximum number of expired leases that one claim ends; the next claim continues.
const EXPIRED_LEN_MAX: i64 = 1_000;

/// Ends the expired leases of a line.
pub(super) fn end_expired(
    s: &mut DbSession<'_>,
    state: &mut HookClaimState,
    line: &HookLine,
) -> Res<()> {
    let expired = match line {
        HookLine::Pull(id) => match pull_endpoint_no(s, *id)? {
            Some(no) => {
                let params = (no, s.now.0, EXPIRED_LEN_MAX);
                DeliveryRow::each(s, sql!("delivery_expired"), params)?
            }
            None => Vec::new(),
        },
        HookLine::Background => Vec::new(),
        HookLine::Push | HookLine::PushFresh => {
            DeliveryRow::each(s, sql!("delivery_sent_expired"), (s.now.0, EXPIRED_LEN_MAX))?
        }
    };
    for (no, delivery) in expired {
        match delivery.and_then(|delivery| lease::expire(s, &mut state.lanes, delivery)) {
            Err(fault) if fault.is_corrupt_row() => quarantine(s, state, no, fault)?,
            Err(fault) => return Err(fault),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Postpones the end of an expired lease whose delivery is corrupt, so that claims skip it for a
/// while.
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

/// Adds to each request the deliveries that are already leased under its attempt ids, because the
/// request repeats an earlier call.
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
            if !config.application_deleted {
                let held = HeldDeliveries { config: &config, deliveries };
                return_endpoint_leases(s, slot, held, messages)?;
            }
        }
    }
    Ok(())
}

/// The deliveries of one endpoint that an earlier call leased under the attempt ids of a request.
struct HeldDeliveries<'a> {
    config: &'a EndpointConfig,
    deliveries: Vec<DeliveryRow>,
}

/// Adds the held deliveries of one endpoint to a request: as one group if the endpoint delivers in
/// strict order, otherwise as one group each.
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
    let group_len = if config.options().fifo.is_some() { items.len() } else { 1 };
    while !items.is_empty() {
        let group = items.drain(..group_len).collect();
        slot.groups.push(DeliveryGroup { target: Arc::clone(&target), items: group });
    }
    Ok(())
}

/// Removes attempt ids that are already used from the front of the requests, until the next id of
/// each is unused. An id may be used because a claim was repeated after its leases had ended, or
/// because a request contains the id of another attempt.
pub(super) fn remove_used_ids(
    s: &DbSession<'_>,
    slots: &mut RequestSlots,
    config: &EndpointConfig,
) -> Res<()> {
    // The last id that was found to be unused, which is not looked up again.
    let mut unused = None;
    // The first request that can take a retry may be another one than for a first attempt.
    for fresh in [true, false] {
        while let Some(slot) = slots.first(fresh).filter(|slot| slot.next() != unused) {
            remove_used_ids_of(s, slot, config)?;
            unused = slot.next().or(unused);
        }
    }
    Ok(())
}

/// Like [`remove_used_ids`], for one request.
pub(super) fn remove_used_ids_of(
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
