//! Settling, releasing and extending the leases of deliveries.

use std::time::Duration;

use wakeline_core::{DeliveryToken, HookChange};
use wakeline_store::hook::{
    DeliveryVerdict, DisableReason, SettleDelivery, SettledDelivery, SettledState,
};

use super::attempt::EndedAttempt;
use super::cache::{EndpointConfig, reason_text};
use super::delivery::{DeliveryRow, DeliveryRowState};
use super::lane::{self, EndpointLane, EndpointLanes};
use super::{attempt, emit, sql};
use crate::error::Res;
use crate::session::DbSession;

/// Records the outcome of an attempt. A stale token changes nothing.
pub(super) fn settle(s: &mut DbSession<'_>, end: &SettleDelivery) -> Res<SettledDelivery> {
    let Some((mut delivery, lease)) = DeliveryRow::held(s, end.token)? else {
        let (state, disabled, changes) = (SettledState::Stale, None, Vec::new());
        return Ok(SettledDelivery { state, disabled, opened: false, changes });
    };
    let mut lanes = EndpointLanes::default();
    let (lane, config) = lanes.get(s, delivery.endpoint)?;
    let attempt = EndedAttempt { delivery: &delivery, lease: &lease, config: &config };
    attempt::log(s, &attempt, &end.record, end.verdict)?;
    follow(s, &mut delivery, end.verdict);
    delivery.write(s, &config)?;
    let open_before = lane.is_open(&config, s.now);
    let disabled = judge(s, lane, &config, end)?;
    let opened = !open_before && lane.is_open(&config, s.now);
    let mut changes = lanes.finish(s)?;
    let farewell = end.announce_disabled.as_ref().filter(|_| disabled.is_some());
    for message in end.announce.iter().chain(farewell) {
        changes.extend(emit::emit(s, message, &[])?.changes);
    }
    let changes = lane::merged(changes);
    Ok(SettledDelivery { state: delivery.state.settled(), disabled, opened, changes })
}

/// Applies the outcome of an attempt to its delivery.
fn follow(s: &DbSession<'_>, delivery: &mut DeliveryRow, verdict: DeliveryVerdict) {
    let back = delivery.before_resend;
    delivery.count();
    let planned = back.filter(|back| back.state == DeliveryRowState::Waiting);
    match (verdict, back) {
        _ if delivery.cancelled => delivery.end(DeliveryRowState::Cancelled),
        (DeliveryVerdict::Delivered, _) => delivery.end(DeliveryRowState::Delivered),
        (DeliveryVerdict::Retry(after), _) => match planned {
            Some(planned) => delivery.undo_resend(planned),
            None => delivery.wait(s.now.plus(after).0, false),
        },
        (DeliveryVerdict::Failed, Some(back)) => delivery.undo_resend(back),
        (DeliveryVerdict::Failed, None) => delivery.end(DeliveryRowState::Failed),
    }
}

/// Applies the outcome of an attempt to its endpoint. Returns the reason if the endpoint is
/// disabled because of it.
fn judge(
    s: &mut DbSession<'_>,
    lane: &mut EndpointLane,
    config: &EndpointConfig,
    end: &SettleDelivery,
) -> Res<Option<DisableReason>> {
    if config.deleted {
        return Ok(None);
    }
    let failing = lane.sample(config, s.now, end.sample);
    if let Some(span) = end.throttle {
        lane.throttle(s.now, span);
    }
    let reason = match (end.gone, failing) {
        _ if config.disabled.is_some() => return Ok(None),
        (true, _) => DisableReason::Gone,
        (false, true) => DisableReason::Failing,
        (false, false) => return Ok(None),
    };
    s.conn.prepare_cached(sql!("endpoint_disable"))?.execute((config.no, reason_text(reason)))?;
    s.cache.hook.forget_endpoint(config.no);
    Ok(Some(reason))
}

/// Releases deliveries whose attempts were not made.
pub(super) fn release(s: &mut DbSession<'_>, tokens: &[DeliveryToken]) -> Res<Vec<HookChange>> {
    let mut lanes = EndpointLanes::default();
    for token in tokens {
        let Some((mut delivery, _)) = DeliveryRow::held(s, *token)? else { continue };
        let (_, config) = lanes.get(s, delivery.endpoint)?;
        if delivery.cancelled {
            delivery.end(DeliveryRowState::Cancelled);
        } else {
            delivery.state = DeliveryRowState::Waiting;
            delivery.lease = None;
        }
        delivery.write(s, &config)?;
    }
    lanes.finish(s)
}

/// Moves the ends of leases. Returns for each token whether its lease is live.
pub(super) fn extend(
    s: &mut DbSession<'_>,
    tokens: &[DeliveryToken],
    span: Duration,
) -> Res<Vec<bool>> {
    let mut lanes = EndpointLanes::default();
    let mut extended = Vec::with_capacity(tokens.len());
    for token in tokens {
        let held = DeliveryRow::held(s, *token)?;
        extended.push(held.is_some());
        let Some((mut delivery, mut lease)) = held else { continue };
        let (_, config) = lanes.get(s, delivery.endpoint)?;
        lease.until = s.now.plus(span).0;
        delivery.lease = Some(lease);
        delivery.restore(s, &config)?;
        s.hint_hook_lease_end(HookChange { what: config.what(), due_in: span });
    }
    lanes.finish(s)?;
    Ok(extended)
}
