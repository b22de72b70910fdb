//! Calls of message counts, with planned faults.

use async_trait::async_trait;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{
    CountsStore, DeadLetterError, Depth, Page, PartitionCounts, QueueCounts, StoreError,
};

use super::FaultingStore;

#[async_trait]
impl CountsStore for FaultingStore {
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError> {
        self.call("queue_counts", self.inner.queue_counts(queue, page)).await
    }

    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError> {
        self.call("partition_counts", self.inner.partition_counts(queue, page)).await
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
