//! The log of attempts.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{AttemptId, EndpointId, HookMessageId, Timestamp};
use wakeline_store::hook::{Attempt, AttemptOutcome, AttemptRecord, DeliveryVerdict, Trigger};

use super::cache::{EndpointConfig, number, uuid};
use super::delivery::{DeliveryLease, DeliveryRow};
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// An attempt that has ended: its delivery, its lease, and the endpoint.
pub(super) struct EndedAttempt<'a> {
    pub(super) delivery: &'a DeliveryRow,
    pub(super) lease: &'a DeliveryLease,
    pub(super) config: &'a EndpointConfig,
}

/// Logs an attempt whose outcome was reported.
pub(super) fn log(
    s: &DbSession<'_>,
    attempt: &EndedAttempt<'_>,
    record: &AttemptRecord,
    verdict: DeliveryVerdict,
) -> Res<()> {
    let EndedAttempt { delivery, lease, config } = attempt;
    let outcome = match verdict {
        DeliveryVerdict::Delivered => AttemptOutcome::Succeeded,
        DeliveryVerdict::Retry(_) | DeliveryVerdict::Failed => AttemptOutcome::Failed,
    };
    s.conn.prepare_cached(sql!("attempt_add"))?.execute((
        config.application,
        lease.key.0.into_bytes(),
        delivery.endpoint,
        delivery.message,
        delivery.attempt_no(),
        outcome_text(outcome),
        delivery.trigger() == Trigger::Manual,
        s.now.0.saturating_sub(micros(record.began_ago)),
        micros(record.took),
        record.status,
        Some(&record.response[..]),
        &record.error,
        &record.url,
    ))?;
    Ok(())
}

/// Logs an attempt whose lease expired, so that its outcome is unknown.
pub(super) fn log_unknown(s: &DbSession<'_>, attempt: &EndedAttempt<'_>) -> Res<()> {
    let EndedAttempt { delivery, lease, config } = attempt;
    s.conn.prepare_cached(sql!("attempt_add"))?.execute((
        config.application,
        lease.key.0.into_bytes(),
        delivery.endpoint,
        delivery.message,
        delivery.attempt_no(),
        outcome_text(AttemptOutcome::Unknown),
        delivery.trigger() == Trigger::Manual,
        lease.at,
        0,
        None::<u16>,
        None::<&[u8]>,
        None::<&str>,
        config.url(),
    ))?;
    Ok(())
}

/// Whether an id is already used by an attempt of an application that has ended or is in flight.
pub(super) fn is_used(s: &DbSession<'_>, application: i64, id: AttemptId) -> Res<bool> {
    Ok(number(s, sql!("attempt_used"), (application, id.0.into_bytes()))?.is_some())
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn outcome_text(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Succeeded => "succeeded",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::Unknown => "unknown",
    }
}

/// Columns: attempt_no, id, message id, endpoint id, number, outcome, manual, began_at, took,
/// status, response, error, url.
pub(super) fn decode(row: &Row<'_>) -> Res<Attempt> {
    let no: i64 = row.get(0)?;
    let outcome: String = row.get(5)?;
    let took: i64 = row.get(8)?;
    Ok(Attempt {
        id: AttemptId(uuid("attempt", row, 1)?),
        message: HookMessageId(uuid("attempt", row, 2)?),
        endpoint: EndpointId(uuid("attempt", row, 3)?),
        attempt_no: row.get(4)?,
        outcome: match outcome.as_str() {
            "succeeded" => AttemptOutcome::Succeeded,
            "failed" => AttemptOutcome::Failed,
            "unknown" => AttemptOutcome::Unknown,
            other => {
                return Err(corrupt("attempt", no)(format!(
                    "{other:?} is not an outcome of an attempt"
                )));
            }
        },
        trigger: if row.get(6)? { Trigger::Manual } else { Trigger::Scheduled },
        began_at: Timestamp(row.get(7)?),
        took: Duration::from_micros(u64::try_from(took).map_err(corrupt("attempt", no))?),
        status: row.get(9)?,
        response: row.get::<_, Option<Vec<u8>>>(10)?.map(Bytes::from),
        error: row.get(11)?,
        url: row.get(12)?,
    })
}
