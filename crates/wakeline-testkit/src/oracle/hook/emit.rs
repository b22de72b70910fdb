//! Messages: each is stored once, with a delivery for every endpoint whose filters match.

use std::time::Duration;

use wakeline_core::{
    ApplicationId, EndpointId, HookChange, HookChangeKind, HookMessageId, Timestamp,
};
use wakeline_store::hook::{
    DeliveryRequest, EmitOutcome, EmitReply, EventSchema, NewMessage, StoredMessage,
};

use super::catalog::IdempotencyLookup;
use super::claim::ClaimSlots;
use super::state::{
    AttemptPlan, DeliveryStage, KeyScope, MadeObject, OracleDelivery, OracleEndpoint, OracleHook,
    OracleHookMessage,
};

impl OracleHook {
    pub(in crate::oracle) fn emit(
        &mut self,
        message: NewMessage,
        requests: &[DeliveryRequest],
        now: Timestamp,
    ) -> EmitReply {
        let retention = message.retention;
        let (outcome, places) = self.store_message(message, now);
        if !matches!(outcome, EmitOutcome::Stored(..)) {
            return EmitReply { outcome, leased: Vec::new(), changes: Vec::new() };
        }
        let leased = self.bear(&places, requests, now);
        let endpoints: Vec<EndpointId> =
            places.iter().map(|place| self.rows[place].endpoint).collect();
        let mut changes = self.changes_of(endpoints, now);
        changes.push(HookChange { what: HookChangeKind::Background, due_in: retention });
        EmitReply { outcome, leased, changes }
    }

    /// Emits a message as part of another write, if it satisfies the schema of its event type.
    pub(in crate::oracle) fn emit_piggybacked(
        &mut self,
        new: NewMessage,
        now: Timestamp,
    ) -> EmitReply {
        let enforced = self.event_types.get(&new.event_type).filter(|found| found.enforced);
        let schemas = enforced.and_then(|found| found.schemas.as_ref());
        match schemas.and_then(|all| EventSchema::refusal(&new.event_type, all, &new.payload)) {
            Some(reason) => {
                let outcome = EmitOutcome::Refused(reason);
                EmitReply { outcome, leased: Vec::new(), changes: Vec::new() }
            }
            None => self.emit(new, &[], now),
        }
    }

    /// Stores a message and creates its deliveries. Returns their sequence numbers.
    fn store_message(&mut self, new: NewMessage, now: Timestamp) -> (EmitOutcome, Vec<i64>) {
        let Some(owner) = self.owner_of(&new, now) else {
            return (EmitOutcome::NoApplication, Vec::new());
        };
        if let Some(refused) = self.refusal(owner, &new, now) {
            return (refused, Vec::new());
        }
        let made = MadeObject::Message(new.id);
        self.remember(KeyScope::Messages(owner), new.idempotency.as_ref(), made, now);
        let endpoints: Vec<EndpointId> = (self.endpoint_entries_of(owner))
            .filter(|entry| match new.only {
                Some(only) => entry.endpoint.id == only,
                None => !entry.is_off() && entry.takes(&new.event_type, &new.channels),
            })
            .map(|entry| entry.endpoint.id)
            .collect();
        let stored = self.insert_message(owner, new, now);
        let plan = AttemptPlan::scheduled(now);
        let made = endpoints.into_iter().map(|to| self.insert_row(stored.id, to, plan));
        let places: Vec<i64> = made.collect();
        let deliveries = u32::try_from(places.len()).expect("a count of deliveries fits");
        (EmitOutcome::Stored(stored, deliveries), places)
    }

    /// Returns why a message is not stored: it, its key or its event id exists already.
    fn refusal(
        &self,
        owner: ApplicationId,
        new: &NewMessage,
        now: Timestamp,
    ) -> Option<EmitOutcome> {
        match self.look_up(KeyScope::Messages(owner), new.idempotency.as_ref(), now) {
            IdempotencyLookup::New => {}
            IdempotencyLookup::Created(MadeObject::Message(id)) => {
                return Some(EmitOutcome::Repeated(self.messages[&id].stored.clone()));
            }
            IdempotencyLookup::Reused | IdempotencyLookup::Created(_) => {
                return Some(EmitOutcome::KeyReused);
            }
        }
        if let Some(same) = self.messages.get(&new.id) {
            return Some(EmitOutcome::Repeated(same.stored.clone()));
        }
        let own = new.event_id.as_ref()?;
        let taken =
            self.messages_of(owner).find(|other| other.stored.event_id.as_ref() == Some(own));
        taken.map(|taken| EmitOutcome::Taken(taken.stored.clone()))
    }

