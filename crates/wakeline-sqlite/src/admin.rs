//! Configuration and inspection of queues, and of the store itself.

mod configure;
mod inspect;

use async_trait::async_trait;
use wakeline_core::{Change, GroupName, PartitionId, QueueName, Timestamp, TransactionId};
use wakeline_store::{
    ConfigureQueue, DeadLetter, DeadLetterFilter, GroupDetail, MessageDetail, QueueAdmin,
    QueueDetail, StoreAdmin, StoreError, StoreInfo,
};

use crate::SqliteStore;
use crate::call::Work;

#[async_trait]
impl QueueAdmin for SqliteStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        self.write(Work::new("configure", move |s| configure::configure(s, &command))).await
    }

    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        let queue = queue.clone();
        self.read("queue", move |s| inspect::queue(s, &queue)).await
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        let queue = queue.clone();
        self.write(Work::new("delete_queue", move |s| configure::delete_queue(s, &queue))).await
    }

    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        let group = group.cloned();
        self.read("groups", move |s| inspect::groups(s, group.as_ref())).await
    }

    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        let (group, queue) = (group.clone(), queue.cloned());
        self.write(Work::new("delete_group", move |s| {
            configure::delete_group(s, &group, queue.as_ref())
        }))
        .await
    }

    async fn resubscribe(
        &self,
        group: &GroupName,
        from: Timestamp,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        let group = group.clone();
        let work = Work::new("resubscribe", move |s| configure::resubscribe(s, &group, from));
        self.write(work).await
    }

    async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Vec<DeadLetter>, StoreError> {
        self.read("dead_letters", move |s| inspect::dead_letters(s, &filter)).await
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
