//! A cursor: how far one group has read one partition, and what it has leased.
//!
//! # Invariants
//! * While leased, `due_at` is the lease's end; otherwise it may be too early, but never too late.
//! * Offsets of a lease at or after its start come from the log and have no row in `retries`.
//!   Offsets before it were parked and still have their row.

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{GroupName, LeaseToken, MessageOrder, PartitionName};

use super::ledger::{self, LeaseOutcomes};
use super::offsets::Offsets;
use crate::error::{Res, StoreFault, corrupt};
use crate::session::{DbSession, QueueRow};

/// A cursor with the columns of its partition that it needs.
#[derive(Debug)]
pub(crate) struct QueueCursor {
    pub(crate) partition: i64,
    pub(crate) group: i64,
    pub(crate) next: i64,
    pub(crate) due_at: Option<i64>,
    pub(crate) freed_at: i64,
    pub(crate) parked: i64,
    pub(crate) lease: Option<CursorLease>,
    pub(crate) queue: i64,
    pub(crate) partition_name: PartitionName,
    /// The offset that the partition's next message gets.
    pub(crate) tail: i64,
    pub(crate) last_push_at: i64,
    /// Number of messages ahead of it that were deleted, when it was read.
    pub(crate) gaps: i64,
    /// When messages were last taken, and by which worker.
    pub(crate) taken_at: Option<i64>,
    pub(crate) taken_by: Option<String>,
    /// The offset of a message that was dropped when its expired lease was ended, if any.
    pub(crate) dropped: Option<i64>,
}

/// The lease of a cursor.
#[derive(Debug)]
pub(crate) struct CursorLease {
    pub(crate) token: LeaseToken,
    pub(crate) until: i64,
    /// The cursor's next offset before this lease.
    pub(crate) start: i64,
    pub(crate) unsettled: Offsets,
    /// The leased offsets and their outcomes so far.
    pub(crate) outcomes: LeaseOutcomes,
}

/// What `retries` stores about a message that failed before.
#[derive(Debug, Default)]
pub(crate) struct RetryState {
    pub(crate) failures: u32,
    pub(crate) alone: bool,
    pub(crate) error: Option<String>,
}

impl QueueCursor {
    /// Reads a cursor by its ids.
    pub(crate) fn read(s: &DbSession<'_>, partition: i64, group: i64) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/cursor_read.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((partition, group))?;
        rows.next()?.map(decode).transpose()
    }

    /// Reads a cursor by its partition and its group's name.
    pub(crate) fn named(s: &DbSession<'_>, partition: i64, group: &GroupName) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/cursor_by_name.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((partition, group.as_str()))?;
        rows.next()?.map(decode).transpose()
    }

    /// The lease, if it has not expired.
    pub(crate) fn live(&self, now: i64) -> Option<&CursorLease> {
        self.lease.as_ref().filter(|lease| lease.until > now)
    }

    /// Writes all columns that may have changed.
    pub(crate) fn write(&self, s: &DbSession<'_>) -> Res<()> {
        let sql = include_str!("../../sql/queries/cursor_write.sql");
        let lease = self.lease.as_ref();
        let [all, failed, expired, released] =
            lease.map(CursorLease::outcome_texts).unwrap_or_default();
        s.conn.prepare_cached(sql)?.execute((
            self.partition,
            self.group,
            self.next,
            self.due_at,
            self.freed_at,
            self.parked,
            lease.map(|lease| lease.token.0.into_bytes()),
            lease.map(|lease| lease.until),
            lease.map(|lease| lease.start),
            lease.map(|lease| lease.unsettled.to_string()),
            self.taken_at,
            &self.taken_by,
            all,
            failed,
            expired,
            released,
        ))?;
        Ok(())
    }

