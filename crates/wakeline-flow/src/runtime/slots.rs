//! How much of a kind runs at once, and how much is fetched ahead of that.
//!
//! # Where it sits
//! The dispatchers of turns share one [`Slots`], those of activities another. A dispatcher fetches
//! with a right to fetch, waits for a right to run, and gives both back when the code has ended.
//!
//! # Invariants
//! * Never more rights to fetch than slots plus what may be fetched ahead.
//! * Adaptive: nothing is fetched ahead before something has been measured; what waits too long
//!   goes back, and counts as a measurement. So a process whose code has become slow keeps
//!   nothing from the others for long.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::options::Prefetch;

/// Turns, and activities, that wait for their commits while others run in their slots. Commits that
/// wait together share a transaction.
const COMMITTING_MAX: usize = 28;
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
    /// Fewer are fetched ahead from now on.
    shrunk: Notify,
}

/// What is known of how long the code runs.
#[derive(Debug, Default)]
struct Pace {
    /// Seconds.
    mean: Option<f64>,
    /// How many may be fetched ahead.
    target: usize,
    /// How many rights to fetch there are beyond one per slot.
    given: usize,
}

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
            Prefetch::Fixed(ahead) => ahead.min(Semaphore::MAX_PERMITS - concurrency),
            Prefetch::Adaptive { .. } => 0,
        };
        Arc::new(Self {
            fetching: Semaphore::new(concurrency + fixed),
            running: Semaphore::new(concurrency),
            concurrency,
            prefetch,
            pace: Mutex::new(Pace { mean: None, target: fixed, given: fixed }),
            shrunk: Notify::new(),
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

    /// Waits until more may fetch than should.
    pub(super) async fn surplus(&self) {
        loop {
            let shrunk = self.shrunk.notified();
            if self.pace.lock().has_surplus() {
                return;
            }
            shrunk.await;
        }
    }

    /// Notes how long something took, and fetches as much ahead as suits that.
    fn measured(&self, span: Duration, least: bool) {
        let Prefetch::Adaptive { within, max } = self.prefetch else { return };
        let mut pace = self.pace.lock();
        pace.note(span.as_secs_f64(), least);
        pace.target = ahead(self.concurrency, within.as_secs_f64() / pace.mean.unwrap_or(0.0), max);
        if pace.given < pace.target {
            self.fetching.add_permits(pace.target - pace.given);
            pace.given = pace.target;
        }
        let surplus = pace.given.saturating_sub(pace.target);
        pace.given -= self.fetching.forget_permits(surplus);
        if pace.has_surplus() {
            self.shrunk.notify_waiters();
        }
    }
}

/// What so many slots begin in a time, in steps: one that is a little slower now changes nothing.
fn ahead(slots: usize, times: f64, max: usize) -> usize {
    let begun = (slots as f64 * times).min(max as f64) as usize;
    let step = if begun == 0 { 0 } else { 1 << begun.ilog2() };
    if begun == max { max } else { step }
}

impl Pace {
    fn has_surplus(&self) -> bool {
        self.given > self.target
    }

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
        if pace.has_surplus() {
            pace.given -= 1;
            permit.forget();
        }
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
        let slot = slots.fetch().await.running(slots.run().await);
        tokio::time::sleep(span).await;
        drop(slot);
    }

    fn rights(slots: &Slots) -> usize {
        slots.fetching.available_permits()
    }

    #[tokio::test(start_paused = true)]
    async fn so_much_is_fetched_ahead_as_begins_in_time() {
        let slots = Slots::new(4, ADAPTIVE);
        assert_eq!(rights(&slots), 4, "nothing is known yet");
        one(&slots, Duration::from_millis(10)).await;
        assert_eq!(rights(&slots), 4 + 16, "4 slots begin 20 in 50 ms; in steps: 16");
        for _ in 0..60 {
            one(&slots, Duration::from_micros(10)).await;
        }
        assert_eq!(rights(&slots), 4 + 60, "not more than the most");
        one(&slots, Duration::from_secs(10)).await;
        assert_eq!(rights(&slots), 4, "nothing would begin in time");
    }

    #[tokio::test(start_paused = true)]
    async fn rights_beyond_what_suits_are_given_up_one_by_one() {
        let slots = Slots::new(2, ADAPTIVE);
        one(&slots, Duration::from_millis(1)).await;
        let mut held = Vec::new();
        for _ in 0..rights(&slots) {
            held.push(slots.fetch().await);
        }
        slots.measured(Duration::from_secs(5), false);
        slots.surplus().await;
        assert_eq!(rights(&slots), 0);
        held.truncate(2);
        assert_eq!(rights(&slots), 0, "those that went were too many");
        held.clear();
        assert_eq!(rights(&slots), 2, "one per slot is left");
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_too_long_counts_as_slow() {
        let slots = Slots::new(1, ADAPTIVE);
        one(&slots, Duration::from_millis(1)).await;
        let ahead = slots.fetch().await;
        slots.late().await;
        ahead.was_late();
        assert_eq!(slots.pace.lock().target, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fixed_number_stays() {
        let slots = Slots::new(2, Prefetch::Fixed(3));
        one(&slots, Duration::from_secs(100)).await;
        assert_eq!(rights(&slots), 5);
    }
}
