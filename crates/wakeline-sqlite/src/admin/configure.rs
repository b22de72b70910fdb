//! Changes what is there: options, whole queues.

use std::time::Duration;

use wakeline_core::{Change, Namespace, QueueName, QueueOptions, TaskName};
use wakeline_store::{ConfigureQueue, PatchQueue, QueueDetail};

use super::inspect;
use crate::error::{Fault, Res};
use crate::queue::cursor::Cursor;
use crate::queue::group::{make_queue, options_text};
use crate::queue::keep;
use crate::session::{Queue, Session};

/// Makes or changes a queue.
pub(super) fn configure(
    s: &mut Session<'_>,
    command: &ConfigureQueue,
) -> Res<(QueueDetail, Vec<Change>)> {
    need_keys(s, command.options.encrypted)?;
    write(s, command)
}

/// Encryption is switched on only where there are keys.
fn need_keys(s: &Session<'_>, encrypted: bool) -> Res<()> {
    if encrypted && !s.sealing.has_keys() {
        return Err(Fault::NoKeys);
    }
    Ok(())
}

fn write(s: &mut Session<'_>, command: &ConfigureQueue) -> Res<(QueueDetail, Vec<Change>)> {
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
    if queue.options.group_idle_secs != command.options.group_idle_secs {
        // How long groups went without a poll counts from the change on: the last poll was
        // recorded as exactly as the old time needed it.
        let sql = include_str!("../../sql/queries/group_polled_all.sql");
        s.conn.prepare_cached(sql)?.execute((queue.id, s.now.0))?;
    }
    s.cache.clear();
    let queue = s.queue(name)?.expect("it was just changed");
    correct_due_times(s, &queue)?;
    keep::schedule(s, &queue)?;
    let changes = vec![queue.change(Duration::ZERO)];
    s.hint(&changes);
    Ok((inspect::queue(s, name)?.expect("it was just changed"), changes))
}

/// Changes those of a queue's options that are named; `None` if there is no such queue, and none is
/// to be made.
pub(super) fn patch(
    s: &mut Session<'_>,
    command: &PatchQueue,
) -> Res<Option<(QueueDetail, Vec<Change>)>> {
    let PatchQueue { queue, namespace, task, options, create } = command.clone();
    need_keys(s, options.encrypted == Some(true))?;
    let found = s.queue(&queue)?.map(|queue| queue.options.clone());
    let Some(found) = found.or(create.then(QueueOptions::default)) else { return Ok(None) };
    let options = options.apply(found);
    write(s, &ConfigureQueue { queue, namespace, task, options }).map(Some)
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
        include_str!("../../sql/queries/queue_delete_gaps.sql"),
        include_str!("../../sql/queries/queue_delete_scheduled.sql"),
        include_str!("../../sql/queries/queue_delete_traces.sql"),
        include_str!("../../sql/queries/queue_delete_ledger.sql"),
        include_str!("../../sql/queries/queue_delete_retries.sql"),
        include_str!("../../sql/queries/queue_delete_cursors.sql"),
        include_str!("../../sql/queries/queue_delete_dead_letters.sql"),
        include_str!("../../sql/queries/queue_delete_groups.sql"),
        include_str!("../../sql/queries/queue_delete_partitions.sql"),
        include_str!("../../sql/queries/housekeeping_delete.sql"),
        include_str!("../../sql/queries/queue_delete.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([queue.id])?;
    }
    s.cache.clear();
    Ok(true)
}
