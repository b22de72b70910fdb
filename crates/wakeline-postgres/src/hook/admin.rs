//! `HookAdmin` on PostgreSQL: administrative commands, jobs and background work. Each calls one SQL
//! function.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointRef, HookChange, HookChangeKind,
    JobId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    DeliveryFilter, DeliveryJob, ExpireMessages, ExpiredMessages, ExpiryPosition, HookAdmin,
    HookBackgroundReport, JobKind, JobSpec, JobState, ResendOutcome,
};

use super::HookCore;
use super::catalog::vanished;
use super::read::{STATES, names};
use super::wire::{self, change, count, merge, micros, moment_if};
use crate::PostgresStore;
use crate::access::Act;
use crate::rows::{self, Columns};

const RESEND: &str = "resend";
const CANCEL: &str = "cancel";
const EXPUNGE: &str = "expunge";
const JOB: &str = "job";
const BACKGROUND: &str = "webhook maintenance";

fn kind_code(kind: JobKind) -> i16 {
    match kind {
        JobKind::Recover => 0,
        JobKind::ReplayMissing => 1,
        JobKind::Resend => 2,
        JobKind::Cancel => 3,
    }
}

/// Returns whether a job was created: then its row has an id.
fn job_made(rows: &[Row]) -> bool {
    rows.first().is_some_and(|row| row.try_get::<_, Option<Uuid>>(0).is_ok_and(|id| id.is_some()))
}

fn job(row: &Row) -> Result<DeliveryJob, StoreError> {
    let mut columns = Columns::new(JOB, row);
    let (id, application) = (JobId(columns.take()?), ApplicationId(columns.take()?));
    let kind = match columns.take::<i16>()? {
        0 => JobKind::Recover,
        1 => JobKind::ReplayMissing,
        2 => JobKind::Resend,
        _ => JobKind::Cancel,
    };
    let filter = DeliveryFilter {
        endpoint: columns.take::<Option<Uuid>>()?.map(EndpointId),
        event_types: wire::texts("event type", columns.take()?)?,
        since: moment_if(&mut columns)?,
        until: moment_if(&mut columns)?,
        states: {
            let codes: Vec<i16> = columns.take()?;
            let state = |code: i16| usize::try_from(code).ok().and_then(|code| STATES.get(code));
            codes.into_iter().filter_map(state).copied().collect()
        },
    };
    Ok(DeliveryJob {
        spec: JobSpec { id, kind, filter },
        application,
        seen: count(columns.take()?),
        changed: count(columns.take()?),
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
        state: if columns.take()? { JobState::Finished } else { JobState::Running },
    })
}

