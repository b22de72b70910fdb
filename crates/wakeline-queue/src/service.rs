//! The operations of queues. Each is one store call, followed by its hints.

mod configure;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    Change, GroupName, LeaseId, LeaseToken, QueueLine, QueueName, Selector, Subscription, Verdict,
};
use wakeline_store::{
    ClaimRequest, Extension, HintOrigin, HintSink, Housekeeping, Intervention, InterventionOutcome,
    MessageKey, PushItem, PushOutcome, QueueClaimResult, Redrive, RedriveJob, RunToCompletion,
    Seek, SettleItem, SettleOutcome, Store, StoreError, TransactCommand, TransactOutcome,
};
use wakeline_wake::{
    HintSource, Hub, HubOptions, LongPollConfig, Patience, Snapshot, TakeError, TakeOutcome,
    WakeMode,
};

use crate::api::{PopRequest, QueueApi};
use crate::capacity::CapacityCache;
use crate::drops::Drops;
use crate::error::QueueError;
use crate::housekeeper::Housekeeper;
use crate::maintenance;
use crate::sink::QueueHintSink;
use crate::statistics::QueueStatistics;

/// The settings of the queue API on this node.
#[derive(Debug, Clone)]
pub struct QueueServiceOptions {
    /// How waiting consumers are notified of work.
    pub mode: WakeMode,
    /// The settings of long polling.
    pub long_poll: LongPollConfig,
    /// How long statistics are kept; with `None` none are written.
    pub statistics_kept: Option<Duration>,
}

impl Default for QueueServiceOptions {
    fn default() -> Self {
        let statistics_kept = Some(Duration::from_secs(7 * 86_400));
        Self { mode: WakeMode::default(), long_poll: LongPollConfig::default(), statistics_kept }
    }
}

/// The parameters of one pop.
#[derive(Debug, Clone)]
pub struct PopCommand {
    /// What to read, and for which consumer group.
    pub line: QueueLine,
    /// Where the group begins, if this is its first poll.
    pub subscription: Subscription,
    /// The maximum number of messages.
    pub batch_len_max: u32,
    /// The number of payload bytes after which no further message is taken.
    pub bytes_max: u64,
    /// The maximum number of partitions.
    pub partitions_len_max: u32,
    /// Whether to settle the messages at once instead of leasing them.
    pub auto_ack: bool,
    /// The name of the consumer, for the ledger.
    pub worker: Option<String>,
    /// How long to wait for messages; with `None` the pop does not wait.
    pub wait: Option<Duration>,
}

/// The result of a pop.
#[derive(Debug)]
pub enum PopOutcome {
    /// The pop returned messages.
    Claimed(QueueClaimResult),
    /// There were no messages within the time to wait.
    Empty,
    /// There were no messages within the time to wait, because pops are paused.
    Paused,
    /// The pop ended without messages because this node is shutting down.
    Drained,
}

/// The operations of queues. Cheap to clone.
#[derive(Clone)]
pub struct QueueService {
    store: Arc<dyn Store>,
    pub(crate) hub: Hub<QueueApi>,
    capacity_cache: Arc<CapacityCache>,
    drops: Arc<Drops>,
    paused: Arc<AtomicBool>,
    pub(crate) stretch_max: Duration,
    /// Notified when a queue was configured on this node.
    configured: Arc<Notify>,
    statistics: Arc<QueueStatistics>,
}

impl QueueService {
    /// Starts the hub. Call [`QueueService::listen`] to receive hints of other processes.
    pub fn start(store: Arc<dyn Store>, options: QueueServiceOptions) -> Self {
        let stretch_max = options.long_poll.max_wait_time;
        let api = Arc::new(QueueApi::new(Arc::clone(&store)));
        let (drops, paused) = (Arc::clone(&api.drops), Arc::clone(&api.paused));
        let hub = Hub::start(
            api,
            HubOptions { label: "queue", mode: options.mode, long_poll: options.long_poll },
        );
        let capacity_cache = Arc::new(CapacityCache::new(Arc::clone(&store)));
        let statistics =
            Arc::new(QueueStatistics::new(Arc::clone(&store), options.statistics_kept));
        let configured = Arc::default();
        Self { store, hub, capacity_cache, drops, paused, stretch_max, configured, statistics }
    }

    /// Passes hints of other processes to the waiters of this one until `shutdown`. In poll mode
    /// hints are not used, and only the store's own upkeep runs.
    pub async fn listen(&self, shutdown: CancellationToken) {
        let sink = self.sink();
        if self.uses_hints() {
            self.store.feed(sink, shutdown).await;
        } else {
            self.store.feed_poll_only(sink, shutdown).await;
        }
    }

    /// Returns a sink that passes hints to this service's waiters, for a listener that serves
    /// several APIs.
    pub fn sink(&self) -> Arc<dyn HintSink> {
        Arc::new(QueueHintSink {
            hub: self.hub.clone(),
            capacity_cache: Arc::clone(&self.capacity_cache),
        })
    }

    /// Returns whether hints wake waiters; in poll mode they do not.
    pub fn uses_hints(&self) -> bool {
        self.hub.mode().uses_hints()
    }

