//! An operation that has been started.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use crate::engine::state::{At, ExecutionShared, Outcome};
use crate::error::FlowError;
use crate::event::EventKind;

/// An operation that has been started. Dropping it before it has ended records its cancellation.
pub(super) struct OperationHandle {
    shared: Arc<ExecutionShared>,
    at: At,
    id: u64,
}

impl OperationHandle {
    /// Starts an operation. Returns `None` if the execution is over and will not continue.
    pub(super) fn open(shared: &Arc<ExecutionShared>, at: At, kind: EventKind) -> Option<Self> {
        let id = shared.decide(at, kind)?;
        Some(Self { shared: Arc::clone(shared), at, id })
    }

    /// Returns the operation that an event started.
    pub(super) fn of(shared: &Arc<ExecutionShared>, at: At, id: u64) -> Self {
        Self { shared: Arc::clone(shared), at, id }
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Outcome> {
        let polled = self.shared.with(self.at, |state| state.poll(self.id, context.waker()));
        polled.unwrap_or(Poll::Pending)
    }
}

impl Drop for OperationHandle {
    fn drop(&mut self) {
        self.shared.release(self.id, self.at);
    }
}

/// Marks a type with the type of its result, without owning a value.
pub(super) type ResultType<T> = PhantomData<fn() -> T>;

/// Decodes the outcome of an operation.
pub(super) fn decode<T: DeserializeOwned>(
    what: impl Display,
    outcome: Outcome,
) -> Result<T, FlowError> {
    outcome?.to().map_err(|error| FlowError::decoding(what, &error))
}
