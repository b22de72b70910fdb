//! How much room a queue has for pushes, and where those go that name no partition.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};

use crate::error::StoreError;

/// What a queue's owner lets producers fill, and how full it is.
///
/// A partition is as full as the group that is furthest behind in it: what that one has yet to
/// read or to settle. Without any group it is full of all that it stores. Messages that wait for
/// their time, or for the end of a maintenance, count as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    /// Most messages of the queue; 0: no limit.
    pub len_max: u64,
    /// Most messages of each partition; 0: no limit.
    pub partition_len_max: u64,
    /// Lanes for pushes that name no partition; 0: none.
    pub lanes: u32,
    /// Messages of the queue, all partitions together. Counted only under a limit.
    pub len: u64,
    /// Messages of each partition that was asked for, in order. Counted only under a limit for
    /// partitions; otherwise there are none.
    pub partition_lens: Vec<u64>,
}

/// How much room queues have.
#[async_trait]
pub trait QueueRoom: Send + Sync {
    /// How much room a queue has, and some of its partitions. `None` if it does not exist.
    async fn room(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<Room>, StoreError>;
}
