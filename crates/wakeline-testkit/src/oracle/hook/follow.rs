//! What a comparison with another store needs where the rules leave the order open.

use std::time::Duration;

use wakeline_core::{EndpointId, HookLine, HookMessageId, Timestamp};
use wakeline_store::hook::{AttemptOutcome, DeliveryAsk, DeliveryGroup};

use super::claim::Slots;
use super::gate::Sight;
use super::state::{Hook, Row};
use crate::oracle::MemoryStore;

impl MemoryStore {
    /// Leases the next delivery of one endpoint, whatever endpoint would come first, if it is
    /// that of this message. `None` if the rules do not allow it.
    pub(crate) fn claim_delivery_of(
        &self,
        (endpoint, message): (EndpointId, HookMessageId),
        ask: &DeliveryAsk,
    ) -> Option<DeliveryGroup> {
        let (mut state, now) = (self.state.lock(), self.now());
        let asks = [ask.clone()];
        let mut slots = Slots::new(&asks);
        let next = state.hook.next_message(endpoint, &slots, now)?;
        if next != message {
            return None;
        }
        let (_, places) = state.hook.give(endpoint, &mut slots, now)?;
        Some(state.hook.group(&places, now))
    }

    /// Ends the leases of a line that have expired.
    pub(crate) fn end_expired_leases(&self, line: &HookLine) {
        let (mut state, now) = (self.state.lock(), self.now());
        state.hook.end_expired(line, now);
    }

    /// The endpoints of a line that can give something now.
    pub(crate) fn claimable_endpoints(&self, line: &HookLine, fresh_only: bool) -> Vec<EndpointId> {
        let (state, now) = (self.state.lock(), self.now());
        let sight = Sight { fresh_only, leases: false };
        let of_line = state.hook.spots.values().filter(|spot| spot.is_of(line));
        let due = of_line.filter(|spot| {
            let at = state.hook.due_of(spot.endpoint.id, sight, now);
            at.is_some_and(|at| at <= now)
        });
        due.map(|spot| spot.endpoint.id).collect()
    }

    /// When a line has something, seen by one who can make so many kinds of attempts.
    pub(crate) fn line_due_in(
        &self,
        line: &HookLine,
        fresh_only: bool,
        leases: bool,
    ) -> Option<Duration> {
        let (state, now) = (self.state.lock(), self.now());
        state.hook.line_due(line, Sight { fresh_only, leases }, now)
    }

    /// The endpoints whose new delivery of a message must be born leased.
    pub(crate) fn must_be_born(&self, message: HookMessageId) -> Vec<EndpointId> {
        let (state, now) = (self.state.lock(), self.now());
        let hook = &state.hook;
        let asks = [crate::hook_conformance::ask(1)];
        let slots = Slots::new(&asks);
        let rows = hook.rows.values().filter(|row| row.message == message);
        let must = rows.filter(|row| {
            let mut others = hook.rows_of(row.endpoint).filter(|other| other.place != row.place);
            !hook.spot(row.endpoint).endpoint.options.pull
                && !others.any(|other| other.waiting().is_some())
                && hook.next_message(row.endpoint, &slots, now) == Some(message)
        });
        must.map(|row| row.endpoint).collect()
    }

    /// Whether an attempt of a message has expired, so that another store may not have looked at
    /// it yet. Of all messages, if none is named.
    pub(crate) fn is_blurred(&self, message: Option<HookMessageId>) -> bool {
        let (state, now) = (self.state.lock(), self.now());
        let hook = &state.hook;
        let meant = |row: &&Row| message.is_none_or(|message| row.message == message);
        hook.rows.values().filter(meant).any(|row| hook.is_blurred(row, now))
    }

    /// Whether a job goes on.
    pub(crate) fn has_job(&self) -> bool {
        self.state.lock().hook.oldest_job().is_some()
    }
}

impl Hook {
    fn next_message(
        &self,
        endpoint: EndpointId,
        slots: &Slots<'_>,
        now: Timestamp,
    ) -> Option<HookMessageId> {
        let (_, place) = self.next_of(endpoint, slots, now)?;
        Some(self.rows[&place].message)
    }

    fn is_blurred(&self, row: &Row, now: Timestamp) -> bool {
        let expired = row.lease().is_some_and(|lease| lease.until <= now);
        let is_last = |attempt: &&wakeline_store::hook::Attempt| {
            attempt.message == row.message
                && attempt.endpoint == row.endpoint
                && attempt.attempt_no == row.attempts
        };
        let last = self.attempts.values().find(is_last);
        expired || last.is_some_and(|attempt| attempt.outcome == AttemptOutcome::Unknown)
    }
}
