//! Configuration and inspection of queues, and of the store itself.

mod browse;
mod capacity;
mod configure;
mod counts;
mod dead;
mod delete;
mod groups;
mod inspect;
mod messages;
pub(crate) mod redrive;
pub(crate) mod stats;
mod traces;

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    Change, GroupName, PartitionId, PartitionName, QueueName, RedriveId, TraceName, TransactionId,
};
use wakeline_store::{
    AddTraceOutcome, BrowsePosition, ConfigureQueue, DeadLetterFilter, DeadLetters, GroupDetail,
    GroupPartition, GroupPartitionFilter, Intervention, InterventionOutcome, ListedMessages,
    MessageDetail, MessageFilter, MessageKey, NamedTraces, NewTrace, Page, PartitionDetail,
    PatchQueue, QueueAdmin, QueueBackgroundReport, QueueDeadLetters, QueueDetail, QueueGroups,
    QueueMessages, QueueTraces, Redrive, RedriveJob, Seek, StoreAdmin, StoreError, StoreInfo,
    Trace, TraceNames,
};

use crate::SqliteStore;
use crate::command::WriteCommand;

#[async_trait]
impl QueueAdmin for SqliteStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        self.write(
            WriteCommand::new("configure", move |s| configure::configure(s, &command)).recorded(),
        )
        .await
    }

    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError> {
        self.write(
            WriteCommand::new("patch queue", move |s| configure::patch(s, &command)).recorded(),
        )
        .await
    }

    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        let queue = queue.clone();
        self.read("queue", move |s| inspect::queue(s, &queue)).await
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        let queue = queue.clone();
        self.write(
            WriteCommand::new("delete_queue", move |s| configure::delete_queue(s, &queue))
                .recorded(),
        )
        .await
    }

    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError> {
        let transaction_id = transaction_id.clone();
        self.read("message", move |s| inspect::message(s, partition, &transaction_id)).await
    }
}

#[async_trait]
impl QueueGroups for SqliteStore {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        let group = group.cloned();
        self.read("groups", move |s| groups::groups(s, group.as_ref())).await
    }

    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.read("group_partitions", move |s| groups::partitions(s, &filter)).await
    }

    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.read("lagging", move |s| groups::lagging(s, behind, &filter)).await
    }

    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        let (group, queue) = (group.clone(), queue.cloned());
        self.write(
            WriteCommand::new("delete_group", move |s| {
                groups::delete_group(s, &group, queue.as_ref())
            })
            .recorded(),
        )
        .await
    }

    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError> {
        self.write(WriteCommand::new("seek", move |s| groups::seek(s, &seek)).recorded()).await
    }
}

#[async_trait]
impl QueueDeadLetters for SqliteStore {
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError> {
        self.read("dead_letters", move |s| dead::list(s, &filter, page)).await
    }

    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let filter = filter.clone();
            let work = WriteCommand::new("purge_dead_letters", move |s| dead::purge(s, &filter))
                .recorded();
            let went = self.write(work).await;
            let went = went.map_err(|error| if gone > 0 { error.after_write() } else { error })?;
            gone += went;
            if went < dead::PURGE_LEN.into() {
                return Ok(gone);
            }
        }
    }

    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError> {
        self.write(
            WriteCommand::new("start_redrive", move |s| redrive::start(s, &redrive)).recorded(),
        )
        .await
    }

    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        self.read("redrive_job", move |s| redrive::read(s, job)).await
    }

    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        let work = WriteCommand::new("cancel_redrive", move |s| redrive::cancel(s, job));
        self.write(work.recorded()).await.map(|cancelled| cancelled.job)
    }

    async fn run_queue_background(&self, rows: u32) -> Result<QueueBackgroundReport, StoreError> {
        let work =
            WriteCommand::new("run_queue_background", move |s| redrive::run_background(s, rows));
        self.write(work.growing(0)).await
    }
}

#[async_trait]
impl QueueMessages for SqliteStore {
    async fn browse(
        &self,
        filter: MessageFilter,
        place: Option<BrowsePosition>,
        limit: u32,
    ) -> Result<ListedMessages, StoreError> {
        self.read("browse", move |s| browse::browse(s, &filter, place, limit)).await
    }

    async fn intervene(
        &self,
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> Result<(InterventionOutcome, Vec<Change>), StoreError> {
        let group = group.clone();
        let work = WriteCommand::new("intervene", move |s| {
            messages::intervene(s, &message, &group, &intervention)
        });
        self.write(work.recorded()).await
    }

    async fn delete_message(&self, message: MessageKey) -> Result<(bool, Vec<Change>), StoreError> {
        let work = WriteCommand::new("delete_message", move |s| delete::delete(s, &message));
        self.write(work.recorded()).await
    }

    async fn clear_queue(
        &self,
        queue: &QueueName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        let queue = queue.clone();
        let work =
            WriteCommand::new("clear_queue", move |s| messages::clear(s, &queue, dead_letters));
        self.write(work.recorded()).await
    }

    async fn clear_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Result<Option<u64>, StoreError> {
        let (queue, partition) = (queue.clone(), partition.clone());
        let work = WriteCommand::new("clear_partition", move |s| {
            messages::clear_partition(s, &queue, &partition, dead_letters)
        });
        self.write(work.recorded()).await
    }

    async fn delete_partition(
        &self,
        queue: &QueueName,
        partition: &PartitionName,
    ) -> Result<bool, StoreError> {
        let (queue, partition) = (queue.clone(), partition.clone());
        let work = WriteCommand::new("delete_partition", move |s| {
            messages::delete_partition(s, &queue, &partition)
        });
        self.write(work.recorded()).await
    }

    async fn partitions(
        &self,
        queue: Option<&QueueName>,
        page: Page,
    ) -> Result<Vec<PartitionDetail>, StoreError> {
        let queue = queue.cloned();
        self.read("partitions", move |s| messages::partitions(s, queue.as_ref(), page)).await
    }
}

#[async_trait]
impl QueueTraces for SqliteStore {
    async fn add_trace(&self, trace: NewTrace) -> Result<AddTraceOutcome, StoreError> {
        let bytes = trace.data.len() + traces::TRACE_BYTES;
        self.write(WriteCommand::new("add_trace", move |s| traces::add(s, &trace)).growing(bytes))
            .await
    }

    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError> {
        self.read("traces", move |s| traces::list(s, &message)).await
    }

    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError> {
        let name = name.clone();
        self.read("traces_named", move |s| traces::named(s, &name, page)).await
    }

    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError> {
        self.read("trace_names", move |s| traces::names(s, page)).await
    }
}

#[async_trait]
impl StoreAdmin for SqliteStore {
    fn info(&self) -> StoreInfo {
        let location = self.options().path.display().to_string();
        StoreInfo { kind: "sqlite", location }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.read("ping", |_| Ok(())).await
    }

    async fn close(&self) {
        self.shut_down().await;
    }
}
