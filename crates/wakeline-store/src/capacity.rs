//! The length limits of queues, and the lanes for pushes without a partition.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};

use crate::error::StoreError;

/// The length limits of a queue, and its current length.
///
/// The length of a partition is the number of messages that the group furthest behind in it has not
/// read or settled yet. Without any group all stored messages count. Scheduled messages, and
/// messages that are held back during maintenance, count too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueCapacity {
    /// The maximum number of messages of the queue; 0 means no limit.
    pub len_max: u64,
    /// The maximum number of messages of each partition; 0 means no limit.
    pub partition_len_max: u64,
    /// The number of lanes for pushes without a partition; 0 means that there are none.
    pub lanes: u32,
    /// The number of messages of all partitions together. Counted only if the queue has a limit.
    pub len: u64,
    /// The number of messages of each requested partition, in order. Counted only if partitions
    /// have a limit; otherwise empty.
    pub partition_lens: Vec<u64>,
}

/// Read access to the length limits of queues.
#[async_trait]
pub trait QueueCapacities: Send + Sync {
    /// The limits and lengths of a queue and of some of its partitions. `None` if the queue does
    /// not exist.
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError>;
}
