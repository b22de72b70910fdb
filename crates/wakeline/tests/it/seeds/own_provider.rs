//! A provider of a user's own, which answers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use wakeline::core::{InstanceId, OrchestrationName, Timestamp};
use wakeline::provider::{
    Enqueued, FetchedWork, ItemHistory, OrchestrationAck, OrchestrationItem, Provider,
    ProviderError,
};
use wakeline::{
    ActivityContext, ActivityTask, Event, FlowError, Json, OrchestrationContext, Prefetch,
    Registry, Runtime, RuntimeOptions, WorkItem,
};
use wakeline_store::flow::InstanceState;

use super::start;

/// Turns, and activities, that there are in the beginning: more than slots.
const BUSY: u64 = 50;

/// Has something for the first who ask, then never again; counts who asks, and what is done.
#[derive(Default)]
struct SoonEmpty {
    /// Whether it says that it can wait. It never does.
    waits: bool,
    /// Whether fetches fail.
    failing: AtomicBool,
    turns: AtomicU64,
    work: AtomicU64,
    done: AtomicU64,
}

impl SoonEmpty {
    /// One more who asks; how many did before.
    fn asked(
        &self,
        counter: &AtomicU64,
        poll_timeout: Option<Duration>,
    ) -> Result<u64, ProviderError> {
        assert_eq!(poll_timeout, None, "it cannot wait, or was told not to");
        let asked = counter.fetch_add(1, Ordering::SeqCst);
        if self.failing.load(Ordering::SeqCst) {
            return Err(ProviderError::Retryable { operation: "fetch", source: "no store".into() });
        }
        Ok(asked)
    }

    fn done(&self) -> Result<(), ProviderError> {
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn turn(asked: u64) -> OrchestrationItem {
    let message = start(&asked.to_string());
    OrchestrationItem {
        instance: message.instance().clone(),
        name: None,
        parent: None,
        lock_token: asked.to_string(),
        attempt: 1,
        execution: 0,
        state: None,
        last_event: 0,
        history: ItemHistory::Whole(Vec::new()),
        corrupt: None,
        messages: vec![message],
        kv: Vec::new(),
        now: Timestamp(0),
        life: 1,
    }
}

fn activity(asked: u64) -> FetchedWork {
    let task = ActivityTask {
        instance: InstanceId::new("i").expect("valid"),
        execution: 1,
        event: asked,
        identity: None,
        orchestration: OrchestrationName::new("work").expect("valid"),
        name: "a".to_owned(),
        input: Json::null(),
        tag: None,
        session: None,
        policy: Default::default(),
    };
    FetchedWork {
        item: WorkItem::ActivityExecute(task),
        lock_token: asked.to_string(),
        attempt: 1,
        state: Some(InstanceState::Running),
        tag: None,
        session: None,
    }
}

#[async_trait]
impl Provider for SoonEmpty {
    fn supports_long_polling(&self) -> bool {
        self.waits
    }

    async fn fetch_orchestration_item(
        &self,
        _: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let asked = self.asked(&self.turns, poll_timeout)?;
        Ok((asked < BUSY).then(|| turn(asked)))
    }

    async fn ack_orchestration_item(&self, _: OrchestrationAck) -> Result<(), ProviderError> {
        self.done()
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
        let asked = self.asked(&self.work, poll_timeout)?;
        Ok((asked < BUSY).then(|| activity(asked)))
    }

    async fn ack_work_item(&self, _: &str, _: Option<WorkItem>) -> Result<(), ProviderError> {
        self.done()
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

async fn run(provider: &Arc<SoonEmpty>, options: RuntimeOptions) -> Runtime {
    let code = async |_: OrchestrationContext, _: Json| Ok::<_, FlowError>(());
    let activity = async |_: ActivityContext, _: Json| Ok::<_, FlowError>(());
    let registry = Registry::builder().orchestration("work", code).activity("a", activity);
    let registry = registry.build().expect("no name twice");
    let runtime = Runtime::start_with_options(provider.clone(), registry, options).await;
    runtime.expect("started")
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_long_polling_is_asked_ten_times_a_second_by_each_dispatcher() {
    for prefetch in [Prefetch::default(), Prefetch::Fixed(100)] {
        let provider = Arc::new(SoonEmpty::default());
        let runtime =
            run(&provider, RuntimeOptions { prefetch, ..RuntimeOptions::default() }).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(provider.done.load(Ordering::SeqCst), 2 * BUSY, "it was busy");
        for counter in [&provider.turns, &provider.work] {
            let asked = counter.load(Ordering::SeqCst) - BUSY;
            // Four dispatchers, ten seconds; one more each, because they begin with a fetch.
            assert!((4 * 90..=4 * 101).contains(&asked), "{asked}, {prefetch:?}");
        }
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

/// `dispatcher_long_poll_timeout = None`: "Disable long polling (providers return immediately)".
#[tokio::test(start_paused = true)]
async fn without_a_poll_timeout_dispatchers_do_not_let_a_provider_wait_and_sleep_themselves() {
    let provider = Arc::new(SoonEmpty { waits: true, ..SoonEmpty::default() });
    let options =
        RuntimeOptions { dispatcher_long_poll_timeout: None, ..RuntimeOptions::default() };
    let runtime = run(&provider, options).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for counter in [&provider.turns, &provider.work] {
        let asked = counter.load(Ordering::SeqCst) - BUSY;
        assert!((4 * 90..=4 * 101).contains(&asked), "{asked}");
    }
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn failing_fetches_are_made_again_at_growing_distances_until_one_succeeds() {
    let provider = Arc::new(SoonEmpty { failing: true.into(), ..SoonEmpty::default() });
    let runtime = run(&provider, RuntimeOptions::default()).await;
    let asked = || provider.turns.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(9_950)).await;
    // At 0, 0.1, 0.3, 0.7 and 1.5 s, and then every second; four dispatchers.
    assert_eq!(asked(), 4 * (5 + 8));
    provider.failing.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(provider.done.load(Ordering::SeqCst), 0, "what there was has been missed");
    let before = asked();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = asked() - before;
    assert!((4 * 90..=4 * 101).contains(&after), "{after}: every 100 ms again");
    runtime.shutdown(Duration::from_secs(1)).await;
}
