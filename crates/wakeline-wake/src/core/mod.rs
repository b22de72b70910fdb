//! The sans-IO core: decides who is claimed for, when, and who is answered.
//!
//! # Where it sits
//! The hub holds it behind a lock, tells it what happened and carries out the [`Action`]s that it
//! queues. It knows neither threads nor clocks: every input is preceded by [`Core::advance`], and
//! [`Core::next_wakeup`] says when it wants to be advanced again.
//!
//! # Invariants
//! * A waiter whose line has an unanswered hint is in a claim, in the queue for one, or its line
//!   has a timer that puts it there.
//! * An intention ends by exactly one [`Action::Finish`], or by a cancellation; a grant that
//!   comes for one that has ended becomes an [`Action::Release`].
//! * At most `claims_in_flight_max` claims are under way; in Fused mode a line is in at most one.
//! * The same inputs give the same actions.

mod arrivals;
mod claims;
mod degraded;
mod dispatch;
mod lines;
mod pace;
mod ready;
mod reserve;
mod sweep;
mod timers;
mod wakes;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use crate::config::LongPollConfig;
use crate::face::{Claim, Face};
use crate::mode::WakeMode;
use crate::poll::{HintSource, Link};
use crate::snapshot::{Counters, Snapshot, WakeCounters};

use arrivals::Intention;
pub(crate) use arrivals::Parked;
use claims::Call;
use degraded::Trouble;
use lines::Lines;
use ready::Ready;
pub(crate) use reserve::Reserved;
use sweep::Sweeper;
use timers::Timers;

/// Time since the hub's start.
pub(crate) type Moment = Duration;

/// Most asks in one store call.
pub(crate) const ASKS_PER_CALL_MAX: usize = 1_000;

/// Names one waiter. Later arrivals have greater ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IntentionId(u64);

/// Names one line for as long as it is remembered. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineId(u64);

/// Names one claim under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallId(u64);

/// What the hub has to do.
#[derive(Debug)]
pub(crate) enum Action<F: Face> {
    /// Claim, and tell [`Core::claimed`] or [`Core::claim_failed`].
    Claim { call: CallId, claims: Vec<Claim<F::Line, F::Ask>> },
    /// Sweep, and tell [`Core::swept`] or [`Core::sweep_failed`].
    Sweep { lines: Vec<F::Line> },
    /// Answer a waiter.
    Finish { intention: IntentionId, line: LineId, end: End<F> },
    /// Give back what nobody waits for any more, and tell [`Core::released`].
    Release { line: LineId, grant: F::Grant },
    /// Record a figure.
    Observe(Sample),
    /// Tell the log that degraded polling began.
    Degraded { reason: String },
    /// Tell the log that degraded polling ended.
    Recovered { after: Duration },
}

/// How an intention ended.
#[derive(Debug)]
pub(crate) enum End<F: Face> {
    Granted(F::Grant),
    Empty,
    Drained,
    Failed(F::Error),
}

/// A figure for a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// Time from a hint to the grant that it led to; in Poll mode, if there was no hint, from the
    /// last empty claim of the line.
    Pickup(Duration),
    /// Waiters that one claim served.
    Served(usize),
    /// Items that one claim found, for all its waiters; none if it was empty.
    Items(usize),
}

/// Why somebody is woken.
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
    /// Whether a hint is behind it, so that its answer is owed within the delivery timeout.
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

/// The state machine.
pub(crate) struct Core<F: Face> {
    mode: WakeMode,
    config: LongPollConfig,
    now: Moment,
    lines: Lines<F>,
    intentions: HashMap<IntentionId, Intention<F>>,
    /// How many of the intentions are willing to wait.
    waiting: usize,
    /// How many of these are the face's own.
    own: usize,
    ids: u64,
    ready: Ready,
    calls: HashMap<CallId, Call>,
    timers: Timers,
    trouble: Trouble,
    /// Time between two claims of degraded polling: that of the configuration until it is set.
    degraded_poll_interval: Duration,
    sweeper: Sweeper,
    draining: bool,
    counters: Counters,
    actions: Vec<Action<F>>,
}

impl<F: Face> Core<F> {
    pub(crate) fn new(mode: WakeMode, config: LongPollConfig) -> Self {
        Self {
            mode,
            now: Moment::ZERO,
            lines: Lines::new(
                config.fallback_poll_interval.max(sweep::RECENTLY),
                config.intentions_max,
            ),
            intentions: HashMap::new(),
            waiting: 0,
            own: 0,
            ids: 0,
            ready: Ready::new(config.use_priority_dispatch),
            calls: HashMap::new(),
            timers: Timers::default(),
            trouble: Trouble::new(),
            degraded_poll_interval: config.degraded_poll_interval,
            sweeper: Sweeper::new(config.fallback_poll_interval),
            draining: false,
            counters: Counters::default(),
            actions: Vec::new(),
            config,
        }
    }

    /// Lets time pass: fires what is due by now.
    pub(crate) fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
        while let Some(key) = self.timers.pop_due(self.now) {
            match key {
                timers::Key::Deadline(id) => self.deadline_came(id),
                timers::Key::Poll(id) => self.queue_waiter(id),
                timers::Key::LinePoll(line) => self.mark_dirty(line, None),
                timers::Key::Due(line) => self.due_came(line),
                timers::Key::Delivery(line) => self.delivery_came(line),
                timers::Key::Missed(_) => self.hint_missed(),
                timers::Key::Sweep => self.sweep_came(),
                timers::Key::DegradedPoll => self.degraded_poll_came(),
            }
        }
        for line in self.lines.forget(self.now) {
            self.timers.clear_line(line);
        }
        self.dispatch();
    }

    /// When to advance next, if nothing else happens.
    pub(crate) fn next_wakeup(&self) -> Option<Moment> {
        let held = self.ready.has_calm().then_some(self.trouble.hold).filter(|at| *at > self.now);
        [self.timers.first(), self.lines.next_forgetting(), held].into_iter().flatten().min()
    }

    /// What the hub has to do, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action<F>> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn waiters(&self) -> usize {
        self.intentions.len()
    }

    pub(crate) fn claims_in_flight(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn claims_queued(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.trouble.episode.is_some()
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.trouble.link == Link::Up
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            mode: self.mode,
            waiters: self.waiters() - self.own,
            lines: self.lines.occupied() - self.own.min(1),
            lines_remembered: self.lines.at_rest(),
            claims_in_flight: self.calls.len(),
            claims_queued: self.ready.len(),
            link: self.trouble.link.clone(),
            degraded: self.trouble.degradation(self.now),
            draining: self.draining,
            counters: self.counters,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}
