//! Statistics over time, and the state of the database.
//!
//! # Where it sits
//! Implements `StatsStore`. Nothing here is hot: a node writes once a minute at most, on a
//! connection for general use.

use std::time::SystemTime;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use wakeline_core::QueueName;
use wakeline_store::{
    DatabaseStats, NodePoint, NodeStats, QueuePoint, QueueStats, StatsQuery, StatsRange,
    StatsRecord, StatsStore, StoreError, TableStats,
};

use crate::PostgresStore;
use crate::rows::{self, Columns};

#[async_trait]
impl StatsStore for PostgresStore {
    async fn record_stats(&self, record: StatsRecord) -> Result<(), StoreError> {
        const OPERATION: &str = "record statistics";
        let core = &self.queue.core;
        let (mut nodes, mut queues) = (Vec::new(), Vec::new());
        for slot in &record.slots {
            let mut base = Map::new();
            let age = i64::try_from(slot.age.as_micros()).unwrap_or(0);
            base.insert("slot".to_owned(), slot.number.into());
            base.insert("age".to_owned(), age.into());
            nodes.push(object(base.clone(), NodeStats::NAMES, slot.node.values()));
            for (queue, counts) in &slot.queues {
                let mut base = base.clone();
                let name = queue.as_ref().map_or("", QueueName::as_str);
                base.insert("queue".to_owned(), name.into());
                queues.push(object(base, QueueStats::NAMES, counts.values()));
            }
        }
        let (nodes, queues) = (Value::Array(nodes).to_string(), Value::Array(queues).to_string());
        let keep = i64::try_from(record.keep.as_micros()).unwrap_or(i64::MAX);
        let now = rows::system_time(record.node_now);
        let params: crate::connect::Params<'_> = &[&record.node, &now, &keep, &nodes, &queues];
        core.general(OPERATION, &core.sql.stats_record, params).await.map(|_| ())
    }

    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError> {
        const OPERATION: &str = "read statistics of queues";
        let core = &self.queue.core;
        let range = query.range(core.clock(OPERATION).await?);
        let (from, to, step) = bounds(&range);
        let queue = query.queue.as_ref().map(QueueName::as_str);
        let params: crate::connect::Params<'_> = &[&from, &to, &step, &queue, &query.by_node];
        let rows = core.general(OPERATION, &core.sql.stats_queues, params).await?;
        let points: Result<_, _> = rows.iter().map(|row| queue_point(OPERATION, row)).collect();
        Ok((range, points?))
    }

    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError> {
        const OPERATION: &str = "read statistics of nodes";
        let core = &self.queue.core;
        let range = query.range(core.clock(OPERATION).await?);
        let (from, to, step) = bounds(&range);
        let rows = core.general(OPERATION, &core.sql.stats_nodes, &[&from, &to, &step]).await?;
        let point = |row: &Row| {
            let mut columns = Columns::new(OPERATION, row);
            Ok(NodePoint {
                at: columns.moment()?,
                node: columns.take()?,
                counts: NodeStats::from_values(values(&mut columns, NodeStats::NAMES.len())?),
            })
        };
        let points: Result<_, StoreError> = rows.iter().map(point).collect();
        Ok((range, points?))
    }

    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError> {
        const OPERATION: &str = "read statistics of the database";
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.database_stats, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let sql = &core.sql.database_tables;
        let tables = core.general(OPERATION, sql, &[&self.shared.schema.name()]).await?;
        let table = |row: &Row| {
            let mut columns = Columns::new(OPERATION, row);
            Ok(TableStats {
                name: columns.take()?,
                rows: columns.take()?,
                dead_rows: columns.take()?,
                bytes: columns.take()?,
                vacuumed_at: columns.take::<Option<SystemTime>>()?.map(rows::timestamp),
            })
        };
        let tables: Result<_, StoreError> = tables.iter().map(table).collect();
        let mut columns = Columns::new(OPERATION, row);
        Ok(Some(DatabaseStats {
            version: columns.take()?,
            bytes: columns.take()?,
            connections: columns.take()?,
            connections_max: columns.take()?,
            commits: columns.take()?,
            rollbacks: columns.take()?,
            deadlocks: columns.take()?,
            pages_hit: columns.take()?,
            pages_read: columns.take()?,
            tables: tables?,
        }))
    }
}

fn object(mut base: Map<String, Value>, names: &[&str], values: Vec<i64>) -> Value {
    let counts = names.iter().map(|name| (*name).to_owned()).zip(values);
    base.extend(counts.map(|(name, value)| (name, value.into())));
    Value::Object(base)
}

/// The ends of a range, and its step in seconds.
fn bounds(range: &StatsRange) -> (SystemTime, SystemTime, i64) {
    let step = i64::from(range.step_minutes) * 60;
    (rows::system_time(range.from), rows::system_time(range.to), step)
}

fn values(columns: &mut Columns<'_>, len: usize) -> Result<Vec<i64>, StoreError> {
    (0..len).map(|_| columns.take()).collect()
}

fn queue_point(operation: &'static str, row: &Row) -> Result<QueuePoint, StoreError> {
    let mut columns = Columns::new(operation, row);
    let at = columns.moment()?;
    let queue: String = columns.take()?;
    Ok(QueuePoint {
        at,
        queue: (!queue.is_empty()).then(|| rows::name("queue", queue)).transpose()?,
        node: columns.take()?,
        counts: QueueStats::from_values(values(&mut columns, QueueStats::NAMES.len())?),
    })
}
