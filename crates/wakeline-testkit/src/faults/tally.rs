//! How queues stand, failing when told to.

use async_trait::async_trait;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{
    DeadLetterError, Depth, Page, PartitionTally, QueueTallies, QueueTally, StoreError,
};

use super::FaultingStore;

#[async_trait]
impl QueueTallies for FaultingStore {
    async fn queue_tallies(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueTally>, StoreError> {
        self.call("queue_tallies", self.inner.queue_tallies(queue, page)).await
    }

    async fn partition_tallies(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionTally>, StoreError> {
        self.call("partition_tallies", self.inner.partition_tallies(queue, page)).await
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        self.call("depth", self.inner.depth(queue, group, page)).await
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        self.call("dead_letter_errors", self.inner.dead_letter_errors(newest)).await
    }
}
