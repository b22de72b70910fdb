//! Mutants of the queue store: each breaks one rule, and the differential run must detect it.

mod capacity;
mod counts;
mod dead;
mod maintenance;
mod messages;
mod stats;
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
enum QueueMutation {
    /// Settlements report no changes, so waiters are not notified.
    NotifiesNoWaiter,
    /// Claims never report a next due time.
    ReportsNoNextDue,
    /// Sweeps report that no line has anything due.
    FindsNothingInSweeps,
    /// Every delivery is reported as the first attempt.
    ReportsEveryAttemptAsFirst,
    /// A settlement is accepted without a valid lease.
    AcceptsStaleTokens,
    /// The last settlement of a call is reported but not applied.
    SkipsLastSettlement,
    /// Releasing a lease has no effect.
    IgnoresRelease,
    /// The pushes of a refused transaction are stored all the same.
    KeepsPushesOfRefusedTransaction,
    /// Dead letters are not listed.
    LosesDeadLetters,
    /// A redrive removes dead letters without delivering their messages.
    DropsRedrivenMessages,
    /// Redrives report no changes.
    RedrivesWithoutNotification,
    /// Messages are delivered after their TTL has passed.
    IgnoresTtl,
    /// Messages that waited too long are delivered instead of evicted.
    IgnoresWaitLimit,
    /// Retention removes messages that were not settled.
    RemovesUnreadMessages,
    /// Housekeeping never removes messages.
    IgnoresRetention,
    /// Losses are not counted.
    ReportsNoLosses,
    /// A queue reports more free capacity than it has.
    ReportsTooMuchCapacity,
    /// A cancelled timer is delivered all the same.
    DeliversCancelledTimers,
    /// Scheduled messages become due one second later than the reply says.
    SchedulesLate,
    /// Manual interventions report no changes.
    IntervenesWithoutNotification,
    /// Leased messages are counted as pending.
    CountsLeasedAsPending,
    /// Messages that were given up are counted as completed.
    CountsDeadAsCompleted,
    /// Every queue reports a depth of zero.
    ReportsNoDepth,
    /// Deliveries whose lease expired are missing from the ledger.
    OmitsExpiriesFromLedger,
    /// Failed deliveries are shown as acked in the ledger.
    RecordsFailuresAsAcked,
    /// The last errors of a message are not shown.
    OmitsErrors,
    /// Pushes that maintenance holds back are delivered.
    DeliversHeldMessages,
    /// A pause of claims is reported but has no effect.
    IgnoresPause,
    /// A deleted message is removed for queue mode only and stays for groups.
    DeletesForOneGroup,
    /// Deleting a message reports no changes, although it makes others available.
    DeletesWithoutNotification,
    /// Deleted messages stay in the group's lag.
    CountsDeletedMessages,
}

const MUTATIONS: [QueueMutation; 31] = [
    QueueMutation::NotifiesNoWaiter,
    QueueMutation::ReportsNoNextDue,
    QueueMutation::FindsNothingInSweeps,
    QueueMutation::ReportsEveryAttemptAsFirst,
    QueueMutation::AcceptsStaleTokens,
    QueueMutation::SkipsLastSettlement,
    QueueMutation::IgnoresRelease,
    QueueMutation::KeepsPushesOfRefusedTransaction,
    QueueMutation::LosesDeadLetters,
    QueueMutation::DropsRedrivenMessages,
    QueueMutation::RedrivesWithoutNotification,
    QueueMutation::IgnoresTtl,
    QueueMutation::IgnoresWaitLimit,
    QueueMutation::RemovesUnreadMessages,
    QueueMutation::IgnoresRetention,
    QueueMutation::ReportsNoLosses,
    QueueMutation::ReportsTooMuchCapacity,
    QueueMutation::DeliversCancelledTimers,
    QueueMutation::SchedulesLate,
    QueueMutation::IntervenesWithoutNotification,
    QueueMutation::CountsLeasedAsPending,
    QueueMutation::CountsDeadAsCompleted,
    QueueMutation::ReportsNoDepth,
    QueueMutation::OmitsExpiriesFromLedger,
    QueueMutation::RecordsFailuresAsAcked,
    QueueMutation::OmitsErrors,
    QueueMutation::DeliversHeldMessages,
    QueueMutation::IgnoresPause,
    QueueMutation::DeletesForOneGroup,
    QueueMutation::DeletesWithoutNotification,
    QueueMutation::CountsDeletedMessages,
];

struct MutantQueueStore {
    inner: Arc<MemoryStore>,
    mutation: QueueMutation,
    /// The number of messages that were deleted.
    deleted: AtomicU64,
}

struct MutantFixture(Arc<MutantQueueStore>);

#[async_trait]
impl StoreUnderTest for MutantFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn advance(&self, by: Duration) {
        self.0.inner.advance(by);
    }
}

