//! Waiting for events that are raised from outside.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use super::OrchestrationContext;
use super::operation::{OperationHandle, ResultType, decode};
use crate::engine::state::{At, ExecutionShared};
use crate::error::FlowError;
use crate::event::EventKind;

impl OrchestrationContext {
    /// Waits for the next event with this name. Events that arrived earlier are buffered. Each
    /// event is delivered once, in order of arrival, to the wait that began first. A wait that is
    /// dropped gives up its place.
    #[track_caller]
    pub fn event<T: DeserializeOwned>(&self, name: impl Into<String>) -> EventWait<T> {
        EventWait {
            shared: Arc::clone(&self.shared),
            at: Location::caller(),
            name: name.into(),
            operation: None,
            gives: PhantomData,
        }
    }

    /// Returns the events with this name as a mailbox, to be read one after the other.
    pub fn mailbox<T: DeserializeOwned>(&self, name: impl Into<String>) -> Mailbox<T> {
        Mailbox { context: self.clone(), name: name.into(), gives: PhantomData }
    }
}

/// The events with one name; see [`OrchestrationContext::mailbox`].
pub struct Mailbox<T> {
    context: OrchestrationContext,
    name: String,
    gives: ResultType<T>,
}

impl<T: DeserializeOwned> Mailbox<T> {
    /// Waits for the next event.
    #[track_caller]
    pub fn next(&self) -> EventWait<T> {
        self.context.event(self.name.clone())
    }

    /// Returns the next event if it has already been delivered.
    #[track_caller]
    pub fn try_next(&self) -> Result<Option<T>, FlowError> {
        let at = Location::caller();
        let taken = self.context.shared.with(at, |state| state.event_buffers.take(&self.name));
        let taken = taken
            .flatten()
            .map(|data| decode(format_args!("the data of event {:?}", self.name), Ok(data)));
        taken.transpose()
    }
}

/// Waits for an event; see [`OrchestrationContext::event`].
#[must_use = "a wait begins when it is awaited, or started"]
pub struct EventWait<T> {
    shared: Arc<ExecutionShared>,
    at: At,
    name: String,
    operation: Option<OperationHandle>,
    gives: ResultType<T>,
}

impl<T> EventWait<T> {
    /// Takes a place in the queue of waits now, to be awaited later.
    pub fn start(mut self) -> Self {
        self.begin();
        self
    }

    fn begin(&mut self) {
        if self.operation.is_none() {
            let kind = EventKind::EventAwaited { name: self.name.clone() };
            self.operation = OperationHandle::open(&self.shared, self.at, kind);
        }
    }
}

impl<T: DeserializeOwned> Future for EventWait<T> {
    type Output = Result<T, FlowError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin();
        let Some(operation) = &self.operation else { return Poll::Pending };
        operation
            .poll(context)
            .map(|outcome| decode(format_args!("the data of event {:?}", self.name), outcome))
    }
}
