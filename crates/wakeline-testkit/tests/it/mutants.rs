//! Stores that break one rule each: the differential run must catch every one.

mod dead;
mod maintenance;
mod messages;
mod room;
mod stats;
mod tally;
mod timers;
mod traces;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, GroupName, LeaseId, PartitionId, QueueLine, QueueName, TransactionId};
use wakeline_store::{
    ConfigureQueue, DeliveryOutcome, Extension, GroupDetail, GroupPartition, GroupPartitionFilter,
    HintFeed, HintSink, Housekeeping, HousekeepingReport, LedgerEntry, LineClaim, LineOutcome,
    Losses, MessageDetail, PatchQueue, PushItem, PushReply, QueueAdmin, QueueDetail, QueueGroups,
    QueueKeeper, QueueSchedule, QueueStore, ScheduledFilter, ScheduledMessage, Seek, SettleItem,
    SettleReply, Store, StoreAdmin, StoreError, StoreInfo, TransactCommand, TransactReply,
};
use wakeline_testkit::conformance::StoreUnderTest;
use wakeline_testkit::oracle::MemoryStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sin {
    /// Settling and releasing tell nobody.
    TellsNobody,
    /// Empty claims see nothing coming.
    SeesNothingComing,
    /// Sweeps see nothing coming.
    SweepsNothing,
    /// Every delivery is said to be the first.
    ForgetsAttempts,
    /// A settlement needs no lease.
    BelievesZombies,
    /// Of a batch that is settled the last is forgotten.
    ForgetsTheLast,
    /// A released lease is not given back.
    KeepsReleased,
    /// The pushes of a refused transaction stay.
    TransactsByHalves,
    /// Dead letters are not kept.
    LosesDeadLetters,
    /// What is redriven loses its dead letter and is not delivered.
    RedrivesNowhere,
    /// Nobody hears of what is redriven.
    RedrivesQuietly,
    /// What is past its ttl is delivered.
    DeliversTheExpired,
    /// What waited too long is delivered.
    EvictsNothing,
    /// Messages are removed before they are settled.
    RemovesTheUnread,
    /// Messages are never removed.
    RemovesNothing,
    /// Losses are not counted.
    CountsNoLosses,
    /// A queue seems to have more room than it has.
    SeesTooMuchRoom,
    /// A cancelled timer comes all the same.
    DeliversCancelled,
    /// What is scheduled comes a second later than it says.
    SchedulesLate,
    /// Nobody hears of what is retried by hand.
    IntervenesQuietly,
    /// What is leased is said to be pending.
    CountsLeasedAsPending,
    /// What was given up is said to be completed.
    CountsDeadAsCompleted,
    /// Nobody has anything to do.
    SeesNoDepth,
    /// Deliveries whose lease ran out are not in the ledger.
    ForgetsExpiries,
    /// What failed is acked by the ledger.
    CallsFailuresAcked,
    /// A message does not tell its last errors.
    ForgetsErrors,
    /// What is held back is delivered.
    DeliversTheHeld,
    /// A pause is told of, but not held to.
    PausesNothing,
    /// What is deleted goes for those who name no group, and stays for others.
    DeletesForOneGroup,
    /// Nobody hears of what a deleted message held up.
    DeletesQuietly,
    /// What was deleted stays in the lag.
    CountsTheDeleted,
}

const SINS: [Sin; 31] = [
    Sin::TellsNobody,
    Sin::SeesNothingComing,
    Sin::SweepsNothing,
    Sin::ForgetsAttempts,
    Sin::BelievesZombies,
    Sin::ForgetsTheLast,
    Sin::KeepsReleased,
    Sin::TransactsByHalves,
    Sin::LosesDeadLetters,
    Sin::RedrivesNowhere,
    Sin::RedrivesQuietly,
    Sin::DeliversTheExpired,
    Sin::EvictsNothing,
    Sin::RemovesTheUnread,
    Sin::RemovesNothing,
    Sin::CountsNoLosses,
    Sin::SeesTooMuchRoom,
    Sin::DeliversCancelled,
    Sin::SchedulesLate,
    Sin::IntervenesQuietly,
    Sin::CountsLeasedAsPending,
    Sin::CountsDeadAsCompleted,
    Sin::SeesNoDepth,
    Sin::ForgetsExpiries,
    Sin::CallsFailuresAcked,
    Sin::ForgetsErrors,
    Sin::DeliversTheHeld,
    Sin::PausesNothing,
    Sin::DeletesForOneGroup,
    Sin::DeletesQuietly,
    Sin::CountsTheDeleted,
];

struct Sinner {
    inner: Arc<MemoryStore>,
    sin: Sin,
    /// Messages that were deleted.
    deleted: AtomicU64,
}

struct Mutant(Arc<Sinner>);

#[async_trait]
impl StoreUnderTest for Mutant {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.inner.advance(by);
    }
}

