//! Dead letters.

use async_trait::async_trait;
use wakeline_core::{Change, RedriveId};
use wakeline_store::{
    DeadLetterFilter, DeadLetters, Page, QueueChores, QueueDeadLetters, Redrive, RedriveJob,
    StoreError, WholeStore,
};

use super::FaultingStore;

passes! { QueueDeadLetters:
    fn dead_letters(filter: DeadLetterFilter, page: Page) -> DeadLetters;
    fn purge_dead_letters(filter: DeadLetterFilter) -> u64;
    fn start_redrive(redrive: Redrive) -> (RedriveJob, Vec<Change>);
    fn redrive_job(job: RedriveId) -> Option<RedriveJob>;
    fn cancel_redrive(job: RedriveId) -> Option<RedriveJob>;
    fn do_queue_chores(rows: u32) -> QueueChores;
}
