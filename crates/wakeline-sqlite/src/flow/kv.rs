//! The key-value state of instances: the state at the start of the current execution, and the
//! changes since then.

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{KvKey, Timestamp};
use wakeline_store::flow::{KvChange, KvEntry};

use super::lane::{count, number};
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The state as of the start of the current execution.
pub(super) fn state(s: &DbSession<'_>, lane: i64) -> Res<Vec<KvEntry>> {
    let sql = include_str!("../../sql/queries/flow_kv_state.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([lane])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(decode(lane, row)?);
    }
    Ok(entries)
}

/// The current state, of one key or of all.
pub(super) fn live(s: &DbSession<'_>, lane: i64, key: Option<&KvKey>) -> Res<Vec<KvEntry>> {
    let sql = include_str!("../../sql/queries/flow_kv_live.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((lane, key.map(KvKey::as_str)))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(decode(lane, row)?);
    }
    Ok(entries)
}

fn decode(lane: i64, row: &Row<'_>) -> Res<KvEntry> {
    let key: String = row.get(0)?;
    let value: Vec<u8> = row.get(1)?;
    Ok(KvEntry {
        key: KvKey::new(key).map_err(corrupt("key of lane", lane))?,
        value: Bytes::from(value),
        execution: count("key", row.get(2)?)?,
        updated_at: Timestamp(row.get(3)?),
    })
}

/// Records the changes of an execution, in order.
pub(super) fn apply(s: &DbSession<'_>, lane: i64, execution: u64, changes: &[KvChange]) -> Res<()> {
    let execution = number("execution", execution)?;
    for change in changes {
        let (key, value) = match change {
            KvChange::Set(key, value) => (key, Some(value.as_ref())),
            KvChange::Clear(key) => (key, None),
            KvChange::ClearAll => {
                forget(s, lane)?;
                let sql = include_str!("../../sql/queries/flow_kv_change_all.sql");
                s.conn.prepare_cached(sql)?.execute((lane, execution, s.now.0))?;
                continue;
            }
        };
        let sql = include_str!("../../sql/queries/flow_kv_change.sql");
        let params = (lane, key.as_str(), value, execution, s.now.0);
        s.conn.prepare_cached(sql)?.execute(params)?;
    }
    Ok(())
}

/// Applies the changes of an execution to the state when the execution ends.
pub(super) fn merge(s: &DbSession<'_>, lane: i64) -> Res<()> {
    for sql in [
        include_str!("../../sql/queries/flow_kv_merge_cleared.sql"),
        include_str!("../../sql/queries/flow_kv_merge_set.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([lane])?;
    }
    forget(s, lane)
}

fn forget(s: &DbSession<'_>, lane: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_kv_changes_delete.sql");
    s.conn.prepare_cached(sql)?.execute([lane])?;
    Ok(())
}
