//! Redrives of dead letters, and the background work of queues that runs them.
//!
//! # Invariants
//! * The transaction that delivers a message again also removes its dead letter and advances the
//!   redrive, so that a redrive that is continued by another process neither loses nor repeats
//!   messages.

use std::time::Duration;

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{
    Change, DeadLetterId, GroupName, MessageId, PartitionName, QueueName, RedriveId, Timestamp,
    TransactionId,
};
use wakeline_store::{
    Consequence, DeadLetter, DeadLetterFilter, PushItem, QueueBackgroundReport, Redrive,
    RedriveJob, RedriveState,
};

use super::dead::DeadLetterQuery;
use crate::error::{Res, corrupt};
use crate::queue::cursor::{ParkedMessage, QueueCursor, RetryState};
use crate::queue::push::push_own;
use crate::session::DbSession;

/// How long ended redrives are kept.
const ENDED_KEPT_MICROS: i64 = 7 * 86_400 * 1_000_000;

/// A redrive as stored in its row.
struct RedriveRow {
    number: i64,
    job: RedriveJob,
    last: i64,
    place: i64,
    due_at: i64,
}

/// Starts a redrive, unless it exists.
pub(super) fn start(s: &mut DbSession<'_>, redrive: &Redrive) -> Res<(RedriveJob, Vec<Change>)> {
    let sql = include_str!("../../sql/queries/redrive_forget.sql");
    s.conn.prepare_cached(sql)?.execute([s.now.0 - ENDED_KEPT_MICROS])?;
    let Redrive { id, filter, to_queue, rate } = redrive;
    let total = match DeadLetterQuery::new(s, filter)? {
        Some(query) => signed(query.count(s)?),
        None => 0,
    };
    let sql = include_str!("../../sql/queries/dead_letter_last.sql");
    let last: i64 = s.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let sql = include_str!("../../sql/queries/redrive_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        id.0.as_bytes(),
        filter.number.map(|number| number.0),
        filter.queue.as_ref().map(QueueName::as_str),
        filter.group.as_ref().map(GroupName::as_str),
        filter.partition.as_ref().map(PartitionName::as_str),
        filter.from.map(|from| from.0),
        filter.to.map(|to| to.0),
        &filter.error,
        to_queue.as_ref().map(QueueName::as_str),
        rate,
        last,
        total,
        s.now.0,
    ))?;
    let changes = vec![Change::of_background(Duration::ZERO)];
    s.hint(&changes);
    let row = find(s, *id)?
        .ok_or_else(|| corrupt("redrive", id)("it was just created, and is missing"))?;
    Ok((row.job, changes))
}

/// Reads a redrive.
pub(super) fn read(s: &DbSession<'_>, id: RedriveId) -> Res<Option<RedriveJob>> {
    Ok(find(s, id)?.map(|row| row.job))
}

/// The result of cancelling a redrive.
pub(super) struct CancelledRedrive {
    pub(super) job: Option<RedriveJob>,
    /// Whether the redrive was running and is cancelled now.
    now: bool,
}

impl Consequence for CancelledRedrive {
    fn changed(&self) -> bool {
        self.now
    }
}

/// Cancels a redrive, if it is running.
pub(super) fn cancel(s: &DbSession<'_>, id: RedriveId) -> Res<CancelledRedrive> {
    let Some(mut row) = find(s, id)? else { return Ok(CancelledRedrive { job: None, now: false }) };
    let now = row.job.state == RedriveState::Running;
    if now {
        row.job.state = RedriveState::Cancelled;
        row.write(s)?;
    }
    Ok(CancelledRedrive { job: read(s, id)?, now })
}

