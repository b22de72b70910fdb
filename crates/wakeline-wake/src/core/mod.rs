//! The sans-IO core: decides for which waiters a claim is made, when, and how waiters are answered.
//!
//! # Where it sits
//! The hub holds the core behind a lock, reports events to it and carries out the [`Action`]s that
//! it queues. The core knows neither threads nor clocks: every input is preceded by
//! [`WakeCore::advance`], and [`WakeCore::next_wakeup`] returns when it must be advanced again.
//!
//! # Invariants
//! * A waiter whose line has an unanswered hint is in a claim, or in the queue for one, or its line
//!   has a timer that puts it there.
//! * A waiter ends by exactly one [`Action::Finish`], or by a cancellation. A result that arrives
//!   for a waiter that has ended becomes an [`Action::Release`].
//! * At most `claims_in_flight_max` claims are in flight; in Fused mode a line is in at most one of
//!   them.
//! * The same inputs give the same actions.

mod arrivals;
mod claim_queue;
mod claims;
mod degraded;
mod dispatch;
mod lines;
mod pace;
mod reserve;
mod sweep;
mod timers;
mod wakes;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use crate::api::{Api, Claim};
use crate::config::LongPollConfig;
use crate::mode::WakeMode;
use crate::poll::{HintSource, Link};
use crate::snapshot::{HubCounters, Snapshot, WakeCounters};

pub(crate) use arrivals::ParkOutcome;
use arrivals::Waiter;
use claim_queue::ClaimQueue;
use claims::ClaimCall;
use degraded::Health;
use lines::LineTable;
pub(crate) use reserve::ReservedWaiter;
use sweep::Sweeper;
use timers::TimerWheel;

/// A time, measured from the hub's start.
pub(crate) type HubTime = Duration;

/// The maximum number of requests in one store call.
pub(crate) const REQUESTS_PER_CALL_MAX: usize = 1_000;

/// Identifies one waiter. Later arrivals have greater ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId(u64);

/// Identifies one line for as long as it is remembered. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineId(u64);

/// Identifies one claim in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallId(u64);

/// Something that the hub has to do.
#[derive(Debug)]
pub(crate) enum Action<F: Api> {
    /// Claim, and report the outcome to [`WakeCore::claimed`] or [`WakeCore::claim_failed`].
    Claim { call: CallId, claims: Vec<Claim<F::Line, F::Request>> },
    /// Sweep, and report the outcome to [`WakeCore::swept`] or [`WakeCore::sweep_failed`].
    Sweep { lines: Vec<F::Line> },
    /// Send a waiter its answer.
    Finish { waiter: WaiterId, line: LineId, end: WaiterEnd<F> },
    /// Give back what no waiter needs any more, and report it to [`WakeCore::released`].
    Release { line: LineId, result: F::ClaimResult },
    /// Record a sample in a histogram.
    Observe(Sample),
    /// Log that degraded polling began.
    Degraded { reason: String },
    /// Log that degraded polling ended.
    Recovered { after: Duration },
}

/// How a waiter ended.
#[derive(Debug)]
pub(crate) enum WaiterEnd<F: Api> {
    Claimed(F::ClaimResult),
    Empty,
    Drained,
    Failed(F::Error),
}

/// A sample for a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// The time from a hint to the result that it led to; in Poll mode, if there was no hint, from
    /// the last empty claim of the line.
    Pickup(Duration),
    /// The number of waiters that one claim served.
    Served(usize),
    /// The number of items that one claim found for all its waiters; 0 if it was empty.
    Items(usize),
}

/// Why a line or a waiter is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Notify,
    InProcess,
    Timer,
    Fallback,
    Reconnect,
    DeliveryTimeout,
    ClaimError,
    ListenerLost,
    Shutdown,
}

impl Reason {
    /// Returns whether the reason is a hint, which must be answered within the delivery timeout.
    fn is_hint(self) -> bool {
        matches!(self, Self::Notify | Self::InProcess)
    }

