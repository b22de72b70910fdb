//! Housekeeping of queues: removing messages and leases that are past their time limits.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, Loss, QueueName};

use crate::error::StoreError;

/// How much housekeeping to do in one call.
#[derive(Debug, Clone, Copy)]
pub struct Housekeeping {
    /// The maximum number of rows to remove.
    pub rows_max: u32,
    /// The minimum time between two examinations of the same queue.
    pub interval: Duration,
    /// Examines all queues again, including those that are not due. Intended for the first call of
    /// a series that examines everything.
    pub restart: bool,
    /// Removes statistics older than this; `None` leaves statistics alone.
    pub stats_keep: Option<Duration>,
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self {
            rows_max: 1_000,
            interval: Duration::from_secs(60),
            restart: false,
            stats_keep: None,
        }
    }
}

/// The numbers of messages that groups of a queue lost to the queue's limits, counted once per
/// message and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Messages that were older than `ttl`, or were removed by retention before they were settled.
    /// In a queue without groups each removed message counts once.
    pub expired: u64,
    /// Messages that waited longer than `maxWaitTimeSeconds`.
    pub evicted: u64,
    /// Messages that used up their attempts in a queue that keeps no dead letters.
    pub dropped: u64,
}

impl Losses {
    /// Counts one message, if it was lost.
    pub fn count(&mut self, loss: Option<Loss>) {
        match loss {
            Some(Loss::Expired) => self.expired += 1,
            Some(Loss::Evicted) => self.evicted += 1,
            None => {}
        }
    }

    /// Adds other losses.
    pub fn add(&mut self, other: Self) {
        self.expired += other.expired;
        self.evicted += other.evicted;
        self.dropped += other.dropped;
    }

    /// Whether nothing was lost.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// The result of a call of housekeeping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HousekeepingReport {
    /// The number of removed messages.
    pub removed: u64,
    /// Losses by queue that no report has contained before.
    pub losses: Vec<(QueueName, Losses)>,
    /// When to call again: zero if there is more to do now, `None` if no work is known.
    pub next_due: Option<Duration>,
    /// Changes to publish to the waiters of this process.
    pub changes: Vec<Change>,
}

/// Housekeeping of queues.
#[async_trait]
pub trait QueueKeeper: Send + Sync {
    /// Does one unit of housekeeping in a short transaction, unless another node is doing so. In
    /// queues with time limits it ends expired leases, skips messages that may not be delivered any
    /// more, and removes messages according to the retention rules.
    async fn housekeep(&self, options: Housekeeping) -> Result<HousekeepingReport, StoreError>;

    /// The losses of the groups of a queue so far.
    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError>;
}
