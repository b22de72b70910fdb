//! Calls of dead letters, with mutations.

use async_trait::async_trait;
use wakeline_core::{Change, RedriveId};
use wakeline_store::{
    DeadLetterFilter, DeadLetters, Page, QueueBackgroundReport, QueueDeadLetters, Redrive,
    RedriveJob, StoreError,
};

use super::{MutantQueueStore, QueueMutation};

#[async_trait]
impl QueueDeadLetters for MutantQueueStore {
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError> {
        if self.mutation == QueueMutation::LosesDeadLetters {
            return Ok(DeadLetters::default());
        }
        self.inner.dead_letters(filter, page).await
    }

    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        self.inner.purge_dead_letters(filter).await
    }

    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError> {
        let started = self.inner.start_redrive(redrive.clone()).await?;
        if self.mutation == QueueMutation::DropsRedrivenMessages {
            self.inner.purge_dead_letters(redrive.filter).await?;
        }
        Ok(started)
    }

    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        let job = self.inner.redrive_job(job).await?;
        Ok(job.map(|job| match self.mutation {
            QueueMutation::DropsRedrivenMessages => {
                RedriveJob { done: job.total, failed: 0, ..job }
            }
            _ => job,
        }))
    }

    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        self.inner.cancel_redrive(job).await
    }

    async fn run_queue_background(&self, rows: u32) -> Result<QueueBackgroundReport, StoreError> {
        let mut done = self.inner.run_queue_background(rows).await?;
        if self.mutation == QueueMutation::RedrivesWithoutNotification {
            done.changes.clear();
        }
        Ok(done)
    }
}
