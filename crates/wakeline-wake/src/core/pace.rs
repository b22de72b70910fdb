//! Poll mode: no hints; each waiter claims at its line's pace.

use std::time::Duration;

use crate::face::Face;
use crate::mode::WakeMode;

use super::timers::Key;
use super::{Core, IntentionId, LineId};

impl<F: Face> Core<F> {
    pub(super) fn poll_came(&mut self, id: IntentionId) {
        self.queue_waiter(id);
    }

    /// Whether a grant of that many items leaves more to be expected.
    pub(super) fn is_full(&self, ask: &F::Ask, items: usize) -> bool {
        let capacity = F::capacity(ask);
        match self.mode {
            WakeMode::Poll(poll) => items >= capacity.min(poll.batch as usize),
            _ => items >= capacity,
        }
    }

    /// Time between two claims of a waiter of the line.
    pub(super) fn pace_of(&self, line: LineId) -> Duration {
        let WakeMode::Poll(poll) = self.mode else { return self.config.degraded_poll_interval };
        let learned = self.lines.get(line).and_then(|line| line.pace);
        learned.filter(|_| poll.adaptive).unwrap_or(poll.interval)
    }

    /// A claim ended: the pace follows what it found, and its parked waiters come again after
    /// that. `found` says whether what it found was a full batch; then the next waiter goes at
    /// once, because there is more.
    pub(super) fn pace_on(&mut self, line_id: LineId, left: &[IntentionId], found: Option<bool>) {
        let WakeMode::Poll(poll) = self.mode else { return };
        let pace = match found {
            Some(true) => (poll.interval / 2).max(Duration::from_millis(1)),
            Some(false) => poll.interval,
            None => (self.pace_of(line_id) * 2).min(poll.interval * 5),
        };
        let Some(line) = self.lines.get_mut(line_id) else { return };
        line.pace = Some(pace);
        let next = line.idle.first().copied().filter(|_| found == Some(true));
        let pace = self.pace_of(line_id);
        for id in left {
            self.timers.set(Key::Poll(*id), self.now + pace);
        }
        if let Some(next) = next {
            self.queue_waiter(next);
        }
    }
}
