//! Operations on single deliveries and messages.

use wakeline_core::{
    ApplicationRef, AttemptId, EndpointRef, HookChange, HookMessageId, MessageRef, Timestamp,
};
use wakeline_store::hook::{DeliveryState, ExpireMessages, ExpiredMessages, ResendOutcome};

use super::state::{
    AttemptPlan, BeforeManual, DeliveryEnd, DeliveryStage, OracleDelivery, OracleHook,
};

impl OracleHook {
    pub(super) fn resend(
        &mut self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
        now: Timestamp,
    ) -> (ResendOutcome, Vec<HookChange>) {
        let message = self.find_message(application, message);
        let endpoint = self.find_endpoint(application, endpoint);
        let row = message.zip(endpoint).and_then(|(message, to)| self.row_of(message, to));
        let Some(place) = row.map(|row| row.place) else {
            return (ResendOutcome::Missing, Vec::new());
        };
        match self.try_again(place, now) {
            ResendOutcome::Due => {
                let endpoint = self.rows[&place].endpoint;
                (ResendOutcome::Due, self.changes_of([endpoint], now))
            }
            refused => (refused, Vec::new()),
        }
    }

    /// Makes one manual attempt of a delivery due now.
    pub(super) fn try_again(&mut self, place: i64, now: Timestamp) -> ResendOutcome {
        let row = &self.rows[&place];
        if row.live(now).is_some() {
            return ResendOutcome::InFlight;
        }
        if !self.has_payload(row.message) {
            return ResendOutcome::Expired;
        }
        if self.endpoint_entry(row.endpoint).is_off() {
            return ResendOutcome::Disabled;
        }
        self.end_expired_row(place, now);
        let row = self.row_mut(place);
        let before = match row.stage {
            DeliveryStage::Waiting(AttemptPlan { manual: Some(before), .. }) => before,
            DeliveryStage::Waiting(AttemptPlan { due, behind, manual: None }) => {
                BeforeManual::Planned { due, behind }
            }
            DeliveryStage::Ended(end) => BeforeManual::Ended(end),
            DeliveryStage::Leased(..) => unreachable!("no lease is left"),
        };
        row.stage =
            DeliveryStage::Waiting(AttemptPlan { due: now, behind: true, manual: Some(before) });
        row.updated_at = now;
        ResendOutcome::Due
    }

    pub(super) fn cancel(
        &mut self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
        now: Timestamp,
    ) -> Option<(u64, Vec<HookChange>)> {
        let message = self.find_message(application, message)?;
        let only = endpoint.map(|endpoint| self.find_endpoint(application, endpoint));
        let is_chosen = |row: &&OracleDelivery| {
            row.message == message && only.is_none_or(|only| only == Some(row.endpoint))
        };
        let chosen: Vec<i64> = self.rows.values().filter(is_chosen).map(|row| row.place).collect();
        let cancelled: Vec<i64> =
            chosen.into_iter().filter(|place| self.give_up(*place, now)).collect();
        let endpoints: Vec<_> = cancelled.iter().map(|place| self.rows[place].endpoint).collect();
        Some((
            u64::try_from(cancelled.len()).expect("a count of rows fits"),
            self.changes_of(endpoints, now),
        ))
    }

    /// Cancels a delivery, now or at the end of its attempt. Returns false if it has ended or is
    /// cancelled already.
    pub(super) fn give_up(&mut self, place: i64, now: Timestamp) -> bool {
        let row = self.row_mut(place);
        match &mut row.stage {
            DeliveryStage::Waiting(_) => row.stage = DeliveryStage::Ended(DeliveryEnd::Cancelled),
            DeliveryStage::Leased(lease, _) if !lease.cancelled => lease.cancelled = true,
            DeliveryStage::Leased(..) | DeliveryStage::Ended(_) => return false,
        }
        row.updated_at = now;
        true
    }

    /// Restarts the schedule of a failed delivery.
    pub(super) fn recover(&mut self, place: i64, now: Timestamp) -> bool {
        let row = &self.rows[&place];
        let can = row.stage == DeliveryStage::Ended(DeliveryEnd::Failed)
            && self.has_payload(row.message)
            && !self.endpoint_entry(row.endpoint).is_off();
        if can {
            let row = self.row_mut(place);
            row.stage =
                DeliveryStage::Waiting(AttemptPlan { due: now, behind: true, manual: None });
            row.scheduled = 0;
            row.updated_at = now;
        }
        can
    }

    /// Returns whether a delivery is in one of the states; an empty list means any state.
    pub(super) fn stands(
        &self,
        row: &OracleDelivery,
        states: &[DeliveryState],
        now: Timestamp,
    ) -> bool {
        states.is_empty() || states.contains(&self.state_of(row, now))
    }

    pub(super) fn expunge_payload(
        &mut self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> bool {
        let Some(id) = self.find_message(application, message) else { return false };
        self.drop_payload(id);
        true
    }

    /// Removes old messages, all of them in one call.
    pub(super) fn expire(&mut self, command: ExpireMessages, now: Timestamp) -> ExpiredMessages {
        let is_open = |row: &OracleDelivery| !matches!(row.stage, DeliveryStage::Ended(_));
        let old: Vec<HookMessageId> = (self.messages.values())
            .filter(|one| one.stored.created_at.plus(command.older_than) < now)
            .filter(|one| one.payload.is_none())
            .map(|one| one.stored.id)
            .filter(|id| !self.rows.values().any(|row| row.message == *id && is_open(row)))
            .collect();
        let (rows, attempts) = (self.rows.len(), self.attempts.len());
        self.messages.retain(|id, _| !old.contains(id));
        self.rows.retain(|_, row| !old.contains(&row.message));
        self.attempts.retain(|_, attempt| !old.contains(&attempt.message));
        ExpiredMessages {
            messages: old.len() as u64,
            deliveries: (rows - self.rows.len()) as u64,
            attempts: (attempts - self.attempts.len()) as u64,
            next: None,
        }
    }

    pub(super) fn drop_payload(&mut self, id: HookMessageId) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.payload = None;
        }
    }

    pub(super) fn expunge_response(
        &mut self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> bool {
        let Some(id) = self.find_message(application, message) else { return false };
        match self.attempts.get_mut(&attempt).filter(|attempt| attempt.message == id) {
            Some(attempt) => {
                attempt.response = None;
                true
            }
            None => false,
        }
    }
}
