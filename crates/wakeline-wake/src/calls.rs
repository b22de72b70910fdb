//! The store calls that the hub makes for its waiters, each a task of its own.
//!
//! # Invariants
//! * The core hears of the end of every call, also of one that panics or whose runtime ends.

use std::error::Error;
use std::sync::Arc;

use wakeline_core::error_chain;

use crate::core::{CallId, Core};
use crate::face::Face;
use crate::hub::{Claims, Inner};

/// Claims for waiters, and tells the core what they got.
pub(crate) async fn claim<F: Face>(inner: Arc<Inner<F>>, call: CallId, claims: Claims<F>) {
    let lost = Lost { inner, tell: Some(move |core: &mut Core<F>| core.claim_failed(call, None)) };
    let outcome = lost.inner.face.claim(claims).await;
    let inner = lost.arrived();
    if let Err(error) = &outcome
        && !inner.mode.uses_hints()
    {
        let error = words(error.clone());
        tracing::warn!(face = inner.label, error, "a claim failed");
    }
    inner.step(|state| match outcome {
        Ok(claimed) => state.core.claimed(call, claimed),
        Err(error) => state.core.claim_failed(call, Some(error)),
    });
}

/// A failure with all its causes.
pub(crate) fn words(error: impl Into<Box<dyn Error + Send + Sync>>) -> String {
    error_chain(&*error.into())
}

/// Asks when lines have something, and tells the core.
pub(crate) async fn sweep<F: Face>(inner: Arc<Inner<F>>, lines: Vec<F::Line>) {
    let lost = Lost { inner, tell: Some(|core: &mut Core<F>| core.sweep_failed(None)) };
    let outcome = lost.inner.face.sweep(lines).await;
    lost.arrived().step(|state| match outcome {
        Ok(due) => state.core.swept(due),
        Err(error) => state.core.sweep_failed(Some(&error)),
    });
}

/// Tells the core if a store call never comes to an end, because it panics or its runtime ends.
struct Lost<F: Face, T: FnOnce(&mut Core<F>)> {
    inner: Arc<Inner<F>>,
    tell: Option<T>,
}

impl<F: Face, T: FnOnce(&mut Core<F>)> Lost<F, T> {
    fn arrived(mut self) -> Arc<Inner<F>> {
        self.tell = None;
        Arc::clone(&self.inner)
    }
}

impl<F: Face, T: FnOnce(&mut Core<F>)> Drop for Lost<F, T> {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            self.inner.step(|state| tell(&mut state.core));
        }
    }
}
