//! Housekeeping: a piece per call, in the order in which queues are due.
//!
//! # Invariants
//! * A cursor never stands before the first message that is stored, and nothing is parked or
//!   leased that is not: who removes messages takes the cursors along, in the same transaction.
//! * Nothing goes that is leased, or whose transaction id still has to be recognised.

use std::time::Duration;

use rusqlite::OptionalExtension as _;
use wakeline_core::{Change, PartitionName, QueueName, Timestamp};
use wakeline_store::{Housekeeping, HousekeepingReport, Losses};

use super::cursor::{Cursor, created_at};
use super::gap;
use super::group::first_since;
use super::idle;
use super::ledger;
use super::pass::{count, pass_over};
use super::take::end_expired_lease;
use crate::admin::stats;
use crate::error::{Res, corrupt};
use crate::session::{Queue, Session, micros};

/// Most partitions that one call looks at.
const PARTITIONS_MAX: i64 = 500;
/// A queue is not looked through more often than ten times in its shortest limit, or hourly.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// How far the look through a queue has come.
struct Look {
    queue: i64,
    due_at: i64,
    after: i64,
    next_at: Option<i64>,
}

/// What was done in one partition.
struct Kept {
    removed: u64,
    more: bool,
    changed: bool,
    /// When the oldest message that is left was pushed.
    oldest_at: Option<i64>,
}

/// Does a piece of housekeeping.
pub(crate) fn housekeep(s: &mut Session<'_>, how: Housekeeping) -> Res<HousekeepingReport> {
    let mut report = HousekeepingReport::default();
    if how.anew {
        let sql = include_str!("../../sql/queries/housekeeping_anew.sql");
        s.conn.prepare_cached(sql)?.execute([s.now.0])?;
    }
    if let Some(look) = first(s)?.filter(|look| look.due_at <= s.now.0) {
        go_on(s, look, how, &mut report)?;
    }
    report.losses = tell_losses(s)?;
    let figures = how.stats_keep.map(|keep| stats::forget(s, keep, how.rows_max.max(1)));
    let more = ledger::forget(s, how)? | figures.transpose()?.unwrap_or(false);
    report.next_due = match more {
        true => Some(Duration::ZERO),
        false => next_due(s, how)?,
    };
    s.hint(&report.changes);
    Ok(report)
}

/// Answers from a snapshot, if nothing is due.
pub(crate) fn peek(s: &mut Session<'_>, how: Housekeeping) -> Res<Option<HousekeepingReport>> {
    let first = first(s)?;
    let due = first.as_ref().is_some_and(|look| look.due_at <= s.now.0);
    let forgets = ledger::first_due(s)?.is_some_and(|due_at| due_at <= s.now.0);
    let old = how.stats_keep.map(|keep| stats::has_old(s, keep)).transpose()?;
    if how.anew || due || forgets || old == Some(true) || !untold(s)?.is_empty() {
        return Ok(None);
    }
    let next_due = next_due(s, how)?;
    Ok(Some(HousekeepingReport { next_due, ..HousekeepingReport::default() }))
}

/// When to call again: entries of the ledger are not forgotten one by one.
fn next_due(s: &Session<'_>, how: Housekeeping) -> Res<Option<Duration>> {
    let look = first(s)?.map(|look| look.due_at);
    let pause = s.now.plus(how.interval).0;
    let forgets = ledger::first_due(s)?.map(|due_at| due_at.max(pause));
    let next = look.into_iter().chain(forgets).min();
    Ok(next.map(|due_at| s.now.until(Timestamp(due_at))))
}

