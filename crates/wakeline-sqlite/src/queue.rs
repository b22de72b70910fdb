//! The queue operations: each is one command for the writer, or one read.

pub(crate) mod claim;
pub(crate) mod cursor;
pub(crate) mod gap;
pub(crate) mod group;
pub(crate) mod housekeeping;
pub(crate) mod idle;
pub(crate) mod ledger;
pub(crate) mod line;
pub(crate) mod message;
pub(crate) mod offsets;
pub(crate) mod push;
pub(crate) mod schedule;
pub(crate) mod settle;
pub(crate) mod skip;
pub(crate) mod sweep;
pub(crate) mod take;
pub(crate) mod transact;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, LeaseId, QueueLine, QueueName, error_chain};
use wakeline_store::{
    Extension, Housekeeping, HousekeepingReport, LineClaim, LineOutcome, Losses, PushItem,
    PushReply, QueueKeeper, QueueStore, SettleItem, SettleReply, StoreError, TransactCommand,
    TransactReply,
};

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::hook;
use sweep::Swept;

#[async_trait]
impl QueueStore for SqliteStore {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        let bytes = push::bytes(&items);
        self.write(WriteCommand::new("push", move |s| push::push(s, &items)).growing(bytes)).await
    }

    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        transact::check(&command)?;
        let bytes = transact::bytes(&command);
        let checks = hook::check_emits(self, &command.emits).await?;
        let work = WriteCommand::new("transact", move |s| {
            s.emit_checks.clone_from(&checks);
            transact::transact(s, &command)
        });
        self.write(match bytes {
            Some(bytes) => work.growing(bytes),
            None => work,
        })
        .await
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let work = WriteCommand::new("claim", move |s| claim::claim(s, &lines));
        self.write(work.peeking(move |s| claim::peek(s, &same))).await?.answer()
    }

    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        self.write(WriteCommand::new("settle", move |s| settle::settle(s, &items))).await
    }

    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        self.write(WriteCommand::new("extend", move |s| settle::extend(s, &lease, span))).await
    }

    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        self.write(WriteCommand::new("release", move |s| settle::release(s, &leases))).await
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.tidy();
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let Swept { due, polls_due } = self.read("sweep", move |s| sweep::sweep(s, &same)).await?;
        if polls_due {
            let work = WriteCommand::new("sweep", move |s| idle::record_polls(s, &lines));
            // The due times are known anyway, and the next sweep records the polls.
            if let Err(error) = self.write(work).await {
                tracing::warn!(
                    error = error_chain(&error),
                    "the last poll times of consumer groups could not be recorded"
                );
            }
        }
        Ok(due)
    }
}

#[async_trait]
impl QueueKeeper for SqliteStore {
    async fn housekeep(&self, options: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        let work = WriteCommand::new("housekeep", move |s| housekeeping::housekeep(s, options));
        self.write(work.peeking(move |s| housekeeping::peek(s, options))).await
    }

    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        let queue = queue.clone();
        self.read("losses", move |s| housekeeping::losses(s, &queue)).await
    }
}