/// When the next redrive is due.
pub(crate) fn next_due(s: &DbSession<'_>) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/redrive_next_due.sql");
    Ok(s.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Runs a limited part of the first redrive that is due.
pub(super) fn run_background(s: &mut DbSession<'_>, rows: u32) -> Res<QueueBackgroundReport> {
    let sql = include_str!("../../sql/queries/redrive_due.sql");
    let due = {
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut found = statement.query([s.now.0])?;
        found.next()?.map(decode).transpose()?
    };
    let mut report = QueueBackgroundReport::default();
    if let Some(mut row) = due {
        (report.rows, report.changes) = run_some(s, &mut row, rows)?;
        s.hint(&report.changes);
    }
    report.next_due = next_due(s)?.map(|due_at| s.now.until(Timestamp(due_at)));
    Ok(report)
}

/// Redrives some dead letters, oldest first. Returns how many were read.
fn run_some(s: &mut DbSession<'_>, row: &mut RedriveRow, rows: u32) -> Res<(u64, Vec<Change>)> {
    let redrive = row.job.redrive.clone();
    let most = redrive.rate.map_or(rows, |rate| (rate / 10).clamp(1, rows.max(1)));
    let (mut letters, mut more) = (Vec::new(), false);
    if let Some(query) = DeadLetterQuery::new(s, &redrive.filter)? {
        letters = query.next(s, row.place, row.last, most + 1)?;
        more = letters.len() > most as usize;
        letters.truncate(most as usize);
    }
    let mut changes = Vec::new();
    for (offset, letter) in &letters {
        row.place = letter.number.0;
        match redrive_one(s, *offset, letter, &redrive)? {
            Some(its_changes) => {
                let sql = include_str!("../../sql/queries/dead_letter_remove.sql");
                s.conn.prepare_cached(sql)?.execute([letter.number.0])?;
                changes.extend(its_changes);
                row.job.done += 1;
            }
            None => row.job.failed += 1,
        }
    }
    let read = letters.len() as u64;
    if !more {
        row.job.state = RedriveState::Finished;
    }
    if let Some(rate) = redrive.rate {
        row.due_at = s.now.plus(Duration::from_secs(read) / rate).0;
    }
    row.write(s)?;
    Ok((read, changes))
}

/// Delivers a message again. Returns hints for its waiters, or `None` if the message or its group
/// no longer exists.
fn redrive_one(
    s: &mut DbSession<'_>,
    offset: i64,
    letter: &DeadLetter,
    redrive: &Redrive,
) -> Res<Option<Vec<Change>>> {
    if let Some(queue) = &redrive.to_queue {
        let id = MessageId::generate();
        let item = PushItem {
            queue: queue.clone(),
            partition: letter.partition.clone(),
            id,
            transaction_id: TransactionId::of_message(id),
            trace_id: letter.trace_id,
            payload: letter.payload.clone(),
            producer: letter.producer.clone(),
        };
        return Ok(Some(push_own(s, &[item])?.changes));
    }
    let Some(mut cursor) = QueueCursor::named(s, letter.partition_id.0, &letter.group)? else {
        return Ok(None);
    };
    if !exists(s, letter.partition_id.0, offset)? {
        return Ok(None);
    }
    if cursor.has_ahead(s, offset)? {
        return Ok(Some(Vec::new()));
    }
    let missing = || corrupt("cursor", cursor.name())("its queue is missing");
    let queue = s.queue_by_id(cursor.queue)?.ok_or_else(missing)?;
    let retry = RetryState { failures: 0, alone: false, error: letter.error.clone() };
    cursor.park_again(s, offset, &ParkedMessage { retry, due_at: s.now.0 })?;
    if cursor.lease.is_some() {
        cursor.write_unsettled(s)?;
        return Ok(Some(Vec::new()));
    }
    cursor.due_at = cursor.due(s, &queue)?;
    cursor.write(s)?;
    let change = cursor.due_at.map(|due_at| Change {
        partition: Some(cursor.partition_name.clone()),
        group: Some(letter.group.clone()),
        ..queue.change(s.now.until(Timestamp(due_at)))
    });
    Ok(Some(change.into_iter().collect()))
}

fn exists(s: &DbSession<'_>, partition: i64, offset: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/message_read.sql");
    Ok(s.conn.prepare_cached(sql)?.exists((partition, offset))?)
}

fn find(s: &DbSession<'_>, id: RedriveId) -> Res<Option<RedriveRow>> {
    let sql = include_str!("../../sql/queries/redrive_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([id.0.as_bytes()])?;
    rows.next()?.map(decode).transpose()
}

impl RedriveRow {
    fn write(&self, s: &DbSession<'_>) -> Res<()> {
        let state = match self.job.state {
            RedriveState::Running => 0,
            RedriveState::Finished => 1,
            RedriveState::Cancelled => 2,
        };
        let (done, failed) = (signed(self.job.done), signed(self.job.failed));
        let sql = include_str!("../../sql/queries/redrive_write.sql");
        let params = (self.number, self.place, done, failed, state, self.due_at, s.now.0);
        s.conn.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }
}

/// Converts a count to the type of its column.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn decode(row: &Row<'_>) -> Res<RedriveRow> {
    let number: i64 = row.get(0)?;
    let broken = || corrupt("redrive", number);
    let id: Vec<u8> = row.get(1)?;
    let texts: [Option<String>; 3] = [row.get(3)?, row.get(4)?, row.get(5)?];
    let [queue, group, partition] = texts;
    let to_queue: Option<String> = row.get(9)?;
    let filter = DeadLetterFilter {
        number: row.get::<_, Option<i64>>(2)?.map(DeadLetterId),
        queue: queue.map(QueueName::new).transpose().map_err(broken())?,
        group: group.map(GroupName::new).transpose().map_err(broken())?,
        partition: partition.map(PartitionName::new).transpose().map_err(broken())?,
        from: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        to: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        error: row.get(8)?,
    };
    let redrive = Redrive {
        id: RedriveId(Uuid::from_slice(&id).map_err(corrupt("redrive", number))?),
        filter,
        to_queue: to_queue.map(QueueName::new).transpose().map_err(broken())?,
        rate: row.get(10)?,
    };
    let state = match row.get::<_, i64>(16)? {
        0 => RedriveState::Running,
        1 => RedriveState::Finished,
        2 => RedriveState::Cancelled,
        _ => return Err(corrupt("redrive", number)("its state is not known to this release")),
    };
    let job = RedriveJob {
        redrive,
        state,
        total: row.get::<_, i64>(13)?.unsigned_abs(),
        done: row.get::<_, i64>(14)?.unsigned_abs(),
        failed: row.get::<_, i64>(15)?.unsigned_abs(),
        created_at: Timestamp(row.get(18)?),
        updated_at: Timestamp(row.get(19)?),
    };
    Ok(RedriveRow { number, job, last: row.get(11)?, place: row.get(12)?, due_at: row.get(17)? })
}