#[async_trait]
impl HookAdmin for PostgresStore {
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError> {
        let core = &self.hook.core;
        let (app, app_uid) = wire::application(application);
        let ((message, event), (id, own)) = (wire::message(message), wire::endpoint(endpoint));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &message, &event, &id, &own];
        let rows = core.act(RESEND, &core.sql.resend, params, Act::coded).await?;
        let Some(row) = rows.first() else { return Ok((ResendOutcome::Missing, Vec::new())) };
        let mut columns = Columns::new(RESEND, row);
        let outcome = match columns.take::<i16>()? {
            0 => ResendOutcome::Due,
            1 => ResendOutcome::InFlight,
            2 => ResendOutcome::Missing,
            3 => ResendOutcome::Expired,
            _ => ResendOutcome::Disabled,
        };
        if outcome != ResendOutcome::Due {
            return Ok((outcome, Vec::new()));
        }
        let changes = vec![change(columns.take()?, columns.take()?, 0)];
        core.notify(&changes);
        Ok((outcome, changes))
    }

    async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<(u64, Vec<HookChange>)>, StoreError> {
        let core = &self.hook.core;
        let (app, app_uid) = wire::application(application);
        let (message, event) = wire::message(message);
        let (id, own) = endpoint.map_or((None, None), wire::endpoint);
        let all = endpoint.is_none();
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &message, &event, &all, &id, &own];
        let rows = core.act(CANCEL, &core.sql.cancel, params, Act::counted).await?;
        let (mut cancelled, mut changes) = (None, Vec::new());
        for row in &rows {
            let mut columns = Columns::new(CANCEL, row);
            match columns.take::<Option<i64>>()? {
                Some(number) => cancelled = Some(count(number)),
                None => {
                    let (endpoint, pull): (Uuid, bool) = (columns.take()?, columns.take()?);
                    merge(&mut changes, wire::change(endpoint, pull, columns.take()?));
                }
            }
        }
        core.notify(&changes);
        Ok(cancelled.map(|cancelled| (cancelled, changes)))
    }

    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError> {
        let core = &self.hook.core;
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::message(message));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &id, &own];
        let sql = &core.sql.expunge_payload;
        let rows = core.act(EXPUNGE, sql, params, Act::any).await?;
        Ok(!rows.is_empty())
    }

    async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, StoreError> {
        let core = &self.hook.core;
        let ((app, app_uid), (id, own)) = (wire::application(application), wire::message(message));
        let params: &[&(dyn ToSql + Sync)] = &[&app, &app_uid, &id, &own, &attempt.0];
        let sql = &core.sql.expunge_response;
        let rows = core.act(EXPUNGE, sql, params, Act::any).await?;
        Ok(!rows.is_empty())
    }

    async fn start_job(
        &self,
        application: &ApplicationRef,
        spec: JobSpec,
    ) -> Result<Option<(DeliveryJob, Vec<HookChange>)>, StoreError> {
        let core = &self.hook.core;
        let (app, app_uid) = wire::application(application);
        let filter = &spec.filter;
        let code = |state| STATES.iter().position(|known| known == state);
        let states: Vec<i16> = (filter.states.iter().filter_map(code))
            .map(|place| i16::try_from(place).expect("a few states"))
            .collect();
        let params: &[&(dyn ToSql + Sync)] = &[
            &app,
            &app_uid,
            &spec.id.0,
            &kind_code(spec.kind),
            &filter.endpoint.map(|endpoint| endpoint.0),
            &names(&filter.event_types),
            &filter.since.map(rows::system_time),
            &filter.until.map(rows::system_time),
            &states,
        ];
        let rows = core.act(JOB, &core.sql.job_start, params, job_made).await?;
        let made = rows.first().map(|row| Columns::new(JOB, row).take::<Option<Uuid>>());
        if made.transpose()?.flatten().is_none() {
            return Ok(None);
        }
        let changes = vec![HookChange::now(HookChangeKind::Background)];
        core.notify(&changes);
        let job = self.job(spec.id).await.map_err(StoreError::after_write)?;
        let job = job.ok_or_else(|| vanished(JOB))?;
        Ok(Some((job, changes)))
    }

    async fn job(&self, id: JobId) -> Result<Option<DeliveryJob>, StoreError> {
        let core = &self.hook.core;
        let rows = core.general(JOB, &core.sql.job, &[&id.0]).await?;
        rows.first().map(job).transpose()
    }

    async fn run_background(&self, rows: u32) -> Result<HookBackgroundReport, StoreError> {
        let core = &self.hook.core;
        let most = i32::try_from(rows.clamp(1, 100_000)).expect("it was clamped");
        // Each continues if the other one fails.
        let fanned = core.fan_out(most).await;
        let mut report = core.run_other_background(most).await?;
        let fanned = fanned?;
        report.rows += fanned.rows;
        report.next_due = fanned.next_due.or(report.next_due);
        for change in fanned.changes {
            merge(&mut report.changes, change);
        }
        Ok(report)
    }

    async fn expire_messages(
        &self,
        command: ExpireMessages,
    ) -> Result<ExpiredMessages, StoreError> {
        const EXPIRE: &str = "expire messages";
        let core = &self.hook.core;
        let keep = micros(command.older_than);
        let after = command.after.unwrap_or(ExpiryPosition { at: Timestamp(0), id: Uuid::nil() });
        let most = i32::try_from(command.rows.clamp(1, 100_000)).expect("it was clamped");
        let params: &[&(dyn ToSql + Sync)] =
            &[&keep, &rows::system_time(after.at), &after.id, &most];
        let rows = core.general(EXPIRE, &core.sql.expire, params).await?;
        let Some(row) = rows.first() else { return Ok(ExpiredMessages::default()) };
        let mut columns = Columns::new(EXPIRE, row);
        let [messages, deliveries, attempts] =
            [count(columns.take()?), count(columns.take()?), count(columns.take()?)];
        let at: Option<SystemTime> = columns.take()?;
        let id: Option<Uuid> = columns.take()?;
        let place = |(at, id)| ExpiryPosition { at: rows::timestamp(at), id };
        Ok(ExpiredMessages { messages, deliveries, attempts, next: at.zip(id).map(place) })
    }
}

impl HookCore {
    /// Creates a batch of the deliveries that emits have left for background work.
    async fn fan_out(&self, most: i32) -> Result<HookBackgroundReport, StoreError> {
        let after = *self.fan_out_after.lock();
        let mut report = HookBackgroundReport::default();
        for row in &self.general(BACKGROUND, &self.sql.fan_out, &[&after, &most]).await? {
            let mut columns = Columns::new(BACKGROUND, row);
            let kind: i16 = columns.take()?;
            let (done, more): (Option<i64>, Option<bool>) = (columns.take()?, columns.take()?);
            let id: Option<Uuid> = columns.take()?;
            if kind == 0 {
                *self.fan_out_after.lock() = id;
                report.rows = count(done.unwrap_or(0));
                // Messages that another node is processing are checked again with the other
                // background work.
                let goes_on = report.rows > 0 && more.unwrap_or(false);
                report.next_due = goes_on.then_some(Duration::ZERO);
            } else if let Some(endpoint) = id {
                merge(&mut report.changes, change(endpoint, columns.take()?, 0));
            }
        }
        self.notify(&report.changes);
        Ok(report)
    }

    async fn run_other_background(&self, most: i32) -> Result<HookBackgroundReport, StoreError> {
        let mut report = HookBackgroundReport::default();
        for row in &self.general(BACKGROUND, &self.sql.background, &[&most]).await? {
            let mut columns = Columns::new(BACKGROUND, row);
            let kind: i16 = columns.take()?;
            let done: Option<i64> = columns.take()?;
            let due: Option<i64> = columns.take()?;
            if kind == 0 {
                report.rows = count(done.unwrap_or(0));
                report.next_due = due.map(rows::span);
                continue;
            }
            let (endpoint, pull) = (columns.take()?, columns.take()?);
            merge(&mut report.changes, change(endpoint, pull, due.unwrap_or(0)));
        }
        self.notify(&report.changes);
        Ok(report)
    }
}
