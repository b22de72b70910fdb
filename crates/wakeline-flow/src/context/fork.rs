//! Continuing as a new execution.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;

use super::OrchestrationContext;
use super::operation::ResultType;
use crate::capability::capability;
use crate::engine::Nondeterminism;
use crate::engine::state::{At, ExecutionShared, place};
use crate::error::FlowError;
use crate::event::EventKind;
use crate::json::Json;

impl OrchestrationContext {
    /// Ends this execution and continues as the next one, with an empty history. The future never
    /// returns, so use it in place of a result: `return ctx.continue_as_new(next).await`. Open
    /// operations are cancelled; events that were not taken, the status text and the key-value
    /// state carry over.
    #[track_caller]
    pub fn continue_as_new<I: Serialize, R>(&self, input: I) -> ContinueAsNew<R> {
        let input =
            Json::of(&input).map_err(|e| FlowError::encoding("the input of continue_as_new", &e));
        ContinueAsNew {
            shared: Arc::clone(&self.shared),
            at: Location::caller(),
            version: None,
            input: Some(input),
            gives: PhantomData,
        }
    }
}

/// Continues as a new execution; see [`OrchestrationContext::continue_as_new`].
#[must_use = "nothing happens before it is awaited"]
pub struct ContinueAsNew<R> {
    shared: Arc<ExecutionShared>,
    at: At,
    version: Option<String>,
    input: Option<Result<Json, FlowError>>,
    gives: ResultType<R>,
}

impl<R> ContinueAsNew<R> {
    /// Sets the version of the code that continues. By default it is the newest of the process that
    /// takes the next turn, but never one older than the running code. Text that cannot be a
    /// version suspends the instance.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Returns an error if no code can have the requested version.
    fn refused(&self) -> Option<Nondeterminism> {
        let version = self.version.as_ref()?;
        let reason = capability(&self.shared.facts.name, Some(version)).err()?.to_string();
        Some(Nondeterminism::Version { at: place(self.at), version: version.clone(), reason })
    }
}

impl<R> Future for ContinueAsNew<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<R> {
        if let Some(nondeterminism) = self.refused() {
            self.shared.with(self.at, |state| {
                state.nondeterminism.get_or_insert(nondeterminism);
            });
            return Poll::Pending;
        }
        let kind = match self.input.take() {
            Some(Ok(input)) => EventKind::ContinuedAsNew { input, version: self.version.take() },
            Some(Err(error)) => EventKind::Failed { error },
            None => return Poll::Pending,
        };
        if self.shared.with(self.at, |_| ()).is_some() {
            self.shared.end(Some(self.at), kind);
        }
        Poll::Pending
    }
}
