//! Reads how full queues are, compared with their length limits.

use std::collections::HashMap;

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueCapacities, QueueCapacity, StoreError};

use super::groups::lag;
use crate::SqliteStore;
use crate::error::{Res, corrupt};
use crate::queue::cursor::QueueCursor;
use crate::queue::idle;
use crate::session::{DbSession, QueueRow};

#[async_trait]
impl QueueCapacities for SqliteStore {
    async fn capacity(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<QueueCapacity>, StoreError> {
        let (queue, partitions) = (queue.clone(), partitions.to_vec());
        self.read("capacity", move |s| capacity(s, &queue, &partitions)).await
    }
}

/// The length limits of a queue, and its current length and that of the given partitions.
fn capacity(
    s: &mut DbSession<'_>,
    name: &QueueName,
    partitions: &[PartitionName],
) -> Res<Option<QueueCapacity>> {
    let Some(queue) = s.queue(name)? else { return Ok(None) };
    let options = &queue.options;
    let mut capacity = QueueCapacity {
        len_max: options.len_max,
        partition_len_max: options.partition_len_max,
        lanes: options.lanes,
        ..QueueCapacity::default()
    };
    if capacity.len_max == 0 && capacity.partition_len_max == 0 {
        return Ok(Some(capacity));
    }
    let groups = idle::retaining_groups(s, &queue)?;
    if capacity.len_max > 0 {
        capacity.len =
            if groups.is_empty() { stored(s, &queue, None)? } else { behind(s, &queue, &groups)? };
        capacity.len += scheduled(s, &queue, None)?;
    }
    if capacity.partition_len_max > 0 {
        for partition in partitions {
            let Some(id) = s.partition(&queue, partition)? else {
                capacity.partition_lens.push(0);
                continue;
            };
            let unsettled = if groups.is_empty() {
                stored(s, &queue, Some(id))?
            } else {
                behind_in(s, id, &groups)?
            };
            capacity.partition_lens.push(unsettled + scheduled(s, &queue, Some(id))?);
        }
    }
    Ok(Some(capacity))
}

fn stored(s: &DbSession<'_>, queue: &QueueRow, partition: Option<i64>) -> Res<u64> {
    count(s, queue, partition, include_str!("../../sql/queries/capacity_stored.sql"))
}

fn scheduled(s: &DbSession<'_>, queue: &QueueRow, partition: Option<i64>) -> Res<u64> {
    count(s, queue, partition, include_str!("../../sql/queries/capacity_scheduled.sql"))
}

fn count(s: &DbSession<'_>, queue: &QueueRow, partition: Option<i64>, sql: &str) -> Res<u64> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let count: i64 = statement.query_row((queue.id, partition), |row| row.get(0))?;
    u64::try_from(count).map_err(corrupt("queue", queue.id))
}

/// The number of messages that are not settled, over all partitions: in each partition those of the
/// group that is furthest behind. Only cursors that have a due time are read.
fn behind(s: &DbSession<'_>, queue: &QueueRow, groups: &[i64]) -> Res<u64> {
    let sql = include_str!("../../sql/queries/capacity_cursors.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([queue.id])?;
    let mut most: HashMap<i64, u64> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (partition, group) = (row.get(0)?, row.get(1)?);
        if !groups.contains(&group) {
            continue;
        }
        let Some(cursor) = QueueCursor::read(s, partition, group)? else { continue };
        let len = most.entry(partition).or_default();
        *len = lag(&cursor).max(*len);
    }
    Ok(most.into_values().sum())
}

fn behind_in(s: &DbSession<'_>, partition: i64, groups: &[i64]) -> Res<u64> {
    let mut most = 0;
    for group in groups {
        let cursor = QueueCursor::read(s, partition, *group)?;
        most = cursor.as_ref().map_or(0, lag).max(most);
    }
    Ok(most)
}
