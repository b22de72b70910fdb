//! `AccessStore` on PostgreSQL, and the audit entries that administrative writes record.
//!
//! # Where it sits
//! Administrative writes of the queue, workflow and webhook domains go through
//! [`QueueCore::recorded`]; API keys and audit entries are read and written here. None of these
//! calls is hot.
//!
//! # Invariants
//! * An audit entry is recorded in the transaction of the write that it describes, or not at all.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio_postgres::Row;
use wakeline_core::{GroupId, GroupName, PartitionId, QueueName, Scope};
use wakeline_store::{
    AccessStore, ApiKey, AuditAction, AuditEntry, AuditFilter, BoxError, NewKey, SecretDigest,
    StoreError,
};

use crate::PostgresStore;
use crate::connect::{Params, Sql};
use crate::error;
use crate::queue::{QueueCore, ROLLBACKS_MAX};
use crate::rows::{self, Columns};

const KEY: &str = "key";
const AUDIT: &str = "audit";

/// A thousand years, in microseconds: effectively unlimited, and within PostgreSQL's calendar.
const SPAN_MAX: i64 = 1000 * 366 * 86_400 * 1_000_000;

/// Decides from the rows that a statement returned whether it changed something.
pub(crate) type Changed = fn(&[Row]) -> bool;

/// A statement that changes something on behalf of an administrator, and how to see that it did.
pub(crate) struct Act<'a> {
    pub(crate) operation: &'static str,
    pub(crate) sql: &'a Sql,
    pub(crate) params: Params<'a>,
    /// Decides from the returned rows whether something changed.
    pub(crate) changed: Changed,
}

impl Act<'_> {
    /// For statements that only read.
    pub(crate) fn never(_: &[Row]) -> bool {
        false
    }

    /// For statements that return a row for each change.
    pub(crate) fn any(rows: &[Row]) -> bool {
        !rows.is_empty()
    }

    /// For statements whose first column is true if something changed.
    pub(crate) fn said(rows: &[Row]) -> bool {
        rows.first().is_some_and(|row| row.try_get::<_, bool>(0).unwrap_or(false))
    }

    /// For statements whose first column is a status code, where 0 is success.
    pub(crate) fn coded(rows: &[Row]) -> bool {
        rows.first().is_some_and(|row| row.try_get::<_, i16>(0).is_ok_and(|code| code == 0))
    }

    /// For statements whose first column is the number of changes, in one or several rows.
    pub(crate) fn counted(rows: &[Row]) -> bool {
        rows.iter().any(|row| row.try_get::<_, i64>(0).is_ok_and(|count| count > 0))
    }
}

impl QueueCore {
    /// Runs an administrative write, and records the current audit action in the same transaction.
    /// The write is repeated if it was rolled back.
    pub(crate) async fn recorded(&self, act: Act<'_>) -> Result<Vec<Row>, StoreError> {
        let Some(action) = AuditAction::current() else {
            return self.general(act.operation, act.sql, act.params).await;
        };
        let mut tries = 0;
        loop {
            match self.try_recorded(&act, &action).await {
                Err(error) if error::was_rolled_back(&error) && tries < ROLLBACKS_MAX => tries += 1,
                other => return other,
            }
        }
    }

