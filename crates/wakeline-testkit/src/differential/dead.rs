//! Dead letters on both sides.

use std::time::Duration;

use wakeline_core::{Change, RedriveId};
use wakeline_store::{
    DeadLetterFilter, QueueDeadLetters, Redrive, RedriveJob, RedriveState, Store, StoreError,
};

use super::compare::{Comparison, same};
use super::world::{QueueWorld, failed};

/// The number of dead letters that one step of a job takes.
const ROWS: u32 = 3;

impl QueueWorld<'_> {
    /// Runs a redrive job to its end on both sides.
    pub(super) async fn redrive(
        &mut self,
        queue: usize,
        group: Option<usize>,
    ) -> Result<Vec<Change>, String> {
        let redrive = Redrive {
            id: RedriveId::generate(),
            filter: self.dead_filter(queue, group),
            to_queue: None,
            rate: None,
        };
        let (oracle, _) = run(&self.oracle, &redrive).await.map_err(failed)?;
        let store: &dyn Store = self.store.as_ref();
        let (store, changes) = run(store, &redrive).await.map_err(failed)?;
        let counts = |job: &RedriveJob| (job.state, job.total, job.done, job.failed);
        same("redrive (state, total, done, failed)", counts(&oracle), counts(&store))?;
        Ok(changes)
    }

    pub(super) async fn purge(&mut self, queue: usize, group: usize) -> Comparison {
        let filter = self.dead_filter(queue, Some(group));
        let oracle = self.oracle.purge_dead_letters(filter.clone()).await.map_err(failed)?;
        let store = self.store.purge_dead_letters(filter).await.map_err(failed)?;
        same("purged dead letters", oracle, store)
    }

    fn dead_filter(&self, queue: usize, group: Option<usize>) -> DeadLetterFilter {
        DeadLetterFilter {
            queue: Some(self.names.queues[queue].clone()),
            group: group.map(|group| self.names.groups[group].clone()),
            ..Default::default()
        }
    }
}

async fn run<S: QueueDeadLetters + ?Sized>(
    store: &S,
    redrive: &Redrive,
) -> Result<(RedriveJob, Vec<Change>), StoreError> {
    let (mut job, _) = store.start_redrive(redrive.clone()).await?;
    let mut changes = Vec::new();
    while job.state == RedriveState::Running {
        let step = store.run_queue_background(ROWS).await?;
        changes.extend(step.changes);
        job = store.redrive_job(redrive.id).await?.unwrap_or(job);
        if step.next_due.is_none_or(|due| due > Duration::ZERO) {
            break;
        }
    }
    Ok((job, changes))
}
