//! The capacity of queues, with a mutation.

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueCapacities, QueueCapacity, StoreError};

use super::{MutantQueueStore, QueueMutation};

#[async_trait]
impl QueueCapacities for MutantQueueStore {
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError> {
        let capacity = self.inner.capacity(queue, partitions).await?;
        if self.mutation == QueueMutation::ReportsTooMuchCapacity {
            return Ok(
                capacity.map(|capacity| QueueCapacity { len: capacity.len.min(1), ..capacity })
            );
        }
        Ok(capacity)
    }
}
