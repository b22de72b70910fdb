//! Operations for the comparison with another store where the rules leave the order open.

use std::time::Duration;

use wakeline_core::{EndpointId, HookLine, HookMessageId, Timestamp};
use wakeline_store::hook::{AttemptOutcome, DeliveryGroup, DeliveryRequest};

use super::claim::ClaimSlots;
use super::gate::LineSight;
use super::state::{OracleDelivery, OracleHook};
use crate::oracle::MemoryStore;

impl MemoryStore {
    /// Leases the next delivery of one endpoint if it is the delivery of this message, even if
    /// another endpoint would come first. Returns `None` if the rules do not allow it.
    pub(crate) fn claim_delivery_of(
        &self,
        endpoint: EndpointId,
        message: HookMessageId,
        request: &DeliveryRequest,
    ) -> Option<DeliveryGroup> {
        let (mut state, now) = (self.state.lock(), self.now());
        let requests = [request.clone()];
        let mut slots = ClaimSlots::new(&requests);
        let next = state.hook.next_message(endpoint, &slots, now)?;
        if next != message {
            return None;
        }
        let (_, places) = state.hook.give(endpoint, &mut slots, now)?;
        Some(state.hook.group(&places, now))
    }

    /// Ends the expired leases of a line.
    pub(crate) fn end_expired_leases(&self, line: &HookLine) {
        let (mut state, now) = (self.state.lock(), self.now());
        state.hook.end_expired(line, now);
    }

    /// Returns the endpoints of a line that have a due delivery.
    pub(crate) fn claimable_endpoints(&self, line: &HookLine, fresh_only: bool) -> Vec<EndpointId> {
        let (state, now) = (self.state.lock(), self.now());
        let sight = LineSight { fresh_only, leases: false };
        let of_line = state.hook.endpoint_entries.values().filter(|entry| entry.is_of(line));
        let due = of_line.filter(|entry| {
            let at = state.hook.due_of(entry.endpoint.id, sight, now);
            at.is_some_and(|at| at <= now)
        });
        due.map(|entry| entry.endpoint.id).collect()
    }

    /// Returns the time until a line has a delivery, for a claim that takes only first attempts
    /// (`fresh_only`) or also waits for the ends of leases (`leases`).
    pub(crate) fn line_due_in(
        &self,
        line: &HookLine,
        fresh_only: bool,
        leases: bool,
    ) -> Option<Duration> {
        let (state, now) = (self.state.lock(), self.now());
        state.hook.line_due(line, LineSight { fresh_only, leases }, now)
    }

    /// Returns the endpoints whose new delivery of a message must be leased on insert.
    pub(crate) fn must_be_leased_on_insert(&self, message: HookMessageId) -> Vec<EndpointId> {
        let (state, now) = (self.state.lock(), self.now());
        let hook = &state.hook;
        let requests = [crate::hook_conformance::request(1)];
        let slots = ClaimSlots::new(&requests);
        let rows = hook.rows.values().filter(|row| row.message == message);
        let must = rows.filter(|row| {
            let mut others = hook.rows_of(row.endpoint).filter(|other| other.place != row.place);
            !hook.endpoint_entry(row.endpoint).endpoint.options.pull
                && !others.any(|other| other.waiting().is_some())
                && hook.next_message(row.endpoint, &slots, now) == Some(message)
        });
        must.map(|row| row.endpoint).collect()
    }

    /// Returns whether an attempt of a message (or of any message, with `None`) has expired, so
    /// that another store may not have noticed it yet.
    pub(crate) fn is_blurred(&self, message: Option<HookMessageId>) -> bool {
        let (state, now) = (self.state.lock(), self.now());
        let hook = &state.hook;
        let is_chosen =
            |row: &&OracleDelivery| message.is_none_or(|message| row.message == message);
        hook.rows.values().filter(is_chosen).any(|row| hook.is_blurred(row, now))
    }

    /// Returns whether a job is running.
    pub(crate) fn has_job(&self) -> bool {
        self.state.lock().hook.oldest_job().is_some()
    }
}

impl OracleHook {
    fn next_message(
        &self,
        endpoint: EndpointId,
        slots: &ClaimSlots<'_>,
        now: Timestamp,
    ) -> Option<HookMessageId> {
        let (_, place) = self.next_of(endpoint, slots, now)?;
        Some(self.rows[&place].message)
    }

    fn is_blurred(&self, row: &OracleDelivery, now: Timestamp) -> bool {
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
