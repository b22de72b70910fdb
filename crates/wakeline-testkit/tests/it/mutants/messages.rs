//! Manual operations on messages, with mutations.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use wakeline_core::{Change, GroupName, PartitionName, QueueName};
use wakeline_store::{
    BrowsePosition, Intervention, InterventionOutcome, ListedMessages, MessageFilter, MessageKey,
    Page, PartitionDetail, QueueMessages, StoreError,
};

use super::{MutantQueueStore, QueueMutation};

#[async_trait]
impl QueueMessages for MutantQueueStore {
    async fn browse(
        &self,
        filter: MessageFilter,
        place: Option<BrowsePosition>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError> {
        self.inner.browse(filter, place, limit).await
    }

    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(InterventionOutcome, Vec<Change>), StoreError> {
        let mut done = self.inner.intervene(message, group, intervention).await?;
        if self.mutation == QueueMutation::IntervenesWithoutNotification {
            done.1.clear();
        }
        Ok(done)
    }

    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError> {
        self.deleted.fetch_add(1, Ordering::Relaxed);
        if self.mutation == QueueMutation::DeletesForOneGroup {
            let (group, bury) = (GroupName::queue_mode(), Intervention::GiveUp { error: None });
            let (outcome, changes) = self.inner.intervene(message, &group, bury).await?;
            return Ok((outcome != InterventionOutcome::Missing, changes));
        }
        let (existed, mut changes) = self.inner.delete_message(message).await?;
        if self.mutation == QueueMutation::DeletesWithoutNotification {
            changes.clear();
        }
        Ok((existed, changes))
    }

    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        self.inner.clear_queue(queue, dead_letters).await
    }

    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        self.inner.clear_partition(queue, partition, dead_letters).await
    }

    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError> {
        self.inner.delete_partition(queue, partition).await
    }

    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError> {
        self.inner.partitions(queue, page).await
    }
}
