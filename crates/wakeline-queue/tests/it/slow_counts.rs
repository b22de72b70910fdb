//! Counts of queues: all calls are passed on.

use async_trait::async_trait;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{
    CountsStore, DeadLetterError, Depth, Page, PartitionCounts, QueueCounts, StoreError,
};

use super::slow::SlowStore;

#[async_trait]
impl CountsStore for SlowStore {
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError> {
        self.0.queue_counts(queue, page).await
    }

    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError> {
        self.0.partition_counts(queue, page).await
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        self.0.depth(queue, group, page).await
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        self.0.dead_letter_errors(newest).await
    }
}
