//! The node's one timer wheel: each key has at most one time.

use std::collections::{BTreeSet, HashMap};

use super::{IntentionId, LineId, Moment};

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// Something of the line becomes available.
    Due(LineId),
    /// The waiter's next claim in Poll mode.
    Poll(IntentionId),
    /// The line's next claim in Poll mode.
    LinePoll(LineId),
    /// A hint of the line should have been answered by now.
    Delivery(LineId),
    /// The next claim of degraded polling.
    DegradedPoll,
    /// The next safety sweep.
    Sweep,
    /// A sweep found the line due, and no hint has said so until now.
    Missed(LineId),
    /// The waiter's patience ends. Last: what comes in the same moment goes before.
    Deadline(IntentionId),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    at: HashMap<Key, Moment>,
    order: BTreeSet<(Moment, Key)>,
}

impl Timers {
    pub(super) fn get(&self, key: Key) -> Option<Moment> {
        self.at.get(&key).copied()
    }

    pub(super) fn set(&mut self, key: Key, at: Moment) {
        if let Some(before) = self.at.insert(key, at) {
            self.order.remove(&(before, key));
        }
        self.order.insert((at, key));
    }

    /// Sets the time, unless an earlier one is set.
    pub(super) fn set_min(&mut self, key: Key, at: Moment) {
        if self.get(key).is_none_or(|before| at < before) {
            self.set(key, at);
        }
    }

    pub(super) fn clear(&mut self, key: Key) {
        if let Some(before) = self.at.remove(&key) {
            self.order.remove(&(before, key));
        }
    }

    pub(super) fn clear_line(&mut self, line: LineId) {
        self.clear(Key::Due(line));
        self.clear(Key::LinePoll(line));
        self.clear(Key::Delivery(line));
        self.clear(Key::Missed(line));
    }

    pub(super) fn first(&self) -> Option<Moment> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out the earliest key whose time has come.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Key> {
        let (at, key) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.order.pop_first();
        self.at.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn an_earlier_timer_survives_a_later_one() {
        let mut timers = Timers::default();
        timers.set_min(Key::Due(LineId(1)), S);
        timers.set_min(Key::Due(LineId(1)), 3 * S);
        assert_eq!(timers.first(), Some(S));
        assert_eq!(timers.pop_due(S / 2), None);
        assert_eq!(timers.pop_due(S), Some(Key::Due(LineId(1))));
        assert_eq!(timers.first(), None);
    }

    #[test]
    fn a_cleared_timer_does_not_fire() {
        let mut timers = Timers::default();
        timers.set(Key::Sweep, S);
        timers.set(Key::Sweep, 2 * S);
        timers.set(Key::Missed(LineId(1)), S);
        timers.clear_line(LineId(1));
        assert_eq!(timers.pop_due(S), None);
        assert_eq!(timers.pop_due(2 * S), Some(Key::Sweep));
    }
}
