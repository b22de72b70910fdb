//! How much of a kind runs at once, and how much is fetched ahead of that.
//!
//! # Where it sits
//! The dispatchers of turns share one [`Slots`], those of activities another. A dispatcher fetches
//! with a right to fetch, waits for a right to run, and gives both back when the code has ended.
//!
//! # Invariants
//! * Never more rights to fetch than slots plus what may be fetched ahead.
//! * Rights beyond one per slot come only with what is at hand while that is as much as there are
//!   slots. They go as soon as it is less, and with every fetch that was in vain. So an idle
//!   runtime fetches with one right per slot, whatever it did before.
//! * Adaptive: nothing is fetched ahead before something has been measured; what waits too long
//!   goes back, and counts as a measurement. So a process whose code has become slow keeps
//!   nothing from the others for long.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::options::Prefetch;

/// Turns, and activities, that wait for their commits while others run in their slots. Commits that
/// wait together share a transaction.
const COMMITTING_MAX: usize = 28;
/// Rights to fetch ahead that come with each item at hand. Two: they double with every fetch that
/// fills them, and what is fetched in vain stays in proportion to what is not.
const RIGHTS_PER_ITEM: usize = 2;
/// A fetch waits so long at most while there are rights to fetch ahead: it ends by itself, and
/// nothing has to be taken back from it.
const AHEAD_WAIT_MAX: Duration = Duration::from_millis(50);
/// What was fetched ahead goes back after waiting so many times as long as it should have.
const LATE_TIMES: u32 = 20;
/// A new measurement's part of the mean: one in so many.
const MEAN_OF: f64 = 8.0;

/// How many dispatchers may fetch, and how many may run what they fetched.
pub(super) struct Slots {
    fetching: Semaphore,
    running: Semaphore,
    concurrency: usize,
    prefetch: Prefetch,
    pace: Mutex<Pace>,
}

/// What is known of how long the code runs, and what is made of it.
#[derive(Debug, Default)]
struct Pace {
    /// Seconds.
    mean: Option<f64>,
    /// How many may be fetched ahead.
    target: usize,
    /// How many rights to fetch there are beyond one per slot.
    given: usize,
    /// How many items wait for a slot, run, or are being committed.
    at_hand: usize,
}

/// An item that was fetched and is not done with.
pub(super) struct AtHand<'a>(&'a Slots);

/// The right to fetch.
pub(super) struct Fetching<'a> {
    slots: &'a Slots,
    permit: Option<SemaphorePermit<'a>>,
}

/// The right to run. It ends with the code that it was for.
pub(super) struct Slot<'a> {
    fetching: Fetching<'a>,
    _running: SemaphorePermit<'a>,
    began: Instant,
}

impl Slots {
    /// Slots for so much at once.
    pub(super) fn new(concurrency: usize, prefetch: Prefetch) -> Arc<Self> {
        let fixed = match prefetch {
            Prefetch::Fixed(ahead) => ahead,
            Prefetch::Adaptive { .. } => 0,
        };
        Arc::new(Self {
            fetching: Semaphore::new(concurrency),
            running: Semaphore::new(concurrency),
            concurrency,
            prefetch,
            pace: Mutex::new(Pace { target: fixed, ..Pace::default() }),
        })
    }

    /// As many as fill the slots, those that fetch ahead, and those that wait for their commits;
    /// none without a slot.
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

