//! The provider: an implementation of duroxide's trait over a store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;
use wakeline_core::{ActivityFilter, TagFilter as StoredTags};
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_store::flow::{
    Completion, FlowBackend, SessionClaim, TurnOutcome, WorkOutcome, WorkRequest,
};
use wakeline_store::{HintFeed, StoreAdmin, StoreError};
use wakeline_wake::{LongPollConfig, Snapshot, WakeMode};

use crate::ack::Ack;
use crate::envelope;
use crate::error::{lock_lost, of_flow, of_store, permanent};
use crate::listener::ListenerSink;
use crate::names;
use crate::token::{self, TurnToken};
use crate::versions::Versions;

/// How a provider waits.
#[derive(Debug, Clone, Default)]
pub struct DuroxideOptions {
    /// How fetches that wait are woken.
    pub mode: WakeMode,
    /// How the waiting fetches poll.
    pub long_poll: LongPollConfig,
}

/// A store that a provider can be created over. It keeps orchestrations, and reports the changes of
/// other processes.
pub trait DuroxideStore: FlowBackend + HintFeed + StoreAdmin {}

impl<S: FlowBackend + HintFeed + StoreAdmin> DuroxideStore for S {}

/// An implementation of duroxide's provider over a store. It is a handle: clones share their
/// waiters and one listener to other processes. The listener ends when the last clone is dropped,
/// and so do the connections of a store that the provider has opened. Most programs use the
/// constructors of `PostgresProvider` or `SqliteProvider`.
///
/// # Limits
/// * Instance ids, names, tags, sessions, owners and keys have at most 255 bytes, and fewer if
///   they contain control characters or `%`.
/// * Events are appended only by acknowledging turns: `append_with_execution` is refused.
pub struct DuroxideProvider<S> {
    pub(crate) inner: StoreProvider,
    pub(crate) versions: Arc<Versions>,
    /// Set once the versions that instances of the store are pinned to were looked up.
    pub(crate) looked_up: Arc<OnceCell<()>>,
    /// The store, if this provider has opened it.
    opened: Option<Arc<S>>,
    /// Ends the listener.
    listening: Arc<DropGuard>,
}

impl<S> Clone for DuroxideProvider<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            versions: Arc::clone(&self.versions),
            looked_up: Arc::clone(&self.looked_up),
            opened: self.opened.clone(),
            listening: Arc::clone(&self.listening),
        }
    }
}

impl<S: DuroxideStore + 'static> DuroxideProvider<S> {
    /// Creates a provider on the current tokio runtime over a store that is already open. It
    /// listens to changes of other processes. The store stays open when the provider is closed. Use
    /// a store for only one provider.
    pub fn over(store: Arc<S>, options: DuroxideOptions) -> Result<Self, StoreError> {
        let DuroxideOptions { mode, long_poll } = options;
        long_poll.validate().map_err(|error| StoreError::Invalid {
            field: error.field,
            reason: error.reason.to_owned(),
        })?;
        let waits = long_poll.enabled;
        let options = StoreProviderOptions { mode, long_poll, ..Default::default() };
        let inner = StoreProvider::new(store.clone(), options);
        let versions: Arc<Versions> = Arc::default();
        let shutdown = CancellationToken::new();
        if waits {
            let sink =
                Arc::new(ListenerSink { inner: inner.clone(), versions: Arc::clone(&versions) });
            let (shutdown, hints) = (shutdown.clone(), inner.uses_hints());
            tokio::spawn(async move {
                if hints {
                    store.feed(sink, shutdown).await;
                } else {
                    store.feed_poll_only(sink, shutdown).await;
                }
            });
        }
        let listening = Arc::new(shutdown.drop_guard());
        Ok(Self { inner, versions, looked_up: Arc::default(), opened: None, listening })
    }

    /// Creates a provider that owns its store and closes it.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn owning(store: S, options: DuroxideOptions) -> Result<Self, StoreError> {
        let store = Arc::new(store);
        let provider = Self::over(Arc::clone(&store), options)?;
        Ok(Self { opened: Some(store), ..provider })
    }

    /// Ends all waits, waits for writes in progress, and closes the store if this provider has
    /// opened it. Shut runtimes down first. Dropping the last handle also ends the listener and the
    /// connections, but without waiting.
    pub async fn close(&self) {
        wakeline_flow::provider::Provider::close(&self.inner).await;
        if let Some(store) = &self.opened {
            store.close().await;
        }
    }
}

impl<S> DuroxideProvider<S> {
    /// Returns a snapshot of the waiting fetches: their number, why they woke, whether hints
    /// arrive.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    pub(crate) fn store(&self) -> &dyn FlowBackend {
        self.inner.store().as_ref()
    }
}

