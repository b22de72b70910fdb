//! Which lease ends the other nodes were told of, so that they are told no more often than needed.
//!
//! # Where it sits
//! The [`crate::notifier`] asks it before it tells of leases.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use wakeline_core::Change;

/// More remembered lease hints than this are forgotten, which only costs hints.
const LEASES_MAX: usize = 10_000;

/// Which lease ends the other nodes were told of.
#[derive(Default)]
pub(crate) struct LeaseHints {
    told: HashMap<Change, Told>,
}

struct Told {
    at: Instant,
    due: Instant,
}

impl LeaseHints {
    /// What the others do not know yet: an earlier end, or any end once half a lease has passed.
    pub(crate) fn news(&mut self, changes: &[Change]) -> Vec<Change> {
        let now = Instant::now();
        if self.told.len() > LEASES_MAX {
            self.told.clear();
        }
        let mut news = Vec::new();
        for change in changes {
            let Some(due) = now.checked_add(change.due_in) else { continue };
            let key = Change { due_in: Duration::ZERO, partition: None, ..change.clone() };
            let known = self.told.get(&key).is_some_and(|told| {
                told.due > now && told.due <= due && told.at + change.due_in / 2 > now
            });
            if !known {
                self.told.insert(key.clone(), Told { at: now, due });
                news.push(Change { due_in: change.due_in, ..key });
            }
        }
        news
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
    async fn lease_ends_are_told_once_per_half_lease() {
        let mut hints = LeaseHints::default();
        assert_eq!(hints.news(&[lease("a", 10)]).len(), 1);
        assert_eq!(hints.news(&[lease("a", 10), lease("b", 12)]).len(), 0);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(hints.news(&[lease("a", 10)]).len(), 0);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(hints.news(&[lease("a", 10)]).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_lease_end_is_always_told() {
        let mut hints = LeaseHints::default();
        assert_eq!(hints.news(&[lease("a", 100)]).len(), 1);
        assert_eq!(hints.news(&[lease("b", 10)]).len(), 1);
        assert_eq!(hints.news(&[lease("b", 20)]).len(), 0);
    }
}
