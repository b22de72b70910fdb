//! Interventions in single deliveries.

use wakeline_core::{ApplicationRef, AttemptId, EndpointRef, HookChange, MessageRef};
use wakeline_store::hook::ResendOutcome;

use super::delivery::{Delivery, State};
use super::lane::Lanes;
use super::{endpoint, fan_out, known, lease, message, sql};
use crate::error::Res;
use crate::session::Session;

/// One more attempt for a delivery, now.
pub(super) fn resend(
    s: &mut Session<'_>,
    application: &ApplicationRef,
    (message, endpoint): (&MessageRef, &EndpointRef),
) -> Res<(ResendOutcome, Vec<HookChange>)> {
    let missing = Ok((ResendOutcome::Missing, Vec::new()));
    let Some((message, application)) = message::find(s, application, message)? else {
        return missing;
    };
    let Some(endpoint) = endpoint::find_of(s, application, endpoint)? else { return missing };
    let Some(delivery) = Delivery::of(s, message, endpoint)? else { return missing };
    let mut lanes = Lanes::default();
    let outcome = try_again(s, &mut lanes, delivery)?;
    Ok((outcome, lanes.finish(s)?))
}

/// Makes an attempt of a delivery due that was asked for.
pub(super) fn try_again(
    s: &mut Session<'_>,
    lanes: &mut Lanes,
    mut delivery: Delivery,
) -> Res<ResendOutcome> {
    if delivery.lease.is_some_and(|lease| lease.until > s.now.0) {
        return Ok(ResendOutcome::InFlight);
    }
    if !message::has_payload(s, delivery.message)? {
        return Ok(ResendOutcome::Expired);
    }
    let config = known::endpoint(s, delivery.endpoint)?;
    if !config.is_on() {
        return Ok(ResendOutcome::Disabled);
    }
    if delivery.state == State::Leased {
        delivery = lease::expire(s, lanes, delivery)?;
    }
    delivery.ask_again(s.now);
    delivery.write(s, &config)?;
    lanes.get(s, delivery.endpoint)?;
    Ok(ResendOutcome::Due)
}

/// Cancels what waits of a message. Tells how many, and what is due by it; `None` if there is no
/// such message.
pub(super) fn cancel(
    s: &mut Session<'_>,
    application: &ApplicationRef,
    (message, endpoint): (&MessageRef, Option<&EndpointRef>),
) -> Res<Option<(u64, Vec<HookChange>)>> {
    let Some((message, application)) = message::find(s, application, message)? else {
        return Ok(None);
    };
    let meant = match endpoint {
        None => {
            fan_out::remove(s, application, message)?;
            Delivery::several(s, sql!("delivery_of_message"), [message])?
        }
        Some(endpoint) => match endpoint::find_of(s, application, endpoint)? {
            Some(endpoint) => Delivery::of(s, message, endpoint)?.into_iter().collect(),
            None => Vec::new(),
        },
    };
    let mut lanes = Lanes::default();
    let mut cancelled = 0;
    for delivery in meant {
        cancelled += u64::from(give_up(s, &mut lanes, delivery)?);
    }
    Ok(Some((cancelled, lanes.finish(s)?)))
}

/// Cancels a delivery, now or when its attempt ends. False if nothing is to come anyway.
pub(super) fn give_up(s: &mut Session<'_>, lanes: &mut Lanes, mut delivery: Delivery) -> Res<bool> {
    match delivery.state {
        State::Waiting => delivery.end(State::Cancelled),
        State::Leased if !delivery.cancelled => delivery.cancelled = true,
        State::Leased | State::Delivered | State::Failed | State::Cancelled => return Ok(false),
    }
    let (_, config) = lanes.get(s, delivery.endpoint)?;
    delivery.write(s, &config)?;
    Ok(true)
}

/// Gives a failed delivery its whole schedule again. False if it cannot.
pub(super) fn recover(s: &mut Session<'_>, lanes: &mut Lanes, mut delivery: Delivery) -> Res<bool> {
    let config = known::endpoint(s, delivery.endpoint)?;
    if delivery.state != State::Failed
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

/// Removes the payload of a message. False if there is no such message.
pub(super) fn expunge_payload(
    s: &mut Session<'_>,
    application: &ApplicationRef,
    message: &MessageRef,
) -> Res<bool> {
    let found = message::find(s, application, message)?;
    if let Some((no, _)) = found {
        message::drop_payload(s, no)?;
    }
    Ok(found.is_some())
}

/// Removes what an endpoint answered. False if there is no such attempt.
pub(super) fn expunge_response(
    s: &mut Session<'_>,
    (application, message): (&ApplicationRef, &MessageRef),
    attempt: AttemptId,
) -> Res<bool> {
    let Some((message, application)) = message::find(s, application, message)? else {
        return Ok(false);
    };
    let params = (application, attempt.0.into_bytes(), message);
    Ok(s.conn.prepare_cached(sql!("attempt_expunge"))?.execute(params)? > 0)
}
