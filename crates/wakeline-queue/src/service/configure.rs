//! Changes the options of queues.

use std::future::Future;
use std::sync::Arc;

use wakeline_core::{Change, QueueName};
use wakeline_store::{ConfigureQueue, PatchQueue, QueueDetail, StoreError};

use super::QueueService;
use crate::error::QueueError;

impl QueueService {
    /// Creates or changes a queue.
    pub async fn configure(&self, command: ConfigureQueue) -> Result<QueueDetail, QueueError> {
        let (store, queue) = (Arc::clone(&self.store), command.queue.clone());
        self.change_options(queue, async move { store.configure(command).await }).await
    }

    /// Changes the named options of a queue; returns `None` if there is no such queue.
    pub async fn patch(&self, command: PatchQueue) -> Result<Option<QueueDetail>, QueueError> {
        let (store, queue) = (Arc::clone(&self.store), command.queue.clone());
        let patch = async move {
            let done = store.patch(command).await?.map(|(detail, changes)| (Some(detail), changes));
            Ok(done.unwrap_or_default())
        };
        self.change_options(queue, patch).await
    }

    /// Runs a call that changes a queue's options. Housekeeping and limits then use the new ones.
    async fn change_options<T: Send + 'static>(
        &self,
        queue: QueueName,
        call: impl Future<Output = Result<(T, Vec<Change>), StoreError>> + Send + 'static,
    ) -> Result<T, QueueError> {
        let configured = Arc::clone(&self.configured);
        let done = self.run_to_completion(async move {
            let done = call.await?;
            configured.notify_one();
            Ok(done)
        });
        let done = done.await;
        self.capacity_cache.forget(&queue);
        done
    }
}
