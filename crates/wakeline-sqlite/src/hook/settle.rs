//! Writes how attempts ended.

use std::time::Duration;

use wakeline_core::{DeliveryToken, HookChange};
use wakeline_store::hook::{
    DeliveryVerdict, DisableReason, SettleDelivery, SettledDelivery, SettledState,
};

use super::delivery::{Delivery, State};
use super::known::{Config, reason_text};
use super::lane::{self, Lane, Lanes};
use super::{attempt, emit, sql};
use crate::error::Res;
use crate::session::Session;

/// Writes how an attempt ended. A stale token changes nothing.
pub(super) fn settle(s: &mut Session<'_>, end: &SettleDelivery) -> Res<SettledDelivery> {
    let Some((mut delivery, lease)) = Delivery::held(s, end.token)? else {
        let (state, disabled, changes) = (SettledState::Stale, None, Vec::new());
        return Ok(SettledDelivery { state, disabled, opened: false, changes });
    };
    let mut lanes = Lanes::default();
    let (lane, config) = lanes.get(s, delivery.endpoint)?;
    attempt::log(s, (&delivery, &lease), &config, (&end.record, end.verdict))?;
    follow(s, &mut delivery, end.verdict);
    delivery.write(s, &config)?;
    let open_before = lane.is_open(&config, s.now);
    let disabled = judge(s, (lane, &config), end)?;
    let opened = !open_before && lane.is_open(&config, s.now);
    let mut changes = lanes.finish(s)?;
    let farewell = end.announce_disabled.as_ref().filter(|_| disabled.is_some());
    for message in end.announce.iter().chain(farewell) {
        changes.extend(emit::emit(s, message, &[])?.changes);
    }
    let changes = lane::merged(changes);
    Ok(SettledDelivery { state: delivery.state.settled(), disabled, opened, changes })
}

/// What becomes of a delivery.
fn follow(s: &Session<'_>, delivery: &mut Delivery, verdict: DeliveryVerdict) {
    let back = delivery.back;
    delivery.count();
    let planned = back.filter(|back| back.state == State::Waiting);
    match (verdict, back) {
        _ if delivery.cancelled => delivery.end(State::Cancelled),
        (DeliveryVerdict::Delivered, _) => delivery.end(State::Delivered),
        (DeliveryVerdict::Retry(after), _) => match planned {
            Some(planned) => delivery.go_back(planned),
            None => delivery.wait(s.now.plus(after).0, false),
        },
        (DeliveryVerdict::Failed, Some(back)) => delivery.go_back(back),
        (DeliveryVerdict::Failed, None) => delivery.end(State::Failed),
    }
}

/// What an attempt means for its endpoint. Tells why it is disabled by it, if it is.
fn judge(
    s: &mut Session<'_>,
    (lane, config): (&mut Lane, &Config),
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

/// Gives deliveries back whose attempts were not made.
pub(super) fn release(s: &mut Session<'_>, tokens: &[DeliveryToken]) -> Res<Vec<HookChange>> {
    let mut lanes = Lanes::default();
    for token in tokens {
        let Some((mut delivery, _)) = Delivery::held(s, *token)? else { continue };
        let (_, config) = lanes.get(s, delivery.endpoint)?;
        if delivery.cancelled {
            delivery.end(State::Cancelled);
        } else {
            delivery.state = State::Waiting;
            delivery.lease = None;
        }
        delivery.write(s, &config)?;
    }
    lanes.finish(s)
}

/// Moves the end of leases. True for those that go on.
pub(super) fn extend(
    s: &mut Session<'_>,
    tokens: &[DeliveryToken],
    span: Duration,
) -> Res<Vec<bool>> {
    let mut lanes = Lanes::default();
    let mut extended = Vec::with_capacity(tokens.len());
    for token in tokens {
        let held = Delivery::held(s, *token)?;
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