    /// Writes the columns that settling changes while the lease goes on. No index contains them.
    pub(crate) fn write_unsettled(&self, s: &DbSession<'_>) -> Res<()> {
        let sql = include_str!("../../sql/queries/cursor_write_unsettled.sql");
        let lease = self.lease.as_ref();
        let unsettled = lease.map(|lease| lease.unsettled.to_string());
        let failed = lease.and_then(|lease| lease.outcomes.failed.text());
        let released = lease.and_then(|lease| lease.outcomes.released.text());
        let params = (self.partition, self.group, self.parked, unsettled, failed, released);
        s.conn.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    /// The exact time, past or future, from which on something can be taken, unless something
    /// changes before.
    pub(crate) fn due(&self, s: &DbSession<'_>, queue: &QueueRow) -> Res<Option<i64>> {
        if let Some(lease) = &self.lease {
            return Ok(Some(lease.until));
        }
        let due = match queue.options.ordering {
            MessageOrder::Strict if self.parked > 0 => self.first_parked(s, queue)?,
            MessageOrder::Strict => self.log_due(s, queue)?,
            MessageOrder::Relaxed => {
                let parked = if self.parked > 0 { self.soonest_parked(s)? } else { None };
                parked.into_iter().chain(self.log_due(s, queue)?).min()
            }
        };
        Ok(due.map(|due| due.max(self.freed_at)))
    }

    /// When reading the log can continue: the delay of its head has passed and the window is open.
    fn log_due(&self, s: &DbSession<'_>, queue: &QueueRow) -> Res<Option<i64>> {
        if self.next >= self.tail {
            return Ok(None);
        }
        let (delay, window) = (queue.delay_micros(), queue.window_micros());
        if delay == 0 && window == 0 && self.freed_at >= self.last_push_at {
            // The head is no younger than the last push: no need to read it.
            return Ok(Some(self.freed_at));
        }
        let head = created_at(s, self.partition, self.next)?;
        Ok(head.map(|head| (head + delay).max(window_end(queue, head, self.last_push_at))))
    }

    /// The lowest parked offset, including offsets that are leased again.
    pub(crate) fn lowest_parked(&self, s: &DbSession<'_>) -> Res<Option<i64>> {
        self.of_parked(s, include_str!("../../sql/queries/retry_lowest.sql"))
    }

    /// When the first parked message stops blocking the partition: it is due, or past its ttl.
    fn first_parked(&self, s: &DbSession<'_>, queue: &QueueRow) -> Res<Option<i64>> {
        let due = self.of_parked(s, include_str!("../../sql/queries/retry_first.sql"))?;
        let Some(ttl) = queue.options.ttl() else { return Ok(due) };
        let created_at = match self.lowest_parked(s)? {
            Some(offset) => created_at(s, self.partition, offset)?,
            None => None,
        };
        let expires = created_at.map(|at| wakeline_core::Timestamp(at).plus(ttl).0);
        Ok(due.into_iter().chain(expires).min())
    }

    fn soonest_parked(&self, s: &DbSession<'_>) -> Res<Option<i64>> {
        self.of_parked(s, include_str!("../../sql/queries/retry_soonest.sql"))
    }

    fn of_parked(&self, s: &DbSession<'_>, sql: &str) -> Res<Option<i64>> {
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((self.partition, self.group))?;
        Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
    }

    /// The stored retry state of a leased message.
    pub(crate) fn retry_state(&self, s: &DbSession<'_>, offset: i64) -> Res<RetryState> {
        if self.lease.as_ref().is_none_or(|lease| offset >= lease.start) {
            return Ok(RetryState::default());
        }
        let sql = include_str!("../../sql/queries/retry_read.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query((self.partition, self.group, offset))?;
        match rows.next()? {
            Some(row) => {
                Ok(RetryState { failures: row.get(0)?, alone: row.get(1)?, error: row.get(2)? })
            }
            None => Ok(RetryState::default()),
        }
    }

    /// Parks a leased message, or updates its row if it was parked before.
    pub(crate) fn park(
        &mut self,
        s: &DbSession<'_>,
        offset: i64,
        parked: &ParkedMessage,
    ) -> Res<()> {
        let new = self.lease.as_ref().is_some_and(|lease| offset >= lease.start);
        self.write_parked(s, offset, parked)?;
        self.parked += i64::from(new);
        Ok(())
    }

    fn write_parked(&self, s: &DbSession<'_>, offset: i64, parked: &ParkedMessage) -> Res<()> {
        let sql = include_str!("../../sql/queries/retry_park.sql");
        let ParkedMessage { retry, due_at } = parked;
        s.conn.prepare_cached(sql)?.execute((
            self.partition,
            self.group,
            offset,
            retry.failures,
            due_at,
            retry.alone,
            &retry.error,
        ))?;
        Ok(())
    }

    /// Whether the group has yet to settle a message: it is unread, parked or leased.
    pub(crate) fn has_ahead(&self, s: &DbSession<'_>, offset: i64) -> Res<bool> {
        if offset >= self.next {
            return Ok(true);
        }
        if self.lease.as_ref().is_some_and(|lease| lease.unsettled.contains(offset)) {
            return Ok(true);
        }
        let sql = include_str!("../../sql/queries/retry_read.sql");
        Ok(self.parked > 0
            && s.conn.prepare_cached(sql)?.exists((self.partition, self.group, offset))?)
    }

    /// Parks a message that was already settled.
    pub(crate) fn park_again(
        &mut self,
        s: &DbSession<'_>,
        offset: i64,
        parked: &ParkedMessage,
    ) -> Res<()> {
        self.write_parked(s, offset, parked)?;
        self.parked += 1;
        Ok(())
    }

    /// Removes the parked row of a message that is settled.
    pub(crate) fn unpark(&mut self, s: &DbSession<'_>, offset: i64) -> Res<()> {
        let sql = include_str!("../../sql/queries/retry_remove.sql");
        let gone = s.conn.prepare_cached(sql)?.execute((self.partition, self.group, offset))?;
        self.parked -= i64::try_from(gone).expect("one row at most");
        Ok(())
    }

    /// Copies a message to the dead letters and removes its parked row.
    pub(crate) fn bury(&mut self, s: &DbSession<'_>, offset: i64, retry: &RetryState) -> Res<()> {
        let sql = include_str!("../../sql/queries/dead_letter_add.sql");
        let added = s.conn.prepare_cached(sql)?.execute((
            self.partition,
            offset,
            self.group,
            retry.failures,
            &retry.error,
            s.now.0,
        ))?;
        if added == 0 {
            let id = format!("{}/{offset}", self.partition);
            return Err(corrupt("message", id)("it is missing from its partition"));
        }
        self.unpark(s, offset)
    }

    /// The cursor's name in error messages.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.partition, self.group)
    }
}

/// A message as one group of its queue sees it.
#[derive(Clone, Copy)]
pub(crate) struct MessageInGroup<'a> {
    pub(crate) group: &'a GroupName,
    /// The group's cursor in the message's partition.
    pub(crate) cursor: &'a QueueCursor,
    pub(crate) offset: i64,
}

