//! Background work, a piece at a time: deliveries that wait to be made, jobs, payloads that expire,
//! what deleted applications left, and what is past its time.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::Timestamp;
use wakeline_store::hook::{ChoreReport, ExpireMessages, ExpiredMessages, MessagePlace};

use super::known::number;
use super::{application, endpoint, fan_out, job, lane, sql};
use crate::error::Res;
use crate::session::Session;

/// How long finished jobs are kept.
const JOB_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Makes deliveries that wait to be made, and does a piece of other work, each on so many rows at
/// most.
pub(super) fn work(s: &mut Session<'_>, rows: u32) -> Res<ChoreReport> {
    let most = rows.max(1);
    let (fanned, mut changes) = fan_out::go_on(s, most as usize)?;
    if let Some(endpoint) = number(s, sql!("chore_cancelling"), [])? {
        let rows = endpoint::cancel_some(s, endpoint, i64::from(most))?.unsigned_abs();
        return Ok(ChoreReport { rows: fanned + rows, next_due: next_due(s)?, changes });
    }
    let (rows, more) = match job::oldest(s)? {
        Some(work) => job::go_on(s, work, most as usize)?,
        None => (tidy(s, i64::from(most))?, Vec::new()),
    };
    changes.extend(more);
    let changes = lane::merged(changes);
    Ok(ChoreReport { rows: fanned + rows, next_due: next_due(s)?, changes })
}

/// Answers from a snapshot, if there is nothing to do.
pub(super) fn peek(s: &mut Session<'_>) -> Res<Option<ChoreReport>> {
    let due = due(s)?;
    let idle = due.is_none_or(|due| due > s.now.0);
    let next_due = due.map(|due| s.now.until(Timestamp(due)));
    Ok(idle.then(|| ChoreReport { next_due, ..ChoreReport::default() }))
}

fn next_due(s: &Session<'_>) -> Res<Option<Duration>> {
    Ok(due(s)?.map(|due| s.now.until(Timestamp(due))))
}

/// When there is something to do; it may have passed.
pub(super) fn due(s: &Session<'_>) -> Res<Option<i64>> {
    let busy = number(s, sql!("chore_running"), [])?
        .or(number(s, sql!("chore_fan_out"), [])?)
        .or(number(s, sql!("chore_cancelling"), [])?);
    if busy.is_some() || number(s, sql!("chore_deleted"), [])?.is_some() {
        return Ok(Some(s.now.0));
    }
    let payload = number(s, sql!("payload_first"), [])?;
    let key = number(s, sql!("chore_key"), [])?;
    let job = number(s, sql!("chore_job"), [])?.map(|at| Timestamp(at).plus(JOB_KEPT).0);
    Ok(payload.into_iter().chain(key).chain(job).min())
}

fn tidy(s: &mut Session<'_>, most: i64) -> Res<u64> {
    let dropped = drop_payloads(s, most)?;
    if dropped > 0 {
        return Ok(dropped);
    }
    if let Some(application) = number(s, sql!("chore_deleted"), [])? {
        // Whoever deleted it may have been interrupted.
        return match application::stop_some(s, application)? {
            true => Ok(most.unsigned_abs()),
            false => clear(s, application, most),
        };
    }
    let keys = s.conn.prepare_cached(sql!("chore_keys"))?.execute((s.now.0, most))?;
    let kept = i64::try_from(JOB_KEPT.as_micros()).unwrap_or(i64::MAX);
    let left = most - i64::try_from(keys).unwrap_or(most);
    let jobs = s.conn.prepare_cached(sql!("chore_jobs"))?.execute((s.now.0 - kept, left))?;
    Ok((keys + jobs) as u64)
}