    /// Applies rule 4: finds the application, or creates it.
    fn owner_of(&mut self, new: &NewMessage, now: Timestamp) -> Option<ApplicationId> {
        let known = self.find_application(&new.application);
        known.or_else(|| {
            let application = new.create_application.clone()?;
            Some(self.make_application(application, now).map_or_else(|has| has.id, |one| one.id))
        })
    }

    fn insert_message(
        &mut self,
        owner: ApplicationId,
        new: NewMessage,
        now: Timestamp,
    ) -> StoredMessage {
        let stored = StoredMessage {
            id: new.id,
            application: owner,
            event_type: new.event_type,
            event_id: new.event_id,
            channels: new.channels,
            payload: None,
            created_at: now,
        };
        let expires_at = now.plus(new.retention);
        let message =
            OracleHookMessage { stored: stored.clone(), expires_at, payload: Some(new.payload) };
        self.messages.insert(stored.id, message);
        stored
    }

    /// Creates a delivery with the next sequence number.
    pub(super) fn insert_row(
        &mut self,
        message: HookMessageId,
        endpoint: EndpointId,
        plan: AttemptPlan,
    ) -> i64 {
        let place = self.next_place();
        let row = OracleDelivery {
            place,
            message,
            endpoint,
            stage: DeliveryStage::Waiting(plan),
            attempts: 0,
            scheduled: 0,
            attempted_at: None,
            created_at: plan.due,
            updated_at: plan.due,
        };
        self.rows.insert(place, row);
        place
    }

    /// Applies rule 7: leases new deliveries of endpoints that have no other waiting delivery.
    fn bear(
        &mut self,
        places: &[i64],
        requests: &[DeliveryRequest],
        now: Timestamp,
    ) -> Vec<(usize, Vec<wakeline_store::hook::DeliveryGroup>)> {
        let mut slots = ClaimSlots::new(requests);
        self.remove_used_ids(&mut slots);
        let mut leased = vec![Vec::new(); requests.len()];
        for place in places {
            let endpoint = self.rows[place].endpoint;
            let others = self.rows_of(endpoint).filter(|row| row.place != *place);
            // A delivery whose lease has expired waits as well.
            let is_waiting = |row: &OracleDelivery| !row.has_ended() && row.live(now).is_none();
            let waits = others.into_iter().any(is_waiting);
            if waits || self.endpoint_entry(endpoint).endpoint.options.pull {
                continue;
            }
            if let Some((n, places)) = self.give(endpoint, &mut slots, now) {
                leased[n].push(self.group(&places, now));
            }
        }
        leased.into_iter().enumerate().filter(|(_, groups)| !groups.is_empty()).collect()
    }

    /// Returns whether a message still has its payload.
    pub(super) fn has_payload(&self, message: HookMessageId) -> bool {
        self.messages.get(&message).is_some_and(|message| message.payload.is_some())
    }

    /// Returns the time until the next payload expires.
    pub(super) fn next_expiry(&self, now: Timestamp) -> Option<Duration> {
        let kept = self.messages.values().filter(|message| message.payload.is_some());
        kept.map(|message| now.until(message.expires_at)).min()
    }
}

impl OracleEndpoint {
    /// Applies rule 1: returns whether the endpoint's filters match a message.
    pub(super) fn takes(
        &self,
        event_type: &wakeline_core::EventTypeName,
        channels: &[wakeline_core::Channel],
    ) -> bool {
        let (patterns, wanted) = (&self.endpoint.event_types, &self.endpoint.channels);
        let of_type = patterns.iter().any(|pattern| pattern.matches(event_type));
        let in_channel = channels.iter().any(|channel| wanted.contains(channel));
        (patterns.is_empty() || of_type) && (wanted.is_empty() || in_channel)
    }
}
