//! How messages become events of an execution, and what those events change.

use std::task::Waker;

use super::effects::TurnEnd;
use super::replay::ReplayError;
use super::state::{ExecutionFacts, ExecutionState, OperationSlotKind, Outcome};
use crate::error::{FailureKind, FlowError};
use crate::event::{Event, EventKind};
use crate::json::Json;
use crate::message::FlowMessage;

impl ExecutionState {
    /// Returns the event that a message becomes, or `None` if the rules of the engine drop it.
    pub(super) fn accept(
        &mut self,
        facts: &ExecutionFacts,
        message: FlowMessage,
    ) -> Option<EventKind> {
        if *message.instance() != facts.instance {
            return None;
        }
        if let FlowMessage::CancelInstance { parent: Some(parent), .. } = &message
            && !facts.parent.as_ref().is_some_and(|own| own.is_same(parent))
        {
            return None;
        }
        if self.over {
            self.keep_for_next(message);
            return None;
        }
        let ours = |execution| execution == facts.execution;
        // The instance may have been deleted and started again under the same id while an operation
        // of the deleted one is still running.
        let same_instance =
            |identity: Option<&str>| identity.is_none_or(|other| other == facts.identity());
        match message {
            FlowMessage::ActivityDone { execution, event, identity, result, .. }
                if ours(execution) && same_instance(identity.as_deref()) =>
            {
                let open = matches!(self.open_slot(event), Some(OperationSlotKind::Activity));
                open.then_some(match result {
                    Ok(result) => EventKind::ActivityCompleted { of: event, result },
                    Err(error) => EventKind::ActivityFailed { of: event, error },
                })
            }
            FlowMessage::TimerFired { execution, event, .. } if ours(execution) => {
                let open = matches!(self.open_slot(event), Some(OperationSlotKind::Timer));
                open.then_some(EventKind::TimerFired { of: event })
            }
            FlowMessage::ChildDone { execution, event, identity, result, .. }
                if ours(execution) && same_instance(identity.as_deref()) =>
            {
                let open = matches!(self.open_slot(event), Some(OperationSlotKind::Child { .. }));
                open.then_some(match result {
                    Ok(result) => EventKind::ChildCompleted { of: event, result },
                    Err(error) => EventKind::ChildFailed { of: event, error },
                })
            }
            FlowMessage::EventRaised { name, data, .. } => {
                Some(EventKind::EventRaised { name, data })
            }
            FlowMessage::CancelInstance { reason, .. } => {
                self.cancel.requested.is_none().then_some(EventKind::CancelRequested { reason })
            }
            _ => None,
        }
    }

    /// Checks that a recorded event is valid at this position, and takes its id.
    pub(super) fn check(&mut self, event: &Event) -> Result<(), ReplayError> {
        let corrupt = |what| Err(ReplayError::Corrupt { event: event.id, what });
        if event.id != self.number() {
            return corrupt("its number does not follow that of the event before it");
        }
        if self.over {
            return corrupt("it follows the end of the execution");
        }
        let slot = |of: &u64| self.open_slot(*of);
        let fits = match &event.kind {
            EventKind::ActivityCompleted { of, .. } | EventKind::ActivityFailed { of, .. } => {
                matches!(slot(of), Some(OperationSlotKind::Activity))
            }
            EventKind::TimerFired { of } => matches!(slot(of), Some(OperationSlotKind::Timer)),
            EventKind::ChildCompleted { of, .. } | EventKind::ChildFailed { of, .. } => {
                matches!(slot(of), Some(OperationSlotKind::Child { .. }))
            }
            EventKind::Started { .. } => false,
            _ => true,
        };
        if fits { Ok(()) } else { corrupt("no operation before it waits for it") }
    }

    /// Applies an event. The returned wakers must be woken after the lock is released.
    pub(super) fn apply(&mut self, kind: &EventKind) -> Vec<Waker> {
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

    /// Unless the code handles cancellation itself, the request ends the execution.
    fn cancel(&mut self, reason: &str) -> Vec<Waker> {
        self.cancel.requested = Some(reason.to_owned());
        if self.cancel.lasting || !self.cancel.waiters.is_empty() {
            return self.cancel.waiters.values_mut().filter_map(Option::take).collect();
        }
        let error = FlowError::new(FailureKind::Cancelled, reason);
        self.decide(EventKind::Failed { error }, None);
        self.close()
    }

    /// Keeps, after the end, what the next execution should see if there is one.
    fn keep_for_next(&mut self, message: FlowMessage) {
        match message {
            FlowMessage::EventRaised { name, data, .. } => {
                self.event_buffers.raise(&name, data);
            }
            FlowMessage::CancelInstance { reason, .. } if self.cancel.requested.is_none() => {
                self.cancel.requested = Some(reason);
            }
            _ => {}
        }
    }

    /// Returns whether and how an execution ended with its last event.
    pub(super) fn end_of(&mut self, last: &EventKind) -> TurnEnd {
        match last {
            EventKind::Completed { output } => TurnEnd::Completed(output.clone()),
            EventKind::Failed { error } => {
                let requested = self.cancel.requested.is_some();
                if requested && error.kind == FailureKind::Cancelled {
                    TurnEnd::Cancelled(error.message.clone())
                } else {
                    TurnEnd::Failed(error.clone())
                }
            }
            EventKind::ContinuedAsNew { input, version } => TurnEnd::ContinuedAsNew {
                input: input.clone(),
                version: version.clone(),
                carried: self.event_buffers.drain(),
                cancel: self.cancel.requested.take().filter(|_| !self.cancel.seen),
            },
            _ => TurnEnd::Open,
        }
    }
}
