//! Figures of nodes and of the database.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::{DatabaseStats, NodePoint, QueueCounts, QueuePoint, StatsRange, TableStats};

use super::health::WakeHealth;
use super::stats::{TimeRange, avg_lag, millis, rate, ratio};
use crate::render;

/// How a node was in a step.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NodeStep {
    bucket: String,
    /// Seconds of processor time that it used.
    cpu_seconds: f64,
    /// The most memory that it held when this was written.
    memory_bytes: i64,
    /// The most pops that were waiting when this was written.
    waiters: i64,
    /// Calls that the store failed.
    db_errors: i64,
}

/// A node over time.
#[derive(Serialize, ToSchema)]
struct Replica {
    /// An id that it made when it started.
    replica: String,
    series: Vec<NodeStep>,
}

/// Nodes over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SystemAnswer {
    replicas: Vec<Replica>,
    replica_count: usize,
    point_count: usize,
    time_range: TimeRange,
    bucket_minutes: u32,
}

impl SystemAnswer {
    pub(crate) fn new(range: StatsRange, points: &[NodePoint]) -> Self {
        let mut nodes: BTreeMap<_, Vec<NodeStep>> = BTreeMap::new();
        for point in points {
            nodes.entry(point.node).or_default().push(NodeStep {
                bucket: render::time(point.at),
                cpu_seconds: rate(point.counts.cpu, 1_000_000.0),
                memory_bytes: point.counts.memory,
                waiters: point.counts.waiters,
                db_errors: point.counts.store_errors,
            });
        }
        let replica =
            |(node, series): (uuid::Uuid, _)| Replica { replica: node.to_string(), series };
        Self {
            replica_count: nodes.len(),
            replicas: nodes.into_iter().map(replica).collect(),
            point_count: points.len(),
            time_range: range.into(),
            bucket_minutes: range.step_minutes,
        }
    }
}

/// What a node did in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Worker {
    worker: String,
    push_requests: i64,
    push_messages: i64,
    pop_requests: i64,
    pop_messages: i64,
    ack_requests: i64,
    ack_success: i64,
    ack_failed: i64,
    transactions: i64,
    avg_lag_ms: Option<f64>,
    max_lag_ms: Option<f64>,
}

/// What nodes did in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkersAnswer {
    workers: Vec<Worker>,
    worker_count: usize,
    time_range: TimeRange,
}

impl WorkersAnswer {
    pub(crate) fn new(range: StatsRange, points: &[QueuePoint]) -> Self {
        let mut nodes: BTreeMap<_, QueueCounts> = BTreeMap::new();
        for point in points {
            nodes.entry(point.node).or_default().add(&point.counts);
        }
        let worker = |(node, counts): (Option<uuid::Uuid>, QueueCounts)| Worker {
            worker: node.map(|node| node.to_string()).unwrap_or_default(),
            push_requests: counts.push_requests,
            push_messages: counts.push_messages,
            pop_requests: counts.pop_requests,
            pop_messages: counts.pop_messages,
            ack_requests: counts.ack_requests,
            ack_success: counts.ack_success,
            ack_failed: counts.ack_failed,
            transactions: counts.transactions,
            avg_lag_ms: avg_lag(&counts),
            max_lag_ms: millis(counts.lag_max, counts.pop_messages),
        };
        let worker_count = nodes.len();
        let workers = nodes.into_iter().map(worker).collect();
        Self { workers, worker_count, time_range: range.into() }
    }
}

/// A table of the store.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TableAnswer {
    name: String,
    /// Its rows, as far as the database knows without counting.
    rows: i64,
    /// Rows that are no longer visible and not removed yet.
    dead_rows: i64,
    /// On disk, with indexes.
    bytes: i64,
    last_vacuum: Option<String>,
}

/// How PostgreSQL is. Without it there is `available` and `reason` alone.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostgresAnswer {
    /// Whether there is one.
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    figures: Option<PostgresFigures>,
}

/// How PostgreSQL is. Counts are since its statistics were last reset.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PostgresFigures {
    version: String,
    database_bytes: i64,
    connections: i64,
    connections_max: i64,
    commits: i64,
    rollbacks: i64,
    deadlocks: i64,
    /// The part of pages that were found in memory, from 0 to 1; null if none was asked for.
    cache_hit_ratio: Option<f64>,
    /// Those of this server's schema, the largest first.
    tables: Vec<TableAnswer>,
}

impl PostgresAnswer {
    pub(crate) fn without(kind: &str) -> Self {
        let reason = Some(format!("the store is {kind}"));
        Self { available: false, reason, figures: None }
    }
}

impl From<DatabaseStats> for PostgresAnswer {
    fn from(stats: DatabaseStats) -> Self {
        let table = |table: TableStats| TableAnswer {
            name: table.name,
            rows: table.rows,
            dead_rows: table.dead_rows,
            bytes: table.bytes,
            last_vacuum: table.vacuumed_at.map(render::time),
        };
        let figures = PostgresFigures {
            version: stats.version,
            database_bytes: stats.bytes,
            connections: stats.connections,
            connections_max: stats.connections_max,
            commits: stats.commits,
            rollbacks: stats.rollbacks,
            deadlocks: stats.deadlocks,
            cache_hit_ratio: ratio(stats.pages_hit, stats.pages_hit + stats.pages_read),
            tables: stats.tables.into_iter().map(table).collect(),
        };
        Self { available: true, reason: None, figures: Some(figures) }
    }
}

/// How many queues were written.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueuesUpdated {
    /// Queues whose figures this node wrote down.
    queues_updated: u64,
}

/// Nothing to do.
#[derive(Serialize, ToSchema)]
struct Nothing {}

/// What a refresh did. All but queues is counted when it is read, and has nothing to refresh.
#[derive(Serialize, ToSchema)]
pub(crate) struct RefreshAnswer {
    success: bool,
    partition: Nothing,
    queue: QueuesUpdated,
    namespace: Nothing,
    task: Nothing,
    system: Nothing,
    cleanup: Nothing,
}

impl RefreshAnswer {
    pub(crate) fn new(queues_updated: u64) -> Self {
        Self {
            success: true,
            partition: Nothing {},
            queue: QueuesUpdated { queues_updated },
            namespace: Nothing {},
            task: Nothing {},
            system: Nothing {},
            cleanup: Nothing {},
        }
    }
}

/// What a node knows of itself and the others.
#[derive(Serialize, ToSchema)]
pub(crate) struct SharedStateAnswer {
    /// Whether it hears of other nodes.
    pub(crate) enabled: bool,
    /// An id that it made when it started.
    pub(crate) node: String,
    /// `sqlite` or `postgres`.
    pub(crate) store: &'static str,
    pub(crate) draining: bool,
    pub(crate) wake: WakeHealth,
}
