//! Wire types of statistics of queues over time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::Timestamp;
use wakeline_store::{QueuePoint, QueueStats, StatsRange};

use crate::render;

/// The time range of statistics.
#[derive(Serialize, ToSchema)]
pub(crate) struct TimeRange {
    /// The start of the range.
    from: String,
    /// The end of the range.
    to: String,
}

impl From<StatsRange> for TimeRange {
    fn from(range: StatsRange) -> Self {
        Self { from: render::time(range.from), to: render::time(range.to) }
    }
}

/// The length of a data point in seconds.
pub(crate) fn step_secs(range: &StatsRange) -> f64 {
    f64::from(range.step_minutes) * 60.0
}

/// Divides a count and rounds the result to two decimal places.
pub(crate) fn rounded_quotient(count: i64, divisor: f64) -> f64 {
    (count as f64 / divisor * 100.0).round() / 100.0
}

/// Divides a sum by a count and rounds the result to two decimal places; `None` if the count is 0.
pub(super) fn ratio(sum: i64, count: i64) -> Option<f64> {
    (count > 0).then(|| rounded_quotient(sum, count as f64))
}

/// Returns the maximum time from push to delivery in milliseconds; `None` if nothing was delivered.
pub(super) fn max_lag(counts: &QueueStats) -> Option<f64> {
    (counts.pop_messages > 0).then(|| rounded_quotient(counts.lag_max, 1000.0))
}

/// Returns the average time from push to delivery in milliseconds; `None` if nothing was delivered.
pub(super) fn avg_lag(counts: &QueueStats) -> Option<f64> {
    ratio(counts.lag_sum / 1000, counts.pop_messages)
}

/// The throughput of all queues together in one data point.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThroughputPoint {
    /// The start of the data point's interval.
    timestamp: String,
    /// The number of pushed messages.
    ingested: i64,
    /// The number of settled messages.
    processed: i64,
    /// The number of pushed messages per second.
    ingested_per_second: f64,
    /// The number of settled messages per second.
    processed_per_second: f64,
    /// The average time from push to delivery in milliseconds; null if nothing was delivered.
    avg_lag_ms: Option<f64>,
    /// The maximum time from push to delivery in milliseconds; null if nothing was delivered.
    max_lag_ms: Option<f64>,
}

/// Adds up the statistics of all queues and nodes by time.
pub(crate) fn by_time(points: &[QueuePoint]) -> BTreeMap<Timestamp, QueueStats> {
    let mut sums: BTreeMap<Timestamp, QueueStats> = BTreeMap::new();
    for point in points {
        sums.entry(point.at).or_default().add(&point.counts);
    }
    sums
}

pub(crate) fn sum(points: &[QueuePoint]) -> QueueStats {
    let mut sum = QueueStats::default();
    points.iter().for_each(|point| sum.add(&point.counts));
    sum
}

pub(crate) fn throughput(range: &StatsRange, points: &[QueuePoint]) -> Vec<ThroughputPoint> {
    let secs = step_secs(range);
    let point = |(at, counts): (Timestamp, QueueStats)| ThroughputPoint {
        timestamp: render::time(at),
        ingested: counts.push_messages,
        processed: counts.ack_success,
        ingested_per_second: rounded_quotient(counts.push_messages, secs),
        processed_per_second: rounded_quotient(counts.ack_success, secs),
        avg_lag_ms: avg_lag(&counts),
        max_lag_ms: max_lag(&counts),
    };
    by_time(points).into_iter().map(point).collect()
}

/// The messages of one data point.
#[derive(Serialize, ToSchema)]
struct DataPoint {
    /// The start of the data point's interval.
    timestamp: String,
    /// The number of pushed messages.
    messages: i64,
    /// The number of delivered messages.
    delivered: i64,
    /// The number of settled messages.
    settled: i64,
}