    async fn try_recorded(
        &self,
        act: &Act<'_>,
        action: &AuditAction,
    ) -> Result<Vec<Row>, StoreError> {
        let link = self.shared.links.general.link(act.operation).await?;
        let transaction = link.begin(act.operation).await?;
        let done = async {
            let rows = transaction.query(act.sql, act.params).await?;
            if (act.changed)(&rows) {
                let AuditAction { actor, action, target, detail } = action;
                let params: Params<'_> = &[actor, action, target, detail];
                transaction.query(&self.sql.audit_add, params).await?;
            }
            Ok(rows)
        };
        match done.await {
            Ok(rows) => transaction.commit().await.map(|()| rows),
            Err(error) => {
                // The first error is returned; that of a rollback on a lost connection is ignored.
                let _ = transaction.rollback().await;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl AccessStore for PostgresStore {
    async fn create_key(&self, key: NewKey) -> Result<bool, StoreError> {
        let core = &self.queue.core;
        let scopes = lines(&key.scopes);
        let (digest, valid_for) = (&key.digest[..], key.valid_for.map(micros));
        let params: Params<'_> = &[&key.id, &key.name, &scopes, &digest, &valid_for];
        let (sql, changed) = (&core.sql.key_create, Act::any);
        let made = core.recorded(Act { operation: KEY, sql, params, changed }).await?;
        Ok(!made.is_empty())
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let core = &self.queue.core;
        let rows = core.general(KEY, &core.sql.key_list, &[&None::<&str>]).await?;
        rows.iter().map(read_key).collect()
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        let core = &self.queue.core;
        let rows = core.reserved(KEY, &core.sql.key_list, &[&Some(id)]).await?;
        rows.first().map(read_key).transpose()
    }

    async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        let core = &self.queue.core;
        let params: Params<'_> = &[&id];
        let (sql, changed) = (&core.sql.key_revoke, Act::any);
        let ended = core.recorded(Act { operation: KEY, sql, params, changed }).await?;
        Ok(!ended.is_empty())
    }

    async fn rotate_key(
        &self,
        id: &str,
        digest: SecretDigest,
        overlap: Duration,
    ) -> Result<bool, StoreError> {
        let core = &self.queue.core;
        let digest = &digest[..];
        let overlap = micros(overlap);
        let params: Params<'_> = &[&id, &digest, &overlap];
        let (sql, changed) = (&core.sql.key_rotate, Act::any);
        let rotated = core.recorded(Act { operation: KEY, sql, params, changed }).await?;
        Ok(!rotated.is_empty())
    }

    async fn touch_keys(&self, ids: Vec<String>) -> Result<(), StoreError> {
        let core = &self.queue.core;
        core.general(KEY, &core.sql.key_touch, &[&ids]).await.map(|_| ())
    }

    async fn queues_of(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Option<QueueName>>, StoreError> {
        const OPERATION: &str = "queues of partitions";
        let core = &self.queue.core;
        let numbers: Vec<i64> = partitions.iter().map(|partition| partition.0).collect();
        let rows = core.reserved(OPERATION, &core.sql.partition_queues, &[&numbers]).await?;
        let mut names = HashMap::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let number: i64 = columns.take()?;
            names.insert(number, columns.name::<QueueName>("queue")?);
        }
        Ok(numbers.iter().map(|number| names.get(number).cloned()).collect())
    }

    async fn groups_of(&self, groups: Vec<GroupId>) -> Result<Vec<Option<GroupName>>, StoreError> {
        const OPERATION: &str = "names of groups";
        let core = &self.queue.core;
        let numbers: Vec<i32> = groups.iter().map(|group| group.0).collect();
        let rows = core.reserved(OPERATION, &core.sql.group_names, &[&numbers]).await?;
        let mut names = HashMap::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let number: i32 = columns.take()?;
            names.insert(number, columns.name::<GroupName>("group")?);
        }
        Ok(numbers.iter().map(|number| names.get(number).cloned()).collect())
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        let core = &self.queue.core;
        let AuditFilter { before, actor, action, target, limit } = filter;
        let params: Params<'_> = &[&before, &actor, &action, &target, &i64::from(limit)];
        let rows = core.general(AUDIT, &core.sql.audit_list, params).await?;
        rows.iter().map(read_entry).collect()
    }

    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64, StoreError> {
        let core = &self.queue.core;
        let params: Params<'_> = &[&micros(older_than), &i64::from(limit)];
        let gone = core.general(AUDIT, &core.sql.audit_prune, params).await?;
        Ok(gone.len() as u64)
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX).min(SPAN_MAX)
}

fn lines(scopes: &[Scope]) -> String {
    scopes.iter().map(Scope::to_string).collect::<Vec<_>>().join("\n")
}

fn read_key(row: &Row) -> Result<ApiKey, StoreError> {
    let mut columns = Columns::new(KEY, row);
    let id: String = columns.take()?;
    let broken = |error: BoxError| rows::corrupt("key", id.clone(), error);
    let name = columns.take()?;
    let scopes: String = columns.take()?;
    let scopes: Result<_, _> = scopes.lines().map(str::parse).collect();
    let digest = read_digest(&id, columns.take()?)?;
    let former: Option<Vec<u8>> = columns.take()?;
    let until: Option<SystemTime> = columns.take()?;
    let former = match former.zip(until) {
        Some((former, until)) => Some((read_digest(&id, former)?, rows::timestamp(until))),
        None => None,
    };
    let mut next_time = || Ok(columns.take::<Option<SystemTime>>()?.map(rows::timestamp));
    let (created_at, expires_at, last_used_at, revoked_at) =
        (next_time()?, next_time()?, next_time()?, next_time()?);
    Ok(ApiKey {
        scopes: scopes.map_err(|error: wakeline_core::ScopeError| broken(error.into()))?,
        created_at: created_at.ok_or_else(|| broken("it has no creation time".into()))?,
        read_at: columns.moment()?,
        id,
        name,
        digest,
        former,
        expires_at,
        last_used_at,
        revoked_at,
    })
}

fn read_digest(id: &str, bytes: Vec<u8>) -> Result<SecretDigest, StoreError> {
    let wrong = |_| rows::corrupt("key", id, "its digest does not have 32 bytes");
    bytes.try_into().map_err(wrong)
}

fn read_entry(row: &Row) -> Result<AuditEntry, StoreError> {
    let mut columns = Columns::new(AUDIT, row);
    Ok(AuditEntry {
        number: columns.take()?,
        at: columns.moment()?,
        actor: columns.take()?,
        action: columns.take()?,
        target: columns.take()?,
        detail: columns.take()?,
    })
}
