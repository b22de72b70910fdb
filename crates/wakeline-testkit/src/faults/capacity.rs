//! Calls of the capacity of queues, with planned faults.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueCapacities, QueueCapacity, StoreError};

use super::FaultingStore;

#[async_trait]
impl QueueCapacities for FaultingStore {
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError> {
        self.call("capacity", self.inner.capacity(queue, partitions)).await
    }
}
