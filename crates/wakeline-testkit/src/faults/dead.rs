//! Calls of dead letters, with planned faults.

use async_trait::async_trait;
use wakeline_core::{Change, RedriveId};
use wakeline_store::{
    Backend, DeadLetterFilter, DeadLetters, Page, QueueBackgroundReport, QueueDeadLetters, Redrive,
    RedriveJob, StoreError,
};

use super::FaultingStore;

passes! { QueueDeadLetters:
    fn dead_letters(filter: DeadLetterFilter, page: Page) -> DeadLetters;
    fn purge_dead_letters(filter: DeadLetterFilter) -> u64;
    fn start_redrive(redrive: Redrive) -> (RedriveJob, Vec<Change>);
    fn redrive_job(job: RedriveId) -> Option<RedriveJob>;
    fn cancel_redrive(job: RedriveId) -> Option<RedriveJob>;
    fn run_queue_background(rows: u32) -> QueueBackgroundReport;
}
