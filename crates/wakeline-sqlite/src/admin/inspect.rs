//! Reads queues and single messages.

use rusqlite::OptionalExtension as _;
use wakeline_core::{GroupName, PartitionId, PartitionName, QueueName, TransactionId};
use wakeline_store::{MessageDetail, MessageState, QueueDetail};

use crate::error::{Res, corrupt};
use crate::queue::cursor::{MessageInGroup, QueueCursor};
use crate::queue::ledger;
use crate::queue::message;
use crate::session::{DbSession, QueueRow};

/// The configuration of a queue.
pub(super) fn queue(s: &mut DbSession<'_>, name: &QueueName) -> Res<Option<QueueDetail>> {
    let Some(queue) = s.queue(name)? else { return Ok(None) };
    let partition = s.partition(&queue, &PartitionName::default_partition())?;
    let missing = || corrupt("queue", queue.id)("its default partition is missing");
    Ok(Some(QueueDetail {
        id: queue.id,
        queue: queue.name.clone(),
        namespace: queue.namespace.clone(),
        task: queue.task.clone(),
        options: queue.options.clone(),
        default_partition: PartitionId(partition.ok_or_else(missing)?),
    }))
}

/// The newest message with a transaction id in a partition, with its state in each group.
pub(super) fn message(
    s: &mut DbSession<'_>,
    partition: PartitionId,
    transaction_id: &TransactionId,
) -> Res<Option<MessageDetail>> {
    let sql = include_str!("../../sql/queries/message_newest.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (partition.0, transaction_id.as_str());
    let found = statement
        .query_row(params, |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)))
        .optional()?;
    let Some((offset, queue, name)) = found else { return Ok(None) };
    let missing = || corrupt("partition", partition.0)("its queue is missing");
    let queue = s.queue_by_id(queue)?.ok_or_else(missing)?;
    let mut next = message::read(s, partition.0, offset, 0)?;
    let (mut groups, mut errors) = (Vec::new(), Vec::new());
    let mut entries = ledger::of_message(s, partition.0, offset)?;
    for (group, group_name) in groups_of(s, &queue)? {
        let Some(cursor) = QueueCursor::read(s, partition.0, group)? else { continue };
        let in_group = MessageInGroup { group: &group_name, cursor: &cursor, offset };
        entries.extend(ledger::of_cursor(s, &queue, in_group));
        if group_name.is_queue_mode() {
            next.attempt = failures(s, &cursor, offset)?.saturating_add(1);
        }
        let state = state(s, in_group)?;
        let error = last_error(s, in_group)?;
        errors.extend(error.map(|error| (group_name.clone(), error)));
        groups.push((group_name, state));
    }
    entries.sort_by_key(|entry| {
        (entry.offered_at, entry.ended_at.is_none(), entry.ended_at, entry.group.clone())
    });
    Ok(Some(MessageDetail {
        queue: queue.name.clone(),
        partition: PartitionName::new(name).map_err(corrupt("partition", partition.0))?,
        message: next,
        groups,
        errors,
        ledger: entries,
    }))
}

pub(super) fn groups_of(s: &DbSession<'_>, queue: &QueueRow) -> Res<Vec<(i64, GroupName)>> {
    let sql = include_str!("../../sql/queries/group_of_queue.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([queue.id])?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
        groups.push((id, GroupName::new(name).map_err(corrupt("group", id))?));
    }
    Ok(groups)
}

/// The last error of a message in a group that has parked it, or for which it is a dead letter.
fn last_error(s: &DbSession<'_>, message: MessageInGroup<'_>) -> Res<Option<String>> {
    let MessageInGroup { group, cursor, offset } = message;
    let sql = include_str!("../../sql/queries/message_error.sql");
    let params = (cursor.partition, cursor.group, offset, group.as_str());
    Ok(s.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}

/// The failure count of a message that is parked in a group.
fn failures(s: &DbSession<'_>, cursor: &QueueCursor, offset: i64) -> Res<u32> {
    let sql = include_str!("../../sql/queries/retry_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (cursor.partition, cursor.group, offset);
    Ok(statement.query_row(params, |row| row.get(0)).optional()?.unwrap_or(0))
}

pub(super) fn state(s: &DbSession<'_>, message: MessageInGroup<'_>) -> Res<MessageState> {
    let MessageInGroup { group, cursor, offset } = message;
    match &cursor.lease {
        Some(lease) if lease.unsettled.contains(offset) => {
            let live = lease.until > s.now.0;
            return Ok(if live { MessageState::Processing } else { MessageState::Pending });
        }
        _ => {}
    }
    let sql = include_str!("../../sql/queries/retry_read.sql");
    let params = (cursor.partition, cursor.group, offset);
    if offset >= cursor.next || s.conn.prepare_cached(sql)?.exists(params)? {
        return Ok(MessageState::Pending);
    }
    let sql = include_str!("../../sql/queries/dead_letter_of_message.sql");
    let dead = s.conn.prepare_cached(sql)?.exists((cursor.partition, offset, group.as_str()))?;
    Ok(if dead { MessageState::DeadLetter } else { MessageState::Completed })
}
