//! Pending fan-outs: the deliveries of a message for very many endpoints, which are created later.
//!
//! # Where it sits
//! [`super::emit`] records a fan-out in the commit that stores the message;
//! [`super::background_task`] creates the deliveries in limited parts.
//!
//! # Invariants
//! * One transaction creates a bounded number of deliveries: a message for up to [`FAN_OUT_SMALL`]
//!   endpoints is never deferred, and the others share [`FAN_OUT_MAX`].
//! * The messages of an application are fanned out one after another. A message for an endpoint in
//!   strict order waits for those that were stored before it.
//! * Applications take turns, one part each.
//! * A corrupt message ends its fan-out with an error in the log, so that it does not block others.
//!   It could not be sent either. After its row is repaired, a job can create the missing
//!   deliveries.

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{HookChange, HookChangeKind};
use wakeline_store::hook::{FAN_OUT_MAX, FAN_OUT_SMALL};

use super::cache::{self, number};
use super::claim::{self, HookClaimState};
use super::emit::{self, FanOutMessage, Receivers};
use super::{message, sql};
use crate::error::Res;
use crate::session::DbSession;

/// The writer's state of fan-outs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FanOuts {
    /// How many deliveries this transaction may still create for messages with many endpoints.
    left: usize,
    /// The application whose fan-out was continued last.
    after: i64,
}

impl FanOuts {
    /// Resets the limit at the beginning of a transaction.
    pub(crate) fn begin(&mut self) {
        self.left = FAN_OUT_MAX;
    }

    /// Whether this many deliveries can be created now. If so, they are counted.
    fn takes(&mut self, deliveries: usize) -> bool {
        if deliveries <= FAN_OUT_SMALL {
            return true;
        }
        let takes = deliveries <= self.left;
        if takes {
            self.left -= deliveries;
        }
        takes
    }
}

/// A pending fan-out.
struct PendingFanOut {
    application: i64,
    message: i64,
    only: Option<i64>,
    place: i64,
    last: i64,
}

/// The endpoints that receive a message, or `None` if its deliveries cannot be created in this
/// transaction.
pub(super) fn at_once(
    s: &mut DbSession<'_>,
    application: i64,
    named: &[i64],
    message: &FanOutMessage<'_>,
) -> Res<Option<Receivers>> {
    if !s.cache.fan_outs.takes(named.len()) {
        return Ok(None);
    }
    let receivers = emit::receivers(s, named, message)?;
    let behind =
        receivers.may_be_in_order() && number(s, sql!("fan_out_waits"), [application])?.is_some();
    Ok((!behind).then_some(receivers))
}

/// Records that the deliveries of a message are created later.
pub(super) fn add(
    s: &mut DbSession<'_>,
    application: i64,
    named: &[i64],
    message: &FanOutMessage<'_>,
) -> Res<HookChange> {
    let last = named.iter().max().copied().unwrap_or(0);
    let only = message.only.then_some(last);
    let params = (application, message.no, only, last);
    s.conn.prepare_cached(sql!("fan_out_add"))?.execute(params)?;
    let change = HookChange::now(HookChangeKind::Background);
    s.hint_hook(std::slice::from_ref(&change));
    Ok(change)
}

/// Removes the pending fan-out of a message.
pub(super) fn remove(s: &DbSession<'_>, application: i64, message: i64) -> Res<()> {
    s.conn.prepare_cached(sql!("fan_out_remove"))?.execute((application, message))?;
    Ok(())
}

/// Continues the fan-out of the next application: processes up to `most` endpoints. Returns their
/// number, or 1 if a fan-out had none left, and the hints.
pub(super) fn continue_next(s: &mut DbSession<'_>, most: usize) -> Res<(u64, Vec<HookChange>)> {
    let Some(waiting) = next(s)? else { return Ok((0, Vec::new())) };
    s.cache.fan_outs.after = waiting.application;
    let (event_type, channels) = match message::filtered(s, waiting.message) {
        Err(fault) if fault.is_corrupt_row() => {
            claim::log_skipped_row(&fault, "message", waiting.message);
            remove(s, waiting.application, waiting.message)?;
            return Ok((1, Vec::new()));
        }
        read => read?,
    };
    let named: Vec<i64> = match waiting.only {
        Some(only) => vec![only],
        None => {
            let ahead = |no: &&i64| **no > waiting.place && **no <= waiting.last;
            let all = cache::matching(s, waiting.application, &event_type)?;
            all.iter().filter(ahead).take(most).copied().collect()
        }
    };
    let only = waiting.only.is_some();
    let message = FanOutMessage { no: waiting.message, channels: &channels, only };
    let changes = create_deliveries(s, &named, &message)?;
    match named.last().filter(|_| named.len() == most && !only) {
        Some(place) => {
            let params = (waiting.application, waiting.message, *place);
            s.conn.prepare_cached(sql!("fan_out_write"))?.execute(params)?;
        }
        None => remove(s, waiting.application, waiting.message)?,
    }
    Ok((named.len().max(1) as u64, changes))
}

/// Creates the deliveries for some endpoints, except for those for which a job has created one
/// meanwhile.
fn create_deliveries(
    s: &mut DbSession<'_>,
    named: &[i64],
    message: &FanOutMessage<'_>,
) -> Res<Vec<HookChange>> {
    let mut without = Vec::with_capacity(named.len());
    for endpoint in named {
        if number(s, sql!("delivery_exists"), (*endpoint, message.no))?.is_none() {
            without.push(*endpoint);
        }
    }
    let receivers = emit::receivers(s, &without, message)?;
    Ok(emit::deliver(s, &mut HookClaimState::default(), receivers, message)?.1)
}

/// The first fan-out of the next application.
fn next(s: &DbSession<'_>) -> Res<Option<PendingFanOut>> {
    let mut statement = s.conn.prepare_cached(sql!("fan_out_next"))?;
    let after = s.cache.fan_outs.after;
    let found = statement.query_row([after], decode).optional()?;
    match found {
        None if after > 0 => Ok(statement.query_row([0], decode).optional()?),
        found => Ok(found),
    }
}

fn decode(row: &Row<'_>) -> rusqlite::Result<PendingFanOut> {
    Ok(PendingFanOut {
        application: row.get(0)?,
        message: row.get(1)?,
        only: row.get(2)?,
        place: row.get(3)?,
        last: row.get(4)?,
    })
}
