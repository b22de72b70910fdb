//! What happens to an execution: which messages it takes, and what they change.

use std::task::Waker;

use super::effects::End;
use super::replay::ReplayError;
use super::state::{About, Outcome, SlotKind, State};
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind};
use crate::json::Json;
use crate::message::WorkItem;

impl State {
    /// The event that a message becomes, or nothing if it is dropped by the rules of the engine.
    pub(super) fn accept(&mut self, about: &About, message: WorkItem) -> Option<EventKind> {
        if *message.instance() != about.instance {
            return None;
        }
        if let WorkItem::CancelInstance { parent: Some(parent), .. } = &message
            && !about.parent.as_ref().is_some_and(|own| own.is_same(parent))
        {
            return None;
        }
        if self.over {
            self.keep_for_next(message);
            return None;
        }
        let ours = |execution| execution == about.execution;
        // An instance that was deleted may have been started again under its id, while something
        // that it began still runs.
        let same_life =
            |identity: Option<&str>| identity.is_none_or(|other| other == about.identity());
        match message {
            WorkItem::ActivityDone { execution, event, identity, result, .. }
                if ours(execution) && same_life(identity.as_deref()) =>
            {
                let open = matches!(self.open_slot(event), Some(SlotKind::Activity));
                open.then_some(match result {
                    Ok(result) => EventKind::ActivityCompleted { of: event, result },
                    Err(error) => EventKind::ActivityFailed { of: event, error },
                })
            }
            WorkItem::TimerFired { execution, event, .. } if ours(execution) => {
                let open = matches!(self.open_slot(event), Some(SlotKind::Timer));
                open.then_some(EventKind::TimerFired { of: event })
            }
            WorkItem::ChildDone { execution, event, identity, result, .. }
                if ours(execution) && same_life(identity.as_deref()) =>
            {
                let open = matches!(self.open_slot(event), Some(SlotKind::Child { .. }));
                open.then_some(match result {
                    Ok(result) => EventKind::ChildCompleted { of: event, result },
                    Err(error) => EventKind::ChildFailed { of: event, error },
                })
            }
            WorkItem::EventRaised { name, data, .. } => Some(EventKind::EventRaised { name, data }),
            WorkItem::CancelInstance { reason, .. } => {
                self.cancel.requested.is_none().then_some(EventKind::CancelRequested { reason })
            }
            _ => None,
        }
    }

    /// Whether a recorded event can stand here; takes its number.
    pub(super) fn check(&mut self, event: &Event) -> Result<(), ReplayError> {
        let broken = |what| Err(ReplayError::Broken { event: event.id, what });
        if event.id != self.number() {
            return broken("its number does not follow that of the event before it");
        }
        if self.over {
            return broken("the execution had ended before it");
        }
        let slot = |of: &u64| self.open_slot(*of);
        let fits = match &event.kind {
            EventKind::ActivityCompleted { of, .. } | EventKind::ActivityFailed { of, .. } => {
                matches!(slot(of), Some(SlotKind::Activity))
            }
            EventKind::TimerFired { of } => matches!(slot(of), Some(SlotKind::Timer)),
            EventKind::ChildCompleted { of, .. } | EventKind::ChildFailed { of, .. } => {
                matches!(slot(of), Some(SlotKind::Child { .. }))
            }
            EventKind::Started { .. } => false,
            _ => true,
        };
        if fits { Ok(()) } else { broken("no event before it waits for it") }
    }

    /// Lets something happen. The wakers are to be woken without the lock.
    pub(super) fn happen(&mut self, kind: &EventKind) -> Vec<Waker> {
        let done = |state: &mut Self, of: &u64, outcome: Outcome| {
            state.settle(*of, outcome).into_iter().collect()
        };
        if let EventKind::ChildCompleted { of, .. } | EventKind::ChildFailed { of, .. } = kind {
            self.children.remove(of);
        }
        match kind {
            EventKind::Turn { now } => {
                self.now = *now;
                self.turn_first = self.next_id;
                Vec::new()
            }
            EventKind::ActivityCompleted { of, result }
            | EventKind::ChildCompleted { of, result } => done(self, of, Ok(result.clone())),
            EventKind::ActivityFailed { of, error } | EventKind::ChildFailed { of, error } => {
                done(self, of, Err(error.clone()))
            }
            EventKind::TimerFired { of } => done(self, of, Ok(Json::null())),
            EventKind::EventRaised { name, data } => {
                self.raise(name, data.clone()).into_iter().collect()
            }
            EventKind::CancelRequested { reason } => self.cancel(reason),
            _ => Vec::new(),
        }
    }

    /// Without anybody in the code who cares, a request to cancel ends the execution.
    fn cancel(&mut self, reason: &str) -> Vec<Waker> {
        self.cancel.requested = Some(reason.to_owned());
        if self.cancel.lasting || !self.cancel.waiters.is_empty() {
            return self.cancel.waiters.values_mut().filter_map(Option::take).collect();
        }
        let error = FlowError::new(FailureKind::Cancelled, reason);
        self.decide(EventKind::Failed { error }, None);
        self.close()
    }

    /// After the end: what the next execution should see, if there is one.
    fn keep_for_next(&mut self, message: WorkItem) {
        match message {
            WorkItem::EventRaised { name, data, .. } => {
                self.mailboxes.raise(&name, data);
            }
            WorkItem::CancelInstance { reason, .. } if self.cancel.requested.is_none() => {
                self.cancel.requested = Some(reason);
            }
            _ => {}
        }
    }

    /// How an execution stands after its last event.
    pub(super) fn end_of(&mut self, last: &EventKind) -> End {
        match last {
            EventKind::Completed { output } => End::Completed(output.clone()),
            EventKind::Failed { error } => {
                let asked_for = self.cancel.requested.is_some();
                if asked_for && error.kind == FailureKind::Cancelled {
                    End::Cancelled(error.message.clone())
                } else {
                    End::Failed(error.clone())
                }
            }
            EventKind::ContinuedAsNew { input, version } => End::ContinuedAsNew {
                input: input.clone(),
                version: version.clone(),
                carried: self.mailboxes.drain(),
                cancel: self.cancel.requested.take().filter(|_| !self.cancel.seen),
            },
            _ => End::Open,
        }
    }
}
