//! Time limits: messages that a group must not get any more are skipped and counted.

use wakeline_core::Timestamp;
use wakeline_store::Losses;

use super::cursor::{QueueCursor, created_at};
use super::group::first_since;
use crate::error::Res;
use crate::session::{DbSession, QueueRow};

/// Skips the messages that the cursor's group must not get any more. The caller writes the cursor.
/// A leased cursor is left unchanged.
pub(crate) fn skip_old(
    s: &DbSession<'_>,
    cursor: &mut QueueCursor,
    queue: &QueueRow,
) -> Res<Losses> {
    let mut lost = Losses::default();
    if cursor.lease.is_some() || !queue.skips_old_messages() {
        return Ok(lost);
    }
    if cursor.parked > 0 {
        lost = skip_old_parked(s, cursor, queue)?;
    }
    lost.add(skip_old_unread(s, cursor, queue)?);
    count(s, queue, lost)?;
    Ok(lost)
}

fn skip_old_parked(s: &DbSession<'_>, cursor: &mut QueueCursor, queue: &QueueRow) -> Res<Losses> {
    let sql = include_str!("../../sql/queries/retry_all.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let parked: Vec<(i64, i64)> = statement
        .query_map((cursor.partition, cursor.group), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut lost = Losses::default();
    for (offset, due_at) in parked {
        let Some(created_at) = created_at(s, cursor.partition, offset)? else { continue };
        let loss = queue.options.loss(Timestamp(created_at), Timestamp(due_at), s.now);
        if loss.is_some() {
            cursor.unpark(s, offset)?;
            lost.count(loss);
        }
    }
    Ok(lost)
}

/// Skips unread messages. Push times ascend with offsets, so the messages past their time limit are
/// at the beginning of the unread ones, and the same limit applied to all of them first.
fn skip_old_unread(s: &DbSession<'_>, cursor: &mut QueueCursor, queue: &QueueRow) -> Res<Losses> {
    let mut lost = Losses::default();
    if cursor.next >= cursor.tail {
        return Ok(lost);
    }
    let Some(head) = created_at(s, cursor.partition, cursor.next)? else { return Ok(lost) };
    let options = &queue.options;
    let delay = std::time::Duration::from_secs(options.delay_secs.into());
    let loss = options.loss(Timestamp(head), Timestamp(head).plus(delay), s.now);
    if loss.is_none() {
        return Ok(lost);
    }
    let wait = options.wait_max().map(|wait| wait + delay);
    let Some(span) = options.ttl().into_iter().chain(wait).min() else { return Ok(lost) };
    let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    let alive = s.now.0.saturating_sub(micros).saturating_add(1);
    let next = first_since(s, cursor.partition, cursor.tail, alive)?.max(cursor.next);
    let passed = cursor.distance(s, next)?.unsigned_abs();
    match loss {
        Some(wakeline_core::Loss::Evicted) => lost.evicted = passed,
        _ => lost.expired = passed,
    }
    cursor.next = next;
    Ok(lost)
}

/// Adds to the counts of messages that a queue's groups have lost.
pub(crate) fn count(s: &DbSession<'_>, queue: &QueueRow, lost: Losses) -> Res<()> {
    if !lost.is_none() {
        let sql = include_str!("../../sql/queries/housekeeping_lost.sql");
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let (expired, evicted) = (number(lost.expired), number(lost.evicted));
        let params = (queue.id, expired, evicted, number(lost.dropped));
        s.conn.prepare_cached(sql)?.execute(params)?;
    }
    Ok(())
}
