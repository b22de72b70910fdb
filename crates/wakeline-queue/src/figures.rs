//! Counts what happens in queues on this node, in memory, and has it written down now and then.
//!
//! # Where it sits
//! [`crate::QueueService`] tells what happened after each call; a background loop writes to the
//! store.
//!
//! # Invariants
//! * Nothing is written unless something happened since, and a minute has passed: a pop that ends
//!   with nothing is counted, but is no reason to write.
//! * A slot is written as a whole, again and again until the store has it: nothing counts twice.
//! * What was not written when the process dies is lost. These are figures, not messages.

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
    Grant, HousekeepingReport, NodeCounts, PushOutcome, QueueCounts, SettleOutcome, StatsRecord,
    StatsSlot, Store, StoreError,
};

use crate::vitals;

/// How long a slot lasts.
const SLOT: Duration = Duration::from_secs(60);
/// Queues that a slot counts by name; the others go together.
const QUEUES_MAX: usize = 1_000;
/// Slots that wait for the store; older ones are forgotten.
const CLOSED_MAX: usize = 60;
/// How long the last figures of a process that ends are worth waiting for.
const LAST_TIME: Duration = Duration::from_secs(2);

type Counts = HashMap<Option<QueueName>, QueueCounts>;

/// Counts what happens on this node.
pub(crate) struct Figures {
    node: Uuid,
    store: Arc<dyn Store>,
    /// `None`: nothing is written.
    keep: Option<Duration>,
    book: Mutex<Book>,
    happened: Notify,
    /// One writes at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Book {
    number: u32,
    /// When something happened first in the slot that is open.
    began: Option<Instant>,
    open: Counts,
    store_errors: i64,
    cpu_before: i64,
    closed: VecDeque<Slot>,
    /// Pops that wait.
    waiting: HashMap<Option<QueueName>, i64>,
    written_at: Option<Instant>,
}

#[derive(Clone)]
struct Slot {
    number: u32,
    began: Instant,
    node: NodeCounts,
    queues: Counts,
}

