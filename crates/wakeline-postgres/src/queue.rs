//! The queue's hot path on PostgreSQL.

use std::sync::Arc;

use crate::Shared;

/// The queue's fusers, SQL texts and caches.
pub(crate) struct Queue {}

impl Queue {
    /// Starts the fusers.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let _ = shared;
        Self {}
    }

    /// Finishes the calls under way.
    pub(crate) async fn close(&self) {}
}
