//! Why a queue operation failed.

use std::sync::Arc;
use std::time::Duration;

use wakeline_store::StoreError;

/// Why a queue operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// As many consumers are parked as this node allows. Come back after a while.
    #[error("too many consumers are waiting on this node")]
    TooManyWaiters {
        /// When to come back.
        retry_after: Duration,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}
