//! Scheduled messages.
//!
//! # Where it sits
//! Scheduling and cancelling are parts of a transaction. Claims and pushes move due messages to the
//! logs before they read them.
//!
//! # Invariants
//! * A queue in which nothing was ever scheduled causes no queries, because it has no `scheduled`
//!   mark.
//! * No scheduled message is due while maintenance mode holds pushes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use uuid::Uuid;
use wakeline_core::{
    Change, MessageId, PartitionId, PartitionName, QueueName, Selector, TimerKey, Timestamp,
    TransactionId,
};
use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, CancelOutcome, PushGate, QueueSchedule, ScheduleItem, ScheduleOutcome,
    ScheduledFilter, ScheduledMessage, ScheduledRef, StoreError,
};

use super::group::{ensure_partition, ensure_queue};
use super::push::{self, Tail};
use crate::SqliteStore;
use crate::error::{Res, corrupt};
use crate::session::{DbSession, QueueRow};

/// The maximum number of messages that one claim moves; the next claim continues.
const MOVED_LEN_MAX: i64 = 10_000;

#[async_trait]
impl QueueSchedule for SqliteStore {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        self.read("scheduled", move |s| list(s, &filter)).await
    }
}

/// Moves the due messages of a queue, and returns their number.
pub(crate) fn move_due_of_queue(s: &DbSession<'_>, queue: &Arc<QueueRow>) -> Res<u64> {
    move_due(s, queue, None, MOVED_LEN_MAX)
}

/// Moves the due messages of the queues or the partition that a selector matches.
pub(super) fn move_due_of(s: &mut DbSession<'_>, selector: &Selector) -> Res<()> {
    for queue in s.matching(selector)? {
        if !queue.scheduled {
            continue;
        }
        match selector {
            Selector::Partition(_, name) => {
                if let Some(partition) = s.partition(&queue, name)? {
                    move_due(s, &queue, Some(partition), MOVED_LEN_MAX)?;
                }
            }
            Selector::Queue(_) | Selector::Filter { .. } => {
                move_due(s, &queue, None, MOVED_LEN_MAX)?;
            }
        }
    }
    Ok(())
}

/// Moves all due messages of a partition, before a push to it.
pub(super) fn move_due_in(s: &DbSession<'_>, queue: &Arc<QueueRow>, partition: i64) -> Res<()> {
    move_due(s, queue, Some(partition), i64::MAX).map(drop)
}

fn move_due(
    s: &DbSession<'_>,
    queue: &Arc<QueueRow>,
    partition: Option<i64>,
    limit: i64,
) -> Res<u64> {
    if s.maintenance()?.pushes != PushGate::Open {
        return Ok(0);
    }
    let (sql, of) = match partition {
        Some(partition) => {
            (include_str!("../../sql/queries/scheduled_due_of_partition.sql"), partition)
        }
        None => (include_str!("../../sql/queries/scheduled_due.sql"), queue.id),
    };
    let mut statement = s.conn.prepare_cached(sql)?;
    let due: Vec<(i64, i64)> = statement
        .query_map((of, s.now.0, limit), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut tails: BTreeMap<i64, Tail> = BTreeMap::new();
    let mut add = s.conn.prepare_cached(include_str!("../../sql/queries/scheduled_move.sql"))?;
    for (id, partition) in &due {
        let tail = match tails.entry(*partition) {
            std::collections::btree_map::Entry::Occupied(tail) => tail.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(Tail::open(s, queue, *partition)?)
            }
        };
        add.execute((id, tail.next, tail.last_push_at))?;
        tail.next += 1;
        remove(s, *id)?;
    }
    for (partition, tail) in &tails {
        push::finish(s, *partition, tail)?;
    }
    metrics::counter!("wakeline_scheduled_moved_total").increment(due.len() as u64);
    Ok(due.len() as u64)
}

