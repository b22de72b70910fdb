//! The room of queues, failing when told to.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueRoom, Room, StoreError};

use super::FaultingStore;

#[async_trait]
impl QueueRoom for FaultingStore {
    async fn room(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<Room>, StoreError> {
        self.call("room", self.inner.room(queue, partitions)).await
    }
}