#[async_trait]
impl QueueStore for Sinner {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        match self.sin {
            Sin::DeliversTheHeld => self.push_past(items).await,
            _ => self.inner.push(items).await,
        }
    }

    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        if self.sin == Sin::TransactsByHalves {
            self.inner.push(command.pushes.clone()).await?;
        }
        match self.sin {
            Sin::DeliversCancelled => self.keep_cancelled(command).await,
            Sin::SchedulesLate => self.schedule_late(command).await,
            _ => self.inner.transact(command).await,
        }
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        let mut outcomes = match self.sin {
            Sin::PausesNothing => self.claim_past(lines).await?,
            _ => self.inner.claim(lines).await?,
        };
        for outcome in &mut outcomes {
            if self.sin == Sin::SeesNothingComing {
                outcome.next_due = None;
            }
            if self.sin == Sin::ForgetsAttempts {
                let grants = outcome.grants.iter_mut().flatten();
                let partitions = grants.flat_map(|grant| &mut grant.partitions);
                partitions.flat_map(|p| &mut p.messages).for_each(|message| message.attempt = 1);
            }
        }
        Ok(outcomes)
    }

    async fn settle(&self, mut items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        if self.sin == Sin::BelievesZombies {
            for item in &mut items {
                let lease = self.inner.live_token(item.partition, &item.group);
                item.token = lease.or(item.token);
            }
        }
        let last = items.len().saturating_sub(1);
        if self.sin == Sin::ForgetsTheLast && last > 0 {
            let forgotten = items.split_off(last);
            let mut reply = self.inner.settle(items).await?;
            reply.outcomes.push(reply.outcomes[0].clone());
            drop(forgotten);
            return Ok(reply);
        }
        let mut reply = self.inner.settle(items).await?;
        if self.sin == Sin::TellsNobody {
            reply.changes.clear();
        }
        Ok(reply)
    }

    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        self.inner.extend(lease, span).await
    }

    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        if self.sin == Sin::KeepsReleased {
            return Ok(Vec::new());
        }
        self.inner.release(leases).await
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        if self.sin == Sin::SweepsNothing {
            return Ok(vec![None; lines.len()]);
        }
        self.inner.sweep(lines).await
    }
}

#[async_trait]
impl QueueSchedule for Sinner {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        self.inner.scheduled(filter).await
    }
}

#[async_trait]
impl QueueAdmin for Sinner {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        let mut sinful = command.clone();
        match self.sin {
            Sin::DeliversTheExpired => sinful.options.ttl_secs = 0,
            Sin::EvictsNothing => sinful.options.wait_secs_max = 0,
            Sin::RemovesTheUnread => {
                sinful.options.retention_secs = sinful.options.completed_retention_secs;
            }
            _ => {}
        }
        let (mut detail, changes) = self.inner.configure(sinful).await?;
        detail.options = command.options;
        Ok((detail, changes))
    }

    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError> {
        self.inner.patch(command).await
    }

    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        self.inner.queue(queue).await
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        self.inner.delete_queue(queue).await
    }

    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError> {
        let mut detail = self.inner.message(partition, transaction_id).await?;
        if self.sin == Sin::ForgetsErrors {
            detail.iter_mut().for_each(|detail| detail.errors.clear());
        }
        for ledger in detail.iter_mut().map(|detail| &mut detail.ledger) {
            match self.sin {
                Sin::ForgetsExpiries => ledger.retain(|e| e.outcome != DeliveryOutcome::Expired),
                Sin::CallsFailuresAcked => {
                    let failed = |e: &&mut LedgerEntry| e.outcome == DeliveryOutcome::Failed;
                    ledger.iter_mut().filter(failed).for_each(|entry| {
                        entry.outcome = DeliveryOutcome::Acked;
                    });
                }
                _ => {}
            }
        }
        Ok(detail)
    }
}

#[async_trait]
impl QueueGroups for Sinner {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        let mut groups = self.inner.groups(group).await?;
        if self.sin == Sin::CountsTheDeleted {
            let deleted = self.deleted.load(Ordering::Relaxed);
            groups.iter_mut().for_each(|group| group.lag += deleted);
        }
        Ok(groups)
    }

    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.inner.group_partitions(filter).await
    }

    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.inner.lagging(behind, filter).await
    }

    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        self.inner.delete_group(group, queue).await
    }

    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError> {
        self.inner.seek(seek).await
    }
}

#[async_trait]
impl QueueKeeper for Sinner {
    async fn housekeep(&self, how: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        match self.sin {
            Sin::RemovesNothing => Ok(HousekeepingReport::default()),
            _ => self.inner.housekeep(how).await,
        }
    }

    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        match self.sin {
            Sin::CountsNoLosses => Ok(Losses::default()),
            _ => self.inner.losses(queue).await,
        }
    }
}

#[async_trait]
impl HintFeed for Sinner {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.inner.feed(sink, shutdown).await;
    }
}

#[async_trait]
impl StoreAdmin for Sinner {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[test]
fn every_broken_store_is_caught() {
    for sin in SINS {
        let run = || {
            wakeline_testkit::differential::run_at_least(20_000, async || {
                let (inner, deleted) = (Arc::new(MemoryStore::new()), AtomicU64::new(0));
                Mutant(Arc::new(Sinner { inner, sin, deleted }))
            });
        };
        let caught =
            catch_unwind(AssertUnwindSafe(run)).expect_err(&format!("{sin:?} must be caught"));
        let text = caught.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains("WAKELINE_SEED="), "{sin:?} is caught as: {text}");
        assert!(text.contains("smallest sequence"), "{sin:?} is caught as: {text}");
    }
}
