//! The safety sweep: one read for all lines with waiters, so that lost hints only cost latency.

use std::time::Duration;

use crate::api::Api;
use crate::calls::error_text;

use super::timers::TimerPurpose;
use super::{Action, HubTime, LineId, Reason, WakeCore};

/// The maximum number of lines in one sweep call.
pub(crate) const LINES_PER_SWEEP_MAX: usize = 1_000;

/// Lines whose last waiter left within this time are swept too: the waiter is likely to return, and
/// then parks without a claim.
pub(super) const RECENTLY: Duration = Duration::from_secs(1);

/// If a timer of the line expires within this time, it explains why a sweep found the line due.
const TIMER_SLACK: Duration = Duration::from_secs(1);

/// The current sweep, and the time until the next one.
#[derive(Debug)]
pub(super) struct Sweeper {
    /// The current time between two sweeps.
    interval: Duration,
    /// Whether nothing has been missed, and nothing failed, since the last sweep began.
    clean: bool,
    started: HubTime,
    /// The lines of the call in flight.
    in_flight: Vec<LineId>,
    /// The lines of later calls.
    rest: Vec<LineId>,
}

impl Sweeper {
    pub(super) fn new(interval: Duration) -> Self {
        let (in_flight, rest) = (Vec::new(), Vec::new());
        Self { interval, clean: false, started: HubTime::ZERO, in_flight, rest }
    }
}

impl<F: Api> WakeCore<F> {
    /// Returns how long the findings of a sweep are relied on: until the next one.
    pub(super) fn sweep_interval(&self) -> Duration {
        self.sweeper.interval
    }

    pub(super) fn arm_sweep(&mut self) {
        if self.mode.uses_hints() && self.timers.get(TimerPurpose::Sweep).is_none() {
            self.timers.set(TimerPurpose::Sweep, self.now + self.sweeper.interval);
        }
    }

    /// Adjusts the interval when a sweep begins: it grows if the last sweep was clean.
    fn widen_sweep(&mut self) {
        let widest = self.config.fallback_poll_interval_max.max(self.config.fallback_poll_interval);
        // While hints cannot be relied on, none can be missed: such a sweep proves nothing.
        let healthy = self.health.is_healthy();
        if self.sweeper.clean && healthy {
            self.sweeper.interval = (self.sweeper.interval * 2).min(widest);
        }
        self.sweeper.clean = healthy;
    }

    /// Resets the interval to the configured one, because hints cannot be relied on.
    pub(super) fn narrow_sweep(&mut self) {
        self.sweeper.clean = false;
        self.sweeper.interval = self.config.fallback_poll_interval;
        if self.timers.get(TimerPurpose::Sweep).is_some() {
            self.timers.set_min(TimerPurpose::Sweep, self.now + self.sweeper.interval);
        }
    }

    /// Records that no hint has come for a line that a sweep found due.
    pub(super) fn note_missed_hint(&mut self) {
        self.counters.missed_hints += 1;
        self.narrow_sweep();
    }

    pub(super) fn begin_sweep(&mut self) {
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
        if !self.sweeper.in_flight.is_empty() {
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
        self.sweep_next_lines();
    }

    /// Starts the call for the next lines of the sweep.
    fn sweep_next_lines(&mut self) {
        let rest = &mut self.sweeper.rest;
        let in_flight = rest.split_off(rest.len().saturating_sub(LINES_PER_SWEEP_MAX));
        let (ids, keys): (Vec<_>, Vec<_>) = in_flight
            .into_iter()
            .filter_map(|id| Some((id, self.lines.get(id)?.key.clone())))
            .unzip();
        self.sweeper.in_flight = ids;
        if !keys.is_empty() {
            self.actions.push(Action::Sweep { lines: keys });
        } else if !self.sweeper.rest.is_empty() {
            self.sweep_next_lines();
        }
    }

    /// Processes the result of a sweep call: for each of its lines, the time until it has
    /// something.
    pub(crate) fn swept(&mut self, due: Vec<Option<Duration>>) {
        let in_flight = std::mem::take(&mut self.sweeper.in_flight);
        debug_assert_eq!(in_flight.len(), due.len(), "one answer per line");
        self.store_answered();
        for (line, due) in in_flight.into_iter().zip(due) {
            self.line_swept(line, due);
        }
        self.sweep_next_lines();
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
        let timed = self.timers.get(TimerPurpose::Due(line_id)).is_some_and(|at| at <= horizon);
        if quiet && waiting && !timed && self.health.is_healthy() {
            // The hint may be on its way; it counts as missed if it does not come soon.
            let at = self.now + self.config.notify_delivery_timeout;
            self.timers.set(TimerPurpose::Missed(line_id), at);
        }
        self.wake_line(line_id, Reason::Fallback);
    }

    /// Processes a failed sweep call; the next sweep tries again. Without an error the call was
    /// never completed.
    pub(crate) fn sweep_failed(&mut self, error: Option<&F::Error>) {
        let in_flight = std::mem::take(&mut self.sweeper.in_flight);
        let rest = std::mem::take(&mut self.sweeper.rest);
        for id in in_flight.into_iter().chain(rest) {
            if let Some(line) = self.lines.get_mut(id) {
                line.sweeping = None;
            }
        }
        let description = error.map_or("a sweep ended without a result".into(), |error| {
            format!("a sweep failed: {}", error_text(error.clone()))
        });
        self.enter_degraded(Reason::ClaimError, description);
        self.dispatch();
    }
}
