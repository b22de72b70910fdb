//! Background work in limited parts: pending fan-outs, jobs, expired payloads, rows of deleted
//! applications and endpoints, and expired idempotency keys and jobs.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::Timestamp;
use wakeline_store::hook::{ExpireMessages, ExpiredMessages, ExpiryPosition, HookBackgroundReport};

use super::cache::number;
use super::{application, endpoint, fan_out, job, lane, sql};
use crate::error::Res;
use crate::session::DbSession;

/// How long finished jobs are kept.
const JOB_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Creates deliveries of pending fan-outs, and does a part of the other work, each on up to `rows`
/// rows.
pub(super) fn work(s: &mut DbSession<'_>, rows: u32) -> Res<HookBackgroundReport> {
    let most = rows.max(1);
    let (fanned, mut changes) = fan_out::continue_next(s, most as usize)?;
    if let Some(endpoint) = number(s, sql!("background_cancelling"), [])? {
        let rows = endpoint::cancel_some(s, endpoint, i64::from(most))?.unsigned_abs();
        return Ok(HookBackgroundReport { rows: fanned + rows, next_due: next_due(s)?, changes });
    }
    let (rows, more) = match job::oldest(s)? {
        Some(work) => job::run_some(s, work, most as usize)?,
        None => (tidy(s, i64::from(most))?, Vec::new()),
    };
    changes.extend(more);
    let changes = lane::merged(changes);
    Ok(HookBackgroundReport { rows: fanned + rows, next_due: next_due(s)?, changes })
}

/// Answers from a snapshot, if no work is due.
pub(super) fn peek(s: &mut DbSession<'_>) -> Res<Option<HookBackgroundReport>> {
    let due = due(s)?;
    let idle = due.is_none_or(|due| due > s.now.0);
    let next_due = due.map(|due| s.now.until(Timestamp(due)));
    Ok(idle.then(|| HookBackgroundReport { next_due, ..HookBackgroundReport::default() }))
}

fn next_due(s: &DbSession<'_>) -> Res<Option<Duration>> {
    Ok(due(s)?.map(|due| s.now.until(Timestamp(due))))
}

/// When work is due, possibly in the past.
pub(super) fn due(s: &DbSession<'_>) -> Res<Option<i64>> {
    let busy = number(s, sql!("background_running"), [])?
        .or(number(s, sql!("background_fan_out"), [])?)
        .or(number(s, sql!("background_cancelling"), [])?);
    if busy.is_some() || number(s, sql!("background_deleted"), [])?.is_some() {
        return Ok(Some(s.now.0));
    }
    let payload = number(s, sql!("payload_first"), [])?;
    let key = number(s, sql!("background_key"), [])?;
    let job = number(s, sql!("background_job"), [])?.map(|at| Timestamp(at).plus(JOB_KEPT).0);
    Ok(payload.into_iter().chain(key).chain(job).min())
}

fn tidy(s: &mut DbSession<'_>, most: i64) -> Res<u64> {
    let dropped = drop_payloads(s, most)?;
    if dropped > 0 {
        return Ok(dropped);
    }
    if let Some(application) = number(s, sql!("background_deleted"), [])? {
        // The call that deleted it may have been interrupted.
        return if application::stop_some(s, application)? {
            Ok(most.unsigned_abs())
        } else {
            clear(s, application, most)
        };
    }
    let keys = s.conn.prepare_cached(sql!("background_keys"))?.execute((s.now.0, most))?;
    let kept = i64::try_from(JOB_KEPT.as_micros()).unwrap_or(i64::MAX);
    let left = most - i64::try_from(keys).unwrap_or(most);
    let jobs = s.conn.prepare_cached(sql!("background_jobs"))?.execute((s.now.0 - kept, left))?;
    Ok((keys + jobs) as u64)
}

/// Removes expired payloads, and returns their number. Payloads of deleted applications are removed
/// but not counted, because no request can find them any more.
fn drop_payloads(s: &DbSession<'_>, most: i64) -> Res<u64> {
    let mut statement = s.conn.prepare_cached(sql!("background_payloads"))?;
    let found: Vec<(i64, bool)> = statement
        .query_map((s.now.0, most), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut remove = s.conn.prepare_cached(sql!("payload_remove"))?;
    for (message, _) in &found {
        remove.execute([message])?;
    }
    Ok(found.iter().filter(|(_, there)| *there).count() as u64)
}

/// Removes some rows of a deleted application, and the application itself with the last of them.
fn clear(s: &DbSession<'_>, application: i64, most: i64) -> Res<u64> {
    let mut removed_sum = 0;
    for (first, sql) in [
        (None, sql!("clear_filters")),
        (None, sql!("clear_attempts")),
        (None, sql!("clear_deliveries")),
        (Some(sql!("clear_payloads")), sql!("clear_messages")),
        (Some(sql!("clear_secrets")), sql!("clear_lanes")),
    ] {
        let rows = (application, most - removed_sum);
        if let Some(first) = first {
            s.conn.prepare_cached(first)?.execute(rows)?;
        }
        let removed = s.conn.prepare_cached(sql)?.execute(rows)?;
        removed_sum += i64::try_from(removed).unwrap_or(most);
        if removed_sum >= most {
            break;
        }
    }
    forget_if_empty(s, application)?;
    Ok(removed_sum.unsigned_abs())
}

/// Removes a deleted application of which no other rows are left.
pub(super) fn forget_if_empty(s: &DbSession<'_>, application: i64) -> Res<()> {
    if number(s, sql!("clear_left"), [application])?.is_none() {
        s.conn.prepare_cached(sql!("clear_endpoints"))?.execute([application])?;
        s.conn.prepare_cached(sql!("clear_application"))?.execute([application])?;
    }
    Ok(())
}

/// Removes old messages with their deliveries and attempts.
pub(super) fn expire(s: &DbSession<'_>, command: &ExpireMessages) -> Res<ExpiredMessages> {
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
            let remove = |sql| Res::Ok(s.conn.prepare_cached(sql)?.execute((message, left))?);
            let attempts = remove(sql!("expire_attempts"))?;
            left -= i64::try_from(attempts).unwrap_or(left);
            let remove = |sql| Res::Ok(s.conn.prepare_cached(sql)?.execute((message, left))?);
            let deliveries = remove(sql!("expire_deliveries"))?;
            left -= i64::try_from(deliveries).unwrap_or(left);
            expired.attempts += attempts as u64;
            expired.deliveries += deliveries as u64;
            if left <= 0 {
                // The next call continues with this message.
                return Ok(expired);
            }
            s.conn.prepare_cached(sql!("expire_message"))?.execute([message])?;
            expired.messages += 1;
            left -= 1;
        }
        let id = Uuid::from_u128(u128::from(message.unsigned_abs()));
        expired.next = Some(ExpiryPosition { at: Timestamp(created_at), id });
    }
    expired.next = expired.next.filter(|_| !whole || left <= 0);
    Ok(expired)
}

/// The message's number in the position of a pass.
fn message_no(id: Uuid) -> i64 {
    i64::try_from(id.as_u128()).unwrap_or(i64::MAX)
}
