//! An operation that has begun.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use crate::engine::state::{At, Outcome, Shared};
use crate::error::FlowError;
use crate::event::EventKind;

/// An operation that has begun. Dropped before its end it decides that it is given up.
pub(super) struct Ticket {
    shared: Arc<Shared>,
    at: At,
    id: u64,
}

impl Ticket {
    /// Begins an operation. Nothing comes back if the execution is over: it will not go on.
    pub(super) fn open(shared: &Arc<Shared>, at: At, kind: EventKind) -> Option<Self> {
        let id = shared.decide(at, kind)?;
        Some(Self { shared: Arc::clone(shared), at, id })
    }

    /// The operation that an event began.
    pub(super) fn of(shared: &Arc<Shared>, at: At, id: u64) -> Self {
        Self { shared: Arc::clone(shared), at, id }
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Outcome> {
        let polled = self.shared.with(self.at, |state| state.poll(self.id, context.waker()));
        polled.unwrap_or(Poll::Pending)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.release(self.id, self.at);
    }
}

/// Remembers a type without owning a value of it.
pub(super) type Gives<T> = PhantomData<fn() -> T>;

/// Decodes what an operation came to.
pub(super) fn decode<T: DeserializeOwned>(what: &str, outcome: Outcome) -> Result<T, FlowError> {
    let wrong = |error| FlowError::codec(&format!("the result of {what}"), &error);
    outcome?.to().map_err(wrong)
}
