//! Redrives and purges dead letters in the oracle and in the store, and compares the results.

use std::time::Duration;

use wakeline_core::{Change, RedriveId};
use wakeline_store::{
    DeadLetterFilter, QueueDeadLetters, Redrive, RedriveJob, RedriveState, Store, StoreError,
};

use super::compare::{Comparison, same};
use super::world::{QueueWorld, failed};

/// The number of dead letters that one background task redrives: few, so that a job needs several.
const REDRIVEN_LEN_MAX: u32 = 3;

impl QueueWorld<'_> {
    /// Runs the same redrive job in the oracle and in the store until it ends.
    pub(super) async fn redrive(
        &mut self,
        queue: usize,
        group: Option<usize>,
    ) -> Result<Vec<Change>, String> {
        let redrive = Redrive {
            id: RedriveId::generate(),
            filter: self.dead_letter_filter(queue, group),
            to_queue: None,
            rate: None,
        };
        let (oracle, _) = run_redrive(&self.oracle, &redrive).await.map_err(failed)?;
        let store: &dyn Store = self.store.as_ref();
        let (store, changes) = run_redrive(store, &redrive).await.map_err(failed)?;
        let compared = |job: &RedriveJob| (job.state, job.total, job.done, job.failed);
        same("redrive (state, total, done, failed)", compared(&oracle), compared(&store))?;
        Ok(changes)
    }

    /// Purges the dead letters of a group.
    pub(super) async fn purge_dead_letters(&mut self, queue: usize, group: usize) -> Comparison {
        let filter = self.dead_letter_filter(queue, Some(group));
        let oracle = self.oracle.purge_dead_letters(filter.clone()).await.map_err(failed)?;
        let store = self.store.purge_dead_letters(filter).await.map_err(failed)?;
        same("purged dead letters", oracle, store)
    }

    fn dead_letter_filter(&self, queue: usize, group: Option<usize>) -> DeadLetterFilter {
        DeadLetterFilter {
            queue: Some(self.names.queues[queue].clone()),
            group: group.map(|group| self.names.groups[group].clone()),
            ..Default::default()
        }
    }
}

/// Starts a redrive job and does background tasks until it has ended. Returns the job, and what the
/// tasks reported as changed.
async fn run_redrive<S: QueueDeadLetters + ?Sized>(
    store: &S,
    redrive: &Redrive,
) -> Result<(RedriveJob, Vec<Change>), StoreError> {
    let (mut job, _) = store.start_redrive(redrive.clone()).await?;
    let mut changes = Vec::new();
    while job.state == RedriveState::Running {
        let task = store.run_queue_background(REDRIVEN_LEN_MAX).await?;
        changes.extend(task.changes);
        job = store.redrive_job(redrive.id).await?.unwrap_or(job);
        // Nothing else is due now, so that the job cannot continue in this call.
        if task.next_due.is_none_or(|due| due > Duration::ZERO) {
            break;
        }
    }
    Ok((job, changes))
}
