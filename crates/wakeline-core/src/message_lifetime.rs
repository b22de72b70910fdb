//! How long messages of a queue live, according to its options.

use std::time::Duration;

use crate::{QueueOptions, Timestamp};

/// The reason why a group no longer gets a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The message is older than `ttl`.
    Expired,
    /// The message waited longer than `maxWaitTimeSeconds`.
    Evicted,
}

impl QueueOptions {
    /// Returns whether messages of the queue can ever expire or be removed by age.
    pub fn has_time_limits(&self) -> bool {
        self.shortest_span().is_some()
    }

    /// Returns the age at which a message is no longer delivered.
    pub fn ttl(&self) -> Option<Duration> {
        span(self.ttl_secs)
    }

    /// Returns the longest time for which an available message waits for a group.
    pub fn wait_max(&self) -> Option<Duration> {
        span(self.wait_secs_max)
    }

    /// Returns the age at which messages are removed, settled or not.
    pub fn removal_age(&self) -> Option<Duration> {
        let retention = span(self.retention_secs).filter(|_| self.retention);
        self.ttl().into_iter().chain(retention).min()
    }

    /// Returns the age at which messages are removed that every group has settled.
    pub fn completed_removal_age(&self) -> Option<Duration> {
        span(self.completed_retention_secs).filter(|_| self.retention)
    }

    /// Returns the shortest time after which something may have to be removed.
    pub fn shortest_span(&self) -> Option<Duration> {
        let spans = [self.wait_max(), self.removal_age(), self.completed_removal_age()];
        spans.into_iter().flatten().min()
    }

    /// Returns the time without a poll after which a group is idle. A group that has never settled
    /// anything, such as one with a misspelt name, is idle after a quarter of that time.
    pub fn group_idle_after(&self, settled: bool) -> Option<Duration> {
        let after = span(self.group_idle_secs)?;
        Some(if settled { after } else { after / 4 })
    }

    /// Returns the age of a group's last recorded poll at which a poll is recorded again. So polls
    /// do not cost a write each, and an idle server writes almost nothing.
    pub fn poll_recorded_after(&self, settled: bool) -> Duration {
        let after = self.group_idle_after(settled).map(|after| after / 10);
        after.map_or(POLL_RECORDED_MAX, |after| after.min(POLL_RECORDED_MAX))
    }

    /// Returns whether a message with these times of push and availability is lost by now, and the
    /// limit that it reached first.
    pub fn loss(
        &self,
        created_at: Timestamp,
        available_at: Timestamp,
        now: Timestamp,
    ) -> Option<Loss> {
        let expires = self.ttl().map(|ttl| (created_at.plus(ttl), Loss::Expired));
        let evicts = self.wait_max().map(|wait| (available_at.plus(wait), Loss::Evicted));
        let past = expires.into_iter().chain(evicts).filter(|(at, _)| *at <= now);
        past.min_by_key(|(at, _)| *at).map(|(_, loss)| loss)
    }
}

/// The longest time between two records of polls of a group that is polled continuously.
const POLL_RECORDED_MAX: Duration = Duration::from_secs(3600);

fn span(secs: u32) -> Option<Duration> {
    (secs > 0).then(|| Duration::from_secs(secs.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp(secs * 1_000_000)
    }

    #[test]
    fn a_group_that_never_settled_anything_is_idle_four_times_as_soon() {
        let options = QueueOptions { group_idle_secs: 400, ..QueueOptions::default() };
        let spans = [true, false].map(|settled| options.group_idle_after(settled));
        assert_eq!(spans, [400, 100].map(|secs| Some(Duration::from_secs(secs))));
        assert_eq!(options.poll_recorded_after(false), Duration::from_secs(10));
        let never = QueueOptions { group_idle_secs: 0, ..options };
        assert_eq!(never.group_idle_after(false), None);
    }

    #[test]
    fn by_default_a_group_may_pause_for_four_weeks_and_polls_are_recorded_hourly() {
        let options = QueueOptions::default();
        let weeks = |n: u64| Some(Duration::from_secs(n * 7 * 86_400));
        assert_eq!(options.group_idle_after(true), weeks(4));
        assert_eq!(options.group_idle_after(false), weeks(1));
        assert_eq!(options.poll_recorded_after(true), Duration::from_secs(3600));
    }

    #[test]
    fn omitted_limits_lose_nothing() {
        let options = QueueOptions::default();
        assert!(!options.has_time_limits());
        assert_eq!(options.loss(at(0), at(0), at(i64::MAX / 1_000_000)), None);
    }

    #[test]
    fn spans_of_retention_count_only_where_it_is_on() {
        let off = QueueOptions {
            retention_secs: 10,
            completed_retention_secs: 5,
            ..QueueOptions::default()
        };
        assert!(!off.has_time_limits());
        let on = QueueOptions { retention: true, ttl_secs: 20, ..off };
        assert_eq!(on.removal_age(), Some(Duration::from_secs(10)));
        assert_eq!(on.shortest_span(), Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_message_is_lost_to_the_limit_that_it_met_first() {
        let options = QueueOptions { ttl_secs: 10, wait_secs_max: 4, ..QueueOptions::default() };
        assert_eq!(options.loss(at(0), at(0), at(3)), None);
        assert_eq!(options.loss(at(0), at(0), at(4)), Some(Loss::Evicted));
        assert_eq!(options.loss(at(0), at(0), at(30)), Some(Loss::Evicted));
        assert_eq!(options.loss(at(0), at(8), at(30)), Some(Loss::Expired));
    }
}