    fn count(self, wakes: &mut WakeCounters) -> &mut u64 {
        match self {
            Self::Notify => &mut wakes.notify,
            Self::InProcess => &mut wakes.in_process,
            Self::Timer => &mut wakes.timer,
            Self::Fallback => &mut wakes.fallback,
            Self::Reconnect => &mut wakes.reconnect,
            Self::DeliveryTimeout => &mut wakes.delivery_timeout,
            Self::ClaimError => &mut wakes.claim_error,
            Self::ListenerLost => &mut wakes.listener_lost,
            Self::Shutdown => &mut wakes.shutdown,
        }
    }
}

impl From<HintSource> for Reason {
    fn from(source: HintSource) -> Self {
        match source {
            HintSource::InProcess => Self::InProcess,
            HintSource::Notify => Self::Notify,
        }
    }
}

/// The state machine of a hub.
pub(crate) struct WakeCore<F: Api> {
    mode: WakeMode,
    config: LongPollConfig,
    now: HubTime,
    lines: LineTable<F>,
    waiters: HashMap<WaiterId, Waiter<F>>,
    /// The number of waiters that are willing to wait.
    waiting: usize,
    /// The number of these that are the API's own background tasks.
    own: usize,
    ids: u64,
    claim_queue: ClaimQueue,
    calls: HashMap<CallId, ClaimCall>,
    timers: TimerWheel,
    health: Health,
    /// The time between two claims of degraded polling: the configured one until it is set.
    degraded_poll_interval: Duration,
    sweeper: Sweeper,
    draining: bool,
    counters: HubCounters,
    actions: Vec<Action<F>>,
}

impl<F: Api> WakeCore<F> {
    pub(crate) fn new(mode: WakeMode, config: LongPollConfig) -> Self {
        Self {
            mode,
            now: HubTime::ZERO,
            lines: LineTable::new(
                config.fallback_poll_interval.max(sweep::RECENTLY),
                config.waiters_max,
            ),
            waiters: HashMap::new(),
            waiting: 0,
            own: 0,
            ids: 0,
            claim_queue: ClaimQueue::new(config.use_priority_dispatch),
            calls: HashMap::new(),
            timers: TimerWheel::default(),
            health: Health::new(),
            degraded_poll_interval: config.degraded_poll_interval,
            sweeper: Sweeper::new(config.fallback_poll_interval),
            draining: false,
            counters: HubCounters::default(),
            actions: Vec::new(),
            config,
        }
    }

    /// Advances the time, and fires the timers that have expired.
    pub(crate) fn advance(&mut self, now: HubTime) {
        self.now = self.now.max(now);
        while let Some(key) = self.timers.pop_due(self.now) {
            match key {
                timers::TimerPurpose::Deadline(id) => self.deadline_expired(id),
                timers::TimerPurpose::Poll(id) => self.queue_waiter(id),
                timers::TimerPurpose::LinePoll(line) => self.mark_dirty(line, None),
                timers::TimerPurpose::Due(line) => self.due_timer_expired(line),
                timers::TimerPurpose::Delivery(line) => self.delivery_timed_out(line),
                timers::TimerPurpose::Missed(_) => self.note_missed_hint(),
                timers::TimerPurpose::Sweep => self.begin_sweep(),
                timers::TimerPurpose::DegradedPoll => self.poll_degraded(),
            }
        }
        for line in self.lines.forget(self.now) {
            self.timers.clear_line(line);
        }
        self.dispatch();
    }

    /// Returns when to advance next if nothing else happens.
    pub(crate) fn next_wakeup(&self) -> Option<HubTime> {
        let held = self
            .claim_queue
            .has_calm()
            .then_some(self.health.held_until)
            .filter(|at| *at > self.now);
        [self.timers.first(), self.lines.next_forgetting(), held].into_iter().flatten().min()
    }

    /// Takes the queued actions, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action<F>> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn counters(&self) -> &HubCounters {
        &self.counters
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn claims_in_flight(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn claims_queued(&self) -> usize {
        self.claim_queue.len()
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.health.episode.is_some()
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.health.link == Link::Up
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            mode: self.mode,
            waiters: self.waiters() - self.own,
            lines: self.lines.occupied() - self.own.min(1),
            lines_remembered: self.lines.at_rest(),
            claims_in_flight: self.calls.len(),
            claims_queued: self.claim_queue.len(),
            link: self.health.link.clone(),
            degraded: self.health.degradation(self.now),
            draining: self.draining,
            counters: self.counters,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}
