//! Wire types of the statistics of nodes and of the database, of their refresh, and of a node's
//! state. The API calls a node "replica" or "worker" in some places, as Queen does.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use wakeline_store::{DatabaseStats, NodePoint, QueuePoint, QueueStats, StatsRange, TableStats};

use super::health::WakeHealth;
use super::stats::{TimeRange, avg_lag, max_lag, ratio, rounded_quotient};
use crate::render;

const MICROS_PER_SECOND: f64 = 1_000_000.0;

/// Statistics of a node in one data point.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NodeStep)]
struct NodeDataPoint {
    /// The start of the data point's interval.
    bucket: String,
    /// The processor time that the node used, in seconds.
    cpu_seconds: f64,
    /// The maximum of the node's memory, which is measured whenever its statistics are stored.
    memory_bytes: i64,
    /// The maximum number of waiting pops, which are counted whenever the statistics are stored.
    waiters: i64,
    /// The number of failed store calls.
    db_errors: i64,
}

/// Statistics of a node over time.
#[derive(Serialize, ToSchema)]
struct Replica {
    /// The id that the node generated when it started.
    replica: String,
    /// The data points.
    series: Vec<NodeDataPoint>,
}

/// Statistics of nodes over time.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SystemAnswer {
    /// The nodes.
    replicas: Vec<Replica>,
    /// The number of nodes.
    replica_count: usize,
    /// The number of data points.
    point_count: usize,
    /// The time range of the statistics.
    time_range: TimeRange,
    /// The length of a data point's interval in minutes.
    bucket_minutes: u32,
}

impl SystemAnswer {
    pub(crate) fn new(range: StatsRange, points: &[NodePoint]) -> Self {
        let mut nodes: BTreeMap<_, Vec<NodeDataPoint>> = BTreeMap::new();
        for point in points {
            nodes.entry(point.node).or_default().push(NodeDataPoint {
                bucket: render::time(point.at),
                cpu_seconds: rounded_quotient(point.counts.cpu, MICROS_PER_SECOND),
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

/// The operations of a node in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Worker)]
struct WorkerStatistics {
    /// The id of the node.
    worker: String,
    /// The number of push requests.
    push_requests: i64,
    /// The number of pushed messages.
    push_messages: i64,
    /// The number of pop requests.
    pop_requests: i64,
    /// The number of delivered messages.
    pop_messages: i64,
    /// The number of ack requests.
    ack_requests: i64,
    /// The number of messages that were settled.
    ack_success: i64,
    /// The number of settlements that were refused.
    ack_failed: i64,
    /// The number of transactions.
    transactions: i64,
    /// The average time from push to delivery in milliseconds; null if nothing was delivered.
    avg_lag_ms: Option<f64>,
    /// The maximum time from push to delivery in milliseconds; null if nothing was delivered.
    max_lag_ms: Option<f64>,
}

/// The operations of all nodes in the time range.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkersAnswer {
    /// The nodes.
    workers: Vec<WorkerStatistics>,
    /// The number of nodes.
    worker_count: usize,
    /// The time range of the statistics.
    time_range: TimeRange,
}

impl WorkersAnswer {
    pub(crate) fn new(range: StatsRange, points: &[QueuePoint]) -> Self {
        let mut nodes: BTreeMap<_, QueueStats> = BTreeMap::new();
        for point in points {
            nodes.entry(point.node).or_default().add(&point.counts);
        }
        let worker = |(node, counts): (Option<uuid::Uuid>, QueueStats)| WorkerStatistics {
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
            max_lag_ms: max_lag(&counts),
        };
        let worker_count = nodes.len();
        let workers = nodes.into_iter().map(worker).collect();
        Self { workers, worker_count, time_range: range.into() }
    }
}

/// A table of the database.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TableAnswer {
    /// The name of the table.
    name: String,
    /// The number of rows as estimated by the database.
    rows: i64,
    /// The number of dead rows that were not yet removed.
    dead_rows: i64,
    /// The size on disk, including indexes.
    bytes: i64,
    /// When the table was last vacuumed.
    last_vacuum: Option<String>,
}

/// Statistics of PostgreSQL. With another store, only `available` and `reason` are present.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostgresAnswer {
    /// Whether the store is PostgreSQL.
    available: bool,
    /// Why no statistics are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    statistics: Option<PostgresStatistics>,
}

/// Statistics of PostgreSQL. The counts begin with the last reset of its statistics.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PostgresStatistics {
    /// The version of PostgreSQL.
    version: String,
    /// The size of the database in bytes.
    database_bytes: i64,
    /// The number of current connections.
    connections: i64,
    /// The maximum number of connections.
    connections_max: i64,
    /// The number of committed transactions.
    commits: i64,
    /// The number of rolled back transactions.
    rollbacks: i64,
    /// The number of deadlocks.
    deadlocks: i64,
    /// The share of page reads that PostgreSQL's buffer cache served, from 0 to 1; null if there
    /// were no reads.
    cache_hit_ratio: Option<f64>,
    /// The tables of this server's schema, largest first.
    tables: Vec<TableAnswer>,
}

impl PostgresAnswer {
    /// Creates the answer for another store than PostgreSQL.
    pub(crate) fn unavailable(kind: &str) -> Self {
        let reason = Some(format!("the store is {kind}"));
        Self { available: false, reason, statistics: None }
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
        let statistics = PostgresStatistics {
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
        Self { available: true, reason: None, statistics: Some(statistics) }
    }
}

/// The result of refreshing the statistics of queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueuesUpdated)]
struct RefreshedQueues {
    /// The number of queues whose statistics this node stored.
    queues_updated: u64,
}

/// An empty object: nothing needed to be refreshed.
#[derive(Serialize, ToSchema)]
#[schema(as = Nothing)]
struct EmptyObject {}

/// The result of a refresh. Only the statistics of queues are stored at intervals; everything else
/// is counted on request, and therefore needs no refresh.
#[derive(Serialize, ToSchema)]
pub(crate) struct RefreshAnswer {
    /// Always true.
    success: bool,
    /// Partitions; nothing to refresh.
    partition: EmptyObject,
    /// Queues.
    queue: RefreshedQueues,
    /// Namespaces; nothing to refresh.
    namespace: EmptyObject,
    /// Tasks; nothing to refresh.
    task: EmptyObject,
    /// The system; nothing to refresh.
    system: EmptyObject,
    /// Cleanup; nothing to refresh.
    cleanup: EmptyObject,
}

impl RefreshAnswer {
    pub(crate) fn new(queues_updated: u64) -> Self {
        Self {
            success: true,
            partition: EmptyObject {},
            queue: RefreshedQueues { queues_updated },
            namespace: EmptyObject {},
            task: EmptyObject {},
            system: EmptyObject {},
            cleanup: EmptyObject {},
        }
    }
}

// The name comes from the path of Queen's route. Nodes of Wakeline share no state except the store.
/// The state of this node and how it receives notifications from other nodes.
#[derive(Serialize, ToSchema)]
pub(crate) struct SharedStateAnswer {
    /// Whether the node receives notifications from other nodes.
    pub(crate) enabled: bool,
    /// The id that the node generated when it started.
    pub(crate) node: String,
    /// The kind of the store: `sqlite` or `postgres`.
    pub(crate) store: &'static str,
    /// Whether the node is shutting down.
    pub(crate) draining: bool,
    /// How waiting consumers of the node are notified.
    pub(crate) wake: WakeHealth,
}
