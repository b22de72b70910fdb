//! Changes the options of queues, and deletes queues.

use std::time::Duration;

use wakeline_core::{Change, Namespace, QueueName, QueueOptions, TaskName};
use wakeline_store::{ConfigureQueue, PatchQueue, QueueDetail};

use super::inspect;
use crate::error::{Res, StoreFault};
use crate::queue::cursor::QueueCursor;
use crate::queue::group::{make_queue, options_text};
use crate::queue::housekeeping;
use crate::session::{DbSession, QueueRow};

/// Creates or changes a queue.
pub(super) fn configure(
    s: &mut DbSession<'_>,
    command: &ConfigureQueue,
) -> Res<(QueueDetail, Vec<Change>)> {
    need_keys(s, command.options.encrypted)?;
    write(s, command)
}

/// Refuses encryption unless this node has encryption keys.
fn need_keys(s: &DbSession<'_>, encrypted: bool) -> Res<()> {
    if encrypted && !s.encryption.has_keys() {
        return Err(StoreFault::NoKeys);
    }
    Ok(())
}

fn write(s: &mut DbSession<'_>, command: &ConfigureQueue) -> Res<(QueueDetail, Vec<Change>)> {
    let name = &command.queue;
    let queue = match s.queue(name)? {
        Some(queue) => queue,
        None => {
            let (namespace, task) = name.derived_scope();
            let namespace = command.namespace.clone().or(namespace);
            let task = command.task.clone().or(task);
            make_queue(s, name, namespace, task)?
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
        // The idle time of groups starts again with the change, because polls were recorded only as
        // exactly as the old idle time needed.
        let sql = include_str!("../../sql/queries/group_polled_all.sql");
        s.conn.prepare_cached(sql)?.execute((queue.id, s.now.0))?;
    }
    s.cache.clear();
    let queue = s.queue(name)?.expect("it was just changed");
    correct_due_times(s, &queue)?;
    housekeeping::schedule(s, &queue)?;
    let changes = vec![queue.change(Duration::ZERO)];
    s.hint(&changes);
    Ok((inspect::queue(s, name)?.expect("it was just changed"), changes))
}

/// Changes the given options of a queue. Returns `None` if the queue does not exist and must not be
/// created.
pub(super) fn patch(
    s: &mut DbSession<'_>,
    command: &PatchQueue,
) -> Res<Option<(QueueDetail, Vec<Change>)>> {
    let PatchQueue { queue, namespace, task, options, create } = command.clone();
    need_keys(s, options.encrypted == Some(true))?;
    let found = s.queue(&queue)?.map(|queue| queue.options.clone());
    let Some(found) = found.or(create.then(QueueOptions::default)) else { return Ok(None) };
    let options = options.apply(found);
    write(s, &ConfigureQueue { queue, namespace, task, options }).map(Some)
}

/// Recomputes the due times of cursors, which depend on the options. Leases keep their end.
fn correct_due_times(s: &DbSession<'_>, queue: &QueueRow) -> Res<()> {
    let sql = include_str!("../../sql/queries/cursor_due_free.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let cursors: Vec<(i64, i64)> = statement
        .query_map([queue.id], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (partition, group) in cursors {
        let Some(cursor) = QueueCursor::read(s, partition, group)? else { continue };
        let due = cursor.due(s, queue)?;
        if due != cursor.due_at {
            let sql = include_str!("../../sql/queries/cursor_due.sql");
            s.conn.prepare_cached(sql)?.execute((partition, group, due))?;
        }
    }
    Ok(())
}

/// Deletes a queue with everything in it. Returns whether it existed.
pub(super) fn delete_queue(s: &mut DbSession<'_>, name: &QueueName) -> Res<bool> {
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
