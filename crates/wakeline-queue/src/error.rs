//! The errors of queue operations.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{PartitionName, QueueName};
use wakeline_store::StoreError;

/// The reason why a queue operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// As many consumers are parked as this node allows. Try again later.
    #[error("too many consumers are waiting on this node: try again later, or on another node")]
    TooManyWaiters {
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// A queue, or one of its partitions, holds as many messages as its limit allows. Nothing was
    /// stored. Try again later.
    #[error(
        "queue {queue} is full{}, and nothing was stored: try again when its consumers have \
         caught up",
        in_partition(.partition.as_ref())
    )]
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// The partition, if it is the one that is full.
        partition: Option<PartitionName>,
        /// The time to wait before the next attempt.
        retry_after: Duration,
    },
    /// The store call failed.
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

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::error_chain;

    #[test]
    fn every_error_names_what_is_wrong_and_what_to_do() {
        let retry_after = Duration::from_secs(1);
        let queue = QueueName::new("orders").expect("a name");
        let partition = Some(PartitionName::new("eu").expect("a name"));
        let full =
            |partition| QueueError::QueueFull { queue: queue.clone(), partition, retry_after };
        let store = StoreError::Fatal { operation: "push", source: "the driver's words".into() };
        for (error, words) in [
            (full(None), &["queue orders is full, and nothing was stored", "try again"][..]),
            (full(partition), &["queue orders is full in partition eu", "try again"]),
            (QueueError::TooManyWaiters { retry_after }, &["try again later", "another node"]),
            (QueueError::from(store), &["\"push\" failed", "the driver's words"]),
        ] {
            let text = error_chain(&error);
            assert!(words.iter().all(|word| text.contains(word)), "{text:?} lacks {words:?}");
        }
    }
}
