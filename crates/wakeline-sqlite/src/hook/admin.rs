//! Interventions in single deliveries.

use wakeline_core::{ApplicationRef, AttemptId, EndpointRef, HookChange, MessageRef};
use wakeline_store::hook::ResendOutcome;

use super::delivery::{DeliveryRow, DeliveryRowState};
use super::lane::EndpointLanes;
use super::{cache, endpoint, fan_out, lease, message, sql};
use crate::error::Res;
use crate::session::DbSession;

/// Makes one more attempt of a delivery due now.
pub(super) fn resend(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    message: &MessageRef,
    endpoint: &EndpointRef,
) -> Res<(ResendOutcome, Vec<HookChange>)> {
    let missing = Ok((ResendOutcome::Missing, Vec::new()));
    let Some((message, application)) = message::find(s, application, message)? else {
        return missing;
    };
    let Some(endpoint) = endpoint::find_of(s, application, endpoint)? else { return missing };
    let Some(delivery) = DeliveryRow::of(s, message, endpoint)? else { return missing };
    let mut lanes = EndpointLanes::default();
    let outcome = make_due(s, &mut lanes, delivery)?;
    Ok((outcome, lanes.finish(s)?))
}

/// Makes a delivery due now for a requested attempt.
pub(super) fn make_due(
    s: &mut DbSession<'_>,
    lanes: &mut EndpointLanes,
    mut delivery: DeliveryRow,
) -> Res<ResendOutcome> {
    if delivery.lease.is_some_and(|lease| lease.until > s.now.0) {
        return Ok(ResendOutcome::InFlight);
    }
    if !message::has_payload(s, delivery.message)? {
        return Ok(ResendOutcome::Expired);
    }
    let config = cache::endpoint(s, delivery.endpoint)?;
    if !config.is_on() {
        return Ok(ResendOutcome::Disabled);
    }
    if delivery.state == DeliveryRowState::Leased {
        delivery = lease::expire(s, lanes, delivery)?;
    }
    delivery.request_resend(s.now);
    delivery.write(s, &config)?;
    lanes.get(s, delivery.endpoint)?;
    Ok(ResendOutcome::Due)
}

/// Cancels the deliveries of a message. Returns how many were cancelled and the hints, or `None` if
/// there is no such message.
pub(super) fn cancel(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    message: &MessageRef,
    endpoint: Option<&EndpointRef>,
) -> Res<Option<(u64, Vec<HookChange>)>> {
    let Some((message, application)) = message::find(s, application, message)? else {
        return Ok(None);
    };
    let meant = match endpoint {
        None => {
            fan_out::remove(s, application, message)?;
            DeliveryRow::several(s, sql!("delivery_of_message"), [message])?
        }
        Some(endpoint) => match endpoint::find_of(s, application, endpoint)? {
            Some(endpoint) => DeliveryRow::of(s, message, endpoint)?.into_iter().collect(),
            None => Vec::new(),
        },
    };
    let mut lanes = EndpointLanes::default();
    let mut cancelled = 0;
    for delivery in meant {
        cancelled += u64::from(cancel_delivery(s, &mut lanes, delivery)?);
    }
    Ok(Some((cancelled, lanes.finish(s)?)))
}

/// Cancels a delivery, now or when its current attempt ends. Returns false if it has ended or is
/// cancelled already.
pub(super) fn cancel_delivery(
    s: &mut DbSession<'_>,
    lanes: &mut EndpointLanes,
    mut delivery: DeliveryRow,
) -> Res<bool> {
    match delivery.state {
        DeliveryRowState::Waiting => delivery.end(DeliveryRowState::Cancelled),
        DeliveryRowState::Leased if !delivery.cancelled => delivery.cancelled = true,
        DeliveryRowState::Leased
        | DeliveryRowState::Delivered
        | DeliveryRowState::Failed
        | DeliveryRowState::Cancelled => return Ok(false),
    }
    let (_, config) = lanes.get(s, delivery.endpoint)?;
    delivery.write(s, &config)?;
    Ok(true)
}

/// Restarts the retry schedule of a failed delivery. Returns false if the delivery has not failed,
/// its endpoint is disabled, or its payload is gone.
pub(super) fn recover(
    s: &mut DbSession<'_>,
    lanes: &mut EndpointLanes,
    mut delivery: DeliveryRow,
) -> Res<bool> {
    let config = cache::endpoint(s, delivery.endpoint)?;
    if delivery.state != DeliveryRowState::Failed
        || !config.is_on()
        || !message::has_payload(s, delivery.message)?
    {
        return Ok(false);
    }
    delivery.scheduled = 0;
    delivery.wait(s.now.0, true);
    delivery.write(s, &config)?;
    lanes.get(s, delivery.endpoint)?;
    Ok(true)
}

/// Removes the payload of a message. Returns false if there is no such message.
pub(super) fn expunge_payload(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    message: &MessageRef,
) -> Res<bool> {
    let found = message::find(s, application, message)?;
    if let Some((no, _)) = found {
        message::drop_payload(s, no)?;
    }
    Ok(found.is_some())
}

/// Removes the response of an endpoint from an attempt. Returns false if there is no such attempt.
pub(super) fn expunge_response(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    message: &MessageRef,
    attempt: AttemptId,
) -> Res<bool> {
    let Some((message, application)) = message::find(s, application, message)? else {
        return Ok(false);
    };
    let params = (application, attempt.0.into_bytes(), message);
    Ok(s.conn.prepare_cached(sql!("attempt_expunge"))?.execute(params)? > 0)
}
