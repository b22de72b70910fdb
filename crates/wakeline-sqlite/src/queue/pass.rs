//! The limits of time: what a group is not to get any more is passed over, and counted.

use wakeline_core::Timestamp;
use wakeline_store::Losses;

use super::cursor::{Cursor, created_at};
use super::group::first_since;
use crate::error::Res;
use crate::session::{Queue, Session};

/// Passes over what the cursor's group is not to get any more. The cursor is still to be written;
/// one that holds a lease is left as it is.
pub(crate) fn pass_over(s: &Session<'_>, cursor: &mut Cursor, queue: &Queue) -> Res<Losses> {
    let mut lost = Losses::default();
    if cursor.lease.is_some() || !queue.passes_over() {
        return Ok(lost);
    }
    if cursor.parked > 0 {
        lost = pass_parked(s, cursor, queue)?;
    }
    lost.add(pass_log(s, cursor, queue)?);
    count(s, queue, lost)?;
    Ok(lost)
}

fn pass_parked(s: &Session<'_>, cursor: &mut Cursor, queue: &Queue) -> Res<Losses> {
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

/// Times ascend with offsets, so what is past its time is the beginning of what is unread; and
/// all of it met the same limit first.
fn pass_log(s: &Session<'_>, cursor: &mut Cursor, queue: &Queue) -> Res<Losses> {
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
    let next = first_since(s, cursor.partition, (cursor.tail, alive))?.max(cursor.next);
    let passed = cursor.distance(s, next)?.unsigned_abs();
    match loss {
        Some(wakeline_core::Loss::Evicted) => lost.evicted = passed,
        _ => lost.expired = passed,
    }
    cursor.next = next;
    Ok(lost)
}

/// Counts what was lost of a queue.
pub(crate) fn count(s: &Session<'_>, queue: &Queue, lost: Losses) -> Res<()> {
    if !lost.is_none() {
        let sql = include_str!("../../sql/queries/housekeeping_lost.sql");
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let (expired, evicted) = (number(lost.expired), number(lost.evicted));
        let params = (queue.id, expired, evicted, number(lost.dropped));
        s.conn.prepare_cached(sql)?.execute(params)?;
    }
    Ok(())
}
