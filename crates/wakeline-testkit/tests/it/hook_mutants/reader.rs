//! What a broken store lets read: the truth.

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, HookMessageId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Attempt, AttemptFilter, Delivery, EndpointStats, HookReader, MessageFilter, Page, PageRequest,
    StoredMessage,
};

use super::sinner::Sinner;

#[async_trait]
impl HookReader for Sinner {
    async fn message(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<Option<StoredMessage>, StoreError> {
        HookReader::message(&*self.inner, application, message, with_content).await
    }

    async fn messages(
        &self,
        application: ApplicationId,
        filter: MessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> Result<Page<StoredMessage>, StoreError> {
        self.inner.messages(application, filter, page).await
    }

    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> Result<Page<Delivery>, StoreError> {
        self.inner.deliveries(application, message, page).await
    }

    async fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Result<Vec<Option<Delivery>>, StoreError> {
        self.inner.deliveries_to(endpoint, messages).await
    }

    async fn attempts(
        &self,
        application: ApplicationId,
        filter: AttemptFilter,
        page: PageRequest<AttemptId>,
    ) -> Result<Page<Attempt>, StoreError> {
        self.inner.attempts(application, filter, page).await
    }

    async fn attempt(
        &self,
        application: ApplicationId,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, StoreError> {
        self.inner.attempt(application, attempt).await
    }

    async fn endpoint_stats(
        &self,
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        self.inner.endpoint_stats(application, endpoint, since).await
    }
}
