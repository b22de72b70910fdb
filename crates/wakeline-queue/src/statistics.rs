//! Counts in memory what this node does with messages (pushes, pops, settlements and so on), and
//! writes the counts to the store at intervals.
//!
//! # Where it sits
//! [`crate::QueueService`] reports after each call what happened; a background loop writes to the
//! store.
//!
//! # Invariants
//! * The loop writes at most once a minute, and only if there was an event since its last write. An
//!   empty pop is counted, but is not an event in this sense. A request to refresh the statistics,
//!   and the shutdown, write at once.
//! * Each write contains the whole slot and replaces the slot's earlier row in the store, so that
//!   nothing is counted twice. A slot whose write failed is written again.
//! * Counts that were not written when the process dies are lost. These are statistics, not
//!   messages.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp, error_chain};
use wakeline_store::{
    HousekeepingReport, NodeStats, PushOutcome, QueueClaimResult, QueueStats, SettleOutcome,
    StatsRecord, StatsSlot, Store, StoreError,
};

use crate::process_usage;

/// The duration of a slot.
const SLOT_DURATION: Duration = Duration::from_secs(60);
/// The number of queues that a slot counts by name; the others are counted together.
const QUEUES_MAX: usize = 1_000;
/// The maximum number of closed slots that are kept until the store accepts them. If there are
/// more, the oldest is discarded.
const CLOSED_SLOTS_MAX: usize = 60;
/// How long the shutdown waits for the last write.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

type SlotCounts = HashMap<Option<QueueName>, QueueStats>;

/// The statistics of this node.
pub(crate) struct QueueStatistics {
    node: Uuid,
    store: Arc<dyn Store>,
    /// How long statistics are kept; with `None` nothing is written.
    keep: Option<Duration>,
    buffer: Mutex<StatisticsBuffer>,
    /// Notified by the first event of a slot.
    first_event: Notify,
    /// Held by the task that writes; only one writes at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct StatisticsBuffer {
    /// The number of the open slot.
    number: u32,
    /// The time of the first event in the open slot.
    began_at: Option<Instant>,
    open: SlotCounts,
    store_errors: i64,
    /// The processor time of the process when the open slot began, in microseconds.
    cpu_micros_before: i64,
    /// Slots that have ended and that the store does not have yet.
    closed: VecDeque<MinuteSlot>,
    /// The number of waiting pops by queue; `None` for pops that name no queue.
    waiting: HashMap<Option<QueueName>, i64>,
    written_at: Option<Instant>,
}

#[derive(Clone)]
struct MinuteSlot {
    number: u32,
    began_at: Instant,
    node: NodeStats,
    queues: SlotCounts,
}

