//! The node's only timer wheel. Each key has at most one time.

use std::collections::{BTreeSet, HashMap};

use super::{HubTime, LineId, WaiterId};

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum TimerPurpose {
    /// Something of the line becomes available.
    Due(LineId),
    /// The waiter's next claim in Poll mode.
    Poll(WaiterId),
    /// The line's next claim in Poll mode.
    LinePoll(LineId),
    /// A hint of the line should have been answered by now.
    Delivery(LineId),
    /// The next claim of degraded polling.
    DegradedPoll,
    /// The next safety sweep.
    Sweep,
    /// A sweep found the line due, and no hint has reported it within the delivery timeout.
    Missed(LineId),
    /// The waiter's patience ends. It is the last variant, so that timers of the same moment go
    /// first.
    Deadline(WaiterId),
}

#[derive(Debug, Default)]
pub(super) struct TimerWheel {
    at: HashMap<TimerPurpose, HubTime>,
    order: BTreeSet<(HubTime, TimerPurpose)>,
}

impl TimerWheel {
    pub(super) fn get(&self, key: TimerPurpose) -> Option<HubTime> {
        self.at.get(&key).copied()
    }

    pub(super) fn set(&mut self, key: TimerPurpose, at: HubTime) {
        if let Some(before) = self.at.insert(key, at) {
            self.order.remove(&(before, key));
        }
        self.order.insert((at, key));
    }

    /// Sets the time, unless an earlier one is set.
    pub(super) fn set_min(&mut self, key: TimerPurpose, at: HubTime) {
        if self.get(key).is_none_or(|before| at < before) {
            self.set(key, at);
        }
    }

    pub(super) fn clear(&mut self, key: TimerPurpose) {
        if let Some(before) = self.at.remove(&key) {
            self.order.remove(&(before, key));
        }
    }

    pub(super) fn clear_line(&mut self, line: LineId) {
        self.clear(TimerPurpose::Due(line));
        self.clear(TimerPurpose::LinePoll(line));
        self.clear(TimerPurpose::Delivery(line));
        self.clear(TimerPurpose::Missed(line));
    }

    pub(super) fn first(&self) -> Option<HubTime> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out the earliest key whose time has come.
    pub(super) fn pop_due(&mut self, now: HubTime) -> Option<TimerPurpose> {
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
        let mut timers = TimerWheel::default();
        timers.set_min(TimerPurpose::Due(LineId(1)), S);
        timers.set_min(TimerPurpose::Due(LineId(1)), 3 * S);
        assert_eq!(timers.first(), Some(S));
        assert_eq!(timers.pop_due(S / 2), None);
        assert_eq!(timers.pop_due(S), Some(TimerPurpose::Due(LineId(1))));
        assert_eq!(timers.first(), None);
    }

    #[test]
    fn a_cleared_timer_does_not_fire() {
        let mut timers = TimerWheel::default();
        timers.set(TimerPurpose::Sweep, S);
        timers.set(TimerPurpose::Sweep, 2 * S);
        timers.set(TimerPurpose::Missed(LineId(1)), S);
        timers.clear_line(LineId(1));
        assert_eq!(timers.pop_due(S), None);
        assert_eq!(timers.pop_due(2 * S), Some(TimerPurpose::Sweep));
    }
}
