//! Looking after cancellation in the code.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::OrchestrationContext;
use crate::engine::state::{At, Shared};

impl OrchestrationContext {
    /// Waits until somebody asks for the instance to end, and says why. While such a future
    /// exists, a request ends nothing by itself: the code cleans up and returns. Without one, and
    /// without [`Self::on_cancel`], a request ends the execution at once and gives up all that
    /// is open.
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

    /// From now on requests to cancel end nothing by themselves: the code asks
    /// [`Self::is_cancelled`] or awaits [`Self::cancelled`].
    #[track_caller]
    pub fn on_cancel(&self) {
        self.shared.with(Location::caller(), |state| state.cancel.lasting = true);
    }

    /// Whether somebody asked for the instance to end. Only code that calls [`Self::on_cancel`]
    /// or holds a [`Self::cancelled`] lives to see it.
    #[track_caller]
    pub fn is_cancelled(&self) -> bool {
        let asked = self.shared.with(Location::caller(), |state| {
            let asked = state.cancel.requested.is_some();
            state.cancel.seen |= asked;
            asked
        });
        asked.unwrap_or(false)
    }
}

/// Waits for a request to cancel: [`OrchestrationContext::cancelled`].
#[must_use = "it only matters while it is held"]
pub struct Cancelled {
    shared: Arc<Shared>,
    at: At,
    waiter: Option<u64>,
}

impl Future for Cancelled {
    type Output = String;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<String> {
        let Some(waiter) = self.waiter else { return Poll::Pending };
        let asked = self.shared.with(self.at, |state| {
            let cancel = &mut state.cancel;
            if let Some(reason) = &cancel.requested {
                cancel.seen = true;
                return Poll::Ready(reason.clone());
            }
            cancel.waiters.insert(waiter, Some(context.waker().clone()));
            Poll::Pending
        });
        asked.unwrap_or(Poll::Pending)
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            // Dropped without the lock, as all wakers are.
            let _waker = self.shared.with(self.at, |state| state.cancel.waiters.remove(&waiter));
        }
    }
}
