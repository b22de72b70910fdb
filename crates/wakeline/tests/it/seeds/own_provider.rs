//! A provider of a user's own, which answers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use wakeline::core::InstanceId;
use wakeline::provider::{
    Enqueued, FetchedWork, OrchestrationAck, OrchestrationItem, Provider, ProviderError,
};
use wakeline::{
    ActivityContext, Event, FlowError, OrchestrationContext, Registry, Runtime, WorkItem,
};
use wakeline_store::flow::InstanceState;

/// Never has anything, and counts who asks.
#[derive(Default)]
struct Empty {
    turns: AtomicU64,
    work: AtomicU64,
}

#[async_trait]
impl Provider for Empty {
    async fn fetch_orchestration_item(
        &self,
        _: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        assert_eq!(poll_timeout, None, "it said that it cannot wait");
        self.turns.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }

    async fn ack_orchestration_item(&self, _: OrchestrationAck) -> Result<(), ProviderError> {
        Err(ProviderError::LockLost)
    }

    async fn abandon_orchestration_item(
        &self,
        _: &str,
        _: Option<Duration>,
        _: bool,
    ) -> Result<(), ProviderError> {
        Err(ProviderError::LockLost)
    }

    async fn renew_orchestration_item_lock(
        &self,
        _: &str,
        _: Duration,
    ) -> Result<(), ProviderError> {
        Err(ProviderError::LockLost)
    }

    async fn fetch_work_item(
        &self,
        _: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        assert_eq!(poll_timeout, None, "it said that it cannot wait");
        self.work.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }

    async fn ack_work_item(&self, _: &str, _: Option<WorkItem>) -> Result<(), ProviderError> {
        Err(ProviderError::LockLost)
    }

    async fn renew_work_item_lock(
        &self,
        _: &str,
        _: Duration,
    ) -> Result<Option<InstanceState>, ProviderError> {
        Err(ProviderError::LockLost)
    }

    async fn abandon_work_item(
        &self,
        _: &str,
        _: Option<Duration>,
        _: bool,
    ) -> Result<(), ProviderError> {
        Err(ProviderError::LockLost)
    }

    async fn enqueue_for_orchestrator(
        &self,
        _: WorkItem,
        _: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        Ok(Enqueued::Queued)
    }

    async fn enqueue_for_worker(&self, _: WorkItem) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn read(&self, _: &InstanceId, _: Option<u64>) -> Result<Vec<Event>, ProviderError> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_long_polling_is_asked_ten_times_a_second_by_each_dispatcher() {
    let provider = Arc::new(Empty::default());
    let code = async |_: OrchestrationContext, (): ()| Ok::<_, FlowError>(());
    let activity = async |_: ActivityContext, (): ()| Ok::<_, FlowError>(());
    let registry = Registry::builder().orchestration("o", code).activity("a", activity).build();
    let registry = registry.expect("no name twice");
    let runtime = Runtime::start(provider.clone(), registry).await.expect("started");
    tokio::time::sleep(Duration::from_secs(10)).await;
    for counter in [&provider.turns, &provider.work] {
        let asked = counter.load(Ordering::SeqCst);
        // Four dispatchers, ten seconds; one more each, because they begin with a fetch.
        assert!((4 * 90..=4 * 101).contains(&asked), "{asked}");
    }
    runtime.shutdown(Duration::from_secs(1)).await;
}
