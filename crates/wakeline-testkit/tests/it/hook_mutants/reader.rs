//! Reads of the webhook mutants, which are passed to the oracle unchanged.

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, HookMessageId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Attempt, AttemptFilter, Delivery, EndpointStats, HookMessageFilter, HookPage, HookReader,
    PageRequest, StoredMessage,
};

use super::mutant::MutantHookStore;

#[async_trait]
impl HookReader for MutantHookStore {
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
        filter: HookMessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> Result<HookPage<StoredMessage>, StoreError> {
        self.inner.messages(application, filter, page).await
    }

    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> Result<HookPage<Delivery>, StoreError> {
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
    ) -> Result<HookPage<Attempt>, StoreError> {
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