/// Message counts over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnalyticsAnswer {
    /// The start of the time range.
    from: String,
    /// The end of the time range.
    to: String,
    /// The requested interval.
    interval: String,
    /// The length of a data point's interval in minutes.
    bucket_minutes: u32,
    /// The data points.
    data_points: Vec<DataPoint>,
}

impl AnalyticsAnswer {
    pub(crate) fn new(interval: String, range: StatsRange, points: &[QueuePoint]) -> Self {
        let point = |(at, counts): (Timestamp, QueueStats)| DataPoint {
            timestamp: render::time(at),
            messages: counts.push_messages,
            delivered: counts.pop_messages,
            settled: counts.ack_success,
        };
        Self {
            from: render::time(range.from),
            to: render::time(range.to),
            interval,
            bucket_minutes: range.step_minutes,
            data_points: by_time(points).into_iter().map(point).collect(),
        }
    }
}

/// The operations of a queue in one data point.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueOps {
    /// The start of the data point's interval.
    bucket: String,
    /// The queue; null for operations that belong to no queue, such as refused settlements.
    queue_name: Option<String>,
    /// The number of push requests.
    push_requests: i64,
    /// The number of pushed messages.
    push_messages: i64,
    /// The number of duplicates among pushed messages.
    push_duplicates: i64,
    /// The number of pop requests.
    pop_requests: i64,
    /// The number of delivered messages.
    pop_messages: i64,
    /// The number of pop requests that returned no message.
    pop_empty: i64,
    /// The number of ack requests.
    ack_requests: i64,
    /// The number of messages that were settled.
    ack_success: i64,
    /// The number of settlements that were refused.
    ack_failed: i64,
    /// The number of transactions.
    transactions: i64,
    /// The number of waiting pops when the statistics were stored.
    parked_count: i64,
    /// The average time from push to delivery in milliseconds; null if nothing was delivered.
    avg_lag_ms: Option<f64>,
    /// The maximum time from push to delivery in milliseconds; null if nothing was delivered.
    max_lag_ms: Option<f64>,
    /// Always null: not recorded over time.
    partition_count: Option<i64>,
    /// Always null: not recorded over time.
    partitions_created: Option<i64>,
    /// Always null: not recorded over time.
    partitions_deleted: Option<i64>,
    /// The number of pushed messages per second.
    push_messages_per_second: f64,
    /// The number of delivered messages per second.
    pop_messages_per_second: f64,
    /// The number of settled messages per second.
    ack_success_per_second: f64,
}

/// Statistics of queues over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueSeriesAnswer<T> {
    /// The queues that the series contains.
    queues: Vec<String>,
    /// The data points.
    series: Vec<T>,
    /// The time range of the statistics.
    time_range: TimeRange,
    /// The length of a data point's interval in minutes.
    bucket_minutes: u32,
    /// The number of data points.
    point_count: usize,
}

impl<T> QueueSeriesAnswer<T> {
    pub(crate) fn new(
        range: StatsRange,
        points: &[QueuePoint],
        one: impl Fn(&QueuePoint) -> T,
    ) -> Self {
        let names: BTreeSet<_> = points.iter().filter_map(|point| point.queue.as_ref()).collect();
        Self {
            queues: names.into_iter().map(ToString::to_string).collect(),
            series: points.iter().map(one).collect(),
            time_range: range.into(),
            bucket_minutes: range.step_minutes,
            point_count: points.len(),
        }
    }
}

fn name(point: &QueuePoint) -> Option<String> {
    point.queue.as_ref().map(ToString::to_string)
}

