//! The key-value state of instances: as of the start of the execution, and what changed since.

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{KvKey, Timestamp};
use wakeline_store::flow::{KvChange, KvEntry};

use super::lane::{count, number};
use crate::error::{Res, corrupt};
use crate::session::Session;

/// As of the start of the execution.
pub(super) fn state(s: &Session<'_>, lane: i64) -> Res<Vec<KvEntry>> {
    let sql = include_str!("../../sql/queries/flow_kv_state.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([lane])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(decode(lane, row)?);
    }
    Ok(entries)
}

/// As it stands; one key alone if it is named.
pub(super) fn live(s: &Session<'_>, lane: i64, key: Option<&KvKey>) -> Res<Vec<KvEntry>> {
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

/// Notes what an execution changed, in order.
pub(super) fn apply(s: &Session<'_>, lane: i64, execution: u64, changes: &[KvChange]) -> Res<()> {
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

/// Takes over what the execution changed, now that it has ended.
pub(super) fn merge(s: &Session<'_>, lane: i64) -> Res<()> {
    for sql in [
        include_str!("../../sql/queries/flow_kv_merge_cleared.sql"),
        include_str!("../../sql/queries/flow_kv_merge_set.sql"),
    ] {
        s.conn.prepare_cached(sql)?.execute([lane])?;
    }
    forget(s, lane)
}

fn forget(s: &Session<'_>, lane: i64) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_kv_changes_delete.sql");
    s.conn.prepare_cached(sql)?.execute([lane])?;
    Ok(())
}
