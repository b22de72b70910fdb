//! Poll mode: hints are not used; each line, or each of its waiters, claims at the line's pace.

use std::time::Duration;

use crate::api::Api;
use crate::mode::WakeMode;

use super::timers::TimerPurpose;
use super::{LineId, WaiterId, WakeCore};

impl<F: Api> WakeCore<F> {
    /// Returns whether a result of this many items suggests that there are more.
    pub(super) fn is_full(&self, request: &F::Request, items: usize) -> bool {
        let capacity = F::capacity(request);
        match self.mode {
            WakeMode::Poll(poll) => items >= capacity.min(poll.batch as usize),
            _ => items >= capacity,
        }
    }

    /// Returns the time between two claims of the line, or of one of its waiters.
    pub(super) fn pace_of(&self, line: LineId) -> Duration {
        let WakeMode::Poll(poll) = self.mode else { return self.degraded_poll_interval };
        let learned = self.lines.get(line).and_then(|line| line.pace);
        learned.filter(|_| poll.adaptive).unwrap_or(poll.interval)
    }

    /// Adjusts the pace of a line after a claim, and sets the time of the next claim for its parked
    /// waiters. `found` is `None` for an empty claim, and otherwise whether it found a full batch;
    /// after a full batch the next claim is made at once, because there is more.
    pub(super) fn adjust_pace(&mut self, line_id: LineId, left: &[WaiterId], found: Option<bool>) {
        let WakeMode::Poll(poll) = self.mode else { return };
        let pace = match found {
            Some(true) => (poll.interval / 2).max(Duration::from_millis(1)),
            Some(false) => poll.interval,
            None => (self.pace_of(line_id) * 2).min(poll.interval * 5),
        };
        let Some(line) = self.lines.get_mut(line_id) else { return };
        line.pace = Some(pace);
        let next = line.idle.first().copied();
        let full = found == Some(true);
        let pace = self.pace_of(line_id);
        if self.mode.claims_by_line() {
            match next {
                Some(_) if full => self.mark_dirty(line_id, None),
                Some(_) => self.timers.set(TimerPurpose::LinePoll(line_id), self.now + pace),
                None => self.timers.clear(TimerPurpose::LinePoll(line_id)),
            }
            return;
        }
        for id in left {
            self.timers.set(TimerPurpose::Poll(*id), self.now + pace);
        }
        if let Some(next) = next.filter(|_| full) {
            self.queue_waiter(next);
        }
    }
}