/// What the groups of a queue have lost.
pub(crate) fn losses(s: &mut Session<'_>, name: &QueueName) -> Res<Losses> {
    let Some(queue) = s.queue(name)? else { return Ok(Losses::default()) };
    let sql = include_str!("../../sql/queries/housekeeping_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement.query_row([queue.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let found = found.optional()?;
    Ok(found.map(lost).unwrap_or_default())
}

/// Has a queue looked through from now on, or never.
pub(crate) fn schedule(s: &Session<'_>, queue: &Queue) -> Res<()> {
    let due_at = queue.options.has_time_limits().then_some(s.now.0);
    let sql = include_str!("../../sql/queries/housekeeping_set.sql");
    s.conn.prepare_cached(sql)?.execute((queue.id, due_at))?;
    Ok(())
}

fn lost((expired, evicted, dropped): (i64, i64, i64)) -> Losses {
    Losses {
        expired: expired.unsigned_abs(),
        evicted: evicted.unsigned_abs(),
        dropped: dropped.unsigned_abs(),
    }
}

fn first(s: &Session<'_>) -> Res<Option<Look>> {
    let sql = include_str!("../../sql/queries/housekeeping_first.sql");
    let look = s.conn.prepare_cached(sql)?.query_row([], |row| {
        Ok(Look {
            queue: row.get(0)?,
            due_at: row.get(1)?,
            after: row.get(2)?,
            next_at: row.get(3)?,
        })
    });
    Ok(look.optional()?)
}

fn untold(s: &Session<'_>) -> Res<Vec<(QueueName, Losses)>> {
    let sql = include_str!("../../sql/queries/housekeeping_untold.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let queue = QueueName::new(&*name).map_err(corrupt("queue", &name))?;
        found.push((queue, lost((row.get(1)?, row.get(2)?, row.get(3)?))));
    }
    Ok(found)
}

fn tell_losses(s: &Session<'_>) -> Res<Vec<(QueueName, Losses)>> {
    let losses = untold(s)?;
    if !losses.is_empty() {
        let sql = include_str!("../../sql/queries/housekeeping_told.sql");
        s.conn.prepare_cached(sql)?.execute([])?;
    }
    Ok(losses)
}

/// Looks at more partitions of a queue.
fn go_on(
    s: &mut Session<'_>,
    mut look: Look,
    how: Housekeeping,
    report: &mut HousekeepingReport,
) -> Res<()> {
    let Some(queue) = s.queue_by_id(look.queue)? else { return write(s, &look, None) };
    let Some(shortest) = queue.options.shortest_span() else { return write(s, &look, None) };
    let holding = idle::holding(s, &queue)?;
    let partitions = partitions(s, &look)?;
    let mut left = u64::from(how.rows_max.max(1));
    let mut unfinished = partitions.len() as i64 == PARTITIONS_MAX;
    for (partition, name, tail) in partitions {
        let kept = keep(s, (&queue, &holding), (partition, tail), left)?;
        left = left.saturating_sub(kept.removed);
        report.removed += kept.removed;
        if kept.changed {
            let change = queue.change(Duration::ZERO);
            report.changes.push(Change { partition: Some(name), ..change });
        }
        if !kept.more {
            look.after = partition;
            let next_at = kept.oldest_at.map(|at| Timestamp(at).plus(shortest).0);
            look.next_at = look.next_at.into_iter().chain(next_at).min();
        }
        if kept.more || left == 0 {
            unfinished = true;
            break;
        }
    }
    if unfinished {
        return write(s, &look, Some(look.due_at));
    }
    let pause = how.interval.max((shortest / 10).min(PAUSE_MAX));
    let next_at = look.next_at.unwrap_or(s.now.plus(shortest).0);
    look = Look { after: 0, next_at: None, ..look };
    write(s, &look, Some(next_at.max(s.now.plus(pause).0)))
}

fn write(s: &Session<'_>, look: &Look, due_at: Option<i64>) -> Res<()> {
    let sql = include_str!("../../sql/queries/housekeeping_write.sql");
    s.conn.prepare_cached(sql)?.execute((look.queue, due_at, look.after, look.next_at))?;
    Ok(())
}

fn partitions(s: &Session<'_>, look: &Look) -> Res<Vec<(i64, PartitionName, i64)>> {
    let sql = include_str!("../../sql/queries/partition_after.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((look.queue, look.after, PARTITIONS_MAX))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
        let name = PartitionName::new(name).map_err(corrupt("partition", id))?;
        found.push((id, name, row.get(2)?));
    }
    Ok(found)
}

/// Housekeeping of one partition, unless its oldest message is younger than the shortest limit.
/// `holding`: the groups that hold messages back which they have not settled.
fn keep(
    s: &Session<'_>,
    (queue, holding): (&Queue, &[i64]),
    (partition, tail): (i64, i64),
    rows_max: u64,
) -> Res<Kept> {
    let mut kept = Kept { removed: 0, more: false, changed: false, oldest_at: None };
    kept.oldest_at = created_at(s, partition, 0)?;
    let young =
        |at: i64| queue.options.shortest_span().is_none_or(|span| Timestamp(at).plus(span) > s.now);
    if kept.oldest_at.is_none_or(young) {
        return Ok(kept);
    }
    let mut cursors = Vec::new();
    for group in groups(s, partition)? {
        let Some(mut cursor) = Cursor::read(s, partition, group)? else { continue };
        let ended = cursor.lease.as_ref().is_some_and(|lease| lease.until <= s.now.0);
        end_expired_lease(s, &mut cursor, queue)?;
        let lost = pass_over(s, &mut cursor, queue)?;
        cursors.push((cursor, ended || !lost.is_none()));
    }
    let before = before(s, (queue, holding), partition, &cursors)?;
    let mut cut = first_since(s, partition, (tail, before))?;
    let sql = include_str!("../../sql/queries/message_nth.sql");
    let nth = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let limit = s.conn.prepare_cached(sql)?.query_row((partition, nth), |row| row.get(0));
    if let Some(limit) = limit.optional()?.filter(|limit| *limit < cut) {
        cut = limit;
        kept.more = true;
    }
    let sql = include_str!("../../sql/queries/message_remove.sql");
    kept.removed = s.conn.prepare_cached(sql)?.execute((partition, cut))? as u64;
    if kept.removed > 0 {
        let sql = include_str!("../../sql/queries/trace_remove.sql");
        s.conn.prepare_cached(sql)?.execute((partition, cut))?;
        let mut expired = if cursors.is_empty() { kept.removed } else { 0 };
        for (cursor, touched) in &mut cursors {
            let lost = begin_at(s, cursor, cut)?;
            *touched |= lost > 0;
            expired += lost;
        }
        gap::trim(s, partition, cut)?;
        count(s, queue, Losses { expired, ..Losses::default() })?;
        kept.oldest_at = created_at(s, partition, 0)?;
    }
    for (cursor, _) in cursors.iter_mut().filter(|(_, touched)| *touched) {
        kept.changed = true;
        if cursor.lease.is_none() {
            cursor.freed_at = s.now.0;
        }
        cursor.due_at = cursor.due(s, queue)?;
        cursor.write(s)?;
    }
    Ok(kept)
}

fn groups(s: &Session<'_>, partition: i64) -> Res<Vec<i64>> {
    let sql = include_str!("../../sql/queries/cursor_of_partition.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let rows = statement.query_map([partition], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What was pushed before this moment may go.
fn before(
    s: &Session<'_>,
    (queue, holding): (&Queue, &[i64]),
    partition: i64,
    cursors: &[(Cursor, bool)],
) -> Res<i64> {
    let (mut leased, mut unsettled) = (None, None);
    for (cursor, _) in cursors {
        let held = cursor.lease.as_ref().and_then(|lease| lease.unsettled.bounds());
        let held = held.map(|(first, _)| first);
        let parked = if cursor.parked > 0 { cursor.lowest_parked(s)? } else { None };
        let unread = (cursor.next < cursor.tail).then_some(cursor.next);
        leased = leased.into_iter().chain(held).min();
        let open = parked.into_iter().chain(unread).min();
        let open = open.filter(|_| holding.contains(&cursor.group));
        unsettled = [unsettled, held, open].into_iter().flatten().min();
    }
    let options = &queue.options;
    let known = s.now.0 - micros(options.dedup_window_secs);
    let limit = |age: Option<Duration>, first: Option<i64>| -> Res<Option<i64>> {
        let Some(age) = age else { return Ok(None) };
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let old = s.now.0.saturating_sub(age).saturating_add(1).min(known);
        let first = match first {
            Some(offset) => created_at(s, partition, offset)?,
            None => None,
        };
        Ok(Some(first.map_or(old, |first| old.min(first))))
    };
    let completed = options.completed_removal_age().filter(|_| !cursors.is_empty());
    let limits = [limit(options.removal_age(), leased)?, limit(completed, unsettled)?];
    Ok(limits.into_iter().flatten().max().unwrap_or(i64::MIN))
}

/// Takes a cursor over what is no longer stored. Returns how much of it was unsettled.
fn begin_at(s: &Session<'_>, cursor: &mut Cursor, first: i64) -> Res<u64> {
    let mut parked = 0;
    if cursor.parked > 0 {
        let sql = include_str!("../../sql/queries/retry_remove_below.sql");
        let gone = s.conn.prepare_cached(sql)?.execute((cursor.partition, cursor.group, first))?;
        cursor.parked -= i64::try_from(gone).unwrap_or(i64::MAX);
        parked = gone as u64;
    }
    let unread = cursor.distance(s, first)?.unsigned_abs();
    cursor.next = cursor.next.max(first);
    Ok(parked + unread)
}
