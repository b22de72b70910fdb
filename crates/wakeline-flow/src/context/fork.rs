//! Going on as a new execution.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;

use super::OrchestrationContext;
use super::ticket::Gives;
use crate::capability::capability;
use crate::engine::Foreign;
use crate::engine::state::{At, Shared, place};
use crate::error::FlowError;
use crate::event::EventKind;
use crate::json::Json;

impl OrchestrationContext {
    /// Ends this execution and goes on as the next one, with an empty history. It never returns,
    /// so it stands where the result would: `return ctx.continue_as_new(next).await`. What is open
    /// is given up; events that nobody has taken, the status and the key-value state go on.
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

/// Goes on as a new execution: [`OrchestrationContext::continue_as_new`].
#[must_use = "nothing happens before it is awaited"]
pub struct ContinueAsNew<R> {
    shared: Arc<Shared>,
    at: At,
    version: Option<String>,
    input: Option<Result<Json, FlowError>>,
    gives: Gives<R>,
}

impl<R> ContinueAsNew<R> {
    /// The version of the code that goes on. If none is named, the newest of the process that takes
    /// the next turn, but none that is older than the code that runs now. A text that no version
    /// can be suspends the instance.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// What is wrong with the version, if no code can have it.
    fn refused(&self) -> Option<Foreign> {
        let version = self.version.as_ref()?;
        let reason = capability(&self.shared.about.name, Some(version)).err()?.to_string();
        Some(Foreign::Version { at: place(self.at), version: version.clone(), reason })
    }
}

impl<R> Future for ContinueAsNew<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<R> {
        if let Some(foreign) = self.refused() {
            self.shared.with(self.at, |state| {
                state.foreign.get_or_insert(foreign);
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
