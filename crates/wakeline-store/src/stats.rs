//! What happened, minute by minute: figures that nodes count in memory and write down now and then.
//!
//! # Invariants
//! * A node writes what it counted in a slot as a whole, under its own id and the slot's number: to
//!   write a slot again replaces it, so a repetition after an unknown outcome counts nothing twice.
//! * Losing figures costs figures, never messages.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp};

use crate::error::StoreError;

macro_rules! counts {
    ($(#[$doc:meta])* $type:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $type {
            $($(#[$field_doc])* pub $field: i64,)*
        }

        impl $type {
            /// The names of the figures, in order.
            pub const NAMES: &[&'static str] = &[$(stringify!($field)),*];

            /// The figures, in order.
            pub fn values(&self) -> Vec<i64> {
                vec![$(self.$field),*]
            }

            /// Figures in order; those that are missing are 0.
            pub fn from_values(values: impl IntoIterator<Item = i64>) -> Self {
                let mut values = values.into_iter();
                Self { $($field: values.next().unwrap_or(0),)* }
            }
        }
    };
}

counts! {
    /// What happened in a queue.
    QueueCounts {
        /// Calls that pushed.
        push_requests,
        /// Messages that were stored.
        push_messages,
        /// Messages that were recognised as repetitions.
        push_duplicates,
        /// Calls that popped.
        pop_requests,
        /// Messages that were delivered.
        pop_messages,
        /// Pops that ended with nothing.
        pop_empty,
        /// Calls that settled.
        ack_requests,
        /// Messages that were settled.
        ack_success,
        /// Settlements that were refused.
        ack_failed,
        /// Messages that consumers gave up or failed for the last time.
        dead_letters,
        /// Transactions that pushed or settled.
        transactions,
        /// Microseconds from push to delivery, of all that was delivered.
        lag_sum,
        /// The longest of these.
        lag_max,
        /// Messages that groups lost to `ttl` or retention.
        expired,
        /// Messages that groups lost to `maxWaitTimeSeconds`.
        evicted,
        /// Messages that used up their tries in a queue without dead letters.
        dropped,
        /// Messages that housekeeping removed.
        removed,
        /// Pops that were waiting when this was written.
        parked,
    }
}

counts! {
    /// How a node was.
    NodeCounts {
        /// Microseconds of processor time that it used.
        cpu,
        /// Bytes of memory that it held when this was written.
        memory,
        /// Pops that were waiting when this was written.
        waiters,
        /// Calls that the store failed.
        store_errors,
    }
}

impl QueueCounts {
    /// Adds what happened beside it.
    pub fn add(&mut self, other: &Self) {
        let max = self.lag_max.max(other.lag_max);
        let sums = self.values().into_iter().zip(other.values()).map(|(a, b)| a.saturating_add(b));
        *self = Self { lag_max: max, ..Self::from_values(sums) };
    }

    /// Takes the difference between a node's clock and the store's out of the lag, which the node
    /// measured by its own clock.
    pub fn corrected(mut self, skew_micros: i64) -> Self {
        if self.pop_messages > 0 {
            let skews = skew_micros.saturating_mul(self.pop_messages);
            self.lag_sum = self.lag_sum.saturating_sub(skews).max(0);
            self.lag_max = self.lag_max.saturating_sub(skew_micros).max(0);
        }
        self
    }
}

/// What a node counted in a stretch of time of about a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsSlot {
    /// The slot's number: a node counts them from 0.
    pub number: u32,
    /// How long ago it began.
    pub age: Duration,
    /// How the node was.
    pub node: NodeCounts,
    /// What happened, by queue; `None` stands for what belongs to no queue or to too many.
    pub queues: Vec<(Option<QueueName>, QueueCounts)>,
}

/// What a node has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsRecord {
    /// The node: an id that it made when it started.
    pub node: Uuid,
    /// The time by the node's own clock, by which it measured lags.
    pub node_now: Timestamp,
    /// What is older than this is removed.
    pub keep: Duration,
    /// Its slots; each replaces what was written of it before.
    pub slots: Vec<StatsSlot>,
}

/// Which figures to read.
#[derive(Debug, Clone, Default)]
pub struct StatsQuery {
    /// From this moment on; by default for the span before the end.
    pub from: Option<Timestamp>,
    /// Up to this moment; by default now.
    pub to: Option<Timestamp>,
    /// How long, if the beginning is not given.
    pub span: Duration,
    /// Minutes that are added up to one point; 0: as many as make a few hundred points.
    pub step_minutes: u32,
    /// Only of this queue.
    pub queue: Option<QueueName>,
    /// Keep nodes apart.
    pub by_node: bool,
}

/// The stretch of time that figures are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsRange {
    /// From this moment on, a whole step.
    pub from: Timestamp,
    /// Up to this moment.
    pub to: Timestamp,
    /// Minutes that are added up to one point.
    pub step_minutes: u32,
}

