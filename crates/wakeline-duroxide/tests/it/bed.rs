//! Providers on stores of their own, as duroxide's suite wants them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::Provider;
use tokio::sync::Mutex;
use wakeline_duroxide::{DuroxideOptions, DuroxideProvider, DuroxideStore, LongPollConfig};

/// The provider of a site.
pub(crate) type ProviderOf<S> = DuroxideProvider<<S as Site>::Store>;

/// A place for a store, one provider on it, and what the suite asks of it besides.
#[async_trait]
pub(crate) trait Site: Send + Sync + Sized + 'static {
    type Store: DuroxideStore + 'static;

    async fn open(long_polling: bool) -> Self;

    fn provider(&self) -> &ProviderOf<Self>;

    /// A provider with a store of its own on the same data, as another process has it.
    async fn neighbour(&self) -> ProviderOf<Self>;

    /// What an example calls this store.
    fn url(&self) -> String;

    /// How many connections or descriptors there are to the data.
    async fn connections(&self) -> usize;

    /// Makes all events of an instance undecodable.
    async fn corrupt_history(&self, instance: &str);

    /// The highest attempt of an instance's messages.
    async fn attempt_max(&self, instance: &str) -> u32;

    /// Whether an instance is locked by whoever fetched it.
    async fn is_anything_locked(&self) -> bool;

    async fn close(self) {
        self.provider().close().await;
    }
}

/// How the providers of tests wait: no sweep comes to their help.
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

/// Opens a site for every provider that a validation wants: the suite's own providers are
/// isolated from each other, and some validations use the same ids again.
pub(crate) struct Bed<S> {
    long_polling: bool,
    sites: Mutex<Vec<S>>,
}

impl<S: Site> Bed<S> {
    pub(crate) fn new(long_polling: bool) -> Self {
        Self { long_polling, sites: Mutex::default() }
    }

    pub(crate) async fn provider(&self) -> ProviderOf<S> {
        let site = S::open(self.long_polling).await;
        let provider = site.provider().clone();
        self.sites.lock().await.push(site);
        provider
    }

    pub(crate) async fn is_anything_locked(&self) -> bool {
        let sites = self.sites.lock().await;
        sites.last().expect("a provider was made").is_anything_locked().await
    }

    pub(crate) async fn close(self) {
        for site in self.sites.into_inner() {
            site.close().await;
        }
    }
}

#[async_trait]
impl<S: Site> ProviderFactory for Bed<S> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.provider().await)
    }

    /// The suite sleeps that long to let leases expire.
    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn short_poll_threshold(&self) -> Duration {
        Duration::from_millis(400)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let sites = self.sites.lock().await;
        sites.last().expect("a provider was made").corrupt_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let sites = self.sites.lock().await;
        sites.last().expect("a provider was made").attempt_max(instance).await
    }
}
