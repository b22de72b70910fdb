//! Retries of activities after a failed attempt.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Row;
use wakeline_core::{FlowChange, FlowToken, InstanceId, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{AbandonOutcome, PendingWork, WorkKey, WorkRetries};

use super::lane::count;
use super::lease::{self, AbandonOptions};
use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::Res;
use crate::session::DbSession;

fn retry(
    s: &mut DbSession<'_>,
    token: FlowToken,
    delay: Duration,
    error: &str,
) -> Res<(AbandonOutcome, Vec<FlowChange>)> {
    let Some(work) = token.work else { return Ok((AbandonOutcome::Stale, Vec::new())) };
    let given = lease::abandon(s, token, AbandonOptions { delay, uncounted: false })?;
    if given.0 == AbandonOutcome::Abandoned {
        let sql = include_str!("../../sql/queries/flow_work_error.sql");
        s.conn.prepare_cached(sql)?.execute((work, error))?;
    }
    Ok(given)
}

fn pending(s: &DbSession<'_>, instance: &InstanceId, limit: u32) -> Res<Vec<PendingWork>> {
    let sql = include_str!("../../sql/queries/flow_work_pending.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((instance.as_str(), limit))?;
    let mut pending = Vec::new();
    while let Some(row) = rows.next()? {
        pending.push(decode(row, s.now)?);
    }
    Ok(pending)
}

fn decode(row: &Row<'_>, now: Timestamp) -> Res<PendingWork> {
    let leased = row.get::<_, Option<i64>>(3)?.is_some_and(|until| until > now.0);
    let due_at = row.get::<_, Option<i64>>(4)?.map(Timestamp);
    Ok(PendingWork {
        key: WorkKey {
            execution: count("work", row.get(0)?)?,
            activity: count("work", row.get(1)?)?,
        },
        attempts: row.get(2)?,
        leased,
        next_at: due_at.filter(|at| !leased && *at > now),
        last_error: row.get(5)?,
        payload: row.get::<_, Vec<u8>>(6)?.into(),
    })
}

#[async_trait]
impl WorkRetries for SqliteStore {
    async fn retry_work(
        &self,
        token: FlowToken,
        delay: Duration,
        error: String,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        self.write(WriteCommand::new("retry_work", move |s| retry(s, token, delay, &error))).await
    }

    async fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<PendingWork>, StoreError> {
        let instance = instance.clone();
        self.read("pending_work", move |s| pending(s, &instance, limit)).await
    }
}