#[async_trait]
impl QueueStore for MutantQueueStore {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        match self.mutation {
            QueueMutation::DeliversHeldMessages => self.push_past(items).await,
            _ => self.inner.push(items).await,
        }
    }

    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        if self.mutation == QueueMutation::KeepsPushesOfRefusedTransaction {
            self.inner.push(command.pushes.clone()).await?;
        }
        match self.mutation {
            QueueMutation::DeliversCancelledTimers => self.keep_cancelled(command).await,
            QueueMutation::SchedulesLate => self.schedule_late(command).await,
            _ => self.inner.transact(command).await,
        }
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        let mut outcomes = match self.mutation {
            QueueMutation::IgnoresPause => self.claim_past(lines).await?,
            _ => self.inner.claim(lines).await?,
        };
        for outcome in &mut outcomes {
            if self.mutation == QueueMutation::ReportsNoNextDue {
                outcome.next_due = None;
            }
            if self.mutation == QueueMutation::ReportsEveryAttemptAsFirst {
                let results = outcome.results.iter_mut().flatten();
                let partitions = results.flat_map(|result| &mut result.partitions);
                partitions.flat_map(|p| &mut p.messages).for_each(|message| message.attempt = 1);
            }
        }
        Ok(outcomes)
    }

    async fn settle(&self, mut items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        if self.mutation == QueueMutation::AcceptsStaleTokens {
            for item in &mut items {
                let lease = self.inner.live_token(item.partition, &item.group);
                item.token = lease.or(item.token);
            }
        }
        let last = items.len().saturating_sub(1);
        if self.mutation == QueueMutation::SkipsLastSettlement && last > 0 {
            let forgotten = items.split_off(last);
            let mut reply = self.inner.settle(items).await?;
            reply.outcomes.push(reply.outcomes[0].clone());
            drop(forgotten);
            return Ok(reply);
        }
        let mut reply = self.inner.settle(items).await?;
        if self.mutation == QueueMutation::NotifiesNoWaiter {
            reply.changes.clear();
        }
        Ok(reply)
    }

    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        self.inner.extend(lease, span).await
    }

    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        if self.mutation == QueueMutation::IgnoresRelease {
            return Ok(Vec::new());
        }
        self.inner.release(leases).await
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        if self.mutation == QueueMutation::FindsNothingInSweeps {
            return Ok(vec![None; lines.len()]);
        }
        self.inner.sweep(lines).await
    }
}

#[async_trait]
impl QueueSchedule for MutantQueueStore {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        self.inner.scheduled(filter).await
    }
}

#[async_trait]
impl QueueAdmin for MutantQueueStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        let mut changed = command.clone();
        match self.mutation {
            QueueMutation::IgnoresTtl => changed.options.ttl_secs = 0,
            QueueMutation::IgnoresWaitLimit => changed.options.wait_secs_max = 0,
            QueueMutation::RemovesUnreadMessages => {
                changed.options.retention_secs = changed.options.completed_retention_secs;
            }
            _ => {}
        }
        let (mut detail, changes) = self.inner.configure(changed).await?;
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
        if self.mutation == QueueMutation::OmitsErrors {
            detail.iter_mut().for_each(|detail| detail.errors.clear());
        }
        for ledger in detail.iter_mut().map(|detail| &mut detail.ledger) {
            match self.mutation {
                QueueMutation::OmitsExpiriesFromLedger => {
                    ledger.retain(|e| e.outcome != DeliveryOutcome::Expired)
                }
                QueueMutation::RecordsFailuresAsAcked => {
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
impl QueueGroups for MutantQueueStore {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        let mut groups = self.inner.groups(group).await?;
        if self.mutation == QueueMutation::CountsDeletedMessages {
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
impl QueueKeeper for MutantQueueStore {
    async fn housekeep(&self, how: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        match self.mutation {
            QueueMutation::IgnoresRetention => Ok(HousekeepingReport::default()),
            _ => self.inner.housekeep(how).await,
        }
    }

    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        match self.mutation {
            QueueMutation::ReportsNoLosses => Ok(Losses::default()),
            _ => self.inner.losses(queue).await,
        }
    }
}

#[async_trait]
impl HintFeed for MutantQueueStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.inner.feed(sink, shutdown).await;
    }
}

#[async_trait]
impl StoreAdmin for MutantQueueStore {
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
    for mutation in MUTATIONS {
        let run = || {
            wakeline_testkit::differential::run_at_least(20_000, async || {
                let (inner, deleted) = (Arc::new(MemoryStore::new()), AtomicU64::new(0));
                MutantFixture(Arc::new(MutantQueueStore { inner, mutation, deleted }))
            });
        };
        let caught =
            catch_unwind(AssertUnwindSafe(run)).expect_err(&format!("{mutation:?} must be caught"));
        let text = caught.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(text.contains("WAKELINE_SEED="), "{mutation:?} is caught as: {text}");
        assert!(text.contains("smallest sequence"), "{mutation:?} is caught as: {text}");
    }
}
