//! Limits how many turns, or activities, run at the same time, and how many are fetched ahead.
//!
//! # Where it sits
//! The dispatchers of turns share one [`RunSlots`], and those of activities share another. A
//! dispatcher acquires a permit to fetch, then a permit to run, and returns both when the code has
//! ended.
//!
//! # Invariants
//! * There are never more fetch permits than slots plus what may be fetched ahead.
//! * Fetch permits beyond one per slot are created only when an item is fetched while at least as
//!   many items are in flight as there are slots. They are removed as soon as fewer items are in
//!   flight, and with every fetch that finds nothing. An idle runtime therefore has one fetch
//!   permit per slot, whatever it did before.
//! * With adaptive prefetch, nothing is fetched ahead before a run time has been measured. An item
//!   that waits too long is given back, and that counts as a measurement, so a process whose code
//!   has become slow does not withhold items from other processes for long.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::options::Prefetch;

/// The number of turns, or activities, that wait for their commits while others run in their slots.
/// Commits that wait together share a transaction.
const COMMITTING_MAX: usize = 28;
/// The number of additional fetch permits for each item that is fetched while all slots are busy.
/// With two, the permits double whenever all of them have fetched something, and the number of
/// empty fetches stays proportional to the number of successful ones.
const PERMITS_PER_ITEM: usize = 2;
/// The longest time that a fetch waits while there are additional permits. The fetch then ends by
/// itself, so that no permit has to be revoked from a waiting fetch.
const AHEAD_WAIT_MAX: Duration = Duration::from_millis(50);
/// An item that was fetched ahead is given back after this many times the time within which it
/// should have begun.
const LATE_TIMES: u32 = 20;
/// The weight of a new measurement in the mean is one divided by this.
const MEAN_OF: f64 = 8.0;

/// The permits to fetch and to run of the dispatchers of one kind.
pub(super) struct RunSlots {
    fetch_permits: Semaphore,
    run_permits: Semaphore,
    concurrency: usize,
    prefetch: Prefetch,
    pace: Mutex<Pace>,
}

/// The measured run time of the code, and the prefetch derived from it.
#[derive(Debug, Default)]
struct Pace {
    /// The mean run time in seconds; `None` before the first measurement.
    mean: Option<f64>,
    /// The number of items that may be fetched ahead.
    target: usize,
    /// The number of fetch permits beyond one per slot.
    additional: usize,
    /// The number of items that wait for a slot, run, or are being committed.
    in_flight: usize,
}

/// Counts an item as in flight until it is dropped, which is after the item's commit.
pub(super) struct ItemInFlight<'a>(&'a RunSlots);

/// The permission to fetch an item.
pub(super) struct FetchPermit<'a> {
    slots: &'a RunSlots,
    semaphore_permit: Option<SemaphorePermit<'a>>,
}

/// The permission to run the code of an item. It is dropped when the code has ended.
pub(super) struct RunSlot<'a> {
    permit: FetchPermit<'a>,
    _running: SemaphorePermit<'a>,
    began: Instant,
}

impl RunSlots {
    /// Creates slots for this many items at the same time.
    pub(super) fn new(concurrency: usize, prefetch: Prefetch) -> Arc<Self> {
        let fixed = match prefetch {
            Prefetch::Fixed(ahead) => ahead,
            Prefetch::Adaptive { .. } => 0,
        };
        Arc::new(Self {
            fetch_permits: Semaphore::new(concurrency),
            run_permits: Semaphore::new(concurrency),
            concurrency,
            prefetch,
            pace: Mutex::new(Pace { target: fixed, ..Pace::default() }),
        })
    }

    /// The number of dispatchers that are needed to fill the slots, to fetch ahead and to wait for
    /// commits; 0 without a slot.
    pub(super) fn dispatchers(&self) -> usize {
        let ahead = match self.prefetch {
            Prefetch::Fixed(ahead) => ahead,
            Prefetch::Adaptive { max, .. } => max,
        };
        match self.concurrency {
            0 => 0,
            concurrency => concurrency + ahead + ahead.max(COMMITTING_MAX),
        }
    }

