//! The provider over our own stores. It waits in a hub, and serves waiters of this process in the
//! same commit that creates work for them.
//!
//! # Invariants
//! * A write runs to completion even if its caller goes away, so that what it leased to waiting
//!   dispatchers reaches them.
//! * Waiters of this process are notified after the commit, of the changes that the store reports.

mod admin;
mod group;
mod lease_ends;
mod reserved;
mod sink;
mod stored;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::task::TaskTracker;
use uuid::Uuid;
use wakeline_core::{Capabilities, Change, FlowChange, FlowToken, HookChange, InstanceId, OwnerId};
use wakeline_store::flow::{
    Completion, EnqueueOutcome, FlowBackend, InstanceState, SessionClaim, TurnOutcome, TurnRequest,
    WorkOutcome, WorkRequest,
};
use wakeline_store::{AuditAction, StoreError};
use wakeline_wake::{HintSource, Hub, HubOptions, LongPollConfig, Snapshot, WakeMode};

use self::group::ProviderGroup;
use self::lease_ends::LeaseEnds;
use super::Provider;
use super::admin::ProviderAdmin;
use super::api::{FlowApi, FlowHint};
use super::envelope;
use super::item::{
    Enqueued, FetchedWork, OrchestrationAck, OrchestrationItem, ProviderError, WorkFilter,
};
use super::trace::FetchTraces;
use crate::error::FlowError;
use crate::event::Event;
use crate::message::FlowMessage;

/// The number of bytes of history that are read at a time.
const PAGE_BYTES: usize = 1 << 20;

/// The number of characters of an error that are kept with an activity that is retried.
const ERROR_CHARS_MAX: usize = 4_000;

/// Called with the changes of queues to which a turn pushed messages.
pub type QueueHints = Arc<dyn Fn(&[Change]) + Send + Sync>;

/// Called with the changes of webhook endpoints to which a turn emitted messages.
pub type HookHints = Arc<dyn Fn(&[HookChange]) + Send + Sync>;

/// How a provider waits, and which other APIs it notifies.
#[derive(Clone, Default)]
pub struct StoreProviderOptions {
    /// How waiters are woken.
    pub mode: WakeMode,
    /// How the waiters poll.
    pub long_poll: LongPollConfig,
    /// Notified of messages that turns push to queues.
    pub queue_hints: Option<QueueHints>,
    /// Notified of messages that turns emit to webhook endpoints.
    pub hook_hints: Option<HookHints>,
}

/// A provider over a store. It is a handle: clones share one hub.
#[derive(Clone)]
pub struct StoreProvider {
    inner: Arc<StoreProviderInner>,
}

struct StoreProviderInner {
    group: Arc<ProviderGroup>,
    store: Arc<dyn FlowBackend>,
    hub: Hub<FlowApi>,
    long_polling: bool,
    queue_hints: Option<QueueHints>,
    hook_hints: Option<HookHints>,
    writes: TaskTracker,
    traces: FetchTraces,
    lease_ends: LeaseEnds,
}

impl StoreProvider {
    /// Creates a provider on the current tokio runtime. The options must have been validated. It is
    /// a [`HintSink`](wakeline_store::HintSink): pass it the hints of other processes.
    pub fn new(store: Arc<dyn FlowBackend>, options: StoreProviderOptions) -> Self {
        Self::join(Arc::default(), store, options)
    }

    fn join(
        group: Arc<ProviderGroup>,
        store: Arc<dyn FlowBackend>,
        options: StoreProviderOptions,
    ) -> Self {
        let StoreProviderOptions { mode, long_poll, queue_hints, hook_hints } = options;
        let long_polling = long_poll.enabled;
        let api = Arc::new(FlowApi::new(Arc::clone(&store)));
        let hub = Hub::start(api, HubOptions { label: "flow", mode, long_poll });
        let inner = Arc::new(StoreProviderInner {
            group,
            store,
            hub,
            long_polling,
            queue_hints,
            hook_hints,
            writes: TaskTracker::new(),
            traces: FetchTraces::default(),
            lease_ends: LeaseEnds::default(),
        });
        inner.group.add(&inner);
        Self { inner }
    }

