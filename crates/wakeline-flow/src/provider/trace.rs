//! Tracks what fetches leave behind when their callers have gone.
//!
//! # Where it sits
//! Every fetch has a [`FetchTrace`]. Copies of it are in the request to the hub, in the claims and
//! commits that lease something for the fetch, and in what they leased. A runtime that shuts down
//! waits in [`FetchTraces::gone`].
//!
//! # Invariants
//! * A trace ends when its fetch cannot get anything more, and what it got has been handed over or
//!   given back.
//! * Waiting for traces waits only for fetches that have ended, not for those of other callers.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Marks one part of a fetch; the trace ends when the last copy is dropped.
#[derive(Debug, Clone)]
pub struct FetchTrace {
    _last: Arc<DropGuard>,
}

/// The traces of fetches that have ended and may still hold a lease.
#[derive(Default)]
pub(super) struct FetchTraces {
    left: Mutex<Vec<CancellationToken>>,
}

/// A fetch that its caller waits for. If it ends or is dropped without a result, its trace is added
/// to those that [`FetchTraces::gone`] waits for.
pub(super) struct Fetch<'a> {
    traces: &'a FetchTraces,
    gone: Option<CancellationToken>,
}

impl FetchTraces {
    /// Begins a fetch, and returns its trace.
    pub(super) fn fetch(&self) -> (Fetch<'_>, FetchTrace) {
        let gone = CancellationToken::new();
        let trace = FetchTrace { _last: Arc::new(gone.clone().drop_guard()) };
        (Fetch { traces: self, gone: Some(gone) }, trace)
    }

    /// Waits until the traces of all fetches that have ended by now have ended too.
    pub(super) async fn gone(&self) {
        let left = self.left.lock().clone();
        for gone in left {
            gone.cancelled().await;
        }
    }
}

impl Fetch<'_> {
    /// Records that the result was handed to the caller.
    pub(super) fn handed_over(mut self) {
        self.gone = None;
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let Some(gone) = self.gone.take() else { return };
        if gone.is_cancelled() {
            return;
        }
        let mut left = self.traces.left.lock();
        left.retain(|gone| !gone.is_cancelled());
        left.push(gone);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn only_traces_of_ended_fetches_are_awaited() {
        let traces = FetchTraces::default();
        let is_gone = || traces.gone().now_or_never().is_some();
        let (waiting, trace) = traces.fetch();
        let claimed = trace.clone();
        assert!(is_gone(), "its caller still waits for it");
        drop((waiting, trace));
        assert!(!is_gone(), "something was claimed for it");
        let (handed_over, _at_its_caller) = traces.fetch();
        handed_over.handed_over();
        let (empty, trace) = traces.fetch();
        drop(trace);
        drop(empty);
        assert_eq!(traces.left.lock().len(), 1);
        drop(claimed);
        assert!(is_gone());
    }
}
