//! How long messages of a queue live, by its options.

use std::time::Duration;

use crate::{QueueOptions, Timestamp};

/// Why a group does not get a message any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It is older than `ttl`.
    Expired,
    /// It waited longer than `maxWaitTimeSeconds`.
    Evicted,
}

impl QueueOptions {
    /// Whether anything of the queue is ever past its time.
    pub fn has_time_limits(&self) -> bool {
        self.shortest_span().is_some()
    }

    /// Age at which a message is not delivered any more.
    pub fn ttl(&self) -> Option<Duration> {
        span(self.ttl_secs)
    }

    /// Longest time for which an available message waits for a group.
    pub fn wait_max(&self) -> Option<Duration> {
        span(self.wait_secs_max)
    }

    /// Age at which messages are removed, settled or not.
    pub fn removal_age(&self) -> Option<Duration> {
        let retention = span(self.retention_secs).filter(|_| self.retention);
        self.ttl().into_iter().chain(retention).min()
    }

    /// Age at which messages are removed that every group has settled.
    pub fn completed_removal_age(&self) -> Option<Duration> {
        span(self.completed_retention_secs).filter(|_| self.retention)
    }

    /// The shortest time after which something may be past its time.
    pub fn shortest_span(&self) -> Option<Duration> {
        let spans = [self.wait_max(), self.removal_age(), self.completed_removal_age()];
        spans.into_iter().flatten().min()
    }

    /// Whether a message that was pushed and became available then is lost by now, and why: by
    /// what came first.
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
