//! Runs the code along its history and compares.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::mismatch::{Mismatch, Recent};
use super::replay::ReplayError;
use super::{Event, Execution};

impl Execution {
    /// Repeats the events that follow the first one.
    pub(super) fn repeat(
        &mut self,
        events: &mut dyn Iterator<Item = Event>,
    ) -> Result<(), ReplayError> {
        let shared = Arc::clone(&self.shared);
        let _inside = shared.root.enter();
        shared.lock().replaying = true;
        let mut recent = Recent::default();
        let mut begun = false;
        // Decisions of the code that the history has not confirmed yet.
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
            self.rest(woken || first)?;
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
        let wakers = state.happen(&event.kind);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        Ok(self.shared.root.take_woken())
    }

    fn differ(
        &self,
        recent: Recent,
        history: impl Iterator<Item = Event>,
        made: VecDeque<Event>,
    ) -> ReplayError {
        let mut history = history.peekable();
        let about = &self.shared.about;
        let event = history.peek().or(made.front()).map_or(0, |event| event.id);
        ReplayError::Mismatch(Box::new(Mismatch {
            instance: about.instance.clone(),
            execution: about.execution,
            name: about.name.clone(),
            version: about.version.clone(),
            event,
            rows: recent.rows(history, made.into()),
        }))
    }
}