impl Figures {
    pub(crate) fn new(store: Arc<dyn Store>, keep: Option<Duration>) -> Self {
        let book = Book { cpu_before: vitals::cpu_micros(), ..Book::default() };
        Self {
            node: Uuid::new_v4(),
            store,
            keep,
            book: Mutex::new(book),
            happened: Notify::new(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// The id under which this process writes.
    pub(crate) fn node(&self) -> Uuid {
        self.node
    }

    /// How long ago something was written; `None` if never.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.book.lock().written_at.map(|at| at.elapsed())
    }

    /// Messages were pushed to these queues.
    pub(crate) fn pushed(&self, queues: &[QueueName], outcomes: &[PushOutcome]) {
        self.add(pushes(queues, outcomes, true));
    }

    /// A pop ended with messages.
    pub(crate) fn popped(&self, grant: &Grant) {
        let now = node_now().0;
        let mut sheet = Sheet::default();
        for (index, partition) in grant.partitions.iter().enumerate() {
            let counts = sheet.of(Some(&partition.queue));
            counts.pop_requests += i64::from(index == 0);
            let len = partition.messages.len() as i64;
            counts.pop_messages += len;
            // Without a lease they are settled already.
            counts.ack_success += if grant.lease.is_none() { len } else { 0 };
            for message in &partition.messages {
                let lag = now.saturating_sub(message.created_at.0);
                counts.lag_sum = counts.lag_sum.saturating_add(lag);
                counts.lag_max = counts.lag_max.max(lag);
            }
        }
        self.add(sheet);
    }

    /// A pop ended with nothing. Told along with the next thing that happens.
    pub(crate) fn popped_nothing(&self, queue: Option<&QueueName>) {
        let counts = QueueCounts { pop_requests: 1, pop_empty: 1, ..QueueCounts::default() };
        self.book.lock().add(queue, &counts);
    }

    /// A pop waits, for as long as what is returned is kept.
    pub(crate) fn waiting(&self, queue: Option<QueueName>) -> Waiting<'_> {
        *self.book.lock().waiting.entry(queue.clone()).or_default() += 1;
        Waiting { figures: self, queue }
    }

    /// Messages were settled, or not.
    pub(crate) fn settled(&self, outcomes: &[SettleOutcome]) {
        self.add(settles(outcomes, true));
    }

    /// A transaction pushed and settled.
    pub(crate) fn transacted(
        &self,
        queues: &[QueueName],
        pushed: &[PushOutcome],
        settled: &[SettleOutcome],
    ) {
        let mut sheet = pushes(queues, pushed, false);
        sheet.merge(settles(settled, false));
        sheet.0.iter_mut().for_each(|(_, counts)| counts.transactions += 1);
        self.add(sheet);
    }

    /// How long figures are kept; `None` if there are none.
    pub(crate) fn keep(&self) -> Option<Duration> {
        self.keep
    }

    /// Housekeeping removed messages, and told of losses.
    pub(crate) fn kept(&self, report: &HousekeepingReport) {
        let mut sheet = Sheet::default();
        if report.removed > 0 {
            sheet.of(None).removed += report.removed.cast_signed();
        }
        for (queue, lost) in &report.losses {
            let counts = sheet.of(Some(queue));
            counts.expired += lost.expired.cast_signed();
            counts.evicted += lost.evicted.cast_signed();
            counts.dropped += lost.dropped.cast_signed();
        }
        self.add(sheet);
    }

    /// A call of the store failed, if the caller is not to blame.
    pub(crate) fn failed_by(&self, error: &StoreError) {
        if !matches!(error, StoreError::Invalid { .. }) {
            self.failed();
        }
    }

    /// A call of the store failed.
    pub(crate) fn failed(&self) {
        self.book.lock().store_errors += 1;
    }

    fn add(&self, sheet: Sheet) {
        if sheet.0.is_empty() {
            return;
        }
        let mut book = self.book.lock();
        for (queue, counts) in &sheet.0 {
            book.add(queue.as_ref(), counts);
        }
        if book.began.is_none() {
            book.began = Some(Instant::now());
            self.happened.notify_one();
        }
    }

    /// Writes what was counted, once a minute while something happens, until `shutdown`; and what
    /// is left then.
    pub(crate) async fn run(&self, waiters: impl Fn() -> usize, shutdown: CancellationToken) {
        loop {
            let began = self.book.lock().began;
            match began {
                Some(began) => tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = tokio::time::sleep_until(began + SLOT) => {}
                },
                None => tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = self.happened.notified() => continue,
                },
            }
            self.book.lock().close(waiters());
            if let Err(error) = self.write(waiters()).await {
                tracing::warn!(
                    error = error_chain(&error),
                    "statistics could not be written; they are kept for now"
                );
            }
        }
        let last = tokio::time::timeout(LAST_TIME, self.write(waiters())).await;
        if !matches!(last, Ok(Ok(_))) {
            tracing::warn!("the last statistics of this process are lost");
        }
    }

    /// Writes what was counted and is not written. Returns how many rows of queues.
    pub(crate) async fn write(&self, waiters: usize) -> Result<u64, StoreError> {
        let Some(keep) = self.keep else { return Ok(0) };
        let _one = self.writing.lock().await;
        let slots = self.book.lock().slots(waiters);
        if slots.is_empty() {
            return Ok(0);
        }
        let queues: usize = slots.iter().map(|slot| slot.queues.len()).sum();
        let last = slots.iter().map(|slot| slot.number).max();
        let record = StatsRecord {
            node: self.node,
            node_now: node_now(),
            keep,
            slots: slots.into_iter().map(Slot::told).collect(),
        };
        self.store.record_stats(record).await?;
        let mut book = self.book.lock();
        book.closed.retain(|slot| Some(slot.number) > last);
        book.written_at = Some(Instant::now());
        Ok(queues as u64)
    }
}