/// Drops payloads that have expired. Those of deleted applications go along, uncounted: for
/// everybody who asks they are gone already.
fn drop_payloads(s: &Session<'_>, most: i64) -> Res<u64> {
    let mut statement = s.conn.prepare_cached(sql!("chore_payloads"))?;
    let found: Vec<(i64, bool)> = statement
        .query_map((s.now.0, most), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut remove = s.conn.prepare_cached(sql!("payload_remove"))?;
    for (message, _) in &found {
        remove.execute([message])?;
    }
    Ok(found.iter().filter(|(_, there)| *there).count() as u64)
}

/// Removes rows of a deleted application; with the last of them, itself.
fn clear(s: &Session<'_>, application: i64, most: i64) -> Res<u64> {
    let mut gone = 0;
    for (along, sql) in [
        (None, sql!("clear_filters")),
        (None, sql!("clear_attempts")),
        (None, sql!("clear_deliveries")),
        (Some(sql!("clear_payloads")), sql!("clear_messages")),
        (Some(sql!("clear_secrets")), sql!("clear_lanes")),
    ] {
        let rows = (application, most - gone);
        if let Some(along) = along {
            s.conn.prepare_cached(along)?.execute(rows)?;
        }
        let removed = s.conn.prepare_cached(sql)?.execute(rows)?;
        gone += i64::try_from(removed).unwrap_or(most);
        if gone >= most {
            break;
        }
    }
    forget_if_empty(s, application)?;
    Ok(gone.unsigned_abs())
}

/// Removes a deleted application of which nothing is left.
pub(super) fn forget_if_empty(s: &Session<'_>, application: i64) -> Res<()> {
    if number(s, sql!("clear_left"), [application])?.is_none() {
        s.conn.prepare_cached(sql!("clear_endpoints"))?.execute([application])?;
        s.conn.prepare_cached(sql!("clear_application"))?.execute([application])?;
    }
    Ok(())
}

/// Removes old messages with their deliveries and attempts.
pub(super) fn expire(s: &Session<'_>, command: &ExpireMessages) -> Res<ExpiredMessages> {
    let mut left = i64::from(command.rows.max(1));
    let keep = i64::try_from(command.older_than.as_micros()).unwrap_or(i64::MAX);
    let after = command.after.map_or((i64::MIN, 0), |place| (place.at.0, message_no(place.id)));
    let old: Vec<(i64, i64, bool)> = {
        let mut statement = s.conn.prepare_cached(sql!("message_old"))?;
        let params = (s.now.0.saturating_sub(keep), after.0, after.1, left);
        let found =
            statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        found.collect::<Result<_, _>>()?
    };
    let whole = i64::try_from(old.len()).unwrap_or(left) < left;
    let mut expired = ExpiredMessages { next: command.after, ..ExpiredMessages::default() };
    for (message, created_at, over) in old {
        if over {
            let gone = |sql| Res::Ok(s.conn.prepare_cached(sql)?.execute((message, left))?);
            let attempts = gone(sql!("expire_attempts"))?;
            left -= i64::try_from(attempts).unwrap_or(left);
            let gone = |sql| Res::Ok(s.conn.prepare_cached(sql)?.execute((message, left))?);
            let deliveries = gone(sql!("expire_deliveries"))?;
            left -= i64::try_from(deliveries).unwrap_or(left);
            expired.attempts += attempts as u64;
            expired.deliveries += deliveries as u64;
            if left <= 0 {
                // The next piece goes on with it.
                return Ok(expired);
            }
            s.conn.prepare_cached(sql!("expire_message"))?.execute([message])?;
            expired.messages += 1;
            left -= 1;
        }
        let id = Uuid::from_u128(u128::from(message.unsigned_abs()));
        expired.next = Some(MessagePlace { at: Timestamp(created_at), id });
    }
    expired.next = expired.next.filter(|_| !whole || left <= 0);
    Ok(expired)
}

/// The number of a message in the place of a pass.
fn message_no(id: Uuid) -> i64 {
    i64::try_from(id.as_u128()).unwrap_or(i64::MAX)
}