/// A message that is to be delivered again.
pub(crate) struct ParkedMessage {
    pub(crate) retry: RetryState,
    pub(crate) due_at: i64,
}

/// When the window of a log opens: the producer has paused for one window, or the head of the log
/// has reached the maximum age.
pub(crate) fn window_end(queue: &QueueRow, head: i64, last_push_at: i64) -> i64 {
    let window = queue.window_micros();
    let age_max = window * i64::from(wakeline_core::QueueOptions::WINDOW_AGE_MAX);
    (last_push_at + window).min(head + age_max)
}

/// When the first message at or after an offset was pushed.
pub(crate) fn created_at(s: &DbSession<'_>, partition: i64, offset: i64) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/message_created.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, offset))?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
}

fn decode(row: &Row<'_>) -> Res<QueueCursor> {
    let (partition, group): (i64, i64) = (row.get(0)?, row.get(1)?);
    let name = || format!("{partition}/{group}");
    let partition_name: String = row.get(11)?;
    Ok(QueueCursor {
        partition,
        group,
        next: row.get(2)?,
        due_at: row.get(3)?,
        freed_at: row.get(4)?,
        parked: row.get(5)?,
        lease: decode_lease(row)?,
        queue: row.get(10)?,
        partition_name: PartitionName::new(partition_name).map_err(corrupt("cursor", name()))?,
        tail: row.get(12)?,
        last_push_at: row.get(13)?,
        gaps: row.get(20)?,
        taken_at: row.get(14)?,
        taken_by: row.get(15)?,
        dropped: None,
    })
}

fn decode_lease(row: &Row<'_>) -> Res<Option<CursorLease>> {
    let Some(token) = row.get_ref(6)?.as_blob_or_null().map_err(rusqlite::Error::from)? else {
        return Ok(None);
    };
    let name = || -> Result<String, StoreFault> {
        Ok(format!("{}/{}", row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    };
    let token = match Uuid::from_slice(token) {
        Ok(token) => LeaseToken(token),
        Err(error) => return Err(corrupt("cursor", name()?)(error)),
    };
    let (until, start) = (row.get(7)?, row.get(8)?);
    let unsettled = match row.get_ref(9)?.as_str().map_err(rusqlite::Error::from)?.parse() {
        Ok(unsettled) => unsettled,
        Err(error) => {
            let error: super::offsets::OffsetsError = error;
            return Err(corrupt("cursor", name()?)(error));
        }
    };
    let outcomes = ledger::read_outcomes(row, 16, row.get(0)?)?;
    Ok(Some(CursorLease { token, until, start, unsettled, outcomes }))
}