    /// Waits for a permit to fetch.
    pub(super) async fn fetch(&self) -> FetchPermit<'_> {
        let semaphore_permit = self.fetch_permits.acquire().await.expect("never closed");
        FetchPermit { slots: self, semaphore_permit: Some(semaphore_permit) }
    }

    /// Records that an item was fetched, and adds fetch permits if it leaves no slot free. A slot
    /// whose item is being committed counts as occupied: otherwise short code would never seem to
    /// fill the slots.
    pub(super) fn in_flight(&self) -> ItemInFlight<'_> {
        let mut pace = self.pace.lock();
        pace.in_flight += 1;
        if pace.in_flight >= self.concurrency {
            let more = pace.target.saturating_sub(pace.additional).min(PERMITS_PER_ITEM);
            self.fetch_permits.add_permits(more);
            pace.additional += more;
        }
        ItemInFlight(self)
    }

    /// Waits for a permit to run.
    pub(super) async fn run(&self) -> SemaphorePermit<'_> {
        self.run_permits.acquire().await.expect("never closed")
    }

    /// Waits until an item that was fetched ahead has waited too long for a slot.
    pub(super) async fn late(&self) {
        match self.prefetch {
            Prefetch::Fixed(_) => std::future::pending().await,
            Prefetch::Adaptive { within, .. } => tokio::time::sleep(within * LATE_TIMES).await,
        }
    }

    /// Records a run time, and adjusts the prefetch to it. With `least`, the code took at least
    /// this long and has not ended.
    fn measured(&self, span: Duration, least: bool) {
        let Prefetch::Adaptive { within, max } = self.prefetch else { return };
        let mut pace = self.pace.lock();
        pace.note(span.as_secs_f64(), least);
        pace.target = ahead(self.concurrency, within.as_secs_f64() / pace.mean.unwrap_or(0.0), max);
        self.trim(&mut pace);
    }

    /// The maximum number of fetch permits beyond one per slot.
    fn additional_max(&self, pace: &Pace) -> usize {
        if pace.in_flight < self.concurrency { 0 } else { pace.target }
    }

    /// Removes surplus fetch permits that are not in use. The others are removed when they are
    /// returned.
    fn trim(&self, pace: &mut Pace) {
        let surplus = pace.additional.saturating_sub(self.additional_max(pace));
        pace.additional -= self.fetch_permits.forget_permits(surplus);
    }
}

/// The number of items that the slots begin in a time, rounded down to a power of two, so that
/// small changes of the run time change nothing.
fn ahead(slots: usize, times: f64, max: usize) -> usize {
    let begun = (slots as f64 * times).min(max as f64) as usize;
    let step = if begun == 0 { 0 } else { 1 << begun.ilog2() };
    if begun == max { max } else { step }
}

impl Pace {
    /// Adds a measurement to the mean. With `least`, it is a lower bound.
    fn note(&mut self, seconds: f64, least: bool) {
        self.mean = Some(match self.mean {
            None => seconds,
            Some(mean) if least => mean.max(seconds),
            Some(mean) => mean + (seconds - mean) / MEAN_OF,
        });
    }
}

impl<'a> FetchPermit<'a> {
    /// The slots that the permit belongs to.
    pub(super) fn slots(&self) -> &'a RunSlots {
        self.slots
    }

    /// Returns how long a fetch with this permit waits, given the poll timeout.
    pub(super) fn patience(&self, poll_timeout: Option<Duration>) -> Option<Duration> {
        let ahead = self.slots.pace.lock().additional > 0;
        poll_timeout.map(|wait| if ahead { wait.min(AHEAD_WAIT_MAX) } else { wait })
    }

    /// Records that the fetch found nothing. Removes the permit if there are more than one per
    /// slot.
    pub(super) fn found_nothing(mut self) -> Option<Self> {
        let mut pace = self.slots.pace.lock();
        if pace.additional == 0 {
            drop(pace);
            return Some(self);
        }
        pace.additional -= 1;
        drop(pace);
        self.semaphore_permit.take().expect("held until it is dropped").forget();
        None
    }

    /// Combines this permit with a permit to run.
    pub(super) fn running(self, running: SemaphorePermit<'a>) -> RunSlot<'a> {
        RunSlot { permit: self, _running: running, began: Instant::now() }
    }

    /// Records that the item that was fetched has waited too long for a slot.
    pub(super) fn was_late(self) {
        if let Prefetch::Adaptive { within, .. } = self.slots.prefetch {
            self.slots.measured(within * LATE_TIMES, true);
        }
    }
}

