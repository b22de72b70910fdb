//! A parked poll that a write can serve in its own commit.

use std::sync::Arc;

use crate::core::Reserved;
use crate::face::Face;
use crate::hub::Inner;

/// A parked poll that was set aside for a write. Dropped, it goes back to its place.
pub struct Reservation<F: Face> {
    inner: Arc<Inner<F>>,
    /// `None` once it has been served.
    held: Option<Reserved<F>>,
}

impl<F: Face> Reservation<F> {
    pub(crate) fn new(inner: Arc<Inner<F>>, reserved: Reserved<F>) -> Self {
        Self { inner, held: Some(reserved) }
    }

    /// The line that the poll waits in.
    pub fn line(&self) -> &F::Line {
        &self.held().line
    }

    /// What the poll can take.
    pub fn ask(&self) -> &F::Ask {
        &self.held().ask
    }

    /// Hands the poll what the write leased to it; released if the caller has gone.
    pub fn serve(mut self, grant: F::Grant) {
        if let Some(reserved) = self.held.take() {
            self.inner.step(|state| state.core.unreserve(reserved, Some(grant)));
        }
    }

    fn held(&self) -> &Reserved<F> {
        self.held.as_ref().expect("held until it is served or dropped")
    }
}

impl<F: Face> Drop for Reservation<F> {
    fn drop(&mut self) {
        if let Some(reserved) = self.held.take() {
            self.inner.step(|state| state.core.unreserve(reserved, None));
        }
    }
}
