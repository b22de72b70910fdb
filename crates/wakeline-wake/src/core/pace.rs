//! Poll mode: no hints; each line, or each of its waiters, claims at the line's pace.

use std::time::Duration;

use crate::face::Face;
use crate::mode::WakeMode;

use super::timers::Key;
use super::{Core, IntentionId, LineId};

impl<F: Face> Core<F> {
    /// Whether a grant of that many items leaves more to be expected.
    pub(super) fn is_full(&self, ask: &F::Ask, items: usize) -> bool {
        let capacity = F::capacity(ask);
        match self.mode {
            WakeMode::Poll(poll) => items >= capacity.min(poll.batch as usize),
            _ => items >= capacity,
        }
    }

    /// Time between two claims of the line, or of one of its waiters.
    pub(super) fn pace_of(&self, line: LineId) -> Duration {
        let WakeMode::Poll(poll) = self.mode else { return self.degraded_poll_interval };
        let learned = self.lines.get(line).and_then(|line| line.pace);
        learned.filter(|_| poll.adaptive).unwrap_or(poll.interval)
    }

    /// A claim ended: the pace follows what it found, and parked waiters are claimed for again
    /// after that. `found` says whether what it found was a full batch; then the next claim is
    /// made at once, because there is more.
    pub(super) fn pace_on(&mut self, line_id: LineId, left: &[IntentionId], found: Option<bool>) {
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
                Some(_) => self.timers.set(Key::LinePoll(line_id), self.now + pace),
                None => self.timers.clear(Key::LinePoll(line_id)),
            }
            return;
        }
        for id in left {
            self.timers.set(Key::Poll(*id), self.now + pace);
        }
        if let Some(next) = next.filter(|_| full) {
            self.queue_waiter(next);
        }
    }
}