impl Drop for FetchPermit<'_> {
    /// Returns the permit, or removes it if there are too many.
    fn drop(&mut self) {
        let Some(semaphore_permit) = self.semaphore_permit.take() else { return };
        let mut pace = self.slots.pace.lock();
        if pace.additional > self.slots.additional_max(&pace) {
            pace.additional -= 1;
            semaphore_permit.forget();
        }
    }
}

impl Drop for ItemInFlight<'_> {
    fn drop(&mut self) {
        let mut pace = self.0.pace.lock();
        pace.in_flight -= 1;
        self.0.trim(&mut pace);
    }
}

impl Drop for RunSlot<'_> {
    fn drop(&mut self) {
        self.permit.slots.measured(self.began.elapsed(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAPTIVE: Prefetch = Prefetch::Adaptive { within: Duration::from_millis(50), max: 60 };

    /// Runs an item for a time.
    async fn one(slots: &RunSlots, span: Duration) {
        let permit = slots.fetch().await;
        let _in_flight = slots.in_flight();
        let slot = permit.running(slots.run().await);
        tokio::time::sleep(span).await;
        drop(slot);
    }

    /// Fetches with every permit that there is or becomes available, and always finds an item.
    async fn all(slots: &RunSlots) -> Vec<(FetchPermit<'_>, ItemInFlight<'_>)> {
        let mut all = Vec::new();
        while free_permits(slots) > 0 {
            all.push((slots.fetch().await, slots.in_flight()));
        }
        all
    }

    fn free_permits(slots: &RunSlots) -> usize {
        slots.fetch_permits.available_permits()
    }

    #[tokio::test(start_paused = true)]
    async fn as_much_is_fetched_ahead_as_begins_in_time() {
        let slots = RunSlots::new(4, ADAPTIVE);
        assert_eq!(all(&slots).await.len(), 4, "nothing has been measured yet");
        one(&slots, Duration::from_millis(10)).await;
        assert_eq!(all(&slots).await.len(), 4 + 16, "4 slots begin 20 in 50 ms; in steps: 16");
        for _ in 0..60 {
            one(&slots, Duration::from_micros(10)).await;
        }
        assert_eq!(all(&slots).await.len(), 4 + 60, "not more than the maximum");
        one(&slots, Duration::from_secs(10)).await;
        assert_eq!(all(&slots).await.len(), 4, "nothing would begin in time");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_fetched_ahead_while_a_slot_is_free() {
        for prefetch in [ADAPTIVE, Prefetch::Fixed(60)] {
            let slots = RunSlots::new(4, prefetch);
            one(&slots, Duration::from_micros(10)).await;
            let mut held = all(&slots).await;
            assert_eq!(held.len(), 4 + 60, "all slots are busy");
            held.truncate(3);
            assert_eq!(free_permits(&slots), 1, "one permit per slot");
            held.clear();
            assert_eq!(free_permits(&slots), 4);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_fetch_removes_permits_beyond_one_per_slot() {
        let slots = RunSlots::new(2, Prefetch::Fixed(2));
        let long = Some(Duration::from_secs(30));
        let (first, _one) = (slots.fetch().await, slots.in_flight());
        assert_eq!(first.patience(long), long, "nothing is fetched ahead");
        let (_second, _two) = (slots.fetch().await, slots.in_flight());
        let (third, fourth) = (slots.fetch().await, slots.fetch().await);
        assert_eq!(third.patience(long), Some(AHEAD_WAIT_MAX));
        assert_eq!(third.patience(None), None);
        assert!(third.found_nothing().is_none());
        assert!(fourth.found_nothing().is_none());
        assert_eq!(free_permits(&slots), 0, "although no slot is free");
        assert!(first.found_nothing().is_some(), "one permit per slot stays");
        assert_eq!(free_permits(&slots), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_that_waits_too_long_counts_as_slow() {
        let slots = RunSlots::new(1, ADAPTIVE);
        one(&slots, Duration::from_millis(1)).await;
        let (_running, _one) = (slots.fetch().await, slots.in_flight());
        let (ahead, _two) = (slots.fetch().await, slots.in_flight());
        slots.late().await;
        ahead.was_late();
        assert_eq!(slots.pace.lock().target, 0);
        assert_eq!(
            slots.pace.lock().additional,
            0,
            "its permit is removed, and so are the unused ones"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_prefetch_does_not_change() {
        let slots = RunSlots::new(2, Prefetch::Fixed(3));
        one(&slots, Duration::from_secs(100)).await;
        assert_eq!(all(&slots).await.len(), 5);
    }
}
