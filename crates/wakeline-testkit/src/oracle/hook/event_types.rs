//! Event types, which all applications share.

use wakeline_core::{EventTypeName, HookChange, HookChangeKind, Timestamp};
use wakeline_store::hook::{Created, EventType, HookPage, Idempotency, PageRequest, UpdateOutcome};

use super::catalog::IdempotencyLookup;
use super::page::page;
use super::state::{KeyScope, MadeObject, OracleHook};

impl OracleHook {
    pub(super) fn create_event_type(
        &mut self,
        new: EventType,
        request: Option<&Idempotency>,
        now: Timestamp,
    ) -> (Created<EventType>, Vec<HookChange>) {
        let outcome = match self.look_up(KeyScope::EventTypes, request, now) {
            IdempotencyLookup::New => None,
            IdempotencyLookup::Created(MadeObject::EventType(name)) => {
                Some(Created::Repeated(self.event_types[&name].clone()))
            }
            IdempotencyLookup::Reused | IdempotencyLookup::Created(_) => Some(Created::KeyReused),
        };
        let taken = self.event_types.get(&new.name);
        if let Some(outcome) = outcome.or_else(|| taken.cloned().map(Created::Taken)) {
            return (outcome, Vec::new());
        }
        self.remember(KeyScope::EventTypes, request, MadeObject::EventType(new.name.clone()), now);
        let (created, changes) = self.put_event_type(new, now);
        (Created::New(created), changes)
    }

    pub(super) fn put_event_type(
        &mut self,
        new: EventType,
        now: Timestamp,
    ) -> (EventType, Vec<HookChange>) {
        let created_at = self.event_types.get(&new.name).map_or(now, |known| known.created_at);
        let stored = EventType { created_at, updated_at: now, ..new };
        self.event_types.insert(stored.name.clone(), stored.clone());
        (stored, vec![HookChange::now(HookChangeKind::EventTypes)])
    }

    pub(super) fn replace_event_type(
        &mut self,
        new: EventType,
        now: Timestamp,
    ) -> (UpdateOutcome<EventType>, Vec<HookChange>) {
        match self.event_types.get(&new.name) {
            None => (UpdateOutcome::Missing, Vec::new()),
            Some(known) if known.updated_at != new.updated_at => (UpdateOutcome::Stale, Vec::new()),
            Some(_) => {
                let (stored, changes) = self.put_event_type(new, now);
                (UpdateOutcome::Updated(stored), changes)
            }
        }
    }

    pub(super) fn list_event_types(
        &self,
        request: &PageRequest<EventTypeName>,
        archived: bool,
    ) -> HookPage<EventType> {
        let shown = self.event_types.values().filter(|one| archived || !one.archived);
        page(shown.map(|one| (one.name.clone(), one.clone())).collect(), request)
    }

    pub(super) fn delete_event_type(&mut self, name: &EventTypeName) -> (bool, Vec<HookChange>) {
        match self.event_types.remove(name) {
            Some(_) => (true, vec![HookChange::now(HookChangeKind::EventTypes)]),
            None => (false, Vec::new()),
        }
    }
}
