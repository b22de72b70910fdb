//! API keys and the audit log.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, Row};
use wakeline_core::{GroupId, GroupName, PartitionId, QueueName, Scope, Timestamp};
use wakeline_store::{
    AccessStore, ApiKey, AuditAction, AuditEntry, AuditFilter, NewKey, SecretDigest, StoreError,
};

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::{Res, StoreFault, corrupt};
use crate::session::DbSession;

/// The last use of a key is recorded at most once per this many microseconds.
const TOUCH_MICROS: i64 = 60 * 1_000_000;

/// Includes a statement from `sql/queries`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/", $name, ".sql"))
    };
}

#[async_trait]
impl AccessStore for SqliteStore {
    async fn create_key(&self, key: NewKey) -> Result<bool, StoreError> {
        self.write(WriteCommand::new("create_key", move |s| create(s, &key)).recorded()).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.read("keys", |s| keys(s, None)).await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        let id = id.to_owned();
        self.read("key", move |s| Ok(keys(s, Some(&id))?.pop())).await
    }

    async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let work = WriteCommand::new("revoke_key", move |s| {
            let changed = s.conn.prepare_cached(sql!("key_revoke"))?.execute((&id, s.now.0))?;
            Ok(changed > 0)
        });
        self.write(work.recorded()).await
    }

    async fn rotate_key(
        &self,
        id: &str,
        digest: SecretDigest,
        overlap: Duration,
    ) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let work = WriteCommand::new("rotate_key", move |s| {
            let params = (&id, digest, later(s, overlap));
            Ok(s.conn.prepare_cached(sql!("key_rotate"))?.execute(params)? > 0)
        });
        self.write(work.recorded()).await
    }

    async fn touch_keys(&self, ids: Vec<String>) -> Result<(), StoreError> {
        self.write(WriteCommand::new("touch_keys", move |s| {
            let mut touch = s.conn.prepare_cached(sql!("key_touch"))?;
            for id in &ids {
                touch.execute((id, s.now.0, s.now.0 - TOUCH_MICROS))?;
            }
            Ok(())
        }))
        .await
    }

    async fn queues_of(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Option<QueueName>>, StoreError> {
        let work = move |s: &mut DbSession<'_>| {
            partitions.iter().map(|partition| queue_of(s, *partition)).collect()
        };
        self.read("queues_of", work).await
    }

    async fn groups_of(&self, groups: Vec<GroupId>) -> Result<Vec<Option<GroupName>>, StoreError> {
        let work = move |s: &mut DbSession<'_>| {
            groups.iter().map(|group| group_name(s, group.0.into())).collect()
        };
        self.read("groups_of", work).await
    }

    async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
        self.read("audit", move |s| audit(s, &filter)).await
    }

    async fn prune_audit(&self, older_than: Duration, limit: u32) -> Result<u64, StoreError> {
        self.write(WriteCommand::new("prune_audit", move |s| {
            let before = s.now.0.saturating_sub(micros(older_than));
            Ok(s.conn.prepare_cached(sql!("audit_prune"))?.execute((before, limit))? as u64)
        }))
        .await
    }
}

/// Records an audit action in the transaction of the change that it describes.
pub(crate) fn record(s: &DbSession<'_>, action: &AuditAction) -> Res<()> {
    let AuditAction { actor, action, target, detail } = action;
    s.conn.prepare_cached(sql!("audit_add"))?.execute((s.now.0, actor, action, target, detail))?;
    Ok(())
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn later(s: &DbSession<'_>, span: Duration) -> i64 {
    s.now.0.saturating_add(micros(span))
}

fn create(s: &mut DbSession<'_>, key: &NewKey) -> Res<bool> {
    let scopes: Vec<_> = key.scopes.iter().map(Scope::to_string).collect();
    let made = s.conn.prepare_cached(sql!("key_add"))?.execute((
        &key.id,
        &key.name,
        scopes.join("\n"),
        key.digest,
        s.now.0,
        key.valid_for.map(|span| later(s, span)),
    ))?;
    Ok(made > 0)
}

fn keys(s: &mut DbSession<'_>, id: Option<&str>) -> Res<Vec<ApiKey>> {
    let mut statement = s.conn.prepare_cached(sql!("key_list"))?;
    let mut rows = statement.query([id])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        keys.push(decode_key(row, s.now)?);
    }
    Ok(keys)
}

fn decode_key(row: &Row<'_>, now: Timestamp) -> Res<ApiKey> {
    let id: String = row.get(0)?;
    let scopes: String = row.get(2)?;
    let scopes: Result<Vec<Scope>, _> = scopes.lines().map(str::parse).collect();
    let former: Option<Vec<u8>> = row.get(4)?;
    let until: Option<i64> = row.get(5)?;
    let former = match former.zip(until) {
        Some((former, until)) => Some((decode_digest(&id, former)?, Timestamp(until))),
        None => None,
    };
    let time = |column| Ok::<_, StoreFault>(row.get::<_, Option<i64>>(column)?.map(Timestamp));
    Ok(ApiKey {
        name: row.get(1)?,
        scopes: scopes.map_err(corrupt("key", &id))?,
        digest: decode_digest(&id, row.get(3)?)?,
        former,
        created_at: Timestamp(row.get(6)?),
        expires_at: time(7)?,
        last_used_at: time(8)?,
        revoked_at: time(9)?,
        read_at: now,
        id,
    })
}

fn decode_digest(id: &str, bytes: Vec<u8>) -> Res<SecretDigest> {
    bytes.try_into().map_err(|_| corrupt("key", id)("its digest does not have 32 bytes"))
}

fn queue_of(s: &DbSession<'_>, partition: PartitionId) -> Res<Option<QueueName>> {
    let mut statement = s.conn.prepare_cached(sql!("partition_queue"))?;
    let name: Option<String> = statement.query_row([partition.0], |row| row.get(0)).optional()?;
    name.map(|name| QueueName::new(name).map_err(corrupt("partition", partition.0))).transpose()
}

/// The name of a group, or `None` if there is no such group.
pub(crate) fn group_name(s: &DbSession<'_>, group: i64) -> Res<Option<GroupName>> {
    let mut statement = s.conn.prepare_cached(sql!("group_name"))?;
    let name: Option<String> = statement.query_row([group], |row| row.get(0)).optional()?;
    name.map(|name| GroupName::new(name).map_err(corrupt("group", group))).transpose()
}

fn audit(s: &mut DbSession<'_>, filter: &AuditFilter) -> Res<Vec<AuditEntry>> {
    let AuditFilter { before, actor, action, target, limit } = filter;
    let mut statement = s.conn.prepare_cached(sql!("audit_list"))?;
    let entries = statement.query_map((before, actor, action, target, limit), |row| {
        Ok(AuditEntry {
            number: row.get(0)?,
            at: Timestamp(row.get(1)?),
            actor: row.get(2)?,
            action: row.get(3)?,
            target: row.get(4)?,
            detail: row.get(5)?,
        })
    })?;
    Ok(entries.collect::<Result<_, _>>()?)
}
