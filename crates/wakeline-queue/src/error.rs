//! Why a queue operation failed.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{PartitionName, QueueName};
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
    /// A queue, or one of its partitions, holds as many messages as its owner allows. Nothing was
    /// stored. Come back after a while.
    #[error("queue {queue} is full{}", in_partition(.partition.as_ref()))]
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// The partition, if it is the one that is full.
        partition: Option<PartitionName>,
        /// When to come back.
        retry_after: Duration,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

fn in_partition(partition: Option<&PartitionName>) -> String {
    partition.map(|name| format!(" in partition {name}")).unwrap_or_default()
}

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}
