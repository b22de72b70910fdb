//! How all queues stand, and what happened lately.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::QueueCounts;

use super::stats::{ThroughputPoint, TimeRange, ratio};
use super::tally::TallyAnswer;

/// Calls.
#[derive(Serialize, ToSchema)]
pub(crate) struct Requests {
    push: i64,
    pop: i64,
    ack: i64,
}

/// Messages per call; null without calls.
#[derive(Serialize, ToSchema)]
pub(crate) struct Efficiency {
    push: Option<f64>,
    pop: Option<f64>,
    ack: Option<f64>,
}

/// Messages as they stand, and how they came and went in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusMessages {
    #[serde(flatten)]
    tally: TallyAnswer,
    requests: Requests,
    batch_efficiency: Efficiency,
}

impl StatusMessages {
    pub(crate) fn new(tally: TallyAnswer, counts: &QueueCounts) -> Self {
        let QueueCounts { push_requests, pop_requests, ack_requests, .. } = *counts;
        let delivering = pop_requests - counts.pop_empty;
        Self {
            tally,
            requests: Requests { push: push_requests, pop: pop_requests, ack: ack_requests },
            batch_efficiency: Efficiency {
                push: ratio(counts.push_messages + counts.push_duplicates, push_requests),
                pop: ratio(counts.pop_messages, delivering),
                ack: ratio(counts.ack_success + counts.ack_failed, ack_requests),
            },
        }
    }
}

/// Leases that are live.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeasesAnswer {
    /// One per partition and group.
    pub(crate) active: u64,
    pub(crate) partitions_with_leases: u64,
    /// Messages that they hold unsettled.
    pub(crate) total_batch_size: u64,
    /// Always null: it is not kept.
    pub(crate) total_acked: Option<u64>,
}

/// An error of dead letters.
#[derive(Serialize, ToSchema)]
pub(crate) struct TopError {
    pub(crate) error: Option<String>,
    pub(crate) count: u64,
}

/// Dead letters.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadAnswer {
    pub(crate) total_messages: u64,
    pub(crate) affected_partitions: u64,
    /// The most frequent ones of the newest 10,000.
    pub(crate) top_errors: Vec<TopError>,
}

/// A queue in the status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusQueue {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) partitions: u64,
    /// Messages that are neither pending nor processing.
    pub(crate) total_consumed: u64,
}

/// What went wrong in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorsAnswer {
    /// Calls that the store failed; null for who may not see the server.
    pub(crate) db_errors: Option<i64>,
    /// Settlements that were refused.
    pub(crate) ack_failed: i64,
    /// Messages that consumers gave up or failed for the last time.
    pub(crate) dlq_messages: i64,
}

/// How the server's queues stand, and what happened lately.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusAnswer {
    pub(crate) time_range: TimeRange,
    pub(crate) bucket_minutes: u32,
    pub(crate) point_count: usize,
    pub(crate) throughput: Vec<ThroughputPoint>,
    pub(crate) messages: StatusMessages,
    pub(crate) leases: LeasesAnswer,
    pub(crate) dead_letter_queue: DeadAnswer,
    pub(crate) queues: Vec<StatusQueue>,
    /// Ids of the nodes that told of themselves in the time range.
    pub(crate) workers: Vec<String>,
    pub(crate) errors: ErrorsAnswer,
    /// Seconds since this node last wrote down its figures; null: not yet.
    pub(crate) stats_age: Option<f64>,
}

/// Average, median, least and most.
#[derive(Serialize, ToSchema)]
pub(crate) struct Spread {
    avg: f64,
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some((min, max)) = values.first().copied().zip(values.last().copied()) else {
            return Self { avg: 0.0, median: 0.0, min: 0.0, max: 0.0 };
        };
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[half - 1], values[half]),
            _ => values[half],
        };
        let avg = values.iter().sum::<f64>() / values.len() as f64;
        Self { avg: (avg * 100.0).round() / 100.0, median, min, max }
    }
}

/// How far groups are behind: each group of each queue counts once.
#[derive(Serialize, ToSchema)]
pub(crate) struct LagAnswer {
    /// In seconds.
    pub(crate) time: Spread,
    /// In messages.
    pub(crate) offset: Spread,
}

/// Messages a second, over the last five minutes that were written down.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Throughput {
    pub(crate) ingested_per_second: f64,
    pub(crate) processed_per_second: f64,
}

/// All queues together.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverviewAnswer {
    pub(crate) queues: u64,
    pub(crate) partitions: u64,
    pub(crate) namespaces: u64,
    pub(crate) tasks: u64,
    pub(crate) messages: TallyAnswer,
    pub(crate) lag: LagAnswer,
    pub(crate) throughput: Throughput,
    /// Seconds since this node last wrote down its figures; null: not yet.
    pub(crate) stats_age: Option<f64>,
    /// When the time range of the throughput ended: now, by the store's clock.
    pub(crate) timestamp: String,
}
