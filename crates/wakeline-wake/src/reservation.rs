//! A parked poll that a write can serve in its own commit.

use std::sync::Arc;

use crate::api::Api;
use crate::core::ReservedWaiter;
use crate::hub::HubInner;

/// A parked poll that is reserved for a write. If it is dropped without being served, the poll
/// returns to its place among the parked.
pub struct Reservation<F: Api> {
    inner: Arc<HubInner<F>>,
    /// `None` once the poll has been served.
    held: Option<ReservedWaiter<F>>,
}

impl<F: Api> Reservation<F> {
    pub(crate) fn new(inner: Arc<HubInner<F>>, reserved: ReservedWaiter<F>) -> Self {
        Self { inner, held: Some(reserved) }
    }

    /// Returns the line that the poll waits in.
    pub fn line(&self) -> &F::Line {
        &self.held().line
    }

    /// Returns what the poll can take.
    pub fn request(&self) -> &F::Request {
        &self.held().request
    }

    /// Hands the poll what the write leased to it. The lease is released if the caller has gone.
    pub fn serve(mut self, result: F::ClaimResult) {
        if let Some(reserved) = self.held.take() {
            self.inner.step(|state| state.core.unreserve(reserved, Some(result)));
        }
    }

    fn held(&self) -> &ReservedWaiter<F> {
        self.held.as_ref().expect("held until it is served or dropped")
    }
}

impl<F: Api> Drop for Reservation<F> {
    fn drop(&mut self) {
        if let Some(reserved) = self.held.take() {
            self.inner.step(|state| state.core.unreserve(reserved, None));
        }
    }
}
