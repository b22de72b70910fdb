//! Housekeeping of queues: what is past its time goes.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, Loss, QueueName};

use crate::error::StoreError;

/// How much housekeeping to do in one call.
#[derive(Debug, Clone, Copy)]
pub struct Housekeeping {
    /// Most rows to remove.
    pub rows_max: u32,
    /// A queue that was looked through is left alone for at least so long.
    pub interval: Duration,
    /// Looks through all queues anew, also those that are not due. Meant for the first of the
    /// calls that do it.
    pub anew: bool,
    /// Removes figures that are older; `None` if none are kept or looked for.
    pub stats_keep: Option<Duration>,
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self { rows_max: 1_000, interval: Duration::from_secs(60), anew: false, stats_keep: None }
    }
}

/// Messages that groups of a queue lost to its owner's limits: one per message and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Older than `ttl`, or removed by retention before they were settled. Where a queue has no
    /// group, each message that goes counts once.
    pub expired: u64,
    /// Waited longer than `maxWaitTimeSeconds`.
    pub evicted: u64,
    /// Used up their tries in a queue that keeps no dead letters.
    pub dropped: u64,
}

impl Losses {
    /// Counts one message, if it is lost.
    pub fn count(&mut self, loss: Option<Loss>) {
        match loss {
            Some(Loss::Expired) => self.expired += 1,
            Some(Loss::Evicted) => self.evicted += 1,
            None => {}
        }
    }

    /// Adds others.
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

/// What a call of housekeeping did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HousekeepingReport {
    /// Messages that were removed.
    pub removed: u64,
    /// What was lost, by queue, and is told here for the first time.
    pub losses: Vec<(QueueName, Losses)>,
    /// When to call again: zero if there is more to do now, `None` if nothing is in sight.
    pub next_due: Option<Duration>,
    /// What the caller tells its own waiters.
    pub changes: Vec<Change>,
}

/// Housekeeping of queues.
#[async_trait]
pub trait QueueKeeper: Send + Sync {
    /// Does a piece of housekeeping in a short transaction, unless another node is at it. For
    /// queues with limits of time it ends leases that ran out, passes over what no group is to get
    /// any more, and removes messages by the rules of retention.
    async fn housekeep(&self, how: Housekeeping) -> Result<HousekeepingReport, StoreError>;

    /// What the groups of a queue have lost so far.
    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError>;
}
