//! The queue's operations, each one store call followed by its hints.

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
    Carried, ClaimRequest, Extension, Grant, HintOrigin, HintSink, Housekeeping, Intervened,
    Intervention, MessageKey, PushItem, PushOutcome, Redrive, RedriveJob, Seek, SettleItem,
    SettleOutcome, Store, StoreError, TransactCommand, TransactOutcome,
};
use wakeline_wake::{
    HintSource, Hub, HubOptions, LongPollConfig, Patience, Snapshot, TakeError, Taken, WakeMode,
};

use crate::drops::Drops;
use crate::error::QueueError;
use crate::face::{Ask, QueueFace};
use crate::figures::Figures;
use crate::keeper::HouseKeeper;
use crate::maintenance;
use crate::room::Rooms;
use crate::sink::HubSink;

/// How the queue face runs on this node.
#[derive(Debug, Clone)]
pub struct QueueServiceOptions {
    /// How waiting consumers learn of work.
    pub mode: WakeMode,
    /// The settings of long polling.
    pub long_poll: LongPollConfig,
    /// How long figures over time are kept; `None` writes none.
    pub figures_kept: Option<Duration>,
}

impl Default for QueueServiceOptions {
    fn default() -> Self {
        let figures_kept = Some(Duration::from_secs(7 * 86_400));
        Self { mode: WakeMode::default(), long_poll: LongPollConfig::default(), figures_kept }
    }
}

/// One pop.
#[derive(Debug, Clone)]
pub struct Pop {
    /// What to read, for whom.
    pub line: QueueLine,
    /// Where the group begins, if this is its first poll.
    pub subscription: Subscription,
    /// Most messages.
    pub batch_len_max: u32,
    /// Once it has so many bytes of payload it takes no more.
    pub bytes_max: u64,
    /// Most partitions.
    pub partitions_len_max: u32,
    /// Settle at once instead of leasing.
    pub auto_ack: bool,
    /// Who asks, for the ledger.
    pub worker: Option<String>,
    /// How long to wait for something; `None` does not wait.
    pub wait: Option<Duration>,
}

/// How a pop ended.
#[derive(Debug)]
pub enum Popped {
    /// With messages.
    Granted(Grant),
    /// With nothing, in time.
    Empty,
    /// With nothing, in time: pops are paused.
    Paused,
    /// With nothing, because this node is going away.
    Drained,
}

/// The queue's operations. Cheap to clone.
#[derive(Clone)]
pub struct QueueService {
    store: Arc<dyn Store>,
    pub(crate) hub: Hub<QueueFace>,
    rooms: Arc<Rooms>,
    drops: Arc<Drops>,
    paused: Arc<AtomicBool>,
    pub(crate) stretch_max: Duration,
    /// A queue was configured here.
    configured: Arc<Notify>,
    figures: Arc<Figures>,
}

impl QueueService {
    /// Starts the hub. Call [`QueueService::listen`] to hear of other processes.
    pub fn start(store: Arc<dyn Store>, options: QueueServiceOptions) -> Self {
        let stretch_max = options.long_poll.max_wait_time;
        let face = Arc::new(QueueFace::new(Arc::clone(&store)));
        let (drops, paused) = (Arc::clone(&face.drops), Arc::clone(&face.paused));
        let hub = Hub::start(
            face,
            HubOptions { label: "queue", mode: options.mode, long_poll: options.long_poll },
        );
        let rooms = Arc::new(Rooms::new(Arc::clone(&store)));
        let figures = Arc::new(Figures::new(Arc::clone(&store), options.figures_kept));
        let configured = Arc::default();
        Self { store, hub, rooms, drops, paused, stretch_max, configured, figures }
    }

    /// Feeds hints of other processes to this one's waiters until `shutdown`. In poll mode nobody
    /// listens, and the store is only tended.
    pub async fn listen(&self, shutdown: CancellationToken) {
        let sink = self.sink();
        match self.uses_hints() {
            true => self.store.feed(sink, shutdown).await,
            false => self.store.tend(sink, shutdown).await,
        }
    }

    /// Takes hints in for this service's waiters: for who listens on behalf of several faces.
    pub fn sink(&self) -> Arc<dyn HintSink> {
        Arc::new(HubSink { hub: self.hub.clone(), rooms: Arc::clone(&self.rooms) })
    }

    /// Whether hints wake anybody here; in poll mode they do not.
    pub fn uses_hints(&self) -> bool {
        self.hub.mode().uses_hints()
    }

