//! Dead letters, with one rule broken.

use async_trait::async_trait;
use wakeline_core::{Change, RedriveId};
use wakeline_store::{
    DeadLetterFilter, DeadLetters, Page, QueueChores, QueueDeadLetters, Redrive, RedriveJob,
    StoreError,
};

use super::{Sin, Sinner};

#[async_trait]
impl QueueDeadLetters for Sinner {
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError> {
        if self.sin == Sin::LosesDeadLetters {
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
        if self.sin == Sin::RedrivesNowhere {
            self.inner.purge_dead_letters(redrive.filter).await?;
        }
        Ok(started)
    }

    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        let job = self.inner.redrive_job(job).await?;
        Ok(job.map(|job| match self.sin {
            Sin::RedrivesNowhere => RedriveJob { done: job.total, failed: 0, ..job },
            _ => job,
        }))
    }

    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        self.inner.cancel_redrive(job).await
    }

    async fn do_queue_chores(&self, rows: u32) -> Result<QueueChores, StoreError> {
        let mut done = self.inner.do_queue_chores(rows).await?;
        if self.sin == Sin::RedrivesQuietly {
            done.changes.clear();
        }
        Ok(done)
    }
}
