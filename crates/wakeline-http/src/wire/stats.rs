//! Figures of queues over time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_core::Timestamp;
use wakeline_store::{QueueCounts, QueuePoint, StatsRange};

use crate::render;

/// The stretch of time that figures are of.
#[derive(Serialize, ToSchema)]
pub(crate) struct TimeRange {
    from: String,
    to: String,
}

impl From<StatsRange> for TimeRange {
    fn from(range: StatsRange) -> Self {
        Self { from: render::time(range.from), to: render::time(range.to) }
    }
}

/// Seconds in a step.
pub(crate) fn step_secs(range: &StatsRange) -> f64 {
    f64::from(range.step_minutes) * 60.0
}

/// So many in so many seconds, in two digits.
pub(crate) fn rate(count: i64, secs: f64) -> f64 {
    (count as f64 / secs * 100.0).round() / 100.0
}

/// One number for another, in two digits; null for none.
pub(super) fn ratio(sum: i64, count: i64) -> Option<f64> {
    (count > 0).then(|| rate(sum, count as f64))
}

/// Milliseconds of microseconds; null where nothing was measured.
pub(super) fn millis(micros: i64, messages: i64) -> Option<f64> {
    (messages > 0).then(|| rate(micros, 1000.0))
}

pub(super) fn avg_lag(counts: &QueueCounts) -> Option<f64> {
    ratio(counts.lag_sum / 1000, counts.pop_messages)
}

/// What happened in a step, all queues together.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThroughputPoint {
    timestamp: String,
    /// Messages that were pushed.
    ingested: i64,
    /// Messages that were settled.
    processed: i64,
    ingested_per_second: f64,
    processed_per_second: f64,
    /// Milliseconds from push to delivery; null if nothing was delivered.
    avg_lag_ms: Option<f64>,
    max_lag_ms: Option<f64>,
}

/// Points of time with what happened, queues and nodes together.
pub(crate) fn by_time(points: &[QueuePoint]) -> BTreeMap<Timestamp, QueueCounts> {
    let mut sums: BTreeMap<Timestamp, QueueCounts> = BTreeMap::new();
    for point in points {
        sums.entry(point.at).or_default().add(&point.counts);
    }
    sums
}

pub(crate) fn sum(points: &[QueuePoint]) -> QueueCounts {
    let mut sum = QueueCounts::default();
    points.iter().for_each(|point| sum.add(&point.counts));
    sum
}

pub(crate) fn throughput(range: &StatsRange, points: &[QueuePoint]) -> Vec<ThroughputPoint> {
    let secs = step_secs(range);
    let point = |(at, counts): (Timestamp, QueueCounts)| ThroughputPoint {
        timestamp: render::time(at),
        ingested: counts.push_messages,
        processed: counts.ack_success,
        ingested_per_second: rate(counts.push_messages, secs),
        processed_per_second: rate(counts.ack_success, secs),
        avg_lag_ms: avg_lag(&counts),
        max_lag_ms: millis(counts.lag_max, counts.pop_messages),
    };
    by_time(points).into_iter().map(point).collect()
}

/// Messages that were pushed in a step.
#[derive(Serialize, ToSchema)]
struct DataPoint {
    timestamp: String,
    /// Pushed.
    messages: i64,
    /// Delivered.
    delivered: i64,
    /// Settled.
    settled: i64,
}

/// Messages over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnalyticsAnswer {
    from: String,
    to: String,
    /// As it was asked for.
    interval: String,
    bucket_minutes: u32,
    data_points: Vec<DataPoint>,
}

impl AnalyticsAnswer {
    pub(crate) fn new(interval: String, range: StatsRange, points: &[QueuePoint]) -> Self {
        let point = |(at, counts): (Timestamp, QueueCounts)| DataPoint {
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

/// What happened in a queue in a step.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueOps {
    bucket: String,
    /// Null: what belongs to no queue, as a settlement that was refused.
    queue_name: Option<String>,
    push_requests: i64,
    push_messages: i64,
    push_duplicates: i64,
    pop_requests: i64,
    pop_messages: i64,
    pop_empty: i64,
    ack_requests: i64,
    ack_success: i64,
    ack_failed: i64,
    transactions: i64,
    /// Pops that were waiting when this was written.
    parked_count: i64,
    /// Milliseconds from push to delivery; null if nothing was delivered.
    avg_lag_ms: Option<f64>,
    max_lag_ms: Option<f64>,
    /// Always null: these are not kept over time.
    partition_count: Option<i64>,
    partitions_created: Option<i64>,
    partitions_deleted: Option<i64>,
    push_messages_per_second: f64,
    pop_messages_per_second: f64,
    ack_success_per_second: f64,
}

/// A series of figures of queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueSeriesAnswer<T> {
    /// The queues that are in it.
    queues: Vec<String>,
    series: Vec<T>,
    time_range: TimeRange,
    bucket_minutes: u32,
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
            max_lag_ms: millis(counts.lag_max, counts.pop_messages),
            partition_count: None,
            partitions_created: None,
            partitions_deleted: None,
            push_messages_per_second: rate(counts.push_messages, secs),
            pop_messages_per_second: rate(counts.pop_messages, secs),
            ack_success_per_second: rate(counts.ack_success, secs),
        }
    }
}

/// How long messages of a queue waited for their delivery, in a step.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueLag {
    bucket: String,
    queue_name: Option<String>,
    /// Messages that were delivered.
    messages: i64,
    avg_lag_ms: Option<f64>,
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
            max_lag_ms: millis(counts.lag_max, counts.pop_messages),
        }
    }
}

/// Pops that waited for a queue on a node.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueParked {
    bucket: String,
    queue_name: Option<String>,
    /// The node.
    replica: Option<String>,
    /// The most that were waiting when this was written.
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

/// What left queues by their limits.
#[derive(Serialize, ToSchema, Default)]
#[serde(rename_all = "camelCase")]
struct Removals {
    /// Messages that housekeeping removed, of all queues; null for who may not read all.
    removed: Option<i64>,
    /// Messages that groups lost to `ttl` or retention.
    expired: i64,
    /// To `maxWaitTimeSeconds`.
    evicted: i64,
    /// Used up their tries in a queue without dead letters.
    dropped: i64,
}

impl Removals {
    fn new(whole: bool, counts: &QueueCounts) -> Self {
        Self {
            removed: whole.then_some(counts.removed),
            expired: counts.expired,
            evicted: counts.evicted,
            dropped: counts.dropped,
        }
    }
}

/// What left queues by their limits, in a step.
#[derive(Serialize, ToSchema)]
struct RemovalPoint {
    bucket: String,
    #[serde(flatten)]
    removals: Removals,
}

/// What left queues by their limits, over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetentionAnswer {
    series: Vec<RemovalPoint>,
    totals: Removals,
    time_range: TimeRange,
    bucket_minutes: u32,
}

impl RetentionAnswer {
    pub(crate) fn new(whole: bool, range: StatsRange, points: &[QueuePoint]) -> Self {
        let point = |(at, counts): (Timestamp, QueueCounts)| RemovalPoint {
            bucket: render::time(at),
            removals: Removals::new(whole, &counts),
        };
        Self {
            series: by_time(points).into_iter().map(point).collect(),
            totals: Removals::new(whole, &sum(points)),
            time_range: range.into(),
            bucket_minutes: range.step_minutes,
        }
    }
}