/// Points of a series, if nobody says how many.
const POINTS: i64 = 300;
/// A minute, in microseconds.
pub const MINUTE: i64 = 60_000_000;

impl StatsQuery {
    /// The stretch that is meant, at a moment by the store's clock.
    pub fn range(&self, now: Timestamp) -> StatsRange {
        let to = self.to.unwrap_or(Timestamp(now.0.saturating_add(1)));
        let span = i64::try_from(self.span.as_micros()).unwrap_or(i64::MAX);
        let from = self.from.unwrap_or(Timestamp(to.0.saturating_sub(span)));
        let minutes = to.0.saturating_sub(from.0).max(0) / MINUTE;
        let step = match self.step_minutes {
            0 => u32::try_from(minutes / POINTS + 1).unwrap_or(u32::MAX),
            given => given,
        };
        let range = StatsRange { from, to, step_minutes: step };
        StatsRange { from: range.point(from), ..range }
    }
}

impl StatsRange {
    /// The point that a moment belongs to.
    pub fn point(&self, at: Timestamp) -> Timestamp {
        let step = i64::from(self.step_minutes.max(1)) * MINUTE;
        Timestamp(at.0.div_euclid(step) * step)
    }
}

/// What happened in a queue, and on a node if they are kept apart, in one step of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePoint {
    /// When the step began.
    pub at: Timestamp,
    /// The queue; `None` for what belongs to no queue or to too many.
    pub queue: Option<QueueName>,
    /// The node.
    pub node: Option<Uuid>,
    /// What happened.
    pub counts: QueueCounts,
}

/// How a node was in one step of time: sums of what it used, the most of what it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePoint {
    /// When the step began.
    pub at: Timestamp,
    /// The node.
    pub node: Uuid,
    /// How it was.
    pub counts: NodeCounts,
}

/// A table of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Its rows, as far as the database knows without counting.
    pub rows: i64,
    /// Rows that are no longer visible and not removed yet.
    pub dead_rows: i64,
    /// Bytes on disk, with indexes.
    pub bytes: i64,
    /// When it was last vacuumed.
    pub vacuumed_at: Option<Timestamp>,
}

/// How the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseStats {
    /// What the database calls its version.
    pub version: String,
    /// Bytes on disk, of everything in it.
    pub bytes: i64,
    /// Open connections to it.
    pub connections: i64,
    /// Most connections that the server takes.
    pub connections_max: i64,
    /// Transactions that were committed.
    pub commits: i64,
    /// Transactions that were rolled back.
    pub rollbacks: i64,
    /// Deadlocks.
    pub deadlocks: i64,
    /// Pages that were found in memory.
    pub pages_hit: i64,
    /// Pages that were read.
    pub pages_read: i64,
    /// The store's own tables, the largest first.
    pub tables: Vec<TableStats>,
}

/// Figures over time.
#[async_trait]
pub trait StatsStore: Send + Sync {
    /// Writes down what a node has counted, in one commit; removes some of what is too old.
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError>;

    /// What happened in queues, by time, queue and node.
    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError>;

    /// How nodes were, by time and node.
    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError>;

    /// How the database is; `None` where there is no server that could tell.
    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_whole_steps_and_of_few_points() {
        let now = Timestamp(1_000_000 * MINUTE + 7);
        let hour = StatsQuery { span: Duration::from_secs(3600), ..StatsQuery::default() };
        let range = hour.range(now);
        assert_eq!((range.step_minutes, range.from.0), (1, (1_000_000 - 60) * MINUTE));
        assert!(range.to > now);
        let week = StatsQuery { span: Duration::from_secs(7 * 86_400), ..StatsQuery::default() };
        assert_eq!(week.range(now).step_minutes, 34);
        let given = StatsQuery { step_minutes: 60, from: Some(Timestamp(90 * MINUTE)), ..week };
        let range = given.range(now);
        assert_eq!(
            (range.from.0, range.point(Timestamp(179 * MINUTE)).0),
            (60 * MINUTE, 120 * MINUTE)
        );
    }

    #[test]
    fn lags_are_corrected_by_the_difference_of_the_clocks() {
        let counts =
            QueueCounts { pop_messages: 2, lag_sum: 50, lag_max: 40, ..Default::default() };
        let true_lag = |skew| {
            let counts = counts.corrected(skew);
            (counts.lag_sum, counts.lag_max)
        };
        assert_eq!((true_lag(10), true_lag(-10), true_lag(100)), ((30, 30), (70, 50), (0, 0)));
    }
}