    /// Waits for the right to fetch.
    pub(super) async fn fetch(&self) -> Fetching<'_> {
        let permit = self.fetching.acquire().await.expect("never closed");
        Fetching { slots: self, permit: Some(permit) }
    }

    /// An item was fetched. More may be fetched ahead if it leaves no slot free; one whose item is
    /// being committed counts as taken, or short code would never seem to fill them.
    pub(super) fn at_hand(&self) -> AtHand<'_> {
        let mut pace = self.pace.lock();
        pace.at_hand += 1;
        if pace.at_hand >= self.concurrency {
            let more = pace.target.saturating_sub(pace.given).min(RIGHTS_PER_ITEM);
            self.fetching.add_permits(more);
            pace.given += more;
        }
        AtHand(self)
    }

    /// Waits for the right to run.
    pub(super) async fn run(&self) -> SemaphorePermit<'_> {
        self.running.acquire().await.expect("never closed")
    }

    /// Waits until what was fetched ahead has waited too long.
    pub(super) async fn late(&self) {
        match self.prefetch {
            Prefetch::Fixed(_) => std::future::pending().await,
            Prefetch::Adaptive { within, .. } => tokio::time::sleep(within * LATE_TIMES).await,
        }
    }

    /// Notes how long something took, and fetches as much ahead as suits that.
    fn measured(&self, span: Duration, least: bool) {
        let Prefetch::Adaptive { within, max } = self.prefetch else { return };
        let mut pace = self.pace.lock();
        pace.note(span.as_secs_f64(), least);
        pace.target = ahead(self.concurrency, within.as_secs_f64() / pace.mean.unwrap_or(0.0), max);
        self.trim(&mut pace);
    }

    /// How many rights to fetch there should be beyond one per slot, at most.
    fn ahead_max(&self, pace: &Pace) -> usize {
        if pace.at_hand < self.concurrency { 0 } else { pace.target }
    }

    /// Takes back those beyond that which nobody uses. The others go when they are given back.
    fn trim(&self, pace: &mut Pace) {
        let surplus = pace.given.saturating_sub(self.ahead_max(pace));
        pace.given -= self.fetching.forget_permits(surplus);
    }
}

/// What so many slots begin in a time, in steps: one that is a little slower now changes nothing.
fn ahead(slots: usize, times: f64, max: usize) -> usize {
    let begun = (slots as f64 * times).min(max as f64) as usize;
    let step = if begun == 0 { 0 } else { 1 << begun.ilog2() };
    if begun == max { max } else { step }
}

impl Pace {
    /// `least`: it took at least so long, and has not ended.
    fn note(&mut self, seconds: f64, least: bool) {
        self.mean = Some(match self.mean {
            None => seconds,
            Some(mean) if least => mean.max(seconds),
            Some(mean) => mean + (seconds - mean) / MEAN_OF,
        });
    }
}

impl<'a> Fetching<'a> {
    /// What it is a right of.
    pub(super) fn slots(&self) -> &'a Slots {
        self.slots
    }

    /// How long a fetch with it waits, of the time that it may.
    pub(super) fn patience(&self, poll_timeout: Option<Duration>) -> Option<Duration> {
        let ahead = self.slots.pace.lock().given > 0;
        poll_timeout.map(|wait| if ahead { wait.min(AHEAD_WAIT_MAX) } else { wait })
    }

    /// Nothing came of it: gone if it is beyond one per slot.
    pub(super) fn in_vain(mut self) -> Option<Self> {
        let mut pace = self.slots.pace.lock();
        if pace.given == 0 {
            drop(pace);
            return Some(self);
        }
        pace.given -= 1;
        drop(pace);
        self.permit.take().expect("held until it is dropped").forget();
        None
    }

    /// It became the right to run.
    pub(super) fn running(self, running: SemaphorePermit<'a>) -> Slot<'a> {
        Slot { fetching: self, _running: running, began: Instant::now() }
    }

    /// What was fetched with it has waited too long.
    pub(super) fn was_late(self) {
        if let Prefetch::Adaptive { within, .. } = self.slots.prefetch {
            self.slots.measured(within * LATE_TIMES, true);
        }
    }
}

impl Drop for Fetching<'_> {
    /// Gives the right back, or gives it up if there are too many.
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut pace = self.slots.pace.lock();
        if pace.given > self.slots.ahead_max(&pace) {
            pace.given -= 1;
            permit.forget();
        }
    }
}

