//! Options of queues.

use std::future::Future;
use std::sync::Arc;

use wakeline_core::{Change, QueueName};
use wakeline_store::{ConfigureQueue, PatchQueue, QueueDetail, StoreError};

use super::QueueService;
use crate::error::QueueError;

impl QueueService {
    /// Makes or changes a queue.
    pub async fn configure(&self, command: ConfigureQueue) -> Result<QueueDetail, QueueError> {
        let (store, queue) = (Arc::clone(&self.store), command.queue.clone());
        self.change_options(queue, async move { store.configure(command).await }).await
    }

    /// Changes those of a queue's options that are named; `None` if there is no such queue.
    pub async fn patch(&self, command: PatchQueue) -> Result<Option<QueueDetail>, QueueError> {
        let (store, queue) = (Arc::clone(&self.store), command.queue.clone());
        let patch = async move {
            let done = store.patch(command).await?.map(|(detail, changes)| (Some(detail), changes));
            Ok(done.unwrap_or_default())
        };
        self.change_options(queue, patch).await
    }

    /// Runs a call that changes a queue's options; housekeeping and limits go by the new ones.
    async fn change_options<T: Send + 'static>(
        &self,
        queue: QueueName,
        call: impl Future<Output = Result<(T, Vec<Change>), StoreError>> + Send + 'static,
    ) -> Result<T, QueueError> {
        let configured = Arc::clone(&self.configured);
        let done = self.to_the_end(async move {
            let done = call.await?;
            configured.notify_one();
            Ok(done)
        });
        let done = done.await;
        self.rooms.forget(&queue);
        done
    }
}
