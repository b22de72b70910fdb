//! Consumer groups: how far they have read, and moving them.

use std::time::Duration;

use rusqlite::{Params, Row};
use wakeline_core::{
    Change, GroupName, Namespace, PartitionId, PartitionName, QueueName, Subscription, TaskName,
    Timestamp,
};
use wakeline_store::{GroupDetail, GroupPartition, GroupPartitionFilter, Seek, SeekTo};

use super::messages::record_lost_leases;
use crate::error::{Res, StoreFault, corrupt};
use crate::queue::cursor::{QueueCursor, created_at};
use crate::queue::group::{StartPosition, mode_columns, start_from, subscription};
use crate::queue::idle::Polls;
use crate::session::{DbSession, QueueRow};

/// All groups, or those with one name.
pub(super) fn groups(s: &mut DbSession<'_>, only: Option<&GroupName>) -> Res<Vec<GroupDetail>> {
    let conn = s.conn;
    let mut statement = conn.prepare_cached(include_str!("../../sql/queries/group_list.sql"))?;
    let mut rows = statement.query((only.map(GroupName::as_str), s.now.0))?;
    let mut details = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let (group, queue, mode): (String, String, String) =
            (row.get(2)?, row.get(3)?, row.get(4)?);
        let queue = QueueName::new(queue).map_err(corrupt("group", id))?;
        let polls = Polls { polled_at: Timestamp(row.get(11)?), settled: row.get(12)? };
        let options = s.queue(&queue)?.map(|queue| queue.options.clone()).unwrap_or_default();
        details.push(GroupDetail {
            queue,
            group: GroupName::new(group).map_err(corrupt("group", id))?,
            subscription: subscription("group", id, (&mode, row.get(5)?))?,
            created_at: Timestamp(row.get(6)?),
            partitions: count(row, 7)?,
            partitions_behind: count(row, 8)?,
            lag: count(row, 9)? + first_deliveries(s, row.get(1)?, id)?,
            behind: behind(s, id)?,
            leases: count(row, 10)?,
            polled_at: polls.polled_at,
            idle_since: polls.idle_since(&options, s.now),
        });
    }
    Ok(details)
}

fn count(row: &Row<'_>, column: usize) -> Res<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(corrupt("count of a group, column", column))
}