#[async_trait]
impl<S: Send + Sync + 'static> Provider for DuroxideProvider<S> {
    fn name(&self) -> &str {
        "wakeline"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        self.fetch_turn(lock_timeout, poll_timeout, filter).await
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let ack = Ack {
            token: TurnToken::parse(OP_ACK, lock_token)?,
            execution: execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        };
        let commit = ack.into_commit(self).await?;
        if let Some(pinned) = &commit.pinned {
            self.versions.record(&pinned.capability);
        }
        match self.inner.commit_turn(commit).await.map_err(of_flow(OP_ACK))? {
            TurnOutcome::Committed { .. } => Ok(()),
            TurnOutcome::Stale => Err(lock_lost(OP_ACK)),
            TurnOutcome::Conflict { last_event } => Err(permanent(
                OP_ACK,
                format!("duplicate event: the history already has event {last_event}"),
            )),
        }
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        const OP: &str = "abandon_orchestration_item";
        let token = TurnToken::parse(OP, lock_token)?.token;
        let delay = delay.unwrap_or_default();
        self.inner.give_back(token, delay, ignore_attempt).await.map_err(of_flow(OP))
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        const OP: &str = "renew_orchestration_item_lock";
        let token = TurnToken::parse(OP, token)?.token;
        self.inner.hold(token, extend_for).await.map(drop).map_err(of_flow(OP))
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.history("read", instance, None).await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.history("read_with_execution", instance, Some(execution_id)).await
    }

    async fn append_with_execution(
        &self,
        _instance: &str,
        _execution_id: u64,
        _new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let reason = "events can only be appended by acknowledging a turn";
        Err(permanent("append_with_execution", reason))
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        const OP: &str = "enqueue_for_worker";
        self.inner.schedule(envelope::work(OP, &item)?).await.map_err(of_flow(OP))
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        const OP: &str = "fetch_work_item";
        let request = WorkRequest {
            key: Uuid::now_v7(),
            lease: lock_timeout,
            // duroxide does not report which activities a worker knows.
            filter: ActivityFilter::of_tags(tags(OP, tag_filter)?),
            session: session.map(|config| claim(OP, config)).transpose()?,
        };
        let patience = Some(poll_timeout).filter(|timeout| !timeout.is_zero());
        let work = self.inner.take_work(request, patience).await.map_err(of_flow(OP))?;
        let Some(work) = work else { return Ok(None) };
        let item = serde_json::from_slice(&work.payload).map_err(|error| {
            let (activity, instance) = (work.key.activity, &work.instance);
            permanent(OP, format!("activity {activity} of {instance} cannot be decoded: {error}"))
        })?;
        Ok(Some((item, work.token.to_string(), work.attempt)))
    }

    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        const OP: &str = "ack_work_item";
        let token = token::parse(OP, token)?;
        let message = completion.map(|item| envelope::envelope(OP, &item, envelope::delayed(None)));
        let completion = Completion { token, message: message.transpose()? };
        match self.inner.complete(completion).await.map_err(of_flow(OP))? {
            WorkOutcome::Completed(_) => Ok(()),
            WorkOutcome::Stale => Err(lock_lost(OP)),
        }
    }

    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        const OP: &str = "renew_work_item_lock";
        let token = token::parse(OP, token)?;
        self.inner.hold(token, extend_for).await.map(drop).map_err(of_flow(OP))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        const OP: &str = "abandon_work_item";
        let token = token::parse(OP, token)?;
        let delay = delay.unwrap_or_default();
        self.inner.give_back(token, delay, ignore_attempt).await.map_err(of_flow(OP))
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        const OP: &str = "renew_session_lock";
        if owner_ids.is_empty() {
            return Ok(0);
        }
        let owners: Result<_, _> = owner_ids.iter().map(|owner| names::owner(OP, owner)).collect();
        let kept = self.store().keep_sessions(owners?, extend_for, idle_timeout).await;
        kept.map(counted).map_err(of_store(OP))
    }

    /// Removes sessions that have expired and have no waiting activities, regardless of the idle
    /// time.
    async fn cleanup_orphaned_sessions(&self, _: Duration) -> Result<usize, ProviderError> {
        let gone = self.store().keep_sessions(Vec::new(), Duration::ZERO, Duration::ZERO).await;
        gone.map(counted).map_err(of_store("cleanup_orphaned_sessions"))
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        const OP: &str = "enqueue_for_orchestrator";
        let envelope = envelope::envelope(OP, &item, envelope::delayed(delay))?;
        self.inner.send(envelope).await.map(drop).map_err(of_flow(OP))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let detail = self.detail("get_custom_status", instance).await?;
        Ok(detail
            .filter(|detail| detail.status_version > last_seen_version)
            .map(|detail| (detail.status, detail.status_version)))
    }

    async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        Ok(self.kv("get_kv_value", instance, Some(key)).await?.remove(key))
    }

    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        self.kv("get_kv_all_values", instance, None).await
    }

    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        self.stats("get_instance_stats", instance).await
    }
}

/// The name of the operation in errors.
pub(crate) const OP_ACK: &str = "ack_orchestration_item";

fn counted(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn claim(
    operation: &'static str,
    config: &SessionFetchConfig,
) -> Result<SessionClaim, ProviderError> {
    let owner = names::owner(operation, &config.owner_id)?;
    Ok(SessionClaim { owner, lease: config.lock_timeout })
}

fn tags(operation: &'static str, filter: &TagFilter) -> Result<StoredTags, ProviderError> {
    let (untagged, tags) = match filter {
        TagFilter::Any => return Ok(StoredTags::Any),
        TagFilter::DefaultOnly => return Ok(StoredTags::untagged()),
        TagFilter::None => (false, None),
        TagFilter::Tags(tags) => (false, Some(tags)),
        TagFilter::DefaultAnd(tags) => (true, Some(tags)),
    };
    let tags: Result<_, _> =
        tags.into_iter().flatten().map(|tag| names::tag(operation, tag)).collect();
    Ok(StoredTags::Of { untagged, tags: tags? })
}
