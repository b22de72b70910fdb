//! What goes on between a runtime and its store: how a test knows that nothing does.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wakeline_core::FlowToken;

use super::transitions::Moment;

/// Counts calls of a store.
#[derive(Default)]
pub(super) struct Pulse {
    under_way: AtomicUsize,
    begun: AtomicU64,
    progress: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
    /// Leases that somebody in this process works under.
    held: Mutex<HashSet<FlowToken>>,
    ended: Notify,
    dead: CancellationToken,
}

/// A call under way.
pub(super) struct UnderWay(Arc<Pulse>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }
}

impl Pulse {
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(Arc::clone(self))
    }

    /// Numbers a transition.
    pub(super) fn count(&self, moment: Moment) -> u64 {
        let counter = match moment {
            Moment::Before => &self.before,
            Moment::After => &self.after,
        };
        counter.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn counted(&self, moment: Moment) -> u64 {
        match moment {
            Moment::Before => self.before.load(Ordering::SeqCst),
            Moment::After => self.after.load(Ordering::SeqCst),
        }
    }

    /// Something was written that brings an instance on.
    pub(super) fn progress(&self) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn progressed(&self) -> u64 {
        self.progress.load(Ordering::SeqCst)
    }

    /// Calls begun so far, if none is under way.
    pub(super) fn at_rest(&self) -> Option<u64> {
        let begun = self.begun.load(Ordering::SeqCst);
        (self.under_way.load(Ordering::SeqCst) == 0).then_some(begun)
    }

    /// Waits until a call has ended, or for a moment.
    pub(super) async fn stirred(&self, patience: Duration) {
        // Out of time is as good: the caller looks again.
        let _ = tokio::time::timeout(patience, self.ended.notified()).await;
    }

    pub(super) fn hold(&self, tokens: impl IntoIterator<Item = FlowToken>) {
        self.held.lock().extend(tokens);
    }

    pub(super) fn let_go(&self, token: FlowToken) {
        self.held.lock().remove(&token);
    }

    pub(super) fn held(&self) -> Vec<FlowToken> {
        self.held.lock().iter().copied().collect()
    }

    pub(super) fn die(&self) {
        self.dead.cancel();
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    pub(super) async fn died(&self) {
        self.dead.cancelled().await;
    }

    pub(super) async fn hang_if_dead(&self) {
        if self.is_dead() {
            pending::<()>().await;
        }
    }
}
