//! Background work, a piece at a time: deliveries that wait to be made, jobs, payloads that expire,
//! what deleted applications left, and what is past its time.

use std::time::Duration;

use wakeline_core::Timestamp;
use wakeline_store::hook::ChoreReport;

use super::known::number;
use super::{fan_out, job, lane, sql};
use crate::error::Res;
use crate::session::Session;

/// How long finished jobs are kept.
const JOB_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Makes deliveries that wait to be made, and does a piece of other work, each on so many rows at
/// most.
pub(super) fn work(s: &mut Session<'_>, rows: u32) -> Res<ChoreReport> {
    let most = rows.max(1);
    let (fanned, mut changes) = fan_out::go_on(s, most as usize)?;
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
    let busy = number(s, sql!("chore_running"), [])?.or(number(s, sql!("chore_fan_out"), [])?);
    if busy.is_some() || number(s, sql!("chore_deleted"), [])?.is_some() {
        return Ok(Some(s.now.0));
    }
    let payload = number(s, sql!("payload_first"), [])?;
    let key = number(s, sql!("chore_key"), [])?;
    let job = number(s, sql!("chore_job"), [])?.map(|at| Timestamp(at).plus(JOB_KEPT).0);
    Ok(payload.into_iter().chain(key).chain(job).min())
}

fn tidy(s: &Session<'_>, most: i64) -> Res<u64> {
    let dropped = drop_payloads(s, most)?;
    if dropped > 0 {
        return Ok(dropped);
    }
    if let Some(application) = number(s, sql!("chore_deleted"), [])? {
        return clear(s, application, most);
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
