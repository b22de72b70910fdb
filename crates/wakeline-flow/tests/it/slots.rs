//! Slots are for users' code: what only waits for its commit holds none.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::InstanceId;
use wakeline_flow::provider::{
    Enqueued, FetchedWork, OrchestrationAck, OrchestrationItem, Provider, ProviderError,
    StoreProvider, StoreProviderOptions,
};
use wakeline_flow::{
    ActivityContext, Client, Event, FlowError, OrchestrationContext, Prefetch, Registry, Runtime,
    RuntimeOptions, WorkItem,
};
use wakeline_store::flow::InstanceState;
use wakeline_testkit::oracle::MemoryStore;

/// What never comes to its commit.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Stuck {
    Turns,
    Activities,
    Nothing,
}

pub(crate) struct StuckProvider {
    pub(crate) inner: StoreProvider,
    pub(crate) stuck: Stuck,
    /// How long an activity is on its way here.
    pub(crate) fetch: Duration,
}

#[async_trait]
impl Provider for StuckProvider {
    fn supports_long_polling(&self) -> bool {
        self.inner.supports_long_polling()
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        self.inner.fetch_orchestration_item(lock_timeout, poll_timeout).await
    }

    async fn ack_orchestration_item(&self, ack: OrchestrationAck) -> Result<(), ProviderError> {
        if self.stuck == Stuck::Turns {
            return pending().await;
        }
        self.inner.ack_orchestration_item(ack).await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.inner.abandon_orchestration_item(lock_token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.inner.renew_orchestration_item_lock(lock_token, extend_for).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        let fetched = self.inner.fetch_work_item(lock_timeout, poll_timeout).await;
        if !self.fetch.is_zero() {
            tokio::time::sleep(self.fetch).await;
        }
        fetched
    }

    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        if self.stuck == Stuck::Activities {
            return pending().await;
        }
        self.inner.ack_work_item(lock_token, completion).await
    }

    async fn renew_work_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<Option<InstanceState>, ProviderError> {
        self.inner.renew_work_item_lock(lock_token, extend_for).await
    }

    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.inner.abandon_work_item(lock_token, delay, ignore_attempt).await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        self.inner.enqueue_for_orchestrator(item, delay).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.inner.enqueue_for_worker(item).await
    }

    async fn read(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        self.inner.read(instance, execution).await
    }
}

/// Starts two instances with one slot each for turns and activities, and says how many of those
/// that never come to their commit have run.
async fn ran(stuck: Stuck) -> u32 {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let inner = StoreProvider::new(store, StoreProviderOptions::default());
    let provider: Arc<dyn Provider> =
        Arc::new(StuckProvider { inner, stuck, fetch: Duration::ZERO });
    let (turns, activities) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (turn, activity) = (Arc::clone(&turns), Arc::clone(&activities));
    let registry = Registry::builder()
        .orchestration("one", move |ctx: OrchestrationContext, (): ()| {
            turn.fetch_add(1, Ordering::SeqCst);
            async move { ctx.activity::<_, ()>("step", ()).await }
        })
        .activity("step", move |_: ActivityContext, (): ()| {
            activity.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, FlowError>(()) }
        })
        .build()
        .expect("a registry");
    let options = RuntimeOptions {
        orchestration_concurrency: 1,
        worker_concurrency: 1,
        prefetch: Prefetch::Fixed(1),
        ..RuntimeOptions::default()
    };
    let client = Client::new(Arc::clone(&provider));
    let runtime = Runtime::start_with_options(provider, registry, options).await;
    let runtime = runtime.expect("the options are valid");
    for instance in ["a", "b"] {
        client.start(instance, "one", &()).await.expect("started");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(runtime);
    match stuck {
        Stuck::Turns => turns.load(Ordering::SeqCst),
        _ => activities.load(Ordering::SeqCst),
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_being_committed_holds_no_slot() {
    assert_eq!(ran(Stuck::Turns).await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_is_being_settled_holds_no_slot() {
    assert_eq!(ran(Stuck::Activities).await, 2);
}
