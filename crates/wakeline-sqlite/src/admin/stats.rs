//! Stores and reads statistics: numbers counted per minute.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Row, params_from_iter, types::Value};
use uuid::Uuid;
use wakeline_core::{QueueName, Timestamp};
use wakeline_store::{
    DatabaseStats, MINUTE, NodePoint, NodeStats, QueuePoint, QueueStats, StatsQuery, StatsRange,
    StatsRecord, StatsStore, StoreError,
};

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The maximum number of rows of each kind that recording statistics removes.
const PRUNED_MAX: u32 = 10_000;

#[async_trait]
impl StatsStore for SqliteStore {
    async fn record_stats(&self, statistics: StatsRecord) -> Result<(), StoreError> {
        self.write(WriteCommand::new("record_stats", move |s| record(s, &statistics))).await
    }

    async fn queue_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<QueuePoint>), StoreError> {
        self.read("queue_stats", move |s| queues(s, &query)).await
    }

    async fn node_stats(
        &self,
        query: StatsQuery,
    ) -> Result<(StatsRange, Vec<NodePoint>), StoreError> {
        self.read("node_stats", move |s| nodes(s, &query)).await
    }

    async fn database_stats(&self) -> Result<Option<DatabaseStats>, StoreError> {
        Ok(None)
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn record(s: &DbSession<'_>, statistics: &StatsRecord) -> Res<()> {
    let node = statistics.node.as_bytes().to_vec();
    let skew = statistics.node_now.0.saturating_sub(s.now.0);
    for slot in &statistics.slots {
        let began = s.now.0.saturating_sub(micros(slot.age));
        let bucket = began.div_euclid(MINUTE) * MINUTE;
        let base = [Value::Blob(node.clone()), i64::from(slot.number).into()];
        let write = |sql, base: &[Value], values: Vec<i64>| -> Res<()> {
            let all = base.iter().cloned().chain(values.into_iter().map(Value::Integer));
            s.conn.prepare_cached(sql)?.execute(params_from_iter(all))?;
            Ok(())
        };
        let sql = include_str!("../../sql/queries/stats_node_write.sql");
        write(sql, &[&base[..], &[bucket.into()]].concat(), slot.node.values())?;
        for (queue, counts) in &slot.queues {
            let name = queue.as_ref().map_or("", QueueName::as_str).to_owned();
            let sql = include_str!("../../sql/queries/stats_queue_write.sql");
            let base = [&base[..], &[name.into(), bucket.into()]].concat();
            write(sql, &base, counts.corrected(skew).values())?;
        }
    }
    forget(s, statistics.keep, PRUNED_MAX).map(drop)
}

/// Removes statistics that are older than `keep`, up to `rows_max` rows of each kind. Returns
/// whether there may be more.
pub(crate) fn forget(s: &DbSession<'_>, keep: Duration, rows_max: u32) -> Res<bool> {
    let before = s.now.0.saturating_sub(micros(keep));
    let mut more = false;
    for sql in [
        include_str!("../../sql/queries/stats_queue_prune.sql"),
        include_str!("../../sql/queries/stats_node_prune.sql"),
    ] {
        let gone = s.conn.prepare_cached(sql)?.execute((before, rows_max))?;
        more |= gone >= rows_max as usize;
    }
    Ok(more)
}

/// Whether there are statistics that are older than `keep`.
pub(crate) fn has_old(s: &DbSession<'_>, keep: Duration) -> Res<bool> {
    let before = s.now.0.saturating_sub(micros(keep));
    let sql = include_str!("../../sql/queries/stats_old.sql");
    Ok(s.conn.prepare_cached(sql)?.query_row([before], |row| row.get(0))?)
}

fn queues(s: &DbSession<'_>, query: &StatsQuery) -> Res<(StatsRange, Vec<QueuePoint>)> {
    let range = query.range(s.now);
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/stats_queues.sql"))?;
    let queue = query.queue.as_ref().map(QueueName::as_str);
    let (from, to, step) = bounds(&range);
    let mut rows = statement.query((from, to, step, queue, query.by_node))?;
    let mut points = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        let queue = (!name.is_empty()).then(|| QueueName::new(&*name)).transpose();
        let node: Option<Vec<u8>> = row.get(2)?;
        points.push(QueuePoint {
            at: Timestamp(row.get(0)?),
            queue: queue.map_err(corrupt("queue", &name))?,
            node: node.map(|bytes| node_id(&bytes)).transpose()?,
            counts: QueueStats::from_values(values(row, 3, QueueStats::NAMES.len())?),
        });
    }
    Ok((range, points))
}

fn nodes(s: &DbSession<'_>, query: &StatsQuery) -> Res<(StatsRange, Vec<NodePoint>)> {
    let range = query.range(s.now);
    let mut statement = s.conn.prepare_cached(include_str!("../../sql/queries/stats_nodes.sql"))?;
    let mut rows = statement.query(bounds(&range))?;
    let mut points = Vec::new();
    while let Some(row) = rows.next()? {
        let node: Vec<u8> = row.get(1)?;
        points.push(NodePoint {
            at: Timestamp(row.get(0)?),
            node: node_id(&node)?,
            counts: NodeStats::from_values(values(row, 2, NodeStats::NAMES.len())?),
        });
    }
    Ok((range, points))
}

/// The start and end of a range, and its step in microseconds.
fn bounds(range: &StatsRange) -> (i64, i64, i64) {
    (range.from.0, range.to.0, i64::from(range.step_minutes) * MINUTE)
}

fn node_id(bytes: &[u8]) -> Res<Uuid> {
    Uuid::from_slice(bytes).map_err(corrupt("statistics of node", format!("{bytes:?}")))
}

fn values(row: &Row<'_>, first: usize, len: usize) -> Res<Vec<i64>> {
    Ok((first..first + len).map(|column| row.get(column)).collect::<Result<_, _>>()?)
}
