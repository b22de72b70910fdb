//! Providers on separate stores, as duroxide's suite requires them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::Provider;
use tokio::sync::Mutex;
use wakeline_duroxide::{DuroxideOptions, DuroxideProvider, DuroxideStore, LongPollConfig};

/// The provider of a test store.
pub(crate) type ProviderOf<S> = DuroxideProvider<<S as TestStore>::Store>;

/// A store for tests, with one provider on it and the other functions that the suite requires.
#[async_trait]
pub(crate) trait TestStore: Send + Sync + Sized + 'static {
    type Store: DuroxideStore + 'static;

    async fn open(long_polling: bool) -> Self;

    fn provider(&self) -> &ProviderOf<Self>;

    /// Opens another provider with a separate store on the same data, as another process does.
    async fn second_provider(&self) -> ProviderOf<Self>;

    /// The argument by which an example opens this store.
    fn url(&self) -> String;

    /// Counts the open connections or descriptors to the data.
    async fn connections(&self) -> usize;

    /// Makes all events of an instance undecodable.
    async fn corrupt_history(&self, instance: &str);

    /// The highest attempt of an instance's messages.
    async fn attempt_max(&self, instance: &str) -> u32;

    /// Whether any instance is locked by a fetch.
    async fn is_anything_locked(&self) -> bool;

    async fn close(self) {
        self.provider().close().await;
    }
}

/// Options of providers in tests: the fallback poll comes too late to help.
pub(crate) fn waiting(enabled: bool) -> DuroxideOptions {
    let hour = Duration::from_secs(3600);
    let long_poll = LongPollConfig {
        enabled,
        fallback_poll_interval: hour,
        notify_delivery_timeout: hour,
        ..LongPollConfig::default()
    };
    DuroxideOptions { long_poll, ..DuroxideOptions::default() }
}

/// Opens a store for every provider that a validation requests: the suite expects providers that
/// are isolated from each other, and some validations use the same ids again.
pub(crate) struct ValidationStores<S> {
    long_polling: bool,
    stores: Mutex<Vec<S>>,
}

impl<S: TestStore> ValidationStores<S> {
    pub(crate) fn new(long_polling: bool) -> Self {
        Self { long_polling, stores: Mutex::default() }
    }

    pub(crate) async fn provider(&self) -> ProviderOf<S> {
        let store = S::open(self.long_polling).await;
        let provider = store.provider().clone();
        self.stores.lock().await.push(store);
        provider
    }

    pub(crate) async fn is_anything_locked(&self) -> bool {
        let stores = self.stores.lock().await;
        stores.last().expect("a provider was made").is_anything_locked().await
    }

    pub(crate) async fn close(self) {
        for store in self.stores.into_inner() {
            store.close().await;
        }
    }
}

#[async_trait]
impl<S: TestStore> ProviderFactory for ValidationStores<S> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.provider().await)
    }

    /// The suite sleeps for this time to let leases expire.
    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(400)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let stores = self.stores.lock().await;
        stores.last().expect("a provider was made").corrupt_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let stores = self.stores.lock().await;
        stores.last().expect("a provider was made").attempt_max(instance).await
    }
}