/// The number of leased messages that were not parked before, over all cursors of a group.
fn first_deliveries(s: &DbSession<'_>, queue: i64, group: i64) -> Res<u64> {
    let sql = include_str!("../../sql/queries/cursor_leased.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue, group))?;
    let mut sum = 0;
    while let Some(row) = rows.next()? {
        sum += QueueCursor::read(s, row.get(0)?, group)?.as_ref().map_or(0, leased);
    }
    Ok(sum)
}

/// The age of the oldest message that a group has not settled. Only cursors that have a due time
/// are read.
fn behind(s: &DbSession<'_>, group: i64) -> Res<Duration> {
    let sql = include_str!("../../sql/queries/cursor_due_all.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([group])?;
    let mut first: Option<i64> = None;
    while let Some(row) = rows.next()? {
        let partition = row.get(0)?;
        let Some(cursor) = QueueCursor::read(s, partition, group)? else { continue };
        if let Some(offset) = oldest(s, &cursor)? {
            first = first.into_iter().chain(created_at(s, partition, offset)?).min();
        }
    }
    Ok(first.map_or(Duration::ZERO, |at| Timestamp(at).until(s.now)))
}

/// The partitions of groups, with how far each group has read.
pub(super) fn partitions(
    s: &mut DbSession<'_>,
    filter: &GroupPartitionFilter,
) -> Res<Vec<GroupPartition>> {
    let sql = include_str!("../../sql/queries/group_partitions.sql");
    let (group, queue) = names(filter);
    listed(s, sql, (group, queue, filter.limit, filter.offset))
}

/// The partitions in which a group is behind by at least a duration, the oldest unsettled message
/// first.
pub(super) fn lagging(
    s: &mut DbSession<'_>,
    behind: Duration,
    filter: &GroupPartitionFilter,
) -> Res<Vec<GroupPartition>> {
    let sql = include_str!("../../sql/queries/group_behind.sql");
    let micros = i64::try_from(behind.as_micros()).unwrap_or(i64::MAX);
    let before = Timestamp(s.now.0.saturating_sub(micros));
    let mut found = listed(s, sql, names(filter))?;
    found.retain(|one| one.oldest_at.is_some_and(|at| at <= before));
    found.sort_by(|a, b| {
        (a.oldest_at, a.partition_id, &a.group).cmp(&(b.oldest_at, b.partition_id, &b.group))
    });
    let (skipped, limit) = (filter.offset as usize, filter.limit as usize);
    Ok(found.into_iter().skip(skipped).take(limit).collect())
}

fn names(filter: &GroupPartitionFilter) -> (Option<&str>, Option<&str>) {
    (filter.group.as_ref().map(GroupName::as_str), filter.queue.as_ref().map(QueueName::as_str))
}

fn listed(s: &DbSession<'_>, sql: &str, params: impl Params) -> Res<Vec<GroupPartition>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (group, partition): (i64, i64) = (row.get(2)?, row.get(4)?);
        let Some(cursor) = QueueCursor::read(s, partition, group)? else { continue };
        let (queue, name): (String, String) = (row.get(0)?, row.get(1)?);
        let oldest_at = match oldest(s, &cursor)? {
            Some(offset) => created_at(s, partition, offset)?.map(Timestamp),
            None => None,
        };
        found.push(GroupPartition {
            queue: QueueName::new(queue).map_err(corrupt("group", group))?,
            group: GroupName::new(name).map_err(corrupt("group", group))?,
            partition: cursor.partition_name.clone(),
            partition_id: PartitionId(partition),
            end: cursor.tail.unsigned_abs(),
            lag: lag(&cursor),
            oldest_at,
            behind: oldest_at.map_or(Duration::ZERO, |at| at.until(s.now)),
            leased_until: cursor.live(s.now.0).map(|lease| Timestamp(lease.until)),
            taken_at: cursor.taken_at.map(Timestamp),
            taken_by: cursor.taken_by.clone(),
        });
    }
    Ok(found)
}

/// The number of messages that a group has not settled: unread, parked or leased.
pub(super) fn lag(cursor: &QueueCursor) -> u64 {
    let unread = (cursor.tail - cursor.next - cursor.gaps).unsigned_abs();
    unread + cursor.parked.unsigned_abs() + leased(cursor)
}

/// The number of leased messages that were not parked before.
fn leased(cursor: &QueueCursor) -> u64 {
    let Some(lease) = &cursor.lease else { return 0 };
    lease.unsettled.iter().filter(|offset| *offset >= lease.start).count() as u64
}

/// The lowest offset that is unread or unsettled.
fn oldest(s: &DbSession<'_>, cursor: &QueueCursor) -> Res<Option<i64>> {
    let leased_offset = cursor.lease.iter().flat_map(|lease| lease.unsettled.iter()).min();
    let parked = if cursor.parked > 0 { cursor.lowest_parked(s)? } else { None };
    let unread = (cursor.next < cursor.tail).then_some(cursor.next);
    Ok([leased_offset, parked, unread].into_iter().flatten().min())
}

/// Moves a group to another position, in one queue or in all.
pub(super) fn seek(s: &mut DbSession<'_>, seek: &Seek) -> Res<(u64, Vec<Change>)> {
    let (from, subscription) = match seek.to {
        SeekTo::Beginning => (Some(Timestamp(i64::MIN)), Subscription::All),
        SeekTo::End => (None, Subscription::From(s.now)),
        SeekTo::Since(from) if from > s.now => {
            let reason = "must not be in the future".to_owned();
            return Err(StoreFault::Invalid { field: "subscriptionTimestamp", reason });
        }
        SeekTo::Since(from) => (Some(from), Subscription::From(from)),
    };
    let only = seek.partition.as_ref();
    let partition = only.map(PartitionName::as_str);
    let mut moved = 0;
    let mut changes = Vec::new();
    for (queue, group) in groups_named(s, &seek.group, seek.queue.as_ref())? {
        let Some(queue) = s.queue_by_id(queue)? else { continue };
        let sql = include_str!("../../sql/queries/group_delete_retries.sql");
        s.conn.prepare_cached(sql)?.execute((group, queue.id, partition))?;
        if only.is_none() {
            let (mode, from) = mode_columns(subscription);
            let sql = include_str!("../../sql/queries/group_move.sql");
            s.conn.prepare_cached(sql)?.execute((group, mode, from))?;
        }
        record_lost_leases(s, &queue, group, only)?;
        let sql = include_str!("../../sql/queries/cursor_to_end.sql");
        let params = (group, queue.id, s.now.0, partition);
        moved += s.conn.prepare_cached(sql)?.execute(params)? as u64;
        if let Some(from) = from {
            start_from(s, &queue, group, StartPosition { from, partition: only })?;
        }
        let available = available(s, &queue, group, &seek.group)?;
        changes.extend(
            available
                .into_iter()
                .filter(|change| only.is_none_or(|only| change.partition.as_ref() == Some(only))),
        );
    }
    s.hint(&changes);
    Ok((moved, changes))
}

/// Deletes a group, in one queue or in all. Returns the number of deleted cursors, and hints for
/// its waiters.
pub(super) fn delete_group(
    s: &mut DbSession<'_>,
    name: &GroupName,
    only: Option<&QueueName>,
) -> Res<(u64, Vec<Change>)> {
    let mut changes = forget_subscriptions(s, name, only)?;
    let mut gone = 0;
    for (queue, group) in groups_named(s, name, only)? {
        if let Some(queue) = s.queue_by_id(queue)? {
            changes.push(Change { group: Some(name.clone()), ..queue.change(Duration::ZERO) });
        }
        let sql = include_str!("../../sql/queries/group_delete_retries.sql");
        s.conn.prepare_cached(sql)?.execute((group, queue, None::<&str>))?;
        let sql = include_str!("../../sql/queries/group_delete_cursors.sql");
        gone += s.conn.prepare_cached(sql)?.execute((group, queue))? as u64;
        let sql = include_str!("../../sql/queries/group_delete.sql");
        s.conn.prepare_cached(sql)?.execute([group])?;
    }
    s.cache.clear();
    s.hint(&changes);
    Ok((gone, changes))
}

/// Deletes the group's subscriptions to queues that do not exist yet. Returns hints for its
/// waiters.
fn forget_subscriptions(
    s: &DbSession<'_>,
    name: &GroupName,
    only: Option<&QueueName>,
) -> Res<Vec<Change>> {
    let sql = include_str!("../../sql/queries/subscription_forget.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((name.as_str(), only.map(QueueName::as_str)))?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let invalid = || corrupt("subscription", name);
        let (queue, namespace, task): (Option<String>, Option<String>, Option<String>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let namespace = namespace.map(Namespace::new).transpose().map_err(invalid())?;
        let task = task.map(TaskName::new).transpose().map_err(invalid())?;
        let mut change = Change::of_filter(namespace, task, name.clone());
        if let Some(queue) = queue {
            change.queue = QueueName::new(queue).map_err(invalid())?;
        }
        changes.push(change);
    }
    Ok(changes)
}

/// Hints for the partitions of a queue in which a group has messages.
fn available(
    s: &DbSession<'_>,
    queue: &QueueRow,
    group: i64,
    name: &GroupName,
) -> Res<Vec<Change>> {
    let sql = include_str!("../../sql/queries/cursor_due_all.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([group])?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let due_at = Timestamp(row.get(1)?);
        let Some(cursor) = QueueCursor::read(s, row.get(0)?, group)? else { continue };
        changes.push(Change {
            partition: Some(cursor.partition_name),
            group: Some(name.clone()),
            ..queue.change(s.now.until(due_at))
        });
    }
    Ok(changes)
}

/// The ids of the queues that have a group with this name, each with the group's id.
fn groups_named(
    s: &DbSession<'_>,
    name: &GroupName,
    only: Option<&QueueName>,
) -> Res<Vec<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/group_queues.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (name.as_str(), only.map(QueueName::as_str));
    let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
