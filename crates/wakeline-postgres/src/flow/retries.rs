//! `WorkRetries` on PostgreSQL: activities that are retried.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::{FlowChange, FlowChangeKind, FlowToken, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{AbandonOutcome, PendingWork, WorkKey, WorkRetries};

use super::items::{route, unsigned};
use super::wire::micros;
use crate::PostgresStore;
use crate::rows::{self, Columns};

const RETRY: &str = "retry work";
const PENDING: &str = "pending work";

fn pending(row: &Row) -> Result<PendingWork, StoreError> {
    let mut columns = Columns::new(PENDING, row);
    Ok(PendingWork {
        key: WorkKey { execution: unsigned(columns.take()?), activity: unsigned(columns.take()?) },
        attempts: u32::try_from(columns.take::<i32>()?).unwrap_or(0),
        leased: columns.take()?,
        next_at: columns.take::<Option<SystemTime>>()?.map(rows::timestamp),
        last_error: columns.take()?,
        payload: columns.take::<Vec<u8>>().map(Bytes::from)?,
    })
}

#[async_trait]
impl WorkRetries for PostgresStore {
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let core = &self.flow.core;
        // PostgreSQL cannot store NUL in a text. The retry must not fail because of its error text.
        let error = error.replace('\0', "\u{fffd}");
        let params: &[&(dyn ToSql + Sync)] = &[&token.work, &token.key, &micros(delay), &error];
        let rows = core.general(RETRY, &core.sql.work_retry, params).await?;
        let Some(row) = rows.first() else { return Ok((AbandonOutcome::Stale, Vec::new())) };
        let what = FlowChangeKind::Work(route(&mut Columns::new(RETRY, row))?);
        let changes = vec![FlowChange { what, due_in: delay }];
        core.hints.notify(&core.shared, changes.iter().cloned());
        Ok((AbandonOutcome::Abandoned, changes))
    }

    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError> {
        let core = &self.flow.core;
        let params: &[&(dyn ToSql + Sync)] = &[&instance.as_str(), &i64::from(limit)];
        let rows = core.general(PENDING, &core.sql.work_pending, params).await?;
        rows.iter().map(pending).collect()
    }
}
