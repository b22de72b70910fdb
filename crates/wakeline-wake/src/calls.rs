//! The store calls that the hub makes for its waiters. Each of them is a task of its own.
//!
//! # Invariants
//! * The end of every call is reported to the core, also if the call panics or its runtime ends.

use std::error::Error;
use std::sync::Arc;

use wakeline_core::error_chain;

use crate::api::Api;
use crate::core::{CallId, WakeCore};
use crate::hub::{HubInner, LineClaims};

/// Claims for waiters, and reports to the core what they got.
pub(crate) async fn claim<F: Api>(inner: Arc<HubInner<F>>, call: CallId, claims: LineClaims<F>) {
    let lost = CallGuard {
        inner,
        input: Some(move |core: &mut WakeCore<F>| core.claim_failed(call, None)),
    };
    let outcome = lost.inner.api.claim(claims).await;
    let inner = lost.arrived();
    if let Err(error) = &outcome
        && !inner.mode.uses_hints()
    {
        let error = error_text(error.clone());
        tracing::warn!(api = inner.label, error, "a claim in poll mode failed");
    }
    inner.step(|state| match outcome {
        Ok(claimed) => state.core.claimed(call, claimed),
        Err(error) => state.core.claim_failed(call, Some(error)),
    });
}

/// Returns an error with all its causes as text.
pub(crate) fn error_text(error: impl Into<Box<dyn Error + Send + Sync>>) -> String {
    error_chain(&*error.into())
}

/// Reads when lines have something, and reports it to the core.
pub(crate) async fn sweep<F: Api>(inner: Arc<HubInner<F>>, lines: Vec<F::Line>) {
    let lost = CallGuard { inner, input: Some(|core: &mut WakeCore<F>| core.sweep_failed(None)) };
    let outcome = lost.inner.api.sweep(lines).await;
    lost.arrived().step(|state| match outcome {
        Ok(due) => state.core.swept(due),
        Err(error) => state.core.sweep_failed(Some(&error)),
    });
}

/// Reports to the core if a store call is never completed, because it panics or its runtime ends.
struct CallGuard<F: Api, T: FnOnce(&mut WakeCore<F>)> {
    inner: Arc<HubInner<F>>,
    input: Option<T>,
}

impl<F: Api, T: FnOnce(&mut WakeCore<F>)> CallGuard<F, T> {
    fn arrived(mut self) -> Arc<HubInner<F>> {
        self.input = None;
        Arc::clone(&self.inner)
    }
}

impl<F: Api, T: FnOnce(&mut WakeCore<F>)> Drop for CallGuard<F, T> {
    fn drop(&mut self) {
        if let Some(input) = self.input.take() {
            self.inner.step(|state| input(&mut state.core));
        }
    }
}
