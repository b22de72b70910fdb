//! Remembers which lease ends other nodes were notified of, so that no hint is sent more often than
//! needed.
//!
//! # Where it sits
//! The [`crate::notifier`] consults it before it sends hints about leases.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use wakeline_core::Change;

/// If more lease ends than this are remembered, they are forgotten, which only costs hints.
const LEASES_MAX: usize = 10_000;

/// The lease ends that other nodes were notified of.
#[derive(Default)]
pub(crate) struct LeaseHints {
    announced: HashMap<Change, AnnouncedEnd>,
}

struct AnnouncedEnd {
    at: Instant,
    due: Instant,
}

impl LeaseHints {
    /// Returns what the other nodes do not know yet: an earlier end, or any end once half a lease
    /// has passed.
    pub(crate) fn news(&mut self, changes: &[Change]) -> Vec<Change> {
        let now = Instant::now();
        if self.announced.len() > LEASES_MAX {
            self.announced.clear();
        }
        let mut unannounced = Vec::new();
        for change in changes {
            let Some(due) = now.checked_add(change.due_in) else { continue };
            let key = Change { due_in: Duration::ZERO, partition: None, ..change.clone() };
            let known = self.announced.get(&key).is_some_and(|end| {
                end.due > now && end.due <= due && end.at + change.due_in / 2 > now
            });
            if !known {
                self.announced.insert(key.clone(), AnnouncedEnd { at: now, due });
                unannounced.push(Change { due_in: change.due_in, ..key });
            }
        }
        unannounced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{PartitionName, QueueName};

    fn lease(partition: &str, secs: u64) -> Change {
        Change {
            queue: QueueName::new("q").expect("valid"),
            partition: PartitionName::new(partition).ok(),
            namespace: None,
            task: None,
            group: None,
            due_in: Duration::from_secs(secs),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lease_ends_are_announced_once_per_half_lease() {
        let mut hints = LeaseHints::default();
        assert_eq!(hints.news(&[lease("a", 10)]).len(), 1);
        assert_eq!(hints.news(&[lease("a", 10), lease("b", 12)]).len(), 0);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(hints.news(&[lease("a", 10)]).len(), 0);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(hints.news(&[lease("a", 10)]).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_lease_end_is_always_announced() {
        let mut hints = LeaseHints::default();
        assert_eq!(hints.news(&[lease("a", 100)]).len(), 1);
        assert_eq!(hints.news(&[lease("b", 10)]).len(), 1);
        assert_eq!(hints.news(&[lease("b", 20)]).len(), 0);
    }
}
