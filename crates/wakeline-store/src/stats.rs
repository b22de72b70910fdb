//! Statistics by minute, which nodes count in memory and store at intervals.
//!
//! # Invariants
//! * A node stores a slot as a whole, under its own id and the slot's number. Storing a slot again
//!   replaces it, so a repetition after an unknown outcome counts nothing twice.
//! * If statistics are lost, no messages are lost with them.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp};

use crate::error::StoreError;

macro_rules! statistics {
    ($(#[$doc:meta])* $type:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $type {
            $($(#[$field_doc])* pub $field: i64,)*
        }

        impl $type {
            /// The names of the fields, in order.
            pub const NAMES: &[&'static str] = &[$(stringify!($field)),*];

            /// The values of the fields, in order.
            pub fn values(&self) -> Vec<i64> {
                vec![$(self.$field),*]
            }

            /// Builds the statistics from values in the order of the fields. Missing values are 0.
            pub fn from_values(values: impl IntoIterator<Item = i64>) -> Self {
                let mut values = values.into_iter();
                Self { $($field: values.next().unwrap_or(0),)* }
            }
        }
    };
}

statistics! {
    /// The statistics of a queue.
    QueueStats {
        /// The number of push calls.
        push_requests,
        /// The number of messages that were stored.
        push_messages,
        /// The number of pushed messages that were duplicates.
        push_duplicates,
        /// The number of pop calls.
        pop_requests,
        /// The number of messages that were delivered.
        pop_messages,
        /// The number of pops that returned no message.
        pop_empty,
        /// The number of settle calls.
        ack_requests,
        /// The number of messages that were settled.
        ack_success,
        /// The number of settlements that were refused.
        ack_failed,
        /// The number of messages that consumers gave up or that failed their last attempt.
        dead_letters,
        /// The number of transactions that pushed or settled.
        transactions,
        /// The sum of the times from push to delivery, in microseconds.
        lag_sum,
        /// The longest time from push to delivery, in microseconds.
        lag_max,
        /// The number of messages that groups lost to `ttl` or retention.
        expired,
        /// The number of messages that groups lost to `maxWaitTimeSeconds`.
        evicted,
        /// The number of messages that used up their attempts in a queue without dead letters.
        dropped,
        /// The number of messages that housekeeping removed.
        removed,
        /// The number of pops that were waiting when the slot was stored.
        parked,
    }
}

statistics! {
    /// The statistics of a node.
    NodeStats {
        /// The processor time that the node used, in microseconds.
        cpu,
        /// The memory that the node held when the slot was stored, in bytes.
        memory,
        /// The number of pops that were waiting when the slot was stored.
        waiters,
        /// The number of store calls that failed.
        store_errors,
    }
}

impl QueueStats {
    /// Adds other statistics; `lag_max` becomes the greater of both.
    pub fn add(&mut self, other: &Self) {
        let max = self.lag_max.max(other.lag_max);
        let sums = self.values().into_iter().zip(other.values()).map(|(a, b)| a.saturating_add(b));
        *self = Self { lag_max: max, ..Self::from_values(sums) };
    }

    /// Corrects the lags, which a node measured by its own clock, by the difference between that
    /// clock and the store's.
    pub fn corrected(mut self, skew_micros: i64) -> Self {
        if self.pop_messages > 0 {
            let skews = skew_micros.saturating_mul(self.pop_messages);
            self.lag_sum = self.lag_sum.saturating_sub(skews).max(0);
            self.lag_max = self.lag_max.saturating_sub(skew_micros).max(0);
        }
        self
    }
}

/// What a node counted in an interval of about a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsSlot {
    /// The slot's number; a node numbers its slots from 0.
    pub number: u32,
    /// How long ago the slot began.
    pub age: Duration,
    /// The statistics of the node.
    pub node: NodeStats,
    /// The statistics by queue; `None` for what belongs to no queue or to too many of them.
    pub queues: Vec<(Option<QueueName>, QueueStats)>,
}

/// Slots that a node stores in one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsRecord {
    /// The id that the node generated when it started.
    pub node: Uuid,
    /// The time by the node's own clock, by which it measured lags.
    pub node_now: Timestamp,
    /// Statistics older than this are removed.
    pub keep: Duration,
    /// The slots; each replaces what was stored of it before.
    pub slots: Vec<StatsSlot>,
}

/// Selects statistics to read.
#[derive(Debug, Clone, Default)]
pub struct StatsQuery {
    /// The beginning of the range; by default `span` before its end.
    pub from: Option<Timestamp>,
    /// The end of the range; by default now.
    pub to: Option<Timestamp>,
    /// The length of the range, if `from` is not given.
    pub span: Duration,
    /// How many minutes are added up to one point; 0 chooses a step that results in a few hundred
    /// points.
    pub step_minutes: u32,
    /// Only statistics of this queue.
    pub queue: Option<QueueName>,
    /// Whether to return separate points for each node.
    pub by_node: bool,
}

/// The range of time that statistics cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsRange {
    /// The beginning of the range; a multiple of the step.
    pub from: Timestamp,
    /// The end of the range, exclusive.
    pub to: Timestamp,
    /// How many minutes are added up to one point.
    pub step_minutes: u32,
}

