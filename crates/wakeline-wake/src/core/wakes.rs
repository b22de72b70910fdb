//! The events that make lines claim again: hints, timers, a reconnect, an unanswered hint.

use std::time::Duration;

use crate::api::Api;
use crate::config::AggressiveOn;
use crate::mode::WakeMode;
use crate::poll::HintSource;

use super::timers::TimerPurpose;
use super::{LineId, Reason, WakeCore};

impl<F: Api> WakeCore<F> {
    /// Processes hints: something may have become available, or will be.
    pub(crate) fn hint(&mut self, hints: &[F::Hint], source: HintSource) {
        let count = match source {
            HintSource::InProcess => &mut self.counters.hints.in_process,
            HintSource::Notify => &mut self.counters.hints.notify,
        };
        *count += hints.len() as u64;
        if !self.mode.uses_hints() {
            self.record_hint_times(hints);
            return;
        }
        for hint in hints {
            let due_in = F::due_in(hint);
            for line in self.lines.concerned(hint) {
                self.timers.clear(TimerPurpose::Missed(line));
                if due_in.is_zero() {
                    self.wake_line(line, source.into());
                } else {
                    self.set_due(line, due_in);
                }
            }
        }
        self.dispatch();
    }

    /// In Poll mode, hints wake no waiter, but the pick-up latency is measured from them. Without a
    /// hint it is measured from the last claim that found nothing.
    fn record_hint_times(&mut self, hints: &[F::Hint]) {
        for hint in hints.iter().filter(|hint| F::due_in(hint).is_zero()) {
            for line in self.lines.concerned(hint) {
                let Some(line) = self.lines.get_mut(line) else { continue };
                if line.waiters() > 0 {
                    line.hinted = line.hinted.or(Some(self.now));
                }
            }
        }
    }

    /// Wakes all lines, because anything may have become available.
    pub(crate) fn everything(&mut self) {
        if !self.mode.uses_hints() {
            return;
        }
        self.store_answered();
        for line in self.lines.ids() {
            self.wake_line(line, Reason::Reconnect);
        }
        self.dispatch();
    }

    /// Wakes waiters of a line as the mode requires. What was known about the line being empty no
    /// longer holds.
    pub(super) fn wake_line(&mut self, line_id: LineId, reason: Reason) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        line.generation += 1;
        line.empty_at = None;
        if line.waiters() == 0 {
            return;
        }
        if reason.is_hint() {
            line.almost_due_in_a_row = 0;
            line.hinted = line.hinted.or(Some(self.now));
            self.arm_delivery(line_id);
        }
        match self.mode {
            WakeMode::Fused => self.mark_dirty(line_id, Some(reason)),
            WakeMode::Compete => self.wake_one(line_id, Some(reason)),
            WakeMode::Broadcast => self.wake_all(line_id, reason),
            WakeMode::Poll(_) => {}
        }
        self.ordinary_wake(reason);
    }

    /// With `aggressive_on = any_wake`, an ordinary wake starts degraded polling. During degraded
    /// polling, waiters do not depend on wakes, so these neither prolong it nor count.
    pub(super) fn ordinary_wake(&mut self, reason: Reason) {
        let any_wake = self.config.aggressive_on == AggressiveOn::AnyWake;
        if any_wake && reason != Reason::Reconnect && self.health.episode.is_none() {
            self.enter_degraded(reason, "aggressive_on = any_wake".into());
        }
    }

    /// In Compete mode, lets the first parked waiter claim. If one is queued already, its claim
    /// answers this wake too; if all are in claims, the first one that comes back empty claims
    /// again.
    pub(super) fn wake_one(&mut self, line_id: LineId, reason: Option<Reason>) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if let Some(id) = line.idle.first().copied() {
            if let Some(reason) = reason {
                *reason.count(&mut self.counters.wakes) += 1;
            }
            self.queue_waiter(id);
        } else if line.queued == 0 && line.busy > 0 {
            line.wake_owed = true;
        }
    }

    /// Lets every parked waiter claim for itself.
    fn wake_all(&mut self, line_id: LineId, reason: Reason) {
        let Some(line) = self.lines.get(line_id) else { return };
        let ids: Vec<_> = line.idle.iter().copied().collect();
        *reason.count(&mut self.counters.wakes) += ids.len() as u64;
        for id in ids {
            self.queue_waiter(id);
        }
    }

    /// Notes that something of the line becomes available after that time. The timer must never be
    /// early, so the time is rounded up to the clock's next millisecond.
    pub(super) fn set_due(&mut self, line_id: LineId, span: Duration) {
        let micros = u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let span = Duration::from_millis(micros.div_ceil(1_000).max(1));
        let at = self.now.saturating_add(span).saturating_add(self.config.timer_grace_period);
        self.timers.set_min(TimerPurpose::Due(line_id), at);
    }

    pub(super) fn due_timer_expired(&mut self, line_id: LineId) {
        self.wake_line(line_id, Reason::Timer);
    }

    /// Sets the time by which the line's oldest hint should be answered.
    pub(super) fn arm_delivery(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get(line_id) else { return };
        match line.unanswered().filter(|_| self.mode.uses_hints()) {
            Some(_) if line.overdue => {}
            Some(at) => {
                self.timers
                    .set(TimerPurpose::Delivery(line_id), at + self.config.notify_delivery_timeout);
            }
            None => self.timers.clear(TimerPurpose::Delivery(line_id)),
        }
    }

    /// A hint is still unanswered: wakes all waiters of the line, and starts degraded polling.
    pub(super) fn delivery_timed_out(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if line.waiters() == 0 || line.unanswered().is_none() {
            return;
        }
        line.overdue = true;
        match self.mode {
            WakeMode::Fused => self.mark_dirty(line_id, Some(Reason::DeliveryTimeout)),
            _ => self.wake_all(line_id, Reason::DeliveryTimeout),
        }
        let description =
            "no claim followed a notification within notify_delivery_timeout_ms".into();
        self.enter_degraded(Reason::DeliveryTimeout, description);
    }
}
