//! The safety sweep: one read for all lines that somebody waits for, so that lost hints cost
//! latency only.

use std::time::Duration;

use crate::calls::words;
use crate::face::Face;

use super::timers::Key;
use super::{Action, Core, LineId, Moment, Reason};

/// Most lines in one sweep call.
pub(crate) const LINES_PER_SWEEP_MAX: usize = 1_000;

/// Lines whose last waiter left this recently are swept too: it is likely to come back, and then
/// parks without a claim.
pub(super) const RECENTLY: Duration = Duration::from_secs(1);

/// A timer this near explains why a sweep found its line due.
const TIMER_SLACK: Duration = Duration::from_secs(1);

/// The sweep under way, and the time until the next one.
#[derive(Debug)]
pub(super) struct Sweeper {
    /// Time between two sweeps, as it is now.
    interval: Duration,
    /// Whether nothing has been missed, and nothing failed, since the last sweep began.
    clean: bool,
    started: Moment,
    /// Lines of the call under way.
    asked: Vec<LineId>,
    /// Lines of later calls.
    rest: Vec<LineId>,
}

impl Sweeper {
    pub(super) fn new(interval: Duration) -> Self {
        let (asked, rest) = (Vec::new(), Vec::new());
        Self { interval, clean: false, started: Moment::ZERO, asked, rest }
    }
}

impl<F: Face> Core<F> {
    /// How long what a sweep has found is relied on: until the next one.
    pub(super) fn sweep_interval(&self) -> Duration {
        self.sweeper.interval
    }

    pub(super) fn arm_sweep(&mut self) {
        if self.mode.uses_hints() && self.timers.get(Key::Sweep).is_none() {
            self.timers.set(Key::Sweep, self.now + self.sweeper.interval);
        }
    }

    /// A sweep begins: the next one comes later than this one did, if the last one was clean.
    fn widen_sweep(&mut self) {
        let widest = self.config.fallback_poll_interval_max.max(self.config.fallback_poll_interval);
        // While hints cannot be relied on, none can be missed: such a sweep proves nothing.
        let healthy = self.trouble.is_healthy();
        if self.sweeper.clean && healthy {
            self.sweeper.interval = (self.sweeper.interval * 2).min(widest);
        }
        self.sweeper.clean = healthy;
    }

    /// Hints cannot be relied on: sweeps come as often as they are set to again.
    pub(super) fn narrow_sweep(&mut self) {
        self.sweeper.clean = false;
        self.sweeper.interval = self.config.fallback_poll_interval;
        if self.timers.get(Key::Sweep).is_some() {
            self.timers.set_min(Key::Sweep, self.now + self.sweeper.interval);
        }
    }

    /// No hint has come for a line that a sweep found due.
    pub(super) fn hint_missed(&mut self) {
        self.counters.missed_hints += 1;
        self.narrow_sweep();
    }

    pub(super) fn sweep_came(&mut self) {
        let lines = match self.now.checked_sub(RECENTLY) {
            Some(since) => self.lines.in_use(since),
            None => self.lines.ids(),
        };
        if lines.is_empty() {
            return;
        }
        if self.waiting > 0 {
            self.ordinary_wake(Reason::Fallback);
        }
        if !self.sweeper.asked.is_empty() {
            self.arm_sweep();
            return;
        }
        self.widen_sweep();
        self.arm_sweep();
        for id in &lines {
            if let Some(line) = self.lines.get_mut(*id) {
                line.sweeping = Some((line.generation, line.activity));
            }
        }
        self.counters.sweeps += 1;
        self.sweeper.started = self.now;
        self.sweeper.rest = lines;
        self.sweep_on();
    }

    /// Asks for the next lines of the sweep.
    fn sweep_on(&mut self) {
        let rest = &mut self.sweeper.rest;
        let asked = rest.split_off(rest.len().saturating_sub(LINES_PER_SWEEP_MAX));
        let (ids, keys): (Vec<_>, Vec<_>) =
            asked.into_iter().filter_map(|id| Some((id, self.lines.get(id)?.key.clone()))).unzip();
        self.sweeper.asked = ids;
        if !keys.is_empty() {
            self.actions.push(Action::Sweep { lines: keys });
        } else if !self.sweeper.rest.is_empty() {
            self.sweep_on();
        }
    }

    /// A sweep call came back: for each of its lines the time until it has something.
    pub(crate) fn swept(&mut self, due: Vec<Option<Duration>>) {
        let asked = std::mem::take(&mut self.sweeper.asked);
        debug_assert_eq!(asked.len(), due.len(), "one answer per line");
        self.store_answered();
        for (line, due) in asked.into_iter().zip(due) {
            self.line_swept(line, due);
        }
        self.sweep_on();
        self.dispatch();
    }

    fn line_swept(&mut self, line_id: LineId, due: Option<Duration>) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        let Some(mark) = line.sweeping.take() else { return };
        let undisturbed = mark.0 == line.generation;
        if due.is_none_or(|span| !span.is_zero()) {
            if undisturbed && line.empty_at.is_some() {
                line.empty_at = line.empty_at.max(Some(self.sweeper.started));
            }
            if let Some(span) = due {
                self.set_due(line_id, span);
            }
            return;
        }
        let quiet = mark == (line.generation, line.activity) && line.calls.is_empty();
        let waiting = !line.idle.is_empty() && line.queued == 0 && !line.dirty;
        let horizon = self.now + self.config.timer_grace_period + TIMER_SLACK;
        let timed = self.timers.get(Key::Due(line_id)).is_some_and(|at| at <= horizon);
        if quiet && waiting && !timed && self.trouble.is_healthy() {
            // The hint may be on its way; it is missed if it does not come soon.
            let at = self.now + self.config.notify_delivery_timeout;
            self.timers.set(Key::Missed(line_id), at);
        }
        self.rouse(line_id, Reason::Fallback);
    }

    /// A sweep call failed; the next sweep asks again. No error: it never came to an end.
    pub(crate) fn sweep_failed(&mut self, error: Option<&F::Error>) {
        let asked = std::mem::take(&mut self.sweeper.asked);
        let rest = std::mem::take(&mut self.sweeper.rest);
        for id in asked.into_iter().chain(rest) {
            if let Some(line) = self.lines.get_mut(id) {
                line.sweeping = None;
            }
        }
        let words = error.map_or("a sweep never ended".into(), |error| {
            format!("a sweep failed: {}", words(error.clone()))
        });
        self.enter_degraded(Reason::ClaimError, words);
        self.dispatch();
    }
}
