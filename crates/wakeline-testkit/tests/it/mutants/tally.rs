//! How queues stand, with one rule broken.

use async_trait::async_trait;
use wakeline_core::{GroupName, QueueName};
use wakeline_store::{
    DeadLetterError, Depth, Page, PartitionTally, QueueTallies, QueueTally, StoreError,
};

use super::{Sin, Sinner};

#[async_trait]
impl QueueTallies for Sinner {
    async fn queue_tallies(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<QueueTally>, StoreError> {
        let mut all = self.inner.queue_tallies(queue, page).await?;
        if self.sin == Sin::CountsLeasedAsPending {
            for one in &mut all {
                one.tally.pending += std::mem::take(&mut one.tally.processing);
            }
        }
        Ok(all)
    }

    async fn partition_tallies(
        &self,
        queue: &QueueName,
        page: Page,
    ) -> Result<Vec<PartitionTally>, StoreError> {
        let mut all = self.inner.partition_tallies(queue, page).await?;
        if self.sin == Sin::CountsDeadAsCompleted {
            all.iter_mut().for_each(|one| one.tally.given_up = 0);
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
        if self.sin == Sin::SeesNoDepth {
            return Ok(depth.map(|_| Depth::default()));
        }
        Ok(depth)
    }

    async fn dead_letter_errors(&self, newest: u32) -> Result<Vec<DeadLetterError>, StoreError> {
        self.inner.dead_letter_errors(newest).await
    }
}