    /// Has the store's housekeeping done when it is due, until `shutdown`.
    pub async fn keep_house(&self, how: Housekeeping, shutdown: CancellationToken) {
        let stats_keep = how.stats_keep.or(self.figures.keep());
        let how = Housekeeping { stats_keep, ..how };
        HouseKeeper::new(self.clone(), how).run(shutdown).await;
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Tells this node's waiters that anything may have changed.
    pub(crate) fn tell_everything(&self) {
        self.rooms.forget_all();
        self.hub.everything();
    }

    /// Tells this node's waiters.
    pub(crate) fn tell(&self, changes: &[Change]) {
        self.hub.hint(changes, HintSource::InProcess);
    }

    pub(crate) fn configured(&self) -> &Arc<Notify> {
        &self.configured
    }

    /// The store, for reading.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waiters, claims and state of the wake layer. Its own background work is not among them.
    pub fn wake_snapshot(&self) -> Snapshot {
        self.hub.snapshot()
    }

    /// Answers all parked pops, and lets no new one park.
    pub fn drain(&self) {
        self.hub.drain();
    }

    /// Waits until no claim is under way and what was claimed for nobody is released. Meant to
    /// follow [`QueueService::drain`], before the store is closed.
    pub async fn settled(&self) {
        self.hub.settled().await;
    }

    /// Stores messages durably, all of them, or none if there is no room for all. Messages for
    /// `Default` go to a lane, if the queue has lanes.
    pub async fn push(&self, mut items: Vec<PushItem>) -> Result<Vec<PushOutcome>, QueueError> {
        self.rooms.admit(&mut items, &mut []).await?;
        let (store, figures) = (Arc::clone(&self.store), Arc::clone(&self.figures));
        self.to_the_end(async move {
            let queues: Vec<QueueName> = items.iter().map(|item| item.queue.clone()).collect();
            let reply = maintenance::counted(store.push(items).await)?;
            figures.pushed(&queues, &reply.outcomes);
            maintenance::count_held(&reply.outcomes);
            Ok((reply.outcomes, reply.changes))
        })
        .await
    }

    /// Takes messages, waiting for them if asked to.
    pub async fn pop(&self, pop: Pop) -> Result<Popped, QueueError> {
        if pop.line.group.is_chores() {
            let reason = "is reserved for the server's own work".to_owned();
            return Err(StoreError::Invalid { field: "consumerGroup", reason }.into());
        }
        let ask = Ask {
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
            None => self.take(pop.line, ask, Patience::Now).await,
            Some(wait) => {
                let _waiting = self.figures.waiting(queue.clone());
                self.wait(pop.line, ask, wait).await
            }
        };
        match &popped {
            Ok(Popped::Granted(grant)) => self.figures.popped(grant),
            Ok(_) => self.figures.popped_nothing(queue.as_ref()),
            Err(QueueError::Store(_)) => self.figures.failed(),
            Err(_) => {}
        }
        popped
    }

    /// Waits for messages.
    async fn wait(&self, line: QueueLine, ask: Ask, wait: Duration) -> Result<Popped, QueueError> {
        // The hub caps one wait by `max_wait_time`; the caller's own time may be longer. A wait
        // that ended before its cap has its reasons (long polling is off), and is not repeated.
        let deadline = Instant::now() + wait;
        loop {
            let started = Instant::now();
            let stretch = deadline.saturating_duration_since(started).min(self.stretch_max);
            let popped = self.take(line.clone(), ask.clone(), Patience::Wait(stretch)).await?;
            let now = Instant::now();
            let over = now >= deadline || now.duration_since(started) < stretch;
            if over || !matches!(popped, Popped::Empty | Popped::Paused) {
                return Ok(popped);
            }
        }
    }

    /// Settles messages, in any order.
    pub async fn settle(&self, items: Vec<SettleItem>) -> Result<Vec<SettleOutcome>, QueueError> {
        let (store, drops) = (Arc::clone(&self.store), Arc::clone(&self.drops));
        let figures = Arc::clone(&self.figures);
        self.to_the_end(async move {
            let failed = items.iter().any(|item| item.verdict == Verdict::Failed);
            let watched = if failed { items.clone() } else { Vec::new() };
            let reply = store.settle(items).await?;
            drops.settled(&watched, &reply.outcomes);
            figures.settled(&reply.outcomes);
            Ok((reply.outcomes, reply.changes))
        })
        .await
    }

    /// Writes of all faces, all or nothing. `others` are told what became available to theirs.
    pub async fn transact(
        &self,
        mut command: TransactCommand,
        others: Arc<dyn HintSink>,
    ) -> Result<TransactOutcome, QueueError> {
        self.rooms.admit(&mut command.pushes, &mut command.schedules).await?;
        let (store, drops) = (Arc::clone(&self.store), Arc::clone(&self.drops));
        let figures = Arc::clone(&self.figures);
        self.to_the_end(async move {
            let items = command.settles.clone();
            let queues: Vec<_> = command.pushes.iter().map(|item| item.queue.clone()).collect();
            let reply = maintenance::counted(store.transact(command).await)?;
            if let TransactOutcome::Committed(done) = &reply.outcome {
                maintenance::count_held(&done.pushes);
                drops.settled(&items, &done.settles);
                figures.transacted(&queues, &done.pushes, &done.settles);
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

    /// Holds on to a lease.
    pub async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, QueueError> {
        Ok(self.store.extend(lease, span).await?)
    }

    /// Removes a queue. True if it existed.
    pub async fn delete_queue(&self, queue: QueueName) -> Result<bool, QueueError> {
        let existed = self.store.delete_queue(&queue).await;
        self.rooms.forget(&queue);
        Ok(existed?)
    }

    /// Forgets a group, in one queue or in all. Returns the number of cursors removed.
    pub async fn delete_group(
        &self,
        group: GroupName,
        queue: Option<QueueName>,
    ) -> Result<u64, QueueError> {
        let store = Arc::clone(&self.store);
        self.to_the_end(async move { store.delete_group(&group, queue.as_ref()).await }).await
    }

    /// Moves a group. Returns the number of cursors moved.
    pub async fn seek(&self, seek: Seek) -> Result<u64, QueueError> {
        let store = Arc::clone(&self.store);
        self.to_the_end(async move { store.seek(seek).await }).await
    }

    /// Retries a message of a group, or gives it up.
    pub async fn intervene(
        &self,
        message: MessageKey,
        group: GroupName,
        intervention: Intervention,
    ) -> Result<Intervened, QueueError> {
        let store = Arc::clone(&self.store);
        self.to_the_end(async move { store.intervene(message, &group, intervention).await }).await
    }

    /// Deletes a message for all groups. True if there was one.
    pub async fn delete_message(&self, message: MessageKey) -> Result<bool, QueueError> {
        let store = Arc::clone(&self.store);
        self.to_the_end(async move { store.delete_message(message).await }).await
    }

    /// Starts a job that redrives dead letters.
    pub async fn redrive(&self, redrive: Redrive) -> Result<RedriveJob, QueueError> {
        let store = Arc::clone(&self.store);
        self.to_the_end(async move { store.start_redrive(redrive).await }).await
    }

    async fn take(
        &self,
        line: QueueLine,
        ask: Ask,
        patience: Patience,
    ) -> Result<Popped, QueueError> {
        match self.hub.take(line, ask, patience).await {
            Ok(Taken::Granted(grant)) => Ok(Popped::Granted(grant)),
            Ok(Taken::Empty) if self.paused.load(Ordering::Relaxed) => Ok(Popped::Paused),
            Ok(Taken::Empty) => Ok(Popped::Empty),
            Ok(Taken::Drained) => Ok(Popped::Drained),
            Err(TakeError::TooMany { retry_after }) => {
                Err(QueueError::TooManyWaiters { retry_after })
            }
            Err(TakeError::Claim(error)) => Err(QueueError::Store(error)),
        }
    }

    /// Runs a store call and gives its hints, to the end: a caller that goes away must not take
    /// the hints of a commit with it.
    async fn to_the_end<T, Call>(&self, call: Call) -> Result<T, QueueError>
    where
        T: Send + 'static,
        Call: Future<Output = Result<(T, Vec<Change>), StoreError>> + Send + 'static,
    {
        let (hub, figures) = (self.hub.clone(), Arc::clone(&self.figures));
        Carried::new(async move {
            let (value, changes) = call.await.inspect_err(|error| figures.failed_by(error))?;
            if hub.hint(&changes, HintSource::InProcess) {
                // Those who wait for it go first; the answer to this caller is not urgent.
                tokio::task::yield_now().await;
            }
            Ok(value)
        })
        .await
    }
}