impl QueueOps {
    pub(crate) fn new(range: &StatsRange, point: &QueuePoint) -> Self {
        let (secs, counts) = (step_secs(range), &point.counts);
        Self {
            bucket: render::time(point.at),
            queue_name: name(point),
            push_requests: counts.push_requests,
            push_messages: counts.push_messages,
            push_duplicates: counts.push_duplicates,
            pop_requests: counts.pop_requests,
            pop_messages: counts.pop_messages,
            pop_empty: counts.pop_empty,
            ack_requests: counts.ack_requests,
            ack_success: counts.ack_success,
            ack_failed: counts.ack_failed,
            transactions: counts.transactions,
            parked_count: counts.parked,
            avg_lag_ms: avg_lag(counts),
            max_lag_ms: max_lag(counts),
            partition_count: None,
            partitions_created: None,
            partitions_deleted: None,
            push_messages_per_second: rounded_quotient(counts.push_messages, secs),
            pop_messages_per_second: rounded_quotient(counts.pop_messages, secs),
            ack_success_per_second: rounded_quotient(counts.ack_success, secs),
        }
    }
}

/// How long messages of a queue waited for delivery in one data point.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueLag {
    /// The start of the data point's interval.
    bucket: String,
    /// The name of the queue.
    queue_name: Option<String>,
    /// The number of delivered messages.
    messages: i64,
    /// The average time from push to delivery in milliseconds.
    avg_lag_ms: Option<f64>,
    /// The maximum time from push to delivery in milliseconds.
    max_lag_ms: Option<f64>,
}

impl From<&QueuePoint> for QueueLag {
    fn from(point: &QueuePoint) -> Self {
        let counts = &point.counts;
        Self {
            bucket: render::time(point.at),
            queue_name: name(point),
            messages: counts.pop_messages,
            avg_lag_ms: avg_lag(counts),
            max_lag_ms: max_lag(counts),
        }
    }
}

/// The pops of one node that waited for a queue in one data point.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueParked {
    /// The start of the data point's interval.
    bucket: String,
    /// The name of the queue.
    queue_name: Option<String>,
    /// The id of the node.
    replica: Option<String>,
    /// The maximum number of waiting pops, which are counted whenever the statistics are stored.
    parked_count: i64,
}

impl From<&QueuePoint> for QueueParked {
    fn from(point: &QueuePoint) -> Self {
        Self {
            bucket: render::time(point.at),
            queue_name: name(point),
            replica: point.node.map(|node| node.to_string()),
            parked_count: point.counts.parked,
        }
    }
}

/// The numbers of messages that left queues because of limits.
#[derive(Serialize, ToSchema, Default)]
#[serde(rename_all = "camelCase")]
struct Removals {
    /// The number of messages of all queues that housekeeping removed; null if the caller may not
    /// read all queues.
    removed: Option<i64>,
    /// The number of messages that groups lost because of `ttl` or retention.
    expired: i64,
    /// The number of messages that groups lost because of `maxWaitTimeSeconds`.
    evicted: i64,
    /// The number of messages that exceeded the retry limit of a queue without dead letters.
    dropped: i64,
}

impl Removals {
    fn new(with_removed: bool, counts: &QueueStats) -> Self {
        Self {
            removed: with_removed.then_some(counts.removed),
            expired: counts.expired,
            evicted: counts.evicted,
            dropped: counts.dropped,
        }
    }
}

/// The messages that left queues because of limits in one data point.
#[derive(Serialize, ToSchema)]
struct RemovalPoint {
    /// The start of the data point's interval.
    bucket: String,
    #[serde(flatten)]
    removals: Removals,
}

/// The messages that left queues because of limits over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetentionAnswer {
    /// The data points.
    series: Vec<RemovalPoint>,
    /// The totals of the time range.
    totals: Removals,
    /// The time range of the statistics.
    time_range: TimeRange,
    /// The length of a data point's interval in minutes.
    bucket_minutes: u32,
}

impl RetentionAnswer {
    pub(crate) fn new(with_removed: bool, range: StatsRange, points: &[QueuePoint]) -> Self {
        let point = |(at, counts): (Timestamp, QueueStats)| RemovalPoint {
            bucket: render::time(at),
            removals: Removals::new(with_removed, &counts),
        };
        Self {
            series: by_time(points).into_iter().map(point).collect(),
            totals: Removals::new(with_removed, &sum(points)),
            time_range: range.into(),
            bucket_minutes: range.step_minutes,
        }
    }
}
