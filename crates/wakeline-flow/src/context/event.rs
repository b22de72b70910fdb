//! Events from outside: waiting for them, and mailboxes.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use super::OrchestrationContext;
use super::ticket::{Gives, Ticket, decode};
use crate::engine::state::{At, Shared};
use crate::error::FlowError;
use crate::event::EventKind;

impl OrchestrationContext {
    /// Waits for the next event of a name. Those that came early were kept; each is taken once,
    /// in order of arrival, by the wait that began first. A wait that is dropped gives its place
    /// up.
    #[track_caller]
    pub fn event<T: DeserializeOwned>(&self, name: impl Into<String>) -> EventWait<T> {
        EventWait {
            shared: Arc::clone(&self.shared),
            at: Location::caller(),
            name: name.into(),
            ticket: None,
            gives: PhantomData,
        }
    }

    /// The events of a name, one after the other.
    pub fn mailbox<T: DeserializeOwned>(&self, name: impl Into<String>) -> Mailbox<T> {
        Mailbox { context: self.clone(), name: name.into(), gives: PhantomData }
    }
}

/// The events of a name: [`OrchestrationContext::mailbox`].
pub struct Mailbox<T> {
    context: OrchestrationContext,
    name: String,
    gives: Gives<T>,
}

impl<T: DeserializeOwned> Mailbox<T> {
    /// Waits for the next event.
    #[track_caller]
    pub fn next(&self) -> EventWait<T> {
        self.context.event(self.name.clone())
    }

    /// The next event, if it has been delivered already.
    #[track_caller]
    pub fn try_next(&self) -> Result<Option<T>, FlowError> {
        let at = Location::caller();
        let taken = self.context.shared.with(at, |state| state.mailboxes.take(&self.name));
        let taken = taken
            .flatten()
            .map(|data| decode(format_args!("the data of event {:?}", self.name), Ok(data)));
        taken.transpose()
    }
}

/// Waits for an event: [`OrchestrationContext::event`].
#[must_use = "a wait begins when it is awaited, or started"]
pub struct EventWait<T> {
    shared: Arc<Shared>,
    at: At,
    name: String,
    ticket: Option<Ticket>,
    gives: Gives<T>,
}

impl<T> EventWait<T> {
    /// Takes a place in the line now, to be awaited later.
    pub fn start(mut self) -> Self {
        self.begin();
        self
    }

    fn begin(&mut self) {
        if self.ticket.is_none() {
            let kind = EventKind::EventAwaited { name: self.name.clone() };
            self.ticket = Ticket::open(&self.shared, self.at, kind);
        }
    }
}

impl<T: DeserializeOwned> Future for EventWait<T> {
    type Output = Result<T, FlowError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.begin();
        let Some(ticket) = &self.ticket else { return Poll::Pending };
        ticket
            .poll(context)
            .map(|outcome| decode(format_args!("the data of event {:?}", self.name), outcome))
    }
}
