//! Changes what is there: options, whole queues, where groups stand.

use std::time::Duration;

use wakeline_core::{Change, GroupName, Namespace, QueueName, TaskName, Timestamp};
use wakeline_store::{ConfigureQueue, QueueDetail};

use super::inspect;
use crate::error::{Fault, Res, corrupt};
use crate::queue::cursor::Cursor;
use crate::queue::group::{make_queue, options_text, start_from};
use crate::session::{Queue, Session};

/// Makes or changes a queue.
pub(super) fn configure(
    s: &mut Session<'_>,
    command: &ConfigureQueue,
) -> Res<(QueueDetail, Vec<Change>)> {
    let name = &command.queue;
    let queue = match s.queue(name)? {
        Some(queue) => queue,
        None => {
            let (namespace, task) = name.derived_scope();
            let scope = (command.namespace.clone().or(namespace), command.task.clone().or(task));
            make_queue(s, name, scope)?
        }
    };
    let namespace = command.namespace.as_ref().or(queue.namespace.as_ref());
    let task = command.task.as_ref().or(queue.task.as_ref());
    let sql = include_str!("../../sql/queries/queue_configure.sql");
    s.conn.prepare_cached(sql)?.execute((
        queue.id,
        namespace.map(Namespace::as_str),
        task.map(TaskName::as_str),
        options_text(&command.options),
    ))?;
    s.cache.clear();
    let queue = s.queue(name)?.expect("it was just changed");
    correct_due_times(s, &queue)?;
    let changes = vec![queue.change(Duration::ZERO)];
    s.hint(&changes);
    Ok((inspect::queue(s, name)?.expect("it was just changed"), changes))
}

/// Under new options a cursor may be due at another time. Leases keep their end.
fn correct_due_times(s: &Session<'_>, queue: &Queue) -> Res<()> {
    let sql = include_str!("../../sql/queries/cursor_due_free.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let cursors: Vec<(i64, i64)> = statement
        .query_map([queue.id], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (partition, group) in cursors {
        let Some(cursor) = Cursor::read(s, partition, group)? else { continue };
        let due = cursor.due(s, queue)?;
        if due != cursor.due_at {
            let sql = include_str!("../../sql/queries/cursor_due.sql");
            s.conn.prepare_cached(sql)?.execute((partition, group, due))?;
        }
    }
    Ok(())
}

/// Removes a queue with all that is in it. True if it existed.
pub(super) fn delete_queue(s: &mut Session<'_>, name: &QueueName) -> Res<bool> {
    let sql = include_str!("../../sql/queries/subscription_done.sql");
    s.conn.prepare_cached(sql)?.execute([name.as_str()])?;
    let Some(queue) = s.queue(name)? else { return Ok(false) };
    for sql in [
        include_str!("../../sql/queries/queue_delete_messages.sql"),
        include_str!("../../sql/queries/queue_delete_retries.sql"),
        include_str!("../../sql/queries/queue_delete_cursors.sql"),
        include_str!("../../sql/queries/queue_delete_dead_letters.sql"),
        include_str!("../../sql/queries/queue_delete_groups.sql"),
        include_str!("../../sql/queries/queue_delete_partitions.sql"),
        include_str!("../../sql/queries/queue_delete.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([queue.id])?;
    }
    s.cache.clear();
    Ok(true)
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
        s.conn.prepare_cached(sql)?.execute((group, queue))?;
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

/// Moves a group, in all its queues, to what was pushed at or after a moment.
pub(super) fn resubscribe(
    s: &mut Session<'_>,
    name: &GroupName,
    from: Timestamp,
) -> Res<(u64, Vec<Change>)> {
    if from > s.now {
        let reason = "must not lie in the future".to_owned();
        return Err(Fault::Invalid { field: "subscriptionTimestamp", reason });
    }
    let mut moved = 0;
    let mut changes = Vec::new();
    for (queue, group) in standing(s, name, None)? {
        let Some(queue) = s.queue_by_id(queue)? else { continue };
        let sql = include_str!("../../sql/queries/group_delete_retries.sql");
        s.conn.prepare_cached(sql)?.execute((group, queue.id))?;
        let sql = include_str!("../../sql/queries/group_move.sql");
        s.conn.prepare_cached(sql)?.execute((group, from.0))?;
        let sql = include_str!("../../sql/queries/cursor_to_end.sql");
        moved += s.conn.prepare_cached(sql)?.execute((group, queue.id, s.now.0))? as u64;
        start_from(s, &queue, group, from)?;
        changes.extend(available(s, &queue, (group, name))?);
    }
    s.hint(&changes);
    Ok((moved, changes))
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
