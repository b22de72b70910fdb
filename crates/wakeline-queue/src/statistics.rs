//! Counts in memory what happens in queues on this node, and writes the counts to the store at
//! intervals.
//!
//! # Where it sits
//! [`crate::QueueService`] reports after each call what happened; a background loop writes to the
//! store.
//!
//! # Invariants
//! * Nothing is written unless something has happened since the last write and a minute has passed.
//!   A pop that ends with nothing is counted, but is no reason to write.
//! * A slot is written as a whole, repeatedly until the store has it, and replaces what was written
//!   before: nothing is counted twice.
//! * What was not written when the process dies is lost. These are statistics, not messages.

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
/// The number of slots that wait for the store; older ones are discarded.
const CLOSED_SLOTS_MAX: usize = 60;
/// The time for which a process that ends waits for its last statistics to be written.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

type SlotCounts = HashMap<Option<QueueName>, QueueStats>;

/// Counts what happens on this node.
pub(crate) struct QueueStatistics {
    node: Uuid,
    store: Arc<dyn Store>,
    /// How long statistics are kept; with `None` nothing is written.
    keep: Option<Duration>,
    buffer: Mutex<StatisticsBuffer>,
    first_event: Notify,
    /// Held by the task that writes; only one writes at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct StatisticsBuffer {
    number: u32,
    /// When something happened first in the open slot.
    began_at: Option<Instant>,
    open: SlotCounts,
    store_errors: i64,
    cpu_before: i64,
    closed: VecDeque<MinuteSlot>,
    /// The number of pops that wait.
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
            cpu_before: process_usage::cpu_micros(),
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
    pub(crate) fn age(&self) -> Option<Duration> {
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

    /// Counts a pop that ended with nothing. It is written together with the next other event.
    pub(crate) fn popped_nothing(&self, queue: Option<&QueueName>) {
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

    /// Counts what housekeeping removed, and the losses that it reported.
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
    pub(crate) fn failed_by(&self, error: &StoreError) {
        if !matches!(error, StoreError::Invalid { .. }) {
            self.failed();
        }
    }

    /// Counts a failed call of the store.
    pub(crate) fn failed(&self) {
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

    /// Writes what was counted, once a minute while something happens, until `shutdown`. Then
    /// writes what is left.
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
                    "statistics could not be written; they are kept for now"
                );
            }
        }
        let last = tokio::time::timeout(LAST_WRITE_TIMEOUT, self.write(waiters())).await;
        if !matches!(last, Ok(Ok(_))) {
            tracing::warn!("the last statistics of this process are lost");
        }
    }

    /// Writes what was counted and is not written yet. Returns the number of rows of queues.
    pub(crate) async fn write(&self, waiters: usize) -> Result<u64, StoreError> {
        let Some(keep) = self.keep else { return Ok(0) };
        let _one = self.writing.lock().await;
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

    /// Returns the current state of the open slot.
    fn opened(&self, waiters: usize) -> Option<MinuteSlot> {
        let began_at = self.began_at?;
        let mut queues = self.open.clone();
        for (queue, waiting) in &self.waiting {
            if let Some(counts) = queues.get_mut(queue) {
                counts.parked = *waiting;
            }
        }
        let node = NodeStats {
            cpu: process_usage::cpu_micros() - self.cpu_before,
            memory: process_usage::memory_bytes(),
            waiters: waiters as i64,
            store_errors: self.store_errors,
        };
        Some(MinuteSlot { number: self.number, began_at, node, queues })
    }

    /// Closes the open slot. The next one begins with the next event.
    fn close(&mut self, waiters: usize) {
        let Some(slot) = self.opened(waiters) else { return };
        self.closed.push_back(slot);
        if self.closed.len() > CLOSED_SLOTS_MAX {
            self.closed.pop_front();
        }
        self.number += 1;
        self.began_at = None;
        self.open.clear();
        self.store_errors = 0;
        self.cpu_before = process_usage::cpu_micros();
    }

    fn slots(&self, waiters: usize) -> Vec<MinuteSlot> {
        self.closed.iter().cloned().chain(self.opened(waiters)).collect()
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
    /// Returns the counts of a queue. A call concerns few queues, and mostly the same one as
    /// before, so they are searched from the end.
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

fn pushes(queues: &[QueueName], outcomes: &[PushOutcome], requests: bool) -> CallCounts {
    let mut calls = CallCounts::default();
    for (queue, outcome) in queues.iter().zip(outcomes) {
        let counts = calls.of(Some(queue));
        match outcome {
            PushOutcome::Queued { .. } | PushOutcome::Held { .. } => counts.push_messages += 1,
            PushOutcome::Duplicate { .. } => counts.push_duplicates += 1,
        }
    }
    calls.0.iter_mut().for_each(|(_, counts)| counts.push_requests = i64::from(requests));
    calls
}

/// Counts settlements. The queue is known only of those that succeeded.
fn settles(outcomes: &[SettleOutcome], requests: bool) -> CallCounts {
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
    calls.0.iter_mut().for_each(|(_, counts)| counts.ack_requests = i64::from(requests));
    calls
}

/// Returns the time by this machine's clock. The store corrects it by the difference to its own
/// clock.
fn node_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