/// The approximate number of points in a series whose step is chosen automatically.
const POINTS: i64 = 300;
/// The number of microseconds in a minute.
pub const MINUTE: i64 = 60_000_000;

impl StatsQuery {
    /// The range that is selected when the store's clock shows `now`.
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
    /// The beginning of the step that contains a time.
    pub fn point(&self, at: Timestamp) -> Timestamp {
        let step = i64::from(self.step_minutes.max(1)) * MINUTE;
        Timestamp(at.0.div_euclid(step) * step)
    }
}

/// The statistics of a queue in one step, of one node or of all together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePoint {
    /// When the step began.
    pub at: Timestamp,
    /// The queue; `None` for what belongs to no queue or to too many of them.
    pub queue: Option<QueueName>,
    /// The node; `None` if the query did not separate nodes.
    pub node: Option<Uuid>,
    /// The statistics of the step.
    pub counts: QueueStats,
}

/// The statistics of a node in one step: sums of what it used, and maxima of what it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePoint {
    /// When the step began.
    pub at: Timestamp,
    /// The id of the node.
    pub node: Uuid,
    /// The statistics of the step.
    pub counts: NodeStats,
}

/// The size of one of the store's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStats {
    /// The table's name.
    pub name: String,
    /// The database's estimate of the number of rows.
    pub rows: i64,
    /// The number of rows that are no longer visible and not removed yet.
    pub dead_rows: i64,
    /// The size on disk in bytes, including indexes.
    pub bytes: i64,
    /// When the table was last vacuumed.
    pub vacuumed_at: Option<Timestamp>,
}

/// The database server's own statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseStats {
    /// The version of the database, in its own words.
    pub version: String,
    /// The size of the database on disk, in bytes.
    pub bytes: i64,
    /// The number of open connections.
    pub connections: i64,
    /// The maximum number of connections that the server accepts.
    pub connections_max: i64,
    /// The number of committed transactions.
    pub commits: i64,
    /// The number of transactions that were rolled back.
    pub rollbacks: i64,
    /// The number of deadlocks.
    pub deadlocks: i64,
    /// The number of pages that were found in the buffer cache.
    pub pages_hit: i64,
    /// The number of pages that were read from disk or from the operating system's cache.
    pub pages_read: i64,
    /// The store's own tables, largest first.
    pub tables: Vec<TableStats>,
}

/// Storage of statistics over time.
#[async_trait]
pub trait StatsStore: Send + Sync {
    /// Stores what a node has counted, in one commit, and removes some of the statistics that are
    /// too old.
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError>;

    /// The statistics of queues, ordered by time, queue and node.
    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError>;

    /// The statistics of nodes, ordered by time and node.
    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError>;

    /// The statistics of the database server; `None` for a store without a server.
    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_consists_of_complete_steps_and_few_points() {
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
    fn lags_are_corrected_by_the_difference_between_the_clocks() {
        let counts = QueueStats { pop_messages: 2, lag_sum: 50, lag_max: 40, ..Default::default() };
        let true_lag = |skew| {
            let counts = counts.corrected(skew);
            (counts.lag_sum, counts.lag_max)
        };
        assert_eq!((true_lag(10), true_lag(-10), true_lag(100)), ((30, 30), (70, 50), (0, 0)));
    }
}
