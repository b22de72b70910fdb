//! Counts of messages, with mutations.

use async_trait::async_trait;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{
    CountsStore, DeadLetterError, Depth, Page, PartitionCounts, QueueCounts, StoreError,
};

use super::{MutantQueueStore, QueueMutation};

#[async_trait]
impl CountsStore for MutantQueueStore {
    async fn queue_counts(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueCounts>, StoreError> {
        let mut all = self.inner.queue_counts(queue, page).await?;
        if self.mutation == QueueMutation::CountsLeasedAsPending {
            for one in &mut all {
                one.messages.pending += std::mem::take(&mut one.messages.processing);
            }
        }
        Ok(all)
    }

    async fn partition_counts(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionCounts>, StoreError> {
        let mut all = self.inner.partition_counts(queue, page).await?;
        if self.mutation == QueueMutation::CountsDeadAsCompleted {
            all.iter_mut().for_each(|one| one.messages.given_up = 0);
        }
        Ok(all)
    }

    async fn depth(
        &self,
        queue: &QueueName,
        group: Option<&GroupName>,
        page: Page,
    ) -> Result<Option<Depth>, StoreError> {
        let depth = self.inner.depth(queue, group, page).await?;
        if self.mutation == QueueMutation::ReportsNoDepth {
            return Ok(depth.map(|_| Depth::default()));
        }
        Ok(depth)
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        self.inner.dead_letter_errors(newest).await
    }
}
