//! What makes lines look again: hints, timers, a reconnect, a hint without an answer.

use std::time::Duration;

use crate::config::AggressiveOn;
use crate::face::Face;
use crate::mode::WakeMode;
use crate::poll::HintSource;

use super::timers::Key;
use super::{Core, LineId, Reason};

impl<F: Face> Core<F> {
    /// Something may have become available, or will be.
    pub(crate) fn hint(&mut self, hints: &[F::Hint], source: HintSource) {
        let count = match source {
            HintSource::InProcess => &mut self.counters.hints.in_process,
            HintSource::Notify => &mut self.counters.hints.notify,
        };
        *count += hints.len() as u64;
        if !self.mode.uses_hints() {
            self.note_hints(hints);
            return;
        }
        for hint in hints {
            let due_in = F::due_in(hint);
            for line in self.lines.concerned(hint) {
                self.timers.clear(Key::Missed(line));
                if due_in.is_zero() {
                    self.rouse(line, source.into());
                } else {
                    self.set_due(line, due_in);
                }
            }
        }
        self.dispatch();
    }

    /// Poll mode: hints wake nobody, but they are the begin of what pick-up latency measures. Where
    /// there was none it is measured from the last look that found nothing.
    fn note_hints(&mut self, hints: &[F::Hint]) {
        for hint in hints.iter().filter(|hint| F::due_in(hint).is_zero()) {
            for line in self.lines.concerned(hint) {
                let Some(line) = self.lines.get_mut(line) else { continue };
                if line.waiters() > 0 {
                    line.hinted = line.hinted.or(Some(self.now));
                }
            }
        }
    }

    /// Anything may have become available.
    pub(crate) fn everything(&mut self) {
        if !self.mode.uses_hints() {
            return;
        }
        self.store_answered();
        for line in self.lines.ids() {
            self.rouse(line, Reason::Reconnect);
        }
        self.dispatch();
    }

    /// Wakes whom the mode says. What the line knew of its emptiness is void.
    pub(super) fn rouse(&mut self, line_id: LineId, reason: Reason) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        line.generation += 1;
        line.empty_at = None;
        if line.waiters() == 0 {
            return;
        }
        if reason.is_hint() {
            line.vain = 0;
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

    /// `aggressive_on = any_wake`: an ordinary wake starts degraded polling. While it is under way
    /// nobody waits for wakes, so they neither prolong it nor count.
    pub(super) fn ordinary_wake(&mut self, reason: Reason) {
        let any_wake = self.config.aggressive_on == AggressiveOn::AnyWake;
        if any_wake && reason != Reason::Reconnect && self.trouble.episode.is_none() {
            self.enter_degraded(reason, "aggressive_on = any_wake".into());
        }
    }

    /// Compete: the first parked waiter claims. If one has its claim still before it, that one
    /// answers this wake too; if all are in claims, the first that comes back empty does.
    pub(super) fn wake_one(&mut self, line_id: LineId, reason: Option<Reason>) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if let Some(id) = line.idle.first().copied() {
            if let Some(reason) = reason {
                *reason.count(&mut self.counters.wakes) += 1;
            }
            self.queue_waiter(id);
        } else if line.queued == 0 && line.busy > 0 {
            line.owed = true;
        }
    }

    /// Every parked waiter claims for itself.
    fn wake_all(&mut self, line_id: LineId, reason: Reason) {
        let Some(line) = self.lines.get(line_id) else { return };
        let ids: Vec<_> = line.idle.iter().copied().collect();
        *reason.count(&mut self.counters.wakes) += ids.len() as u64;
        for id in ids {
            self.queue_waiter(id);
        }
    }

    /// Something of the line becomes available after that time: never looked at early, so it is
    /// rounded up to the clock's next millisecond.
    pub(super) fn set_due(&mut self, line_id: LineId, span: Duration) {
        let micros = u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let span = Duration::from_millis(micros.div_ceil(1_000).max(1));
        let at = self.now.saturating_add(span).saturating_add(self.config.timer_grace_period);
        self.timers.set_min(Key::Due(line_id), at);
    }

    pub(super) fn due_came(&mut self, line_id: LineId) {
        self.rouse(line_id, Reason::Timer);
    }

    /// Sets the time by which the line's oldest hint should be answered.
    pub(super) fn arm_delivery(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get(line_id) else { return };
        match line.unanswered().filter(|_| self.mode.uses_hints()) {
            Some(_) if line.overdue => {}
            Some(at) => {
                self.timers.set(Key::Delivery(line_id), at + self.config.notify_delivery_timeout);
            }
            None => self.timers.clear(Key::Delivery(line_id)),
        }
    }

    /// A hint is still unanswered: everybody who waits for it wakes, and polling takes over.
    pub(super) fn delivery_came(&mut self, line_id: LineId) {
        let Some(line) = self.lines.get_mut(line_id) else { return };
        if line.waiters() == 0 || line.unanswered().is_none() {
            return;
        }
        line.overdue = true;
        match self.mode {
            WakeMode::Fused => self.mark_dirty(line_id, Some(Reason::DeliveryTimeout)),
            _ => self.wake_all(line_id, Reason::DeliveryTimeout),
        }
        let words = "a hint had no answered claim within notify_delivery_timeout".into();
        self.enter_degraded(Reason::DeliveryTimeout, words);
    }
}
