//! Consumer groups: how far they are, and moving them.

use std::time::Duration;

use rusqlite::{Params, Row};
use wakeline_core::{
    Change, GroupName, Namespace, PartitionId, PartitionName, QueueName, Subscription, TaskName,
    Timestamp,
};
use wakeline_store::{GroupDetail, GroupPartition, GroupPartitionFilter, Seek, SeekTo};

use super::messages::let_go;
use crate::error::{Fault, Res, corrupt};
use crate::queue::cursor::{Cursor, created_at};
use crate::queue::group::{mode_columns, start_from, subscription};
use crate::queue::idle::Polls;
use crate::session::{Queue, Session};

/// All groups, or those of one name.
pub(super) fn groups(s: &mut Session<'_>, only: Option<&GroupName>) -> Res<Vec<GroupDetail>> {
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

/// Messages of the log that are under a lease, over the cursors of a group.
fn first_deliveries(s: &Session<'_>, queue: i64, group: i64) -> Res<u64> {
    let sql = include_str!("../../sql/queries/cursor_leased.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue, group))?;
    let mut sum = 0;
    while let Some(row) = rows.next()? {
        sum += Cursor::read(s, row.get(0)?, group)?.as_ref().map_or(0, leased);
    }
    Ok(sum)
}

/// How long ago the oldest message was pushed that a group has yet to settle. Cursors with nothing
/// to do are not looked at.
fn behind(s: &Session<'_>, group: i64) -> Res<Duration> {
    let sql = include_str!("../../sql/queries/cursor_due_all.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([group])?;
    let mut first: Option<i64> = None;
    while let Some(row) = rows.next()? {
        let partition = row.get(0)?;
        let Some(cursor) = Cursor::read(s, partition, group)? else { continue };
        if let Some(offset) = oldest(s, &cursor)? {
            first = first.into_iter().chain(created_at(s, partition, offset)?).min();
        }
    }
    Ok(first.map_or(Duration::ZERO, |at| Timestamp(at).until(s.now)))
}

/// Groups, partition by partition.
pub(super) fn partitions(
    s: &mut Session<'_>,
    filter: &GroupPartitionFilter,
) -> Res<Vec<GroupPartition>> {
    let sql = include_str!("../../sql/queries/group_partitions.sql");
    let (group, queue) = names(filter);
    listed(s, sql, (group, queue, filter.limit, filter.offset))
}

/// Partitions in which a group is behind by at least so long, the oldest message first.
pub(super) fn lagging(
    s: &mut Session<'_>,
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

fn listed(s: &Session<'_>, sql: &str, params: impl Params) -> Res<Vec<GroupPartition>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (group, partition): (i64, i64) = (row.get(2)?, row.get(4)?);
        let Some(cursor) = Cursor::read(s, partition, group)? else { continue };
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

/// Messages that are unread, parked, or of the log and under a lease.
pub(super) fn lag(cursor: &Cursor) -> u64 {
    let unread = (cursor.tail - cursor.next - cursor.gaps).unsigned_abs();
    unread + cursor.parked.unsigned_abs() + leased(cursor)
}

/// Messages of the log that are under a lease: neither unread nor parked.
fn leased(cursor: &Cursor) -> u64 {
    let Some(lease) = &cursor.lease else { return 0 };
    lease.unsettled.iter().filter(|offset| *offset >= lease.start).count() as u64
}

/// The oldest message that is unread or unsettled.
fn oldest(s: &Session<'_>, cursor: &Cursor) -> Res<Option<i64>> {
    let held = cursor.lease.iter().flat_map(|lease| lease.unsettled.iter()).min();
    let parked = if cursor.parked > 0 { cursor.lowest_parked(s)? } else { None };
    let unread = (cursor.next < cursor.tail).then_some(cursor.next);
    Ok([held, parked, unread].into_iter().flatten().min())
}

/// Moves a group.
pub(super) fn seek(s: &mut Session<'_>, seek: &Seek) -> Res<(u64, Vec<Change>)> {
    let (from, subscription) = match seek.to {
        SeekTo::Beginning => (Some(Timestamp(i64::MIN)), Subscription::All),
        SeekTo::End => (None, Subscription::From(s.now)),
        SeekTo::Since(from) if from > s.now => {
            let reason = "must not be in the future".to_owned();
            return Err(Fault::Invalid { field: "subscriptionTimestamp", reason });
        }
        SeekTo::Since(from) => (Some(from), Subscription::From(from)),
    };
    let only = seek.partition.as_ref();
    let partition = only.map(PartitionName::as_str);
    let mut moved = 0;
    let mut changes = Vec::new();
    for (queue, group) in standing(s, &seek.group, seek.queue.as_ref())? {
        let Some(queue) = s.queue_by_id(queue)? else { continue };
        let sql = include_str!("../../sql/queries/group_delete_retries.sql");
        s.conn.prepare_cached(sql)?.execute((group, queue.id, partition))?;
        if only.is_none() {
            let (mode, from) = mode_columns(subscription);
            let sql = include_str!("../../sql/queries/group_move.sql");
            s.conn.prepare_cached(sql)?.execute((group, mode, from))?;
        }
        let_go(s, &queue, group, only)?;
        let sql = include_str!("../../sql/queries/cursor_to_end.sql");
        let params = (group, queue.id, s.now.0, partition);
        moved += s.conn.prepare_cached(sql)?.execute(params)? as u64;
        if let Some(from) = from {
            start_from(s, &queue, group, (from, only))?;
        }
        let available = available(s, &queue, (group, &seek.group))?;
        changes.extend(
            available
                .into_iter()
                .filter(|change| only.is_none_or(|only| change.partition.as_ref() == Some(only))),
        );
    }
    s.hint(&changes);
    Ok((moved, changes))
}

/// Forgets a group, in one queue or in all. Returns how many cursors went, and whom to tell.
pub(super) fn delete_group(
    s: &mut Session<'_>,
    name: &GroupName,
    only: Option<&QueueName>,
) -> Res<(u64, Vec<Change>)> {
    let mut changes = forget_subscriptions(s, name, only)?;
    let mut gone = 0;
    for (queue, group) in standing(s, name, only)? {
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

/// Forgets where a group begins in queues to come. Returns whom to tell.
fn forget_subscriptions(
    s: &Session<'_>,
    name: &GroupName,
    only: Option<&QueueName>,
) -> Res<Vec<Change>> {
    let sql = include_str!("../../sql/queries/subscription_forget.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((name.as_str(), only.map(QueueName::as_str)))?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let spoilt = || corrupt("subscription", name);
        let (queue, namespace, task): (Option<String>, Option<String>, Option<String>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let namespace = namespace.map(Namespace::new).transpose().map_err(spoilt())?;
        let task = task.map(TaskName::new).transpose().map_err(spoilt())?;
        let mut change = Change::of_filter(namespace, task, name.clone());
        if let Some(queue) = queue {
            change.queue = QueueName::new(queue).map_err(spoilt())?;
        }
        changes.push(change);
    }
    Ok(changes)
}

/// What a group has to offer in a queue, partition by partition.
fn available(s: &Session<'_>, queue: &Queue, (group, name): (i64, &GroupName)) -> Res<Vec<Change>> {
    let sql = include_str!("../../sql/queries/cursor_due_all.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([group])?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let due_at = Timestamp(row.get(1)?);
        let Some(cursor) = Cursor::read(s, row.get(0)?, group)? else { continue };
        changes.push(Change {
            partition: Some(cursor.partition_name),
            group: Some(name.clone()),
            ..queue.change(s.now.until(due_at))
        });
    }
    Ok(changes)
}

/// The queues that have a group of a name, with its id there.
fn standing(s: &Session<'_>, name: &GroupName, only: Option<&QueueName>) -> Res<Vec<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/group_standing.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (name.as_str(), only.map(QueueName::as_str));
    let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
