//! Tests with a user's own provider that returns at once.

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
    ActivityContext, ActivityTask, Event, FlowError, FlowMessage, Json, OrchestrationContext,
    Prefetch, Registry, Runtime, RuntimeOptions,
};
use wakeline_store::flow::InstanceState;

use super::start;

/// The number of turns, and of activities, at the beginning; more than there are slots.
const BUSY: u64 = 50;

/// A provider that has items for the first fetches and then none; it counts fetches and acks.
#[derive(Default)]
struct DrainingProvider {
    /// Whether it claims to support long polling. It never waits.
    waits: bool,
    /// Whether its fetches fail.
    failing: AtomicBool,
    turns: AtomicU64,
    work: AtomicU64,
    done: AtomicU64,
}

impl DrainingProvider {
    /// Counts a fetch, and returns the number of fetches before it.
    fn count_fetch(
        &self,
        counter: &AtomicU64,
        poll_timeout: Option<Duration>,
    ) -> Result<u64, ProviderError> {
        assert_eq!(poll_timeout, None, "it cannot wait, or must not wait");
        let fetch_number = counter.fetch_add(1, Ordering::SeqCst);
        if self.failing.load(Ordering::SeqCst) {
            return Err(ProviderError::Retryable { operation: "fetch", source: "no store".into() });
        }
        Ok(fetch_number)
    }

    fn done(&self) -> Result<(), ProviderError> {
        self.done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn turn(fetch_number: u64) -> OrchestrationItem {
    let message = start(&fetch_number.to_string());
    OrchestrationItem {
        instance: message.instance().clone(),
        name: None,
        parent: None,
        lock_token: fetch_number.to_string(),
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

fn activity(fetch_number: u64) -> FetchedWork {
    let task = ActivityTask {
        instance: InstanceId::new("i").expect("valid"),
        execution: 1,
        event: fetch_number,
        identity: None,
        orchestration: OrchestrationName::new("work").expect("valid"),
        name: "a".to_owned(),
        input: Json::null(),
        tag: None,
        session: None,
        policy: Default::default(),
    };
    FetchedWork {
        item: FlowMessage::ActivityExecute(task),
        lock_token: fetch_number.to_string(),
        attempt: 1,
        state: Some(InstanceState::Running),
        tag: None,
        session: None,
    }
}

#[async_trait]
impl Provider for DrainingProvider {
    fn supports_long_polling(&self) -> bool {
        self.waits
    }

    async fn fetch_orchestration_item(
        &self,
        _: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let fetch_number = self.count_fetch(&self.turns, poll_timeout)?;
        Ok((fetch_number < BUSY).then(|| turn(fetch_number)))
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
        let fetch_number = self.count_fetch(&self.work, poll_timeout)?;
        Ok((fetch_number < BUSY).then(|| activity(fetch_number)))
    }

    async fn ack_work_item(&self, _: &str, _: Option<FlowMessage>) -> Result<(), ProviderError> {
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
        _: FlowMessage,
        _: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        Ok(Enqueued::Queued)
    }

    async fn enqueue_for_worker(&self, _: FlowMessage) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn read(&self, _: &InstanceId, _: Option<u64>) -> Result<Vec<Event>, ProviderError> {
        Ok(Vec::new())
    }
}

async fn run(provider: &Arc<DrainingProvider>, options: RuntimeOptions) -> Runtime {
    let code = async |_: OrchestrationContext, _: Json| Ok::<_, FlowError>(());
    let activity = async |_: ActivityContext, _: Json| Ok::<_, FlowError>(());
    let registry = Registry::builder().orchestration("work", code).activity("a", activity);
    let registry = registry.build().expect("no name twice");
    let runtime = Runtime::start_with_options(provider.clone(), registry, options).await;
    runtime.expect("started")
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_long_polling_is_polled_ten_times_a_second_by_each_dispatcher() {
    for prefetch in [Prefetch::default(), Prefetch::Fixed(100)] {
        let provider = Arc::new(DrainingProvider::default());
        let runtime =
            run(&provider, RuntimeOptions { prefetch, ..RuntimeOptions::default() }).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(provider.done.load(Ordering::SeqCst), 2 * BUSY, "it was busy");
        for counter in [&provider.turns, &provider.work] {
            let fetch_number = counter.load(Ordering::SeqCst) - BUSY;
            // Four dispatchers for ten seconds; each makes one more fetch at the beginning.
            assert!((4 * 90..=4 * 101).contains(&fetch_number), "{fetch_number}, {prefetch:?}");
        }
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

/// `dispatcher_long_poll_timeout = None`: "Disable long polling (providers return immediately)".
#[tokio::test(start_paused = true)]
async fn without_a_poll_timeout_fetches_return_at_once_and_dispatchers_sleep() {
    let provider = Arc::new(DrainingProvider { waits: true, ..DrainingProvider::default() });
    let options =
        RuntimeOptions { dispatcher_long_poll_timeout: None, ..RuntimeOptions::default() };
    let runtime = run(&provider, options).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for counter in [&provider.turns, &provider.work] {
        let fetch_number = counter.load(Ordering::SeqCst) - BUSY;
        assert!((4 * 90..=4 * 101).contains(&fetch_number), "{fetch_number}");
    }
    runtime.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn failing_fetches_are_repeated_with_growing_delays_until_one_succeeds() {
    let provider =
        Arc::new(DrainingProvider { failing: true.into(), ..DrainingProvider::default() });
    let runtime = run(&provider, RuntimeOptions::default()).await;
    let fetches = || provider.turns.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(9_950)).await;
    // Four dispatchers fetch at 0, 0.1, 0.3, 0.7 and 1.5 s, and then every second.
    assert_eq!(fetches(), 4 * (5 + 8));
    provider.failing.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(provider.done.load(Ordering::SeqCst), 0, "what there was has been missed");
    let before = fetches();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = fetches() - before;
    assert!((4 * 90..=4 * 101).contains(&after), "{after}: every 100 ms again");
    runtime.shutdown(Duration::from_secs(1)).await;
}
