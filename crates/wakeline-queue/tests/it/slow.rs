//! A store whose calls take a while, so that callers can go away meanwhile.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    Change, GroupName, LeaseId, PartitionId, PartitionName, QueueLine, QueueName, RedriveId,
    TransactionId,
};
use wakeline_store::{
    BrowsePosition, ConfigureQueue, DeadLetterFilter, DeadLetters, Extension, GroupDetail,
    GroupPartition, GroupPartitionFilter, HintFeed, HintSink, Housekeeping, HousekeepingReport,
    Intervention, InterventionOutcome, LineClaim, LineOutcome, ListedMessages, Losses,
    MessageDetail, MessageFilter, MessageKey, Page, PartitionDetail, PatchQueue, PushItem,
    PushReply, QueueAdmin, QueueBackgroundReport, QueueDeadLetters, QueueDetail, QueueGroups,
    QueueKeeper, QueueMessages, QueueSchedule, QueueStore, Redrive, RedriveJob, ScheduledFilter,
    ScheduledMessage, Seek, SettleItem, SettleReply, StoreAdmin, StoreError, StoreInfo,
    TransactCommand, TransactReply,
};
use wakeline_testkit::oracle::MemoryStore;

pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// The oracle, with a pause after the commit of every frequent call.
pub(crate) struct SlowStore(pub(crate) MemoryStore);

async fn slowly<T>(call: impl Future<Output = T>) -> T {
    let answer = call.await;
    tokio::time::sleep(SLOW).await;
    answer
}

#[async_trait]
impl QueueStore for SlowStore {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        slowly(self.0.push(items)).await
    }
    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        slowly(self.0.transact(command)).await
    }
    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        slowly(self.0.claim(lines)).await
    }
    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        slowly(self.0.settle(items)).await
    }
    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        self.0.extend(lease, span).await
    }
    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        slowly(self.0.release(leases)).await
    }
    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.0.sweep(lines).await
    }
}

#[async_trait]
impl QueueSchedule for SlowStore {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        self.0.scheduled(filter).await
    }
}

#[async_trait]
impl QueueAdmin for SlowStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        slowly(self.0.configure(command)).await
    }
    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError> {
        slowly(self.0.patch(command)).await
    }
    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        self.0.queue(queue).await
    }
    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        self.0.delete_queue(queue).await
    }
    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError> {
        self.0.message(partition, transaction_id).await
    }
}

#[async_trait]
impl QueueGroups for SlowStore {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        self.0.groups(group).await
    }
    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.0.group_partitions(filter).await
    }
    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.0.lagging(behind, filter).await
    }
    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        self.0.delete_group(group, queue).await
    }
    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError> {
        slowly(self.0.seek(seek)).await
    }
}

#[async_trait]
impl QueueDeadLetters for SlowStore {
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError> {
        self.0.dead_letters(filter, page).await
    }
    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        self.0.purge_dead_letters(filter).await
    }
    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError> {
        slowly(self.0.start_redrive(redrive)).await
    }
    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        self.0.redrive_job(job).await
    }
    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        self.0.cancel_redrive(job).await
    }
    async fn run_queue_background(&self, rows: u32) -> Result<QueueBackgroundReport, StoreError> {
        slowly(self.0.run_queue_background(rows)).await
    }
}

#[async_trait]
impl QueueKeeper for SlowStore {
    async fn housekeep(&self, how: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        self.0.housekeep(how).await
    }
    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        self.0.losses(queue).await
    }
}

#[async_trait]
impl QueueMessages for SlowStore {
    async fn browse(
        &self,
        filter: MessageFilter,
        place: Option<BrowsePosition>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError> {
        self.0.browse(filter, place, limit).await
    }

    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(InterventionOutcome, Vec<Change>), StoreError> {
        slowly(self.0.intervene(message, group, intervention)).await
    }

    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError> {
        slowly(self.0.delete_message(message)).await
    }

    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        self.0.clear_queue(queue, dead_letters).await
    }

    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        self.0.clear_partition(queue, partition, dead_letters).await
    }

    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError> {
        self.0.delete_partition(queue, partition).await
    }

    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError> {
        self.0.partitions(queue, page).await
    }
}

#[async_trait]
impl HintFeed for SlowStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.0.feed(sink, shutdown).await;
    }
}

#[async_trait]
impl StoreAdmin for SlowStore {
    fn info(&self) -> StoreInfo {
        self.0.info()
    }
    async fn ping(&self) -> Result<(), StoreError> {
        self.0.ping().await
    }
    async fn close(&self) {
        self.0.close().await;
    }
}
