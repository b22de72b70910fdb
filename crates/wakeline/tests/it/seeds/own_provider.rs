//! A provider of a user's own, which answers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    turns: AtomicU64,
    work: AtomicU64,
    done: AtomicU64,
}

impl SoonEmpty {
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
    async fn fetch_orchestration_item(
        &self,
        _: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        assert_eq!(poll_timeout, None, "it said that it cannot wait");
        let asked = self.turns.fetch_add(1, Ordering::SeqCst);
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
        assert_eq!(poll_timeout, None, "it said that it cannot wait");
        let asked = self.work.fetch_add(1, Ordering::SeqCst);
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

#[tokio::test(start_paused = true)]
async fn a_provider_without_long_polling_is_asked_ten_times_a_second_by_each_dispatcher() {
    for prefetch in [Prefetch::default(), Prefetch::Fixed(100)] {
        let provider = Arc::new(SoonEmpty::default());
        let code = async |_: OrchestrationContext, _: Json| Ok::<_, FlowError>(());
        let activity = async |_: ActivityContext, _: Json| Ok::<_, FlowError>(());
        let registry = Registry::builder().orchestration("work", code).activity("a", activity);
        let registry = registry.build().expect("no name twice");
        let options = RuntimeOptions { prefetch, ..RuntimeOptions::default() };
        let runtime = Runtime::start_with_options(provider.clone(), registry, options).await;
        let runtime = runtime.expect("started");
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