    /// Creates a provider over the same store whose waiters are woken in another way. It receives
    /// the same hints.
    pub fn sibling(&self, mode: WakeMode, long_poll: LongPollConfig) -> Self {
        let queue_hints = self.inner.queue_hints.clone();
        let hook_hints = self.inner.hook_hints.clone();
        let options = StoreProviderOptions { mode, long_poll, queue_hints, hook_hints };
        let (group, store) = (Arc::clone(&self.inner.group), Arc::clone(&self.inner.store));
        Self::join(group, store, options)
    }

    /// Whether its wake mode uses hints.
    pub fn uses_hints(&self) -> bool {
        self.inner.hub.mode().uses_hints()
    }

    /// Ends all waits, and refuses new ones.
    pub fn drain(&self) {
        self.inner.hub.drain();
    }

    /// Returns a snapshot of the hub, for diagnosis.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.hub.snapshot()
    }

    /// Runs a write to completion, even if the caller goes away.
    async fn run_to_completion<T: Send + 'static>(
        &self,
        operation: &'static str,
        write: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let writing = match AuditAction::current() {
            Some(action) => self.inner.writes.spawn(action.during(write)),
            None => self.inner.writes.spawn(write),
        };
        writing.await.unwrap_or_else(|error| {
            Err(ProviderError::Retryable { operation, source: Box::new(error) })
        })
    }
}

impl StoreProviderInner {
    fn hint(&self, changes: Vec<FlowChange>) {
        let hints: Vec<_> = changes.into_iter().map(FlowHint::Change).collect();
        self.group.hint(&hints, HintSource::InProcess);
    }
}

/// Converts an error of the store into one that says whether the runtime may try again.
pub(super) fn failed(operation: &'static str, error: impl Into<Arc<StoreError>>) -> ProviderError {
    let error = error.into();
    let later = matches!(*error, StoreError::Full { .. } | StoreError::Maintenance { .. });
    if error.is_transient() || later {
        ProviderError::Retryable { operation, source: Box::new(error) }
    } else {
        ProviderError::Permanent { operation, source: Box::new(error) }
    }
}

fn token(text: &str) -> Result<FlowToken, ProviderError> {
    text.parse().map_err(|_| ProviderError::LockLost)
}

fn enqueued(outcome: EnqueueOutcome) -> Enqueued {
    match outcome {
        EnqueueOutcome::Queued => Enqueued::Queued,
        EnqueueOutcome::Exists => Enqueued::Exists,
        EnqueueOutcome::Ended => Enqueued::Ended,
    }
}

#[async_trait]
impl Provider for StoreProvider {
    fn name(&self) -> &str {
        "wakeline"
    }

    fn supports_long_polling(&self) -> bool {
        self.inner.long_polling
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        self.fetch_orchestration_item_for(&Capabilities::Any, lock_timeout, poll_timeout).await
    }

