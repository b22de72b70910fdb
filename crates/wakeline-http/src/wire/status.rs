//! Wire types of the status of all queues and of the overview.

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::QueueStats;

use super::counts::MessageCountsAnswer;
use super::stats::{ThroughputPoint, TimeRange, ratio};

/// The numbers of requests.
#[derive(Serialize, ToSchema)]
#[schema(as = Requests)]
pub(crate) struct RequestCounts {
    /// The number of push requests.
    push: i64,
    /// The number of pop requests.
    pop: i64,
    /// The number of ack requests.
    ack: i64,
}

/// The average number of messages per request; null without requests.
#[derive(Serialize, ToSchema)]
#[schema(as = Efficiency)]
pub(crate) struct BatchEfficiency {
    /// The average number of messages per push request.
    push: Option<f64>,
    /// The average number of messages per pop request that returned messages.
    pop: Option<f64>,
    /// The average number of messages per ack request.
    ack: Option<f64>,
}

/// The current message counts, and the requests in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusMessages {
    #[serde(flatten)]
    messages: MessageCountsAnswer,
    /// The numbers of requests in the time range.
    requests: RequestCounts,
    /// The average batch sizes in the time range.
    batch_efficiency: BatchEfficiency,
}

impl StatusMessages {
    pub(crate) fn new(messages: MessageCountsAnswer, stats: &QueueStats) -> Self {
        let QueueStats { push_requests, pop_requests, ack_requests, .. } = *stats;
        let successful_pops = pop_requests - stats.pop_empty;
        Self {
            messages,
            requests: RequestCounts { push: push_requests, pop: pop_requests, ack: ack_requests },
            batch_efficiency: BatchEfficiency {
                push: ratio(stats.push_messages + stats.push_duplicates, push_requests),
                pop: ratio(stats.pop_messages, successful_pops),
                ack: ratio(stats.ack_success + stats.ack_failed, ack_requests),
            },
        }
    }
}

/// The active leases.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeasesAnswer {
    /// The number of leases. A lease covers one partition for one group.
    pub(crate) active: u64,
    /// The number of partitions with leases.
    pub(crate) partitions_with_leases: u64,
    /// The number of leased messages that are not settled.
    pub(crate) total_batch_size: u64,
    /// Always null: the number is not stored.
    pub(crate) total_acked: Option<u64>,
}

/// An error of dead letters and how often it occurs.
#[derive(Serialize, ToSchema)]
pub(crate) struct TopError {
    /// The error; null for dead letters without one.
    pub(crate) error: Option<String>,
    /// The number of dead letters with this error.
    pub(crate) count: u64,
}

/// The dead letters of all queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadAnswer {
    /// The number of dead letters.
    pub(crate) total_messages: u64,
    /// The number of partitions with dead letters.
    pub(crate) affected_partitions: u64,
    /// The most frequent errors of the newest 10,000 dead letters.
    pub(crate) top_errors: Vec<TopError>,
}

/// A queue in the status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusQueue {
    /// The id of the queue.
    pub(crate) id: String,
    /// The name of the queue.
    pub(crate) name: String,
    /// The namespace of the queue.
    pub(crate) namespace: Option<String>,
    /// The task of the queue.
    pub(crate) task: Option<String>,
    /// The number of partitions.
    pub(crate) partitions: u64,
    /// The number of messages that are neither pending nor processing.
    pub(crate) total_consumed: u64,
}

/// The errors in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorsAnswer {
    /// The number of failed store calls; null if the caller may not read the server's statistics.
    pub(crate) db_errors: Option<i64>,
    /// The number of settlements that were refused.
    pub(crate) ack_failed: i64,
    /// The number of messages that became dead letters.
    pub(crate) dlq_messages: i64,
}

/// The status of all queues: current counts, and statistics of the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusAnswer {
    /// The time range of the statistics.
    pub(crate) time_range: TimeRange,
    /// The length of a data point's interval in minutes.
    pub(crate) bucket_minutes: u32,
    /// The number of data points.
    pub(crate) point_count: usize,
    /// The throughput over time.
    pub(crate) throughput: Vec<ThroughputPoint>,
    /// The message counts and requests.
    pub(crate) messages: StatusMessages,
    /// The active leases.
    pub(crate) leases: LeasesAnswer,
    /// The dead letters.
    pub(crate) dead_letter_queue: DeadAnswer,
    /// The queues.
    pub(crate) queues: Vec<StatusQueue>,
    /// The ids of the nodes that stored statistics in the time range.
    pub(crate) workers: Vec<String>,
    /// The errors in the time range.
    pub(crate) errors: ErrorsAnswer,
    /// Seconds since this node last stored its statistics; null if it has not yet.
    pub(crate) stats_age: Option<f64>,
}

/// The distribution of a set of numbers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Spread {
    /// The average.
    avg: f64,
    /// The median.
    median: f64,
    /// The minimum.
    min: f64,
    /// The maximum.
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

/// The lag of consumer groups. A group with several queues is counted in each of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct LagAnswer {
    /// The age of the oldest unsettled message in seconds.
    pub(crate) time: Spread,
    /// The number of unsettled messages.
    pub(crate) offset: Spread,
}

/// The throughput over the last five minutes for which statistics are stored.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Throughput {
    /// The number of pushed messages per second.
    pub(crate) ingested_per_second: f64,
    /// The number of settled messages per second.
    pub(crate) processed_per_second: f64,
}

/// The totals of all queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OverviewAnswer {
    /// The number of queues.
    pub(crate) queues: u64,
    /// The number of partitions.
    pub(crate) partitions: u64,
    /// The number of namespaces.
    pub(crate) namespaces: u64,
    /// The number of tasks.
    pub(crate) tasks: u64,
    /// The message counts of all queues together.
    pub(crate) messages: MessageCountsAnswer,
    /// The lag of consumer groups.
    pub(crate) lag: LagAnswer,
    /// The recent throughput.
    pub(crate) throughput: Throughput,
    /// Seconds since this node last stored its statistics; null if it has not yet.
    pub(crate) stats_age: Option<f64>,
    /// The end of the time range of the throughput, which is the current time of the store's clock.
    pub(crate) timestamp: String,
}
