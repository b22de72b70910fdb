//! Reads what is there.

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use uuid::Uuid;
use wakeline_core::{
    GroupName, MessageId, PartitionId, PartitionName, QueueName, Timestamp, TransactionId,
};
use wakeline_store::{DeadLetter, DeadLetterFilter, MessageDetail, MessageState, QueueDetail};

use crate::error::{Res, corrupt};
use crate::queue::cursor::Cursor;
use crate::queue::message;
use crate::session::{Queue, Session};

/// A queue as it stands.
pub(super) fn queue(s: &mut Session<'_>, name: &QueueName) -> Res<Option<QueueDetail>> {
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

/// Dead letters, newest first.
pub(super) fn dead_letters(s: &mut Session<'_>, filter: &DeadLetterFilter) -> Res<Vec<DeadLetter>> {
    let queue = match &filter.queue {
        None => None,
        Some(name) => match s.queue(name)? {
            Some(queue) => Some(queue.id),
            None => return Ok(Vec::new()),
        },
    };
    let sql = match queue {
        Some(_) => include_str!("../../sql/queries/dead_letter_list_queue.sql"),
        None => include_str!("../../sql/queries/dead_letter_list.sql"),
    };
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((
        queue,
        filter.group.as_ref().map(GroupName::as_str),
        filter.partition.as_ref().map(PartitionName::as_str),
        filter.limit,
        filter.offset,
    ))?;
    let mut letters = Vec::new();
    while let Some(row) = rows.next()? {
        letters.push(decode_dead_letter(s, row)?);
    }
    Ok(letters)
}

fn decode_dead_letter(s: &Session<'_>, row: &Row<'_>) -> Res<DeadLetter> {
    let number: i64 = row.get(0)?;
    let uuid: Vec<u8> = row.get(1)?;
    let (transaction_id, queue, partition, group): (String, String, String, String) =
        (row.get(2)?, row.get(4)?, row.get(5)?, row.get(6)?);
    let payload: Vec<u8> = row.get(9)?;
    let id = MessageId(Uuid::from_slice(&uuid).map_err(corrupt("dead letter", number))?);
    Ok(DeadLetter {
        id,
        transaction_id: TransactionId::new(transaction_id)
            .map_err(corrupt("dead letter", number))?,
        partition_id: PartitionId(row.get(3)?),
        queue: QueueName::new(queue).map_err(corrupt("dead letter", number))?,
        partition: PartitionName::new(partition).map_err(corrupt("dead letter", number))?,
        group: GroupName::new(group).map_err(corrupt("dead letter", number))?,
        error: row.get(7)?,
        failures: row.get(8)?,
        payload: (s.sealing.open(id, Bytes::from(payload)))
            .map_err(corrupt("dead letter", number))?,
        producer: row.get(10)?,
        created_at: Timestamp(row.get(11)?),
        failed_at: Timestamp(row.get(12)?),
    })
}

/// The newest message of a transaction id in a partition.
pub(super) fn message(
    s: &mut Session<'_>,
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
    let mut groups = Vec::new();
    for (group, group_name) in groups_of(s, &queue)? {
        let Some(cursor) = Cursor::read(s, partition.0, group)? else { continue };
        if group_name.is_queue_mode() {
            next.attempt = failures(s, &cursor, offset)?.saturating_add(1);
        }
        let state = state(s, &cursor, (offset, &group_name))?;
        groups.push((group_name, state));
    }
    Ok(Some(MessageDetail {
        queue: queue.name.clone(),
        partition: PartitionName::new(name).map_err(corrupt("partition", partition.0))?,
        message: next,
        groups,
    }))
}

fn groups_of(s: &Session<'_>, queue: &Queue) -> Res<Vec<(i64, GroupName)>> {
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

/// Counted failures of a message that a group is not done with.
fn failures(s: &Session<'_>, cursor: &Cursor, offset: i64) -> Res<u32> {
    let sql = include_str!("../../sql/queries/retry_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (cursor.partition, cursor.group, offset);
    Ok(statement.query_row(params, |row| row.get(0)).optional()?.unwrap_or(0))
}

fn state(
    s: &Session<'_>,
    cursor: &Cursor,
    (offset, group): (i64, &GroupName),
) -> Res<MessageState> {
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