/// A pop that waits.
pub(crate) struct Waiting<'a> {
    figures: &'a Figures,
    queue: Option<QueueName>,
}

impl Drop for Waiting<'_> {
    /// Also of one whose client went away.
    fn drop(&mut self) {
        let mut book = self.figures.book.lock();
        if let Some(waiting) = book.waiting.get_mut(&self.queue) {
            *waiting -= 1;
            if *waiting <= 0 {
                book.waiting.remove(&self.queue);
            }
        }
    }
}

impl Book {
    fn add(&mut self, queue: Option<&QueueName>, counts: &QueueCounts) {
        let known = self.open.len() < QUEUES_MAX || self.open.contains_key(&queue.cloned());
        let key = if known { queue.cloned() } else { None };
        self.open.entry(key).or_default().add(counts);
    }

    /// The open slot as it stands.
    fn opened(&self, waiters: usize) -> Option<Slot> {
        let began = self.began?;
        let mut queues = self.open.clone();
        for (queue, waiting) in &self.waiting {
            if let Some(counts) = queues.get_mut(queue) {
                counts.parked = *waiting;
            }
        }
        let node = NodeCounts {
            cpu: vitals::cpu_micros() - self.cpu_before,
            memory: vitals::memory_bytes(),
            waiters: waiters as i64,
            store_errors: self.store_errors,
        };
        Some(Slot { number: self.number, began, node, queues })
    }

    /// Ends the open slot. The next one begins with what happens next.
    fn close(&mut self, waiters: usize) {
        let Some(slot) = self.opened(waiters) else { return };
        self.closed.push_back(slot);
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front();
        }
        self.number += 1;
        self.began = None;
        self.open.clear();
        self.store_errors = 0;
        self.cpu_before = vitals::cpu_micros();
    }

    fn slots(&self, waiters: usize) -> Vec<Slot> {
        self.closed.iter().cloned().chain(self.opened(waiters)).collect()
    }
}

impl Slot {
    fn told(self) -> StatsSlot {
        StatsSlot {
            number: self.number,
            age: self.began.elapsed(),
            node: self.node,
            queues: self.queues.into_iter().collect(),
        }
    }
}

/// What one call did, by queue.
#[derive(Default)]
struct Sheet(Vec<(Option<QueueName>, QueueCounts)>);

impl Sheet {
    /// Calls speak of few queues, and mostly of the one before.
    fn of(&mut self, queue: Option<&QueueName>) -> &mut QueueCounts {
        let found = self.0.iter().rposition(|(other, _)| other.as_ref() == queue);
        let index = found.unwrap_or_else(|| {
            self.0.push((queue.cloned(), QueueCounts::default()));
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

fn pushes(queues: &[QueueName], outcomes: &[PushOutcome], requests: bool) -> Sheet {
    let mut sheet = Sheet::default();
    for (queue, outcome) in queues.iter().zip(outcomes) {
        let counts = sheet.of(Some(queue));
        match outcome {
            PushOutcome::Queued { .. } | PushOutcome::Held { .. } => counts.push_messages += 1,
            PushOutcome::Duplicate { .. } => counts.push_duplicates += 1,
        }
    }
    sheet.0.iter_mut().for_each(|(_, counts)| counts.push_requests = i64::from(requests));
    sheet
}

/// What a settlement was about is known of those that succeeded.
fn settles(outcomes: &[SettleOutcome], requests: bool) -> Sheet {
    let mut sheet = Sheet::default();
    for outcome in outcomes {
        match outcome {
            SettleOutcome::Settled { queue, dead_lettered, .. } => {
                let counts = sheet.of(Some(queue));
                counts.ack_success += 1;
                counts.dead_letters += i64::from(*dead_lettered);
            }
            _ => sheet.of(None).ack_failed += 1,
        }
    }
    sheet.0.iter_mut().for_each(|(_, counts)| counts.ack_requests = i64::from(requests));
    sheet
}

/// The time by this machine's clock. The store takes the difference to its own out.
fn node_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
