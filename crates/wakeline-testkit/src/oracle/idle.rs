//! Groups that are no longer polled.

use wakeline_core::{QueueLine, QueueName, Timestamp};

use super::state::{OracleGroup, OracleQueue, OracleState};

impl OracleState {
    /// Records a poll of a line's group in each queue whose last record is old enough.
    pub(super) fn poll(&mut self, line: &QueueLine, now: Timestamp) {
        let matching =
            |(name, queue): &(&QueueName, &mut OracleQueue)| queue.matches(name, &line.selector);
        for (_, queue) in self.queues.iter_mut().filter(matching) {
            let Some(group) = queue.groups.get(&line.group) else { continue };
            let recorded_after = queue.options.poll_recorded_after(group.settled);
            if group.polled_at.plus(recorded_after) <= now {
                queue.resume(now);
                if let Some(group) = queue.groups.get_mut(&line.group) {
                    group.polled_at = now;
                }
            }
        }
    }
}

impl OracleQueue {
    /// Returns since when a group is idle; `None` if it is not.
    pub(super) fn idle_since(&self, group: &OracleGroup, now: Timestamp) -> Option<Timestamp> {
        let after = self.options.group_idle_after(group.settled)?;
        Some(group.polled_at.plus(after)).filter(|since| *since <= now)
    }

    /// Counts all groups as polled if every one of them is idle.
    pub(super) fn resume(&mut self, now: Timestamp) {
        if self.groups.values().all(|group| self.idle_since(group, now).is_some()) {
            self.groups.values_mut().for_each(|group| group.polled_at = now);
        }
    }

    /// Returns, by name, the groups that count against limits and hold messages back: those that
    /// are not idle, or all groups if all are idle.
    pub(super) fn holding(&self, now: Timestamp) -> Vec<&OracleGroup> {
        let all = || self.groups.values();
        let holding: Vec<_> = all().filter(|group| self.idle_since(group, now).is_none()).collect();
        if holding.is_empty() { all().collect() } else { holding }
    }
}
