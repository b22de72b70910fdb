//! A provider together with its store and the listener that passes it the hints of other processes.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::{CancellationToken, DropGuard};
use wakeline_core::{Capabilities, InstanceId, OwnerId};
use wakeline_encryption::EncryptionKeys;
use wakeline_flow::provider::{
    Enqueued, FetchedWork, OrchestrationAck, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, StoreProvider, StoreProviderOptions, WorkFilter,
};
use wakeline_flow::{Event, FlowError, FlowMessage};
use wakeline_store::flow::{FlowBackend, InstanceState};
use wakeline_store::{HintFeed, KeyedStore, StoreAdmin, StoreError};
use wakeline_wake::{LongPollConfig, WakeMode};

/// A store that a provider can be created over.
pub trait StoreBackend: FlowBackend + HintFeed + StoreAdmin {}

impl<S: FlowBackend + HintFeed + StoreAdmin> StoreBackend for S {}

/// A provider that owns its store. Cheap to clone: clones share the store, its connections and one
/// listener, which ends when the last clone is dropped.
pub struct Backed<S> {
    provider: StoreProvider,
    store: Arc<S>,
    listening: Arc<DropGuard>,
}

impl<S> Clone for Backed<S> {
    fn clone(&self) -> Self {
        Self {
            provider: self.provider.clone(),
            store: Arc::clone(&self.store),
            listening: Arc::clone(&self.listening),
        }
    }
}

impl<S> Deref for Backed<S> {
    type Target = StoreProvider;

    fn deref(&self) -> &StoreProvider {
        &self.provider
    }
}

impl<S: StoreBackend + 'static> Backed<S> {
    /// Creates a provider over a store that is already open. If long polling is enabled, it listens
    /// to hints of other processes.
    pub fn over(store: S, long_poll: LongPollConfig) -> Result<Self, StoreError> {
        long_poll.validate().map_err(|error| StoreError::Invalid {
            field: error.field,
            reason: error.reason.to_owned(),
        })?;
        let store = Arc::new(store);
        let listens = long_poll.enabled;
        let options = StoreProviderOptions { long_poll, ..StoreProviderOptions::default() };
        let provider = StoreProvider::new(store.clone(), options);
        let shutdown = CancellationToken::new();
        if listens {
            let (store, sink) = (Arc::clone(&store), Arc::new(provider.clone()));
            let shutdown = shutdown.clone();
            tokio::spawn(async move { store.feed(sink, shutdown).await });
        }
        Ok(Self { provider, store, listening: Arc::new(shutdown.drop_guard()) })
    }

    /// Sets the keys of encrypted queues, so that turns can push to these queues. They must be the
    /// keys that the servers on the same store use. Call it once, before anything else.
    pub fn with_encryption_keys(self, keys: EncryptionKeys) -> Self
    where
        S: KeyedStore,
    {
        self.store.use_keys(Arc::new(keys));
        self
    }

    /// The store, for calls that the provider does not offer.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }
}

#[async_trait]
impl<S: StoreAdmin + 'static> Provider for Backed<S> {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn supports_long_polling(&self) -> bool {
        self.provider.supports_long_polling()
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        self.provider.fetch_orchestration_item(lock_timeout, poll_timeout).await
    }

    async fn fetch_orchestration_item_for(
        &self,
        capabilities: &Capabilities,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let provider = &self.provider;
        provider.fetch_orchestration_item_for(capabilities, lock_timeout, poll_timeout).await
    }

    async fn ack_orchestration_item(&self, ack: OrchestrationAck) -> Result<(), ProviderError> {
        self.provider.ack_orchestration_item(ack).await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.provider.abandon_orchestration_item(lock_token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.provider.renew_orchestration_item_lock(lock_token, extend_for).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        self.provider.fetch_work_item(lock_timeout, poll_timeout).await
    }

    async fn fetch_work_item_for(
        &self,
        filter: &WorkFilter,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        self.provider.fetch_work_item_for(filter, lock_timeout, poll_timeout).await
    }

    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<FlowMessage>,
    ) -> Result<(), ProviderError> {
        self.provider.ack_work_item(lock_token, completion).await
    }

    async fn renew_work_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<Option<InstanceState>, ProviderError> {
        self.provider.renew_work_item_lock(lock_token, extend_for).await
    }

    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.provider.abandon_work_item(lock_token, delay, ignore_attempt).await
    }

    async fn retry_work_item(
        &self,
        lock_token: &str,
        delay: Duration,
        error: &FlowError,
    ) -> Result<(), ProviderError> {
        self.provider.retry_work_item(lock_token, delay, error).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: FlowMessage,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        self.provider.enqueue_for_orchestrator(item, delay).await
    }

    async fn enqueue_for_worker(&self, item: FlowMessage) -> Result<(), ProviderError> {
        self.provider.enqueue_for_worker(item).await
    }

    async fn read(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        self.provider.read(instance, execution).await
    }

    async fn renew_session_lock(
        &self,
        owners: &[OwnerId],
        extend_for: Duration,
        idle: Duration,
    ) -> Result<u64, ProviderError> {
        self.provider.renew_session_lock(owners, extend_for, idle).await
    }

    async fn release_sessions(&self, owners: &[OwnerId]) -> Result<u64, ProviderError> {
        self.provider.release_sessions(owners).await
    }

    async fn cleanup_orphaned_sessions(&self) -> Result<u64, ProviderError> {
        self.provider.cleanup_orphaned_sessions().await
    }

    async fn settle(&self) {
        self.provider.settle().await;
    }

    async fn close(&self) {
        self.provider.close().await;
        self.store.close().await;
    }

    fn rewired(&self, mode: WakeMode, long_poll: LongPollConfig) -> Option<Arc<dyn Provider>> {
        // The new provider shares the listener, which ends with the last provider that needs it.
        let provider = self.provider.sibling(mode, long_poll);
        Some(Arc::new(Self { provider, ..self.clone() }))
    }

    fn set_degraded_poll_interval(&self, interval: Duration) {
        self.provider.set_degraded_poll_interval(interval);
    }

    fn admin(&self) -> Option<&dyn ProviderAdmin> {
        self.provider.admin()
    }
}