/// When the first scheduled message of a queue, or of one of its partitions, is due.
pub(super) fn next_due(
    s: &DbSession<'_>,
    queue: &QueueRow,
    partition: Option<i64>,
) -> Res<Option<i64>> {
    if !queue.scheduled || s.maintenance()?.pushes != PushGate::Open {
        return Ok(None);
    }
    let (sql, of) = match partition {
        Some(partition) => {
            (include_str!("../../sql/queries/scheduled_next_of_partition.sql"), partition)
        }
        None => (include_str!("../../sql/queries/scheduled_next.sql"), queue.id),
    };
    Ok(s.conn.prepare_cached(sql)?.query_row([of], |row| row.get(0)).optional()?)
}

/// Which scheduled message is looked up.
pub(super) struct ScheduledLookup<'a> {
    pub(super) partition: i64,
    pub(super) transaction_id: &'a TransactionId,
    /// The row of a scheduled message that is ignored.
    pub(super) except: Option<i64>,
}

/// The scheduled message with a transaction id in a partition.
pub(super) fn scheduled_duplicate(
    s: &DbSession<'_>,
    queue: &QueueRow,
    lookup: &ScheduledLookup<'_>,
) -> Res<Option<MessageId>> {
    let ScheduledLookup { partition, transaction_id, except } = lookup;
    if !queue.scheduled {
        return Ok(None);
    }
    let sql = include_str!("../../sql/queries/scheduled_repeated.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, transaction_id.as_str(), except))?;
    rows.next()?.map(|row| uuid(row, 0, "message").map(MessageId)).transpose()
}

/// A timer with the id of its row.
struct Timer {
    place: i64,
    named: ScheduledRef,
}

fn timer(s: &DbSession<'_>, queue: &QueueRow, key: &TimerKey) -> Res<Option<Timer>> {
    let sql = include_str!("../../sql/queries/scheduled_keyed.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue.id, key.as_str()))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let place: i64 = row.get(0)?;
    let named = ScheduledRef {
        id: MessageId(uuid(row, 1, "scheduled message")?),
        transaction_id: transaction_id(row, 2)?,
        deliver_at: Timestamp(row.get(3)?),
    };
    Ok(Some(Timer { place, named }))
}

/// Cancels a timer, unless it is due.
pub(super) fn cancel(s: &mut DbSession<'_>, item: &CancelItem) -> Res<CancelOutcome> {
    let Some(queue) = s.queue(&item.queue)? else { return Ok(CancelOutcome::Absent) };
    Ok(match timer(s, &queue, &item.key)? {
        None => CancelOutcome::Absent,
        Some(timer) if timer.named.deliver_at <= s.now => CancelOutcome::TooLate(timer.named),
        Some(timer) => {
            remove(s, timer.place)?;
            CancelOutcome::Cancelled(timer.named)
        }
    })
}

/// Stores a message for later delivery.
pub(super) fn schedule(
    s: &mut DbSession<'_>,
    item: &ScheduleItem,
) -> Res<(ScheduleOutcome, Option<Change>)> {
    let ScheduleItem { message, due, key } = item;
    let queue = mark_scheduled(s, &message.queue)?;
    let place = ensure_partition(s, &queue, &message.partition)?;
    let partition = PartitionId(place);
    let mut before = match key {
        Some(key) => timer(s, &queue, key)?,
        None => None,
    };
    if let Some(due) = before.take_if(|timer| timer.named.deliver_at <= s.now) {
        let sql = include_str!("../../sql/queries/scheduled_unkey.sql");
        s.conn.prepare_cached(sql)?.execute([due.place])?;
    }
    let except = before.as_ref().map(|timer| timer.place);
    let known = match push::repeated(s, &queue, place, message)? {
        Some(id) => Some(id),
        None => {
            let transaction_id = &message.transaction_id;
            let lookup = ScheduledLookup { partition: place, transaction_id, except };
            scheduled_duplicate(s, &queue, &lookup)?
        }
    };
    if let Some(id) = known {
        return Ok((ScheduleOutcome::Duplicate { id, partition }, None));
    }
    if let Some(before) = &before {
        remove(s, before.place)?;
    }
    let deliver_at = match due {
        Visible::Now => s.now,
        Visible::After(span) => s.now.plus(*span),
        Visible::At(at) => *at,
    };
    let encrypted = push::encrypted_payload(s, &queue, message)?;
    let sql = include_str!("../../sql/queries/scheduled_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        queue.id,
        place,
        deliver_at.0,
        key.as_ref().map(TimerKey::as_str),
        message.id.0.as_bytes(),
        message.transaction_id.as_str(),
        message.trace_id.map(Uuid::into_bytes),
        &message.producer,
        s.now.0,
        encrypted.as_deref().unwrap_or(&message.payload),
    ))?;
    let change = Change {
        partition: Some(message.partition.clone()),
        ..queue.change(s.now.until(deliver_at))
    };
    let (id, replaced) = (message.id, before.is_some());
    Ok((ScheduleOutcome::Scheduled { id, partition, deliver_at, replaced }, Some(change)))
}

/// Marks a queue, so that pushes and claims look for scheduled messages in it from now on.
pub(super) fn mark_scheduled(s: &mut DbSession<'_>, name: &QueueName) -> Res<Arc<QueueRow>> {
    let queue = ensure_queue(s, name)?;
    if queue.scheduled {
        return Ok(queue);
    }
    let sql = include_str!("../../sql/queries/queue_mark_scheduled.sql");
    s.conn.prepare_cached(sql)?.execute([queue.id])?;
    s.forget_queue(&queue);
    ensure_queue(s, name)
}

fn remove(s: &DbSession<'_>, place: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/scheduled_remove.sql");
    s.conn.prepare_cached(sql)?.execute([place])?;
    Ok(())
}

fn list(s: &mut DbSession<'_>, filter: &ScheduledFilter) -> Res<Vec<ScheduledMessage>> {
    let Some(queue) = s.queue(&filter.queue)? else { return Ok(Vec::new()) };
    let (at, seq) = filter.after.map_or((i64::MIN, i64::MIN), |(at, seq)| (at.0, seq));
    let key = filter.key.as_ref().map(TimerKey::as_str);
    let sql = include_str!("../../sql/queries/scheduled_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((queue.id, key, at, seq, filter.limit))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode(s, row)?);
    }
    Ok(found)
}

fn decode(s: &DbSession<'_>, row: &Row<'_>) -> Res<ScheduledMessage> {
    let seq: i64 = row.get(0)?;
    let bad = || corrupt("scheduled message", seq);
    let (key, partition): (Option<String>, String) = (row.get(1)?, row.get(6)?);
    let trace = row.get::<_, Option<Vec<u8>>>(4)?.map(|trace| Uuid::from_slice(&trace));
    let id = MessageId(uuid(row, 2, "scheduled message")?);
    let payload = s.encryption.decrypt(id, Bytes::from(row.get::<_, Vec<u8>>(10)?));
    Ok(ScheduledMessage {
        seq,
        key: key.map(TimerKey::new).transpose().map_err(bad())?,
        id,
        transaction_id: transaction_id(row, 3)?,
        trace_id: trace.transpose().map_err(corrupt("scheduled message", seq))?,
        producer: row.get(5)?,
        partition: PartitionName::new(partition).map_err(bad())?,
        partition_id: PartitionId(row.get(7)?),
        scheduled_at: Timestamp(row.get(8)?),
        deliver_at: Timestamp(row.get(9)?),
        payload: payload.map_err(corrupt("scheduled message", seq))?,
    })
}

fn uuid(row: &Row<'_>, column: usize, what: &'static str) -> Res<Uuid> {
    let bytes: Vec<u8> = row.get(column)?;
    Uuid::from_slice(&bytes).map_err(corrupt(what, format!("{bytes:02x?}")))
}

fn transaction_id(row: &Row<'_>, column: usize) -> Res<TransactionId> {
    let text: String = row.get(column)?;
    TransactionId::new(&text).map_err(corrupt("scheduled message", text))
}
