//! Tracks the calls between a runtime and its store, so that a test environment knows when it is
//! idle.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wakeline_core::FlowToken;

use super::transitions::TransitionPhase;

/// Counts the calls of a store.
#[derive(Default)]
pub(super) struct CallTracker {
    in_progress: AtomicUsize,
    begun: AtomicU64,
    progress: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
    /// The leases that this process holds.
    held: Mutex<HashSet<FlowToken>>,
    ended: Notify,
    crash_token: CancellationToken,
}

/// A call in progress; it ends when this is dropped.
pub(super) struct CallInProgress(Arc<CallTracker>);

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }
}

impl CallTracker {
    pub(super) fn begin(self: &Arc<Self>) -> CallInProgress {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.in_progress.fetch_add(1, Ordering::SeqCst);
        CallInProgress(Arc::clone(self))
    }

    /// Returns the number of a new transition.
    pub(super) fn count(&self, phase: TransitionPhase) -> u64 {
        let counter = match phase {
            TransitionPhase::Before => &self.before,
            TransitionPhase::After => &self.after,
        };
        counter.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn counted(&self, phase: TransitionPhase) -> u64 {
        match phase {
            TransitionPhase::Before => self.before.load(Ordering::SeqCst),
            TransitionPhase::After => self.after.load(Ordering::SeqCst),
        }
    }

    /// Records that something was written that makes progress.
    pub(super) fn progress(&self) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn progress_count(&self) -> u64 {
        self.progress.load(Ordering::SeqCst)
    }

    /// Returns the number of calls begun so far, or `None` if one is in progress.
    pub(super) fn idle_calls(&self) -> Option<u64> {
        let begun = self.begun.load(Ordering::SeqCst);
        (self.in_progress.load(Ordering::SeqCst) == 0).then_some(begun)
    }

    /// Waits until a call has ended or the timeout expires.
    pub(super) async fn call_ended(&self, timeout: Duration) {
        // The caller looks again in either case.
        let _ = tokio::time::timeout(timeout, self.ended.notified()).await;
    }

    pub(super) fn hold(&self, tokens: impl IntoIterator<Item = FlowToken>) {
        self.held.lock().extend(tokens);
    }

    pub(super) fn release(&self, token: FlowToken) {
        self.held.lock().remove(&token);
    }

    pub(super) fn held(&self) -> Vec<FlowToken> {
        self.held.lock().iter().copied().collect()
    }

    pub(super) fn crash(&self) {
        self.crash_token.cancel();
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.crash_token.is_cancelled()
    }

    pub(super) async fn crashed(&self) {
        self.crash_token.cancelled().await;
    }

    pub(super) async fn hang_if_crashed(&self) {
        if self.is_crashed() {
            pending::<()>().await;
        }
    }
}
