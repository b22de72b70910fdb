//! The calls for activities that are retried and for waiting messages.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{FlowChange, FlowToken, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    AbandonOutcome, EarlyMailbox, ListMailboxes, MailboxReader, PendingWork, WaitingMessage,
    WorkRetries,
};

use super::Transitions;

#[async_trait]
impl<S: WorkRetries> WorkRetries for Transitions<S> {
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let abandoned =
            self.write("retry_work", self.inner.retry_work(token, delay, error)).await?;
        self.tracker.release(token);
        Ok(abandoned)
    }

    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError> {
        self.plain(self.inner.pending_work(instance, limit)).await
    }
}

#[async_trait]
impl<S: MailboxReader> MailboxReader for Transitions<S> {
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError> {
        self.plain(self.inner.early_mailboxes(list)).await
    }

    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError> {
        self.plain(self.inner.waiting_messages(instance, limit)).await
    }
}