    async fn fetch_orchestration_item_for(
        &self,
        capabilities: &Capabilities,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<OrchestrationItem>, ProviderError> {
        let capabilities = capabilities.clone();
        let request = TurnRequest { key: Uuid::now_v7(), lease: lock_timeout, capabilities };
        let turn = self.take_turn(request, poll_timeout).await?;
        Ok(turn.map(envelope::orchestration_item))
    }

    async fn ack_orchestration_item(&self, ack: OrchestrationAck) -> Result<(), ProviderError> {
        match self.commit_turn(turn::commit_of(ack)?).await? {
            TurnOutcome::Committed { .. } => Ok(()),
            TurnOutcome::Stale => Err(ProviderError::LockLost),
            TurnOutcome::Conflict { last_event } => Err(ProviderError::Permanent {
                operation: "commit the turn",
                source: format!(
                    "the history has events up to {last_event} already: another process ran \
                     the turn"
                )
                .into(),
            }),
        }
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.give_back(token(lock_token)?, delay.unwrap_or_default(), ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.hold(token(lock_token)?, extend_for).await.map(drop)
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        self.fetch_work_item_for(&WorkFilter::default(), lock_timeout, poll_timeout).await
    }

    async fn fetch_work_item_for(
        &self,
        filter: &WorkFilter,
        lock_timeout: Duration,
        poll_timeout: Option<Duration>,
    ) -> Result<Option<FetchedWork>, ProviderError> {
        let session = filter.session.as_ref().map(|session| SessionClaim {
            owner: session.owner.clone(),
            lease: session.lock_timeout,
        });
        let filter = filter.activities.clone();
        let request = WorkRequest { key: Uuid::now_v7(), lease: lock_timeout, filter, session };
        let work = self.take_work(request, poll_timeout).await?;
        work.map(envelope::fetched).transpose()
    }

    async fn ack_work_item(
        &self,
        lock_token: &str,
        completion: Option<FlowMessage>,
    ) -> Result<(), ProviderError> {
        let envelope = |item: FlowMessage| envelope::envelope(&item, envelope::delayed(None));
        let message = completion.map(envelope).transpose()?;
        let completion = Completion { token: token(lock_token)?, message };
        match self.complete(completion).await? {
            WorkOutcome::Completed(_) => Ok(()),
            WorkOutcome::Stale => Err(ProviderError::LockLost),
        }
    }

    async fn renew_work_item_lock(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<Option<InstanceState>, ProviderError> {
        self.hold(token(lock_token)?, extend_for).await
    }

    async fn abandon_work_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.give_back(token(lock_token)?, delay.unwrap_or_default(), ignore_attempt).await
    }

    async fn retry_work_item(
        &self,
        lock_token: &str,
        delay: Duration,
        error: &FlowError,
    ) -> Result<(), ProviderError> {
        let error: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
        let abandoned =
            self.inner.store.retry_work(token(lock_token)?, envelope::storable(delay), error);
        self.given_back(abandoned.await)
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: FlowMessage,
        delay: Option<Duration>,
    ) -> Result<Enqueued, ProviderError> {
        let envelope = envelope::envelope(&item, envelope::delayed(delay))?;
        self.send(envelope).await.map(enqueued)
    }

    async fn enqueue_for_worker(&self, item: FlowMessage) -> Result<(), ProviderError> {
        let FlowMessage::ActivityExecute(task) = item else {
            return Err(ProviderError::Permanent {
                operation: "enqueue work",
                source: "only activities can be enqueued for workers".into(),
            });
        };
        self.schedule(envelope::work(&task)?).await
    }

    async fn read(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        self.whole_history(instance, execution).await
    }

    async fn renew_session_lock(
        &self,
        owners: &[OwnerId],
        extend_for: Duration,
        idle: Duration,
    ) -> Result<u64, ProviderError> {
        if owners.is_empty() {
            return Ok(0);
        }
        let kept = self.inner.store.keep_sessions(owners.to_vec(), extend_for, idle).await;
        kept.map_err(|error| failed("renew sessions", error))
    }

    async fn release_sessions(&self, owners: &[OwnerId]) -> Result<u64, ProviderError> {
        if owners.is_empty() {
            return Ok(0);
        }
        let ended = self.inner.store.keep_sessions(owners.to_vec(), Duration::ZERO, Duration::MAX);
        let ended = ended.await.map_err(|error| failed("release sessions", error))?;
        if ended > 0 {
            // The store notifies other processes; the workers of this one are woken here.
            self.inner.hub.everything();
        }
        Ok(ended)
    }

    async fn cleanup_orphaned_sessions(&self) -> Result<u64, ProviderError> {
        let gone = self.inner.store.keep_sessions(Vec::new(), Duration::ZERO, Duration::ZERO).await;
        gone.map_err(|error| failed("clean up sessions", error))
    }

    async fn settle(&self) {
        self.inner.traces.gone().await;
    }

    async fn close(&self) {
        self.inner.hub.drain();
        self.inner.writes.close();
        self.inner.writes.wait().await;
        self.inner.hub.wait_for_claims().await;
    }

    fn rewired(&self, mode: WakeMode, long_poll: LongPollConfig) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(self.sibling(mode, long_poll)))
    }

    fn set_degraded_poll_interval(&self, interval: Duration) {
        self.inner.hub.set_degraded_poll_interval(interval);
    }

    fn admin(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }
}
