//! Replays the code from its history and compares the decisions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::mismatch::{Mismatch, RecentRows};
use super::replay::ReplayError;
use super::{Event, Execution};

impl Execution {
    /// Replays the events that follow the first one.
    pub(super) fn repeat(
        &mut self,
        events: &mut dyn Iterator<Item = Event>,
    ) -> Result<(), ReplayError> {
        let shared = Arc::clone(&self.shared);
        let _inside = shared.root.enter();
        shared.lock().replaying = true;
        let mut recent = RecentRows::default();
        let mut begun = false;
        // Decisions of the code that were not yet compared with the history.
        let mut made: VecDeque<Event> = VecDeque::new();
        while let Some(event) = events.next() {
            if event.kind.is_decision() {
                match made.pop_front() {
                    Some(own) if own.kind == event.kind => recent.note(event, Some(own)),
                    own => {
                        own.into_iter().for_each(|own| made.push_front(own));
                        let history = std::iter::once(event).chain(events);
                        return Err(self.differ(recent, history, made));
                    }
                }
                continue;
            }
            if !made.is_empty() {
                return Err(self.differ(recent, std::iter::once(event).chain(events), made));
            }
            let woken = self.repeat_happening(&event)?;
            let first = !std::mem::replace(&mut begun, true);
            self.run_until_waiting(woken || first)?;
            made.extend(shared.lock().decisions.drain(..));
            recent.note(event, None);
        }
        if !made.is_empty() {
            return Err(self.differ(recent, std::iter::empty(), made));
        }
        let mut state = shared.lock();
        state.replaying = false;
        state.recorded_children.clear();
        state.given_up.clear();
        Ok(())
    }

    fn repeat_happening(&self, event: &Event) -> Result<bool, ReplayError> {
        let mut state = self.shared.lock();
        state.check(event)?;
        let wakers = state.apply(&event.kind);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        Ok(self.shared.root.take_woken())
    }

    fn differ(
        &self,
        recent: RecentRows,
        history: impl Iterator<Item = Event>,
        made: VecDeque<Event>,
    ) -> ReplayError {
        let mut history = history.peekable();
        let facts = &self.shared.facts;
        let event = history.peek().or(made.front()).map_or(0, |event| event.id);
        ReplayError::Mismatch(Box::new(Mismatch {
            instance: facts.instance.clone(),
            execution: facts.execution,
            name: facts.name.clone(),
            version: facts.version.clone(),
            event,
            rows: recent.rows(history, made.into()),
        }))
    }
}