impl Drop for AtHand<'_> {
    fn drop(&mut self) {
        let mut pace = self.0.pace.lock();
        pace.at_hand -= 1;
        self.0.trim(&mut pace);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.fetching.slots.measured(self.began.elapsed(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAPTIVE: Prefetch = Prefetch::Adaptive { within: Duration::from_millis(50), max: 60 };

    /// Runs something for a time.
    async fn one(slots: &Slots, span: Duration) {
        let fetching = slots.fetch().await;
        let _at_hand = slots.at_hand();
        let slot = fetching.running(slots.run().await);
        tokio::time::sleep(span).await;
        drop(slot);
    }

    /// Fetches with every right that there is and comes to be, and always finds something.
    async fn all(slots: &Slots) -> Vec<(Fetching<'_>, AtHand<'_>)> {
        let mut all = Vec::new();
        while rights(slots) > 0 {
            all.push((slots.fetch().await, slots.at_hand()));
        }
        all
    }

    fn rights(slots: &Slots) -> usize {
        slots.fetching.available_permits()
    }

    #[tokio::test(start_paused = true)]
    async fn so_much_is_fetched_ahead_as_begins_in_time() {
        let slots = Slots::new(4, ADAPTIVE);
        assert_eq!(all(&slots).await.len(), 4, "nothing is known yet");
        one(&slots, Duration::from_millis(10)).await;
        assert_eq!(all(&slots).await.len(), 4 + 16, "4 slots begin 20 in 50 ms; in steps: 16");
        for _ in 0..60 {
            one(&slots, Duration::from_micros(10)).await;
        }
        assert_eq!(all(&slots).await.len(), 4 + 60, "not more than the most");
        one(&slots, Duration::from_secs(10)).await;
        assert_eq!(all(&slots).await.len(), 4, "nothing would begin in time");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_fetched_ahead_while_a_slot_is_free() {
        for prefetch in [ADAPTIVE, Prefetch::Fixed(60)] {
            let slots = Slots::new(4, prefetch);
            one(&slots, Duration::from_micros(10)).await;
            let mut held = all(&slots).await;
            assert_eq!(held.len(), 4 + 60, "all are taken");
            held.truncate(3);
            assert_eq!(rights(&slots), 1, "one right per slot");
            held.clear();
            assert_eq!(rights(&slots), 4);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_in_vain_gives_up_what_is_beyond_one_right_per_slot() {
        let slots = Slots::new(2, Prefetch::Fixed(2));
        let long = Some(Duration::from_secs(30));
        let (first, _one) = (slots.fetch().await, slots.at_hand());
        assert_eq!(first.patience(long), long, "nobody fetches ahead");
        let (_second, _two) = (slots.fetch().await, slots.at_hand());
        let (third, fourth) = (slots.fetch().await, slots.fetch().await);
        assert_eq!(third.patience(long), Some(AHEAD_WAIT_MAX));
        assert_eq!(third.patience(None), None);
        assert!(third.in_vain().is_none());
        assert!(fourth.in_vain().is_none());
        assert_eq!(rights(&slots), 0, "though no slot is free");
        assert!(first.in_vain().is_some(), "one per slot stays");
        assert_eq!(rights(&slots), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_counts_as_slow() {
        let slots = Slots::new(1, ADAPTIVE);
        one(&slots, Duration::from_millis(1)).await;
        let (_running, _one) = (slots.fetch().await, slots.at_hand());
        let (ahead, _two) = (slots.fetch().await, slots.at_hand());
        slots.late().await;
        ahead.was_late();
        assert_eq!(slots.pace.lock().target, 0);
        assert_eq!(slots.pace.lock().given, 0, "its right is gone, and those that nobody used");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_number_stays() {
        let slots = Slots::new(2, Prefetch::Fixed(3));
        one(&slots, Duration::from_secs(100)).await;
        assert_eq!(all(&slots).await.len(), 5);
    }
}
