//! What a claim may take of one cursor: the numbered rules of `docs/reference/queue.md`.

use wakeline_core::MessageOrder;
use wakeline_store::{Delivered, Losses};

use super::cursor::{Cursor, Held, Parked, window_end};
use super::ledger::{self, Rest};
use super::message;
use super::pass::count;
use crate::error::Res;
use crate::session::{Queue, Session};

/// The error of a message whose lease ran out.
const LEASE_EXPIRED: &str = "lease expired";

/// What was taken: at least one message, unless it was nothing.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// In order of offset.
    pub(crate) messages: Vec<Delivered>,
    /// Their bytes of payload.
    pub(crate) bytes: u64,
    /// The cursor's next offset afterwards.
    pub(crate) next: i64,
}

impl Taken {
    /// Whether one more may be taken.
    fn leaves(&self, room: Room) -> bool {
        room.is_left(self.messages.len(), self.bytes)
    }

    fn add(&mut self, message: Delivered) {
        self.bytes += message.payload.len() as u64;
        self.messages.push(message);
    }
}

/// How much a request still takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
}

impl Room {
    /// Whether it takes one more, after so much.
    pub(crate) fn is_left(self, messages: usize, bytes: u64) -> bool {
        messages < self.messages && (bytes < self.bytes || messages == 0)
    }

    /// Some of it was taken. Who has all its bytes takes nothing of another partition.
    pub(crate) fn use_up(&mut self, taken: &Taken) {
        self.messages -= taken.messages.len();
        self.bytes = self.bytes.saturating_sub(taken.bytes);
        if self.bytes == 0 {
            self.messages = 0;
        }
    }
}

/// Rule 2: ends a lease that ran out. The cursor is still to be written.
pub(crate) fn end_expired_lease(s: &Session<'_>, cursor: &mut Cursor, queue: &Queue) -> Res<()> {
    let Some(lease) = cursor.lease.as_ref().filter(|lease| lease.until <= s.now.0) else {
        return Ok(());
    };
    let (until, offsets) = (lease.until, lease.unsettled.iter().collect::<Vec<_>>());
    let several = offsets.len() > 1;
    for offset in offsets {
        let held = cursor.held(s, offset)?;
        let held = Held {
            failures: held.failures.saturating_add(1),
            alone: held.alone || several,
            error: Some(LEASE_EXPIRED.to_owned()),
        };
        let spent = !several && queue.options.is_spent(held.failures);
        match (spent, queue.options.dead_letters) {
            (false, _) => cursor.park(s, offset, &Parked { held, due_at: s.now.0 })?,
            (true, true) => cursor.bury(s, offset, &held)?,
            (true, false) => {
                cursor.unpark(s, offset)?;
                cursor.dropped = Some(offset);
                count(s, queue, Losses { dropped: 1, ..Losses::default() })?;
            }
        }
    }
    ledger::note(s, cursor, queue, Rest::Expired)?;
    cursor.lease = None;
    cursor.freed_at = until;
    Ok(())
}

/// Rules 3 to 5: what can be taken now. Changes nothing.
pub(crate) fn take(s: &Session<'_>, cursor: &Cursor, queue: &Queue, room: Room) -> Res<Taken> {
    let mut taken = Taken { next: cursor.next, ..Taken::default() };
    let goes_on = cursor.parked == 0 || take_parked(s, cursor, queue, (room, &mut taken))?;
    if goes_on && taken.leaves(room) && cursor.next < cursor.tail {
        take_log(s, cursor, queue, (room, &mut taken))?;
    }
    if queue.options.ordering == MessageOrder::Relaxed {
        taken.messages.sort_by_key(|message| message.offset);
    }
    Ok(taken)
}

/// Rule 4. Tells whether the log may follow.
fn take_parked(
    s: &Session<'_>,
    cursor: &Cursor,
    queue: &Queue,
    (room, taken): (Room, &mut Taken),
) -> Res<bool> {
    let sql = match queue.options.ordering {
        MessageOrder::Strict => include_str!("../../sql/queries/retry_in_order.sql"),
        MessageOrder::Relaxed => include_str!("../../sql/queries/retry_due.sql"),
    };
    let mut statement = s.conn.prepare_cached(sql)?;
    let limit = i64::try_from(room.messages).unwrap_or(i64::MAX);
    let mut rows = statement.query((cursor.partition, cursor.group, s.now.0, limit))?;
    while let Some(row) = rows.next()? {
        let (offset, failures, due_at, alone): (i64, u32, i64, bool) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        if due_at > s.now.0 || (alone && !taken.messages.is_empty()) || !taken.leaves(room) {
            return Ok(false);
        }
        taken.add(message::read(s, cursor.partition, offset, failures)?);
        if alone {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Rules 3 and 5.
fn take_log(
    s: &Session<'_>,
    cursor: &Cursor,
    queue: &Queue,
    (room, taken): (Room, &mut Taken),
) -> Res<()> {
    let sql = include_str!("../../sql/queries/message_from.sql");
    let limit = i64::try_from(room.messages - taken.messages.len()).unwrap_or(i64::MAX);
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((cursor.partition, cursor.next, limit))?;
    let (delay, window, mut first) = (queue.delay_micros(), queue.window_micros(), true);
    while let Some(row) = rows.next()? {
        let created_at: i64 = row.get(5)?;
        let closed =
            first && window > 0 && { window_end(queue, created_at, cursor.last_push_at) > s.now.0 };
        if closed || created_at + delay > s.now.0 || !taken.leaves(room) {
            break;
        }
        first = false;
        let message = message::decode(s, row, cursor.partition, 0)?;
        taken.next = message.offset + 1;
        taken.add(message);
    }
    taken.next = cursor.beyond(s, taken.next)?;
    Ok(())
}
