//! How queues stand: passed on.

use async_trait::async_trait;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{
    DeadLetterError, Depth, Page, PartitionTally, QueueTallies, QueueTally, StoreError,
};

use super::slow::SlowStore;

#[async_trait]
impl QueueTallies for SlowStore {
    async fn queue_tallies(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueTally>, StoreError> {
        self.0.queue_tallies(queue, page).await
    }

    async fn partition_tallies(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionTally>, StoreError> {
        self.0.partition_tallies(queue, page).await
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
