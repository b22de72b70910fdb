//! Stores messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::OptionalExtension as _;
use uuid::Uuid;
use wakeline_core::{Change, MessageId, MessageOrder, PartitionId, PartitionName, Timestamp};
use wakeline_store::{PayloadEncryptionError, PushGate, PushItem, PushOutcome, PushReply};

use super::group::{ensure_partition, ensure_queue};
use super::schedule::{self, ScheduledLookup};
use crate::error::{Res, StoreFault, corrupt};
use crate::session::{DbSession, QueueRow, micros};

/// Approximate size of a message on disk without its payload.
const MESSAGE_BYTES: usize = 200;

/// The end of a partition's log while messages are added to it.
pub(super) struct Tail {
    queue: Arc<QueueRow>,
    /// The next offset before this push.
    first: i64,
    pub(super) next: i64,
    pub(super) last_push_at: i64,
}

impl Tail {
    pub(super) fn open(s: &DbSession<'_>, queue: &Arc<QueueRow>, partition: i64) -> Res<Self> {
        let sql = include_str!("../../sql/queries/partition_tail.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let (next, last_push_at): (i64, i64) =
            statement.query_row([partition], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let last_push_at = Timestamp(last_push_at).max(s.now).0;
        Ok(Self { queue: Arc::clone(queue), first: next, next, last_push_at })
    }

    /// The hint for the pushed messages.
    fn change(&self, partition: &PartitionName) -> Change {
        let options = &self.queue.options;
        let wait = Duration::from_secs(options.delay_secs.max(options.window_secs).into());
        Change { partition: Some(partition.clone()), ..self.queue.change(wait) }
    }
}

/// Approximate size of a push on disk.
pub(crate) fn bytes(items: &[PushItem]) -> usize {
    items.iter().map(item_bytes).sum()
}

/// Approximate size of a message on disk.
pub(super) fn item_bytes(item: &PushItem) -> usize {
    MESSAGE_BYTES + item.payload.len()
}

/// Stores messages in order. Missing queues and partitions are created.
pub(crate) fn push(s: &mut DbSession<'_>, items: &[PushItem]) -> Res<PushReply> {
    admit(s, items.is_empty())?;
    push_own(s, items)
}

/// Stores messages that the server itself pushes, which are never refused.
pub(crate) fn push_own(s: &mut DbSession<'_>, items: &[PushItem]) -> Res<PushReply> {
    store(s, items, true)
}

/// Refuses pushes of producers if maintenance mode refuses pushes.
pub(super) fn admit(s: &DbSession<'_>, nothing: bool) -> Res<()> {
    match s.maintenance()?.pushes {
        PushGate::Refuse if !nothing => Err(StoreFault::Maintenance),
        _ => Ok(()),
    }
}

/// Creates the partitions of messages and moves due scheduled messages into their logs, before the
/// other parts of a transaction run.
pub(super) fn prepare_partitions(s: &mut DbSession<'_>, items: &[PushItem]) -> Res<()> {
    let mut last = None;
    for item in items {
        let queue = ensure_queue(s, &item.queue)?;
        let partition = ensure_partition(s, &queue, &item.partition)?;
        if queue.scheduled && last != Some(partition) {
            schedule::move_due_in(s, &queue, partition)?;
        }
        last = Some(partition);
    }
    Ok(())
}

/// Stores messages in order. If `moving`, due scheduled messages of their partitions are moved into
/// the logs first.
pub(super) fn store(s: &mut DbSession<'_>, items: &[PushItem], moving: bool) -> Res<PushReply> {
    if s.maintenance()?.pushes != PushGate::Open {
        return hold(s, items);
    }
    let mut tails: HashMap<i64, Tail> = HashMap::new();
    let mut order = Vec::new();
    let mut outcomes = Vec::with_capacity(items.len());
    for item in items {
        let queue = ensure_queue(s, &item.queue)?;
        let partition = ensure_partition(s, &queue, &item.partition)?;
        if moving && queue.scheduled && !tails.contains_key(&partition) {
            schedule::move_due_in(s, &queue, partition)?;
        }
        let transaction_id = &item.transaction_id;
        let lookup = ScheduledLookup { partition, transaction_id, except: None };
        let known = match repeated(s, &queue, partition, item)? {
            Some(id) => Some(id),
            None => schedule::scheduled_duplicate(s, &queue, &lookup)?,
        };
        if let Some(id) = known {
            let partition = PartitionId(partition);
            outcomes.push(PushOutcome::Duplicate { id, partition });
            continue;
        }
        let tail = match tails.entry(partition) {
            std::collections::hash_map::Entry::Occupied(tail) => tail.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                order.push((partition, item.partition.clone()));
                place.insert(Tail::open(s, &queue, partition)?)
            }
        };
        append(s, partition, tail, item)?;
        outcomes.push(PushOutcome::Queued { id: item.id, partition: PartitionId(partition) });
    }
    let mut changes = Vec::with_capacity(order.len());
    for (partition, name) in order {
        let tail = tails.remove(&partition).expect("each was put there once");
        finish(s, partition, &tail)?;
        changes.push(tail.change(&name));
    }
    s.hint(&changes);
    Ok(PushReply { outcomes, changes })
}

/// Stores messages that are held until maintenance ends, in order. They advance the partition's
/// time of the last push, so that they sort before messages that are pushed later.
fn hold(s: &mut DbSession<'_>, items: &[PushItem]) -> Res<PushReply> {
    let mut reply = PushReply::default();
    for item in items {
        let queue = schedule::mark_scheduled(s, &item.queue)?;
        let place = ensure_partition(s, &queue, &item.partition)?;
        let partition = PartitionId(place);
        let transaction_id = &item.transaction_id;
        let lookup = ScheduledLookup { partition: place, transaction_id, except: None };
        let known = match repeated(s, &queue, place, item)? {
            Some(id) => Some(id),
            None => schedule::scheduled_duplicate(s, &queue, &lookup)?,
        };
        if let Some(id) = known {
            reply.outcomes.push(PushOutcome::Duplicate { id, partition });
            continue;
        }
        let tail = Tail::open(s, &queue, place)?;
        let encrypted = encrypted_payload(s, &queue, item)?;
        let sql = include_str!("../../sql/queries/scheduled_hold.sql");
        s.conn.prepare_cached(sql)?.execute((
            queue.id,
            place,
            tail.last_push_at,
            item.id.0.as_bytes(),
            item.transaction_id.as_str(),
            item.trace_id.map(Uuid::into_bytes),
            &item.producer,
            encrypted.as_deref().unwrap_or(&item.payload),
        ))?;
        let sql = include_str!("../../sql/queries/partition_advance.sql");
        s.conn.prepare_cached(sql)?.execute((place, tail.next, tail.last_push_at))?;
        reply.outcomes.push(PushOutcome::Held { id: item.id, partition });
        let change = tail.change(&item.partition);
        reply.changes.extend((!reply.changes.contains(&change)).then_some(change));
    }
    s.hint(&reply.changes);
    Ok(reply)
}

/// The first message with the same transaction id within the queue's dedup window.
pub(super) fn repeated(
    s: &DbSession<'_>,
    queue: &QueueRow,
    partition: i64,
    item: &PushItem,
) -> Res<Option<MessageId>> {
    if item.transaction_id.names_message(item.id) {
        return Ok(None);
    }
    let since = s.now.0 - micros(queue.options.dedup_window_secs);
    let sql = include_str!("../../sql/queries/message_repeated.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (partition, item.transaction_id.as_str(), since);
    let id: Option<Vec<u8>> = statement.query_row(params, |row| row.get(0)).optional()?;
    let place = format_args!("{partition}/{}", item.transaction_id).to_string();
    id.map(|id| Uuid::from_slice(&id).map(MessageId).map_err(corrupt("message", place))).transpose()
}

/// The encrypted payload, or `None` if the queue is not encrypted.
pub(super) fn encrypted_payload(
    s: &DbSession<'_>,
    queue: &QueueRow,
    item: &PushItem,
) -> Res<Option<Vec<u8>>> {
    if !queue.options.encrypted {
        return Ok(None);
    }
    let encrypted = s.encryption.encrypt(item.id, &item.payload).map_err(|error| match error {
        PayloadEncryptionError::NoKeys => StoreFault::NoKeys,
        PayloadEncryptionError::Encryption(error) => corrupt("message", item.id)(error),
    })?;
    Ok(Some(encrypted))
}

fn append(s: &DbSession<'_>, partition: i64, tail: &mut Tail, item: &PushItem) -> Res<()> {
    let encrypted = encrypted_payload(s, &tail.queue, item)?;
    let sql = include_str!("../../sql/queries/message_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        partition,
        tail.next,
        item.id.0.as_bytes(),
        item.transaction_id.as_str(),
        item.trace_id.map(Uuid::into_bytes),
        &item.producer,
        tail.last_push_at,
        encrypted.as_deref().unwrap_or(&item.payload),
    ))?;
    tail.next += 1;
    Ok(())
}

/// Moves the end of the partition's log, and makes the cursors due that had read up to the old end.
pub(super) fn finish(s: &DbSession<'_>, partition: i64, tail: &Tail) -> Res<()> {
    let sql = include_str!("../../sql/queries/partition_advance.sql");
    s.conn.prepare_cached(sql)?.execute((partition, tail.next, tail.last_push_at))?;
    let queue = &tail.queue;
    let due = tail.last_push_at + queue.delay_micros().max(queue.window_micros());
    let relaxed = queue.options.ordering == MessageOrder::Relaxed;
    let sql = include_str!("../../sql/queries/cursor_make_due.sql");
    s.conn.prepare_cached(sql)?.execute((partition, tail.first, due, relaxed))?;
    Ok(())
}
