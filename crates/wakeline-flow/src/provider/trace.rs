//! What is left of fetches whose callers have gone.
//!
//! # Where it sits
//! A fetch takes a [`Trace`] along: in what it asks the hub for, in the claims and commits that
//! lease for it, in what they leased. Whoever shuts a runtime down waits in [`Traces::gone`].
//!
//! # Invariants
//! * A trace ends when its fetch can get nothing any more and what it got is handed over or given
//!   back.
//! * Waiting for traces waits for fetches that have ended, never for anybody else's work.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Lives as long as anything of a fetch.
#[derive(Debug, Clone)]
pub struct Trace {
    _last: Arc<DropGuard>,
}

/// The traces of fetches that have ended.
#[derive(Default)]
pub(super) struct Traces {
    left: Mutex<Vec<CancellationToken>>,
}

/// A fetch that is being waited for. If it ends or is dropped with nothing to hand over, its trace
/// is looked after.
pub(super) struct Fetch<'a> {
    traces: &'a Traces,
    gone: Option<CancellationToken>,
}

impl Traces {
    /// A fetch begins.
    pub(super) fn fetch(&self) -> (Fetch<'_>, Trace) {
        let gone = CancellationToken::new();
        let trace = Trace { _last: Arc::new(gone.clone().drop_guard()) };
        (Fetch { traces: self, gone: Some(gone) }, trace)
    }

    /// Waits until nothing is left of the fetches that have ended by now.
    pub(super) async fn gone(&self) {
        let left = self.left.lock().clone();
        for gone in left {
            gone.cancelled().await;
        }
    }
}

impl Fetch<'_> {
    /// What it got goes to its caller.
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
    fn what_is_waited_for_is_what_ended_fetches_left_behind() {
        let traces = Traces::default();
        let is_gone = || traces.gone().now_or_never().is_some();
        let (waiting, trace) = traces.fetch();
        let claimed = trace.clone();
        assert!(is_gone(), "it is still waited for by its caller");
        drop((waiting, trace));
        assert!(!is_gone(), "something was claimed for it");
        let (handed_over, _at_its_caller) = traces.fetch();
        handed_over.handed_over();
        let (in_vain, trace) = traces.fetch();
        drop(trace);
        drop(in_vain);
        assert_eq!(traces.left.lock().len(), 1);
        drop(claimed);
        assert!(is_gone());
    }
}