    /// Runs the store's housekeeping when it is due, until `shutdown`.
    pub async fn run_housekeeping(&self, options: Housekeeping, shutdown: CancellationToken) {
        let stats_keep = options.stats_keep.or(self.statistics.keep());
        let options = Housekeeping { stats_keep, ..options };
        Housekeeper::new(self.clone(), options).run(shutdown).await;
    }

    pub(crate) fn statistics(&self) -> &QueueStatistics {
        &self.statistics
    }

    /// Notifies this node's waiters that anything may have changed.
    pub(crate) fn notify_all(&self) {
        self.capacity_cache.forget_all();
        self.hub.everything();
    }

    /// Notifies this node's waiters of changes.
    pub(crate) fn notify(&self, changes: &[Change]) {
        self.hub.hint(changes, HintSource::InProcess);
    }

    pub(crate) fn configured(&self) -> &Arc<Notify> {
        &self.configured
    }

    /// Returns the store, for reading.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the waiters, claims and state of the wake layer, without the server's own background
    /// tasks.
    pub fn wake_snapshot(&self) -> Snapshot {
        self.hub.snapshot()
    }

    /// Answers all parked pops, and prevents further ones from parking.
    pub fn drain(&self) {
        self.hub.drain();
    }

    /// Waits until no claim is in flight and everything that was claimed for cancelled pops is
    /// released. It is meant to follow [`QueueService::drain`], before the store is closed.
    pub async fn wait_for_claims(&self) {
        self.hub.wait_for_claims().await;
    }

    /// Stores messages durably: all of them, or none if there is no capacity for all. Messages for
    /// the partition `Default` go to a lane if the queue has lanes.
    pub async fn push(&self, mut items: Vec<PushItem>) -> Result<Vec<PushOutcome>, QueueError> {
        self.capacity_cache.admit(&mut items, &mut []).await?;
        let (store, statistics) = (Arc::clone(&self.store), Arc::clone(&self.statistics));
        self.run_to_completion(async move {
            let queues: Vec<QueueName> = items.iter().map(|item| item.queue.clone()).collect();
            let reply = maintenance::counted(store.push(items).await)?;
            statistics.pushed(&queues, &reply.outcomes);
            maintenance::count_held(&reply.outcomes);
            Ok((reply.outcomes, reply.changes))
        })
        .await
    }

    /// Takes messages, waiting for them if requested.
    pub async fn pop(&self, pop: PopCommand) -> Result<PopOutcome, QueueError> {
        if pop.line.group.is_background() {
            let reason = "is reserved for the server's own work".to_owned();
            return Err(StoreError::Invalid { field: "consumerGroup", reason }.into());
        }
        let request = PopRequest {
            request: ClaimRequest {
                token: LeaseToken::generate(),
                batch_len_max: pop.batch_len_max,
                bytes_max: pop.bytes_max,
                partitions_len_max: pop.partitions_len_max,
                auto_ack: pop.auto_ack,
                worker: pop.worker,
            },
            subscription: pop.subscription,
        };
        let queue = match &pop.line.selector {
            Selector::Queue(queue) | Selector::Partition(queue, _) => Some(queue.clone()),
            Selector::Filter { .. } => None,
        };
        let popped = match pop.wait {
            None => self.take(pop.line, request, Patience::Now).await,
            Some(wait) => {
                let _waiting = self.statistics.waiting(queue.clone());
                self.wait(pop.line, request, wait).await
            }
        };
        match &popped {
            Ok(PopOutcome::Claimed(result)) => self.statistics.popped(result),
            Ok(_) => self.statistics.popped_empty(queue.as_ref()),
            Err(QueueError::Store(_)) => self.statistics.count_store_error(),
            Err(_) => {}
        }
        popped
    }

    /// Waits for messages.
    async fn wait(
        &self,
        line: QueueLine,
        request: PopRequest,
        wait: Duration,
    ) -> Result<PopOutcome, QueueError> {
        // The hub caps one wait by `max_wait_time`; the caller's own time may be longer. A wait
        // that ended before its cap did so for a reason (for example, long polling is off) and is
        // not repeated.
        let deadline = Instant::now() + wait;
        loop {
            let started = Instant::now();
            let stretch = deadline.saturating_duration_since(started).min(self.stretch_max);
            let popped = self.take(line.clone(), request.clone(), Patience::Wait(stretch)).await?;
            let now = Instant::now();
            let over = now >= deadline || now.duration_since(started) < stretch;
            if over || !matches!(popped, PopOutcome::Empty | PopOutcome::Paused) {
                return Ok(popped);
            }
        }
    }

    /// Settles messages, in any order.
    pub async fn settle(&self, items: Vec<SettleItem>) -> Result<Vec<SettleOutcome>, QueueError> {
        let (store, drops) = (Arc::clone(&self.store), Arc::clone(&self.drops));
        let statistics = Arc::clone(&self.statistics);
        self.run_to_completion(async move {
            let failed = items.iter().any(|item| item.verdict == Verdict::Failed);
            let watched = if failed { items.clone() } else { Vec::new() };
            let reply = store.settle(items).await?;
            drops.settled(&watched, &reply.outcomes);
            statistics.settled(&reply.outcomes);
            Ok((reply.outcomes, reply.changes))
        })
        .await
    }

