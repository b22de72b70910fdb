//! Event types: shared by all applications.

use wakeline_core::{EventTypeName, HookChange, HookWhat, Timestamp};
use wakeline_store::hook::{Created, EventType, Idempotency, Page, PageRequest, UpdateOutcome};

use super::catalog::Looked;
use super::page::page;
use super::state::{Hook, Made, Scope};

impl Hook {
    pub(super) fn create_event_type(
        &mut self,
        new: EventType,
        request: Option<&Idempotency>,
        now: Timestamp,
    ) -> (Created<EventType>, Vec<HookChange>) {
        let outcome = match self.look_up(Scope::EventTypes, request, now) {
            Looked::New => None,
            Looked::Made(Made::EventType(name)) => {
                Some(Created::Repeated(self.event_types[&name].clone()))
            }
            Looked::Reused | Looked::Made(_) => Some(Created::KeyReused),
        };
        let taken = self.event_types.get(&new.name);
        if let Some(outcome) = outcome.or_else(|| taken.cloned().map(Created::Taken)) {
            return (outcome, Vec::new());
        }
        self.remember(Scope::EventTypes, request, Made::EventType(new.name.clone()), now);
        let (made, changes) = self.put_event_type(new, now);
        (Created::New(made), changes)
    }

    pub(super) fn put_event_type(
        &mut self,
        new: EventType,
        now: Timestamp,
    ) -> (EventType, Vec<HookChange>) {
        let created_at = self.event_types.get(&new.name).map_or(now, |known| known.created_at);
        let put = EventType { created_at, updated_at: now, ..new };
        self.event_types.insert(put.name.clone(), put.clone());
        (put, vec![HookChange::now(HookWhat::EventTypes)])
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
                let (put, changes) = self.put_event_type(new, now);
                (UpdateOutcome::Updated(put), changes)
            }
        }
    }

    pub(super) fn list_event_types(
        &self,
        request: &PageRequest<EventTypeName>,
        archived: bool,
    ) -> Page<EventType> {
        let shown = self.event_types.values().filter(|one| archived || !one.archived);
        page(shown.map(|one| (one.name.clone(), one.clone())).collect(), request)
    }

    pub(super) fn delete_event_type(&mut self, name: &EventTypeName) -> (bool, Vec<HookChange>) {
        match self.event_types.remove(name) {
            Some(_) => (true, vec![HookChange::now(HookWhat::EventTypes)]),
            None => (false, Vec::new()),
        }
    }
}