impl QueueStatistics {
    pub(crate) fn new(store: Arc<dyn Store>, keep: Option<Duration>) -> Self {
        let buffer = StatisticsBuffer {
            cpu_micros_before: process_usage::cpu_micros(),
            ..StatisticsBuffer::default()
        };
        Self {
            node: Uuid::new_v4(),
            store,
            keep,
            buffer: Mutex::new(buffer),
            first_event: Notify::new(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the id under which this process writes.
    pub(crate) fn node(&self) -> Uuid {
        self.node
    }

    /// Returns the time since the last write; `None` if there was none.
    pub(crate) fn since_last_write(&self) -> Option<Duration> {
        self.buffer.lock().written_at.map(|at| at.elapsed())
    }

    /// Counts messages that were pushed to these queues.
    pub(crate) fn pushed(&self, queues: &[QueueName], outcomes: &[PushOutcome]) {
        self.add(pushes(queues, outcomes, true));
    }

    /// Counts a pop that ended with messages.
    pub(crate) fn popped(&self, result: &QueueClaimResult) {
        let now = node_now().0;
        let mut calls = CallCounts::default();
        for (index, partition) in result.partitions.iter().enumerate() {
            let counts = calls.of(Some(&partition.queue));
            counts.pop_requests += i64::from(index == 0);
            let len = partition.messages.len() as i64;
            counts.pop_messages += len;
            // Without a lease they are settled already.
            counts.ack_success += if result.lease.is_none() { len } else { 0 };
            for message in &partition.messages {
                let lag = now.saturating_sub(message.created_at.0);
                counts.lag_sum = counts.lag_sum.saturating_add(lag);
                counts.lag_max = counts.lag_max.max(lag);
            }
        }
        self.add(calls);
    }

    /// Counts an empty pop. The count is written together with the next event.
    pub(crate) fn popped_empty(&self, queue: Option<&QueueName>) {
        let counts = QueueStats { pop_requests: 1, pop_empty: 1, ..QueueStats::default() };
        self.buffer.lock().add(queue, &counts);
    }

    /// Counts a waiting pop, until the returned guard is dropped.
    pub(crate) fn waiting(&self, queue: Option<QueueName>) -> WaitingPop<'_> {
        *self.buffer.lock().waiting.entry(queue.clone()).or_default() += 1;
        WaitingPop { statistics: self, queue }
    }

    /// Counts settlements and failed settlements.
    pub(crate) fn settled(&self, outcomes: &[SettleOutcome]) {
        self.add(settles(outcomes, true));
    }

    /// Counts the pushes and settlements of a transaction.
    pub(crate) fn transacted(
        &self,
        queues: &[QueueName],
        pushed: &[PushOutcome],
        settled: &[SettleOutcome],
    ) {
        let mut calls = pushes(queues, pushed, false);
        calls.merge(settles(settled, false));
        calls.0.iter_mut().for_each(|(_, counts)| counts.transactions += 1);
        self.add(calls);
    }

    /// Returns how long statistics are kept; `None` if none are written.
    pub(crate) fn keep(&self) -> Option<Duration> {
        self.keep
    }

    /// Counts the messages that housekeeping removed, and those that it reported as lost.
    pub(crate) fn housekeeping_done(&self, report: &HousekeepingReport) {
        let mut calls = CallCounts::default();
        if report.removed > 0 {
            calls.of(None).removed += report.removed.cast_signed();
        }
        for (queue, lost) in &report.losses {
            let counts = calls.of(Some(queue));
            counts.expired += lost.expired.cast_signed();
            counts.evicted += lost.evicted.cast_signed();
            counts.dropped += lost.dropped.cast_signed();
        }
        self.add(calls);
    }

    /// Counts a failed call of the store, unless the caller's input was invalid.
    pub(crate) fn count_failure(&self, error: &StoreError) {
        if !matches!(error, StoreError::Invalid { .. }) {
            self.count_store_error();
        }
    }

    /// Counts a failed call of the store.
    pub(crate) fn count_store_error(&self) {
        self.buffer.lock().store_errors += 1;
    }

    fn add(&self, calls: CallCounts) {
        if calls.0.is_empty() {
            return;
        }
        let mut buffer = self.buffer.lock();
        for (queue, counts) in &calls.0 {
            buffer.add(queue.as_ref(), counts);
        }
        if buffer.began_at.is_none() {
            buffer.began_at = Some(Instant::now());
            self.first_event.notify_one();
        }
    }

    /// Writes the statistics until `shutdown`, at most once a minute and only after an event.
    /// Writes the rest at the end.
    pub(crate) async fn run(&self, waiters: impl Fn() -> usize, shutdown: CancellationToken) {
        loop {
            let began_at = self.buffer.lock().began_at;
            match began_at {
                Some(began_at) => tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = tokio::time::sleep_until(began_at + SLOT_DURATION) => {}
                },
                None => tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = self.first_event.notified() => continue,
                },
            }
            self.buffer.lock().close(waiters());
            if let Err(error) = self.write(waiters()).await {
                tracing::warn!(
                    error = error_chain(&error),
                    "statistics could not be written: they stay in memory until the next attempt"
                );
            }
        }
        let last = tokio::time::timeout(LAST_WRITE_TIMEOUT, self.write(waiters())).await;
        if !matches!(last, Ok(Ok(_))) {
            tracing::warn!(
                "the statistics of the last minute could not be written before the shutdown and \
                 are lost"
            );
        }
    }

    /// Writes all slots that the store does not have yet, including the open one. Returns the
    /// number of queues in them, summed over the slots.
    pub(crate) async fn write(&self, waiters: usize) -> Result<u64, StoreError> {
        let Some(keep) = self.keep else { return Ok(0) };
        let _only_writer = self.writing.lock().await;
        let slots = self.buffer.lock().slots(waiters);
        if slots.is_empty() {
            return Ok(0);
        }
        let queues: usize = slots.iter().map(|slot| slot.queues.len()).sum();
        let last = slots.iter().map(|slot| slot.number).max();
        let record = StatsRecord {
            node: self.node,
            node_now: node_now(),
            keep,
            slots: slots.into_iter().map(MinuteSlot::into_stats_slot).collect(),
        };
        self.store.record_stats(record).await?;
        let mut buffer = self.buffer.lock();
        buffer.closed.retain(|slot| Some(slot.number) > last);
        buffer.written_at = Some(Instant::now());
        Ok(queues as u64)
    }
}

/// A waiting pop. It is counted until this is dropped.
pub(crate) struct WaitingPop<'a> {
    statistics: &'a QueueStatistics,
    queue: Option<QueueName>,
}