    /// Executes writes of several APIs atomically. `others` is notified of what became available in
    /// the other APIs.
    pub async fn transact(
        &self,
        mut command: TransactCommand,
        others: Arc<dyn HintSink>,
    ) -> Result<TransactOutcome, QueueError> {
        self.capacity_cache.admit(&mut command.pushes, &mut command.schedules).await?;
        let (store, drops) = (Arc::clone(&self.store), Arc::clone(&self.drops));
        let statistics = Arc::clone(&self.statistics);
        self.run_to_completion(async move {
            let items = command.settles.clone();
            let queues: Vec<_> = command.pushes.iter().map(|item| item.queue.clone()).collect();
            let reply = maintenance::counted(store.transact(command).await)?;
            if let TransactOutcome::Committed(done) = &reply.outcome {
                maintenance::count_held(&done.pushes);
                drops.settled(&items, &done.settles);
                statistics.transacted(&queues, &done.pushes, &done.settles);
            }
            if !reply.flow_changes.is_empty() {
                others.flow_changed(&reply.flow_changes, HintOrigin::InProcess);
            }
            if !reply.hook_changes.is_empty() {
                others.hook_changed(&reply.hook_changes, HintOrigin::InProcess);
            }
            Ok((reply.outcome, reply.changes))
        })
        .await
    }

    /// Extends a lease.
    pub async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, QueueError> {
        Ok(self.store.extend(lease, span).await?)
    }

    /// Deletes a queue. Returns whether it existed.
    pub async fn delete_queue(&self, queue: QueueName) -> Result<bool, QueueError> {
        let existed = self.store.delete_queue(&queue).await;
        self.capacity_cache.forget(&queue);
        Ok(existed?)
    }

    /// Deletes a group, in one queue or in all. Returns the number of cursors removed.
    pub async fn delete_group(
        &self,
        group: GroupName,
        queue: Option<QueueName>,
    ) -> Result<u64, QueueError> {
        let store = Arc::clone(&self.store);
        self.run_to_completion(async move { store.delete_group(&group, queue.as_ref()).await })
            .await
    }

    /// Moves a group to another position. Returns the number of cursors moved.
    pub async fn seek(&self, seek: Seek) -> Result<u64, QueueError> {
        let store = Arc::clone(&self.store);
        self.run_to_completion(async move { store.seek(seek).await }).await
    }

    /// Retries a message of a group, or moves it to the dead letters.
    pub async fn intervene(
        &self,
        message: MessageKey,
        group: GroupName,
        intervention: Intervention,
    ) -> Result<InterventionOutcome, QueueError> {
        let store = Arc::clone(&self.store);
        self.run_to_completion(async move { store.intervene(message, &group, intervention).await })
            .await
    }

    /// Deletes a message for all groups. Returns whether it existed.
    pub async fn delete_message(&self, message: MessageKey) -> Result<bool, QueueError> {
        let store = Arc::clone(&self.store);
        self.run_to_completion(async move { store.delete_message(message).await }).await
    }

    /// Starts a job that redrives dead letters.
    pub async fn redrive(&self, redrive: Redrive) -> Result<RedriveJob, QueueError> {
        let store = Arc::clone(&self.store);
        self.run_to_completion(async move { store.start_redrive(redrive).await }).await
    }

    async fn take(
        &self,
        line: QueueLine,
        request: PopRequest,
        patience: Patience,
    ) -> Result<PopOutcome, QueueError> {
        match self.hub.take(line, request, patience).await {
            Ok(TakeOutcome::Claimed(result)) => Ok(PopOutcome::Claimed(result)),
            Ok(TakeOutcome::Empty) if self.paused.load(Ordering::Relaxed) => Ok(PopOutcome::Paused),
            Ok(TakeOutcome::Empty) => Ok(PopOutcome::Empty),
            Ok(TakeOutcome::Drained) => Ok(PopOutcome::Drained),
            Err(TakeError::TooMany { retry_after }) => {
                Err(QueueError::TooManyWaiters { retry_after })
            }
            Err(TakeError::Claim(error)) => Err(QueueError::Store(error)),
        }
    }

    /// Runs a store call and publishes its hints, to completion: a caller that goes away must not
    /// cause the hints of a commit to be lost.
    async fn run_to_completion<T, Call>(&self, call: Call) -> Result<T, QueueError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<(T, Vec<Change>), StoreError>> + Send + 'static,
    {
        let (hub, statistics) = (self.hub.clone(), Arc::clone(&self.statistics));
        RunToCompletion::new(async move {
            let (value, changes) =
                call.await.inspect_err(|error| statistics.count_failure(error))?;
            if hub.hint(&changes, HintSource::InProcess) {
                // The waiters go first; the answer to this caller is not urgent.
                tokio::task::yield_now().await;
            }
            Ok(value)
        })
        .await
    }
}
