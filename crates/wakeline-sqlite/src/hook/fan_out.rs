//! Deliveries that wait to be made: those of a message for very many endpoints.
//!
//! # Where it sits
//! [`super::emit`] leaves a fan-out behind in the commit that stores the message;
//! [`super::chore`] goes on with it, a piece at a time.
//!
//! # Invariants
//! * One transaction makes a bounded number of deliveries: a message for up to [`FAN_OUT_SMALL`]
//!   endpoints never waits, and the others share [`FAN_OUT_MAX`].
//! * Messages of an application are fanned out one after another. A message for an endpoint in
//!   strict order waits behind those that were stored before it.
//! * Applications take turns, a piece each.
//! * A message that cannot be read ends its fan-out, with an error in the log, and holds up no
//!   other. It could not be sent either. Once its row is repaired, a job makes what is missing.

use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{HookChange, HookWhat};
use wakeline_store::hook::{FAN_OUT_MAX, FAN_OUT_SMALL};

use super::claim::{self, Books};
use super::emit::{self, FanOutMessage, Receivers};
use super::known::{self, number};
use super::slots::Slots;
use super::{message, sql};
use crate::error::Res;
use crate::session::Session;

/// What the writer knows of fan-outs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FanOuts {
    /// Deliveries that messages for many endpoints may still get in this transaction.
    left: usize,
    /// The application whose turn it was last.
    after: i64,
}

impl FanOuts {
    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        self.left = FAN_OUT_MAX;
    }

    /// Whether so many deliveries can be made now; then they are counted.
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

/// A fan-out that waits.
struct Waiting {
    application: i64,
    message: i64,
    only: Option<i64>,
    place: i64,
    last: i64,
}

/// Who gets a message, if its deliveries can be made in this transaction.
pub(super) fn at_once(
    s: &mut Session<'_>,
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

/// Leaves the deliveries of a message for later.
pub(super) fn add(
    s: &mut Session<'_>,
    application: i64,
    named: &[i64],
    message: &FanOutMessage<'_>,
) -> Res<HookChange> {
    let last = named.iter().max().copied().unwrap_or(0);
    let only = message.only.then_some(last);
    let params = (application, message.no, only, last);
    s.conn.prepare_cached(sql!("fan_out_add"))?.execute(params)?;
    let change = HookChange::now(HookWhat::Chores);
    s.hint_hook(std::slice::from_ref(&change));
    Ok(change)
}

/// Forgets that deliveries of a message are still to be made.
pub(super) fn remove(s: &Session<'_>, application: i64, message: i64) -> Res<()> {
    s.conn.prepare_cached(sql!("fan_out_remove"))?.execute((application, message))?;
    Ok(())
}

/// Goes on with the fan-out whose turn it is: looks at so many endpoints. Returns at how many, at
/// least 1 if there was one.
pub(super) fn go_on(s: &mut Session<'_>, most: usize) -> Res<(u64, Vec<HookChange>)> {
    let Some(waiting) = next(s)? else { return Ok((0, Vec::new())) };
    s.cache.fan_outs.after = waiting.application;
    let (event_type, channels) = match message::filtered(s, waiting.message) {
        Err(fault) if fault.is_of_a_row() => {
            claim::tell(&fault, "message", waiting.message);
            remove(s, waiting.application, waiting.message)?;
            return Ok((1, Vec::new()));
        }
        read => read?,
    };
    let named: Vec<i64> = match waiting.only {
        Some(only) => vec![only],
        None => {
            let ahead = |no: &&i64| **no > waiting.place && **no <= waiting.last;
            let all = known::matching(s, waiting.application, &event_type)?;
            all.iter().filter(ahead).take(most).copied().collect()
        }
    };
    let only = waiting.only.is_some();
    let message = FanOutMessage { no: waiting.message, channels: &channels, only };
    let changes = piece(s, &named, &message)?;
    match named.last().filter(|_| named.len() == most && !only) {
        Some(place) => {
            let params = (waiting.application, waiting.message, *place);
            s.conn.prepare_cached(sql!("fan_out_write"))?.execute(params)?;
        }
        None => remove(s, waiting.application, waiting.message)?,
    }
    Ok((named.len().max(1) as u64, changes))
}

/// Makes the deliveries of some endpoints, except of those for which a job did meanwhile.
fn piece(s: &mut Session<'_>, named: &[i64], message: &FanOutMessage<'_>) -> Res<Vec<HookChange>> {
    let mut without = Vec::with_capacity(named.len());
    for endpoint in named {
        if number(s, sql!("delivery_exists"), (*endpoint, message.no))?.is_none() {
            without.push(*endpoint);
        }
    }
    let receivers = emit::receivers(s, &without, message)?;
    let (mut books, mut slots) = (Books::default(), Slots::new(&[]));
    Ok(emit::deliver(s, (&mut books, &mut slots), receivers, message)?.1)
}

/// The next fan-out in turn.
fn next(s: &Session<'_>) -> Res<Option<Waiting>> {
    let mut statement = s.conn.prepare_cached(sql!("fan_out_next"))?;
    let after = s.cache.fan_outs.after;
    let found = statement.query_row([after], decode).optional()?;
    match found {
        None if after > 0 => Ok(statement.query_row([0], decode).optional()?),
        found => Ok(found),
    }
}

fn decode(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    Ok(Waiting {
        application: row.get(0)?,
        message: row.get(1)?,
        only: row.get(2)?,
        place: row.get(3)?,
        last: row.get(4)?,
    })
}
