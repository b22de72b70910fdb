//! How much room queues have.

use std::collections::HashMap;

use async_trait::async_trait;
use wakeline_core::{PartitionName, QueueName};
use wakeline_store::{QueueRoom, Room, StoreError};

use super::groups::lag;
use crate::SqliteStore;
use crate::error::{Res, corrupt};
use crate::queue::cursor::Cursor;
use crate::queue::idle;
use crate::session::{Queue, Session};

#[async_trait]
impl QueueRoom for SqliteStore {
    async fn room(
        &self,
        queue: &QueueName,
        partitions: &[PartitionName],
    ) -> Result<Option<Room>, StoreError> {
        let (queue, partitions) = (queue.clone(), partitions.to_vec());
        self.read("room", move |s| room(s, &queue, &partitions)).await
    }
}

/// How much room a queue has, and some of its partitions.
fn room(s: &mut Session<'_>, name: &QueueName, partitions: &[PartitionName]) -> Res<Option<Room>> {
    let Some(queue) = s.queue(name)? else { return Ok(None) };
    let options = &queue.options;
    let mut room = Room {
        len_max: options.len_max,
        partition_len_max: options.partition_len_max,
        lanes: options.lanes,
        ..Room::default()
    };
    if room.len_max == 0 && room.partition_len_max == 0 {
        return Ok(Some(room));
    }
    let groups = idle::holding(s, &queue)?;
    if room.len_max > 0 {
        room.len =
            if groups.is_empty() { stored(s, &queue, None)? } else { behind(s, &queue, &groups)? };
        room.len += scheduled(s, &queue, None)?;
    }
    if room.partition_len_max > 0 {
        for partition in partitions {
            let Some(id) = s.partition(&queue, partition)? else {
                room.partition_lens.push(0);
                continue;
            };
            let unsettled = match groups.is_empty() {
                true => stored(s, &queue, Some(id))?,
                false => behind_in(s, id, &groups)?,
            };
            room.partition_lens.push(unsettled + scheduled(s, &queue, Some(id))?);
        }
    }
    Ok(Some(room))
}

fn stored(s: &Session<'_>, queue: &Queue, partition: Option<i64>) -> Res<u64> {
    count(s, queue, partition, include_str!("../../sql/queries/room_stored.sql"))
}

fn scheduled(s: &Session<'_>, queue: &Queue, partition: Option<i64>) -> Res<u64> {
    count(s, queue, partition, include_str!("../../sql/queries/room_scheduled.sql"))
}

fn count(s: &Session<'_>, queue: &Queue, partition: Option<i64>, sql: &str) -> Res<u64> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let count: i64 = statement.query_row((queue.id, partition), |row| row.get(0))?;
    u64::try_from(count).map_err(corrupt("queue", queue.id))
}

/// What those of the groups that are furthest behind have yet to settle, over all partitions.
/// Cursors with nothing to do are not looked at.
fn behind(s: &Session<'_>, queue: &Queue, groups: &[i64]) -> Res<u64> {
    let sql = include_str!("../../sql/queries/room_cursors.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([queue.id])?;
    let mut most: HashMap<i64, u64> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (partition, group) = (row.get(0)?, row.get(1)?);
        if !groups.contains(&group) {
            continue;
        }
        let Some(cursor) = Cursor::read(s, partition, group)? else { continue };
        let len = most.entry(partition).or_default();
        *len = lag(&cursor).max(*len);
    }
    Ok(most.into_values().sum())
}

fn behind_in(s: &Session<'_>, partition: i64, groups: &[i64]) -> Res<u64> {
    let mut most = 0;
    for group in groups {
        let cursor = Cursor::read(s, partition, *group)?;
        most = cursor.as_ref().map_or(0, lag).max(most);
    }
    Ok(most)
}
