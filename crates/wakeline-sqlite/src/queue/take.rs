//! What a claim may take from one cursor: the numbered rules of `docs/reference/queue.md`.

use wakeline_core::MessageOrder;
use wakeline_store::{Delivered, Losses};

use super::cursor::{ParkedMessage, QueueCursor, RetryState, window_end};
use super::ledger::{self, UnsettledOutcome};
use super::message;
use super::skip::count;
use crate::error::Res;
use crate::session::{DbSession, QueueRow};

/// The error text of a message whose lease expired.
const LEASE_EXPIRED: &str = "lease expired";

/// The messages that were taken from a cursor.
#[derive(Debug, Default)]
pub(crate) struct TakenMessages {
    /// Ordered by offset.
    pub(crate) messages: Vec<Delivered>,
    /// Total size of the payloads.
    pub(crate) bytes: u64,
    /// The cursor's next offset after the messages were taken.
    pub(crate) next: i64,
}

impl TakenMessages {
    fn add(&mut self, message: Delivered) {
        self.bytes += message.payload.len() as u64;
        self.messages.push(message);
    }
}

/// A batch that is being taken from a cursor.
struct CursorBatch {
    /// What the request could take before this cursor.
    capacity: BatchCapacity,
    taken: TakenMessages,
}

impl CursorBatch {
    /// Whether one more message may be taken.
    fn has_capacity(&self) -> bool {
        self.capacity.is_left(self.taken.messages.len(), self.taken.bytes)
    }
}

/// How much a request can still take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchCapacity {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
}

impl BatchCapacity {
    /// Whether one more message fits after the given number of messages and bytes.
    pub(crate) fn is_left(self, messages: usize, bytes: u64) -> bool {
        messages < self.messages && (bytes < self.bytes || messages == 0)
    }

    /// Subtracts what was taken. If no bytes are left, nothing is taken from other partitions.
    pub(crate) fn use_up(&mut self, taken: &TakenMessages) {
        self.messages -= taken.messages.len();
        self.bytes = self.bytes.saturating_sub(taken.bytes);
        if self.bytes == 0 {
            self.messages = 0;
        }
    }
}

/// Rule 2: ends an expired lease. The caller writes the cursor.
pub(crate) fn end_expired_lease(
    s: &DbSession<'_>,
    cursor: &mut QueueCursor,
    queue: &QueueRow,
) -> Res<()> {
    let Some(lease) = cursor.lease.as_ref().filter(|lease| lease.until <= s.now.0) else {
        return Ok(());
    };
    let (until, offsets) = (lease.until, lease.unsettled.iter().collect::<Vec<_>>());
    let several = offsets.len() > 1;
    for offset in offsets {
        let retry = cursor.retry_state(s, offset)?;
        let retry = RetryState {
            failures: retry.failures.saturating_add(1),
            alone: retry.alone || several,
            error: Some(LEASE_EXPIRED.to_owned()),
        };
        let spent = !several && queue.options.is_spent(retry.failures);
        match (spent, queue.options.dead_letters) {
            (false, _) => cursor.park(s, offset, &ParkedMessage { retry, due_at: s.now.0 })?,
            (true, true) => cursor.bury(s, offset, &retry)?,
            (true, false) => {
                cursor.unpark(s, offset)?;
                cursor.dropped = Some(offset);
                count(s, queue, Losses { dropped: 1, ..Losses::default() })?;
            }
        }
    }
    ledger::record_lease_end(s, cursor, queue, UnsettledOutcome::Expired)?;
    cursor.lease = None;
    cursor.freed_at = until;
    Ok(())
}

/// Rules 3 to 5: reads the messages that can be taken now. Writes nothing.
pub(crate) fn take(
    s: &DbSession<'_>,
    cursor: &QueueCursor,
    queue: &QueueRow,
    capacity: BatchCapacity,
) -> Res<TakenMessages> {
    let taken = TakenMessages { next: cursor.next, ..TakenMessages::default() };
    let mut batch = CursorBatch { capacity, taken };
    let may_read_log = cursor.parked == 0 || take_parked(s, cursor, queue, &mut batch)?;
    if may_read_log && batch.has_capacity() && cursor.next < cursor.tail {
        take_log(s, cursor, queue, &mut batch)?;
    }
    let mut taken = batch.taken;
    if queue.options.ordering == MessageOrder::Relaxed {
        taken.messages.sort_by_key(|message| message.offset);
    }
    Ok(taken)
}

/// Rule 4: takes parked messages. Returns whether messages of the log may follow.
fn take_parked(
    s: &DbSession<'_>,
    cursor: &QueueCursor,
    queue: &QueueRow,
    batch: &mut CursorBatch,
) -> Res<bool> {
    let sql = match queue.options.ordering {
        MessageOrder::Strict => include_str!("../../sql/queries/retry_in_order.sql"),
        MessageOrder::Relaxed => include_str!("../../sql/queries/retry_due.sql"),
    };
    let mut statement = s.conn.prepare_cached(sql)?;
    let limit = i64::try_from(batch.capacity.messages).unwrap_or(i64::MAX);
    let mut rows = statement.query((cursor.partition, cursor.group, s.now.0, limit))?;
    while let Some(row) = rows.next()? {
        let (offset, failures, due_at, alone): (i64, u32, i64, bool) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        let after_others = alone && !batch.taken.messages.is_empty();
        if due_at > s.now.0 || after_others || !batch.has_capacity() {
            return Ok(false);
        }
        batch.taken.add(message::read(s, cursor.partition, offset, failures)?);
        if alone {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Rules 3 and 5: takes messages from the log.
fn take_log(
    s: &DbSession<'_>,
    cursor: &QueueCursor,
    queue: &QueueRow,
    batch: &mut CursorBatch,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/message_from.sql");
    let left = batch.capacity.messages - batch.taken.messages.len();
    let limit = i64::try_from(left).unwrap_or(i64::MAX);
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((cursor.partition, cursor.next, limit))?;
    let (delay, window, mut first) = (queue.delay_micros(), queue.window_micros(), true);
    while let Some(row) = rows.next()? {
        let created_at: i64 = row.get(5)?;
        let closed =
            first && window > 0 && { window_end(queue, created_at, cursor.last_push_at) > s.now.0 };
        if closed || created_at + delay > s.now.0 || !batch.has_capacity() {
            break;
        }
        first = false;
        let message = message::decode(s, row, cursor.partition, 0)?;
        batch.taken.next = message.offset + 1;
        batch.taken.add(message);
    }
    batch.taken.next = cursor.after_gap(s, batch.taken.next)?;
    Ok(())
}