impl Drop for WaitingPop<'_> {
    /// This also runs if the client of the pop has gone.
    fn drop(&mut self) {
        let mut buffer = self.statistics.buffer.lock();
        if let Some(waiting) = buffer.waiting.get_mut(&self.queue) {
            *waiting -= 1;
            if *waiting <= 0 {
                buffer.waiting.remove(&self.queue);
            }
        }
    }
}

impl StatisticsBuffer {
    fn add(&mut self, queue: Option<&QueueName>, counts: &QueueStats) {
        let known = self.open.len() < QUEUES_MAX || self.open.contains_key(&queue.cloned());
        let key = if known { queue.cloned() } else { None };
        self.open.entry(key).or_default().add(counts);
    }

    /// Returns a copy of the open slot; `None` if it had no event yet.
    fn open_slot(&self, waiters: usize) -> Option<MinuteSlot> {
        let began_at = self.began_at?;
        let mut queues = self.open.clone();
        for (queue, waiting) in &self.waiting {
            if let Some(counts) = queues.get_mut(queue) {
                counts.parked = *waiting;
            }
        }
        let node = NodeStats {
            cpu: process_usage::cpu_micros() - self.cpu_micros_before,
            memory: process_usage::memory_bytes(),
            waiters: waiters as i64,
            store_errors: self.store_errors,
        };
        Some(MinuteSlot { number: self.number, began_at, node, queues })
    }

    /// Closes the open slot. The next one begins with the next event.
    fn close(&mut self, waiters: usize) {
        let Some(slot) = self.open_slot(waiters) else { return };
        self.closed.push_back(slot);
        if self.closed.len() > CLOSED_SLOTS_MAX {
            self.closed.pop_front();
        }
        self.number += 1;
        self.began_at = None;
        self.open.clear();
        self.store_errors = 0;
        self.cpu_micros_before = process_usage::cpu_micros();
    }

    /// Returns the slots that the store does not have yet, or not completely.
    fn slots(&self, waiters: usize) -> Vec<MinuteSlot> {
        self.closed.iter().cloned().chain(self.open_slot(waiters)).collect()
    }
}

impl MinuteSlot {
    fn into_stats_slot(self) -> StatsSlot {
        StatsSlot {
            number: self.number,
            age: self.began_at.elapsed(),
            node: self.node,
            queues: self.queues.into_iter().collect(),
        }
    }
}

/// The counts of one call, by queue.
#[derive(Default)]
struct CallCounts(Vec<(Option<QueueName>, QueueStats)>);

impl CallCounts {
    /// Returns the counts of a queue, which it adds if necessary. It searches from the end, because
    /// consecutive messages of a call are mostly in the same queue.
    fn of(&mut self, queue: Option<&QueueName>) -> &mut QueueStats {
        let found = self.0.iter().rposition(|(other, _)| other.as_ref() == queue);
        let index = found.unwrap_or_else(|| {
            self.0.push((queue.cloned(), QueueStats::default()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    fn merge(&mut self, other: Self) {
        for (queue, counts) in other.0 {
            self.of(queue.as_ref()).add(&counts);
        }
    }
}

/// Counts pushed messages. `is_request` is false for a transaction, which is no push request.
fn pushes(queues: &[QueueName], outcomes: &[PushOutcome], is_request: bool) -> CallCounts {
    let mut calls = CallCounts::default();
    for (queue, outcome) in queues.iter().zip(outcomes) {
        let counts = calls.of(Some(queue));
        match outcome {
            PushOutcome::Queued { .. } | PushOutcome::Held { .. } => counts.push_messages += 1,
            PushOutcome::Duplicate { .. } => counts.push_duplicates += 1,
        }
    }
    calls.0.iter_mut().for_each(|(_, counts)| counts.push_requests = i64::from(is_request));
    calls
}

/// Counts settlements. A failed settlement belongs to no queue, because its queue is not known.
/// `is_request` is false for a transaction, which is no ack request.
fn settles(outcomes: &[SettleOutcome], is_request: bool) -> CallCounts {
    let mut calls = CallCounts::default();
    for outcome in outcomes {
        match outcome {
            SettleOutcome::Settled { queue, dead_lettered, .. } => {
                let counts = calls.of(Some(queue));
                counts.ack_success += 1;
                counts.dead_letters += i64::from(*dead_lettered);
            }
            _ => calls.of(None).ack_failed += 1,
        }
    }
    calls.0.iter_mut().for_each(|(_, counts)| counts.ack_requests = i64::from(is_request));
    calls
}

/// Returns the time of this machine's clock. The store adds the difference to its own clock.
fn node_now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}
