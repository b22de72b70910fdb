//! Cancellation requests, as seen by the code of an orchestration.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::OrchestrationContext;
use crate::engine::state::{At, ExecutionShared};

impl OrchestrationContext {
    /// Waits for a cancellation request, and returns its reason. While such a future exists, a
    /// request does not end the execution: the code cleans up and returns. Without one, and without
    /// [`Self::on_cancel`], a request ends the execution at once and cancels all open operations.
    #[track_caller]
    pub fn cancelled(&self) -> Cancelled {
        let at = Location::caller();
        let waiter = self.shared.with(at, |state| {
            let waiter = state.cancel.waiter_next;
            state.cancel.waiter_next += 1;
            state.cancel.waiters.insert(waiter, None);
            waiter
        });
        Cancelled { shared: Arc::clone(&self.shared), at, waiter }
    }

    /// From now on a cancellation request does not end the execution: the code checks
    /// [`Self::is_cancelled`] or awaits [`Self::cancelled`].
    #[track_caller]
    pub fn on_cancel(&self) {
        self.shared.with(Location::caller(), |state| state.cancel.lasting = true);
    }

    /// Whether cancellation was requested. Only useful after [`Self::on_cancel`] or while a
    /// [`Self::cancelled`] is held: otherwise the request ends the execution.
    #[track_caller]
    pub fn is_cancelled(&self) -> bool {
        let requested = self.shared.with(Location::caller(), |state| {
            let requested = state.cancel.requested.is_some();
            state.cancel.seen |= requested;
            requested
        });
        requested.unwrap_or(false)
    }
}

/// Waits for a cancellation request; see [`OrchestrationContext::cancelled`].
#[must_use = "it only matters while it is held"]
pub struct Cancelled {
    shared: Arc<ExecutionShared>,
    at: At,
    waiter: Option<u64>,
}

impl Future for Cancelled {
    type Output = String;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<String> {
        let Some(waiter) = self.waiter else { return Poll::Pending };
        let polled = self.shared.with(self.at, |state| {
            let cancel = &mut state.cancel;
            if let Some(reason) = &cancel.requested {
                cancel.seen = true;
                return Poll::Ready(reason.clone());
            }
            cancel.waiters.insert(waiter, Some(context.waker().clone()));
            Poll::Pending
        });
        polled.unwrap_or(Poll::Pending)
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            // The waker is dropped after the lock is released, as all wakers are.
            let _waker = self.shared.with(self.at, |state| state.cancel.waiters.remove(&waiter));
        }
    }
}
