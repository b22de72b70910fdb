//! Reads instances: their current state, histories, trees and sizes.

use std::collections::HashSet;

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{InstanceId, KvKey};
use wakeline_store::flow::{
    ExecutionDetail, FlowDepths, HistoryPage, InstanceDetail, InstanceState, InstanceStats,
    KvEntry, Watched,
};

use super::instance::{self, HistoryPosition, InstanceRow};
use super::kv;
use super::lane::{InstanceLane, count, decode_state, number};
use super::names;
use crate::error::Res;
use crate::session::DbSession;

/// Reads an instance, also a pending one.
pub(super) fn instance(s: &mut DbSession<'_>, id: &InstanceId) -> Res<Watched> {
    for sql in [
        include_str!("../../sql/queries/flow_instance_detail.sql"),
        include_str!("../../sql/queries/flow_pending_detail.sql"),
    ] {
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([id.as_str()])?;
        if let Some(row) = rows.next()? {
            return Ok(Watched::Found(Box::new(decode_detail(s, row)?)));
        }
    }
    Ok(Watched::Missing)
}

/// The payloads of messages in the lane of an instance that can start an execution, in order.
pub(super) fn waiting_starts(s: &DbSession<'_>, id: &InstanceId) -> Res<Vec<Bytes>> {
    let sql = include_str!("../../sql/queries/flow_waiting_starts.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let payloads = statement.query_map([id.as_str()], |row| row.get::<_, Vec<u8>>(0))?;
    Ok(payloads.map(|payload| payload.map(Bytes::from)).collect::<Result<_, _>>()?)
}

/// Columns as in `flow_instance_detail.sql`.
pub(super) fn decode_detail(s: &mut DbSession<'_>, row: &Row<'_>) -> Res<InstanceDetail> {
    let instance = instance::decode_instance(row)?;
    let capability: Option<i64> = row.get(14)?;
    let suspended: Option<String> = row.get(15)?;
    let reason: Option<String> = row.get(16)?;
    Ok(InstanceDetail {
        instance: instance.instance,
        name: instance.name,
        version: row.get(17)?,
        capability: capability.map(|id| names::capability_name(s, id)).transpose()?,
        state: instance.state,
        suspended: suspended.map(|_| reason.unwrap_or_default()),
        output: instance.output,
        status: instance.status,
        status_version: instance.status_version,
        kv_version: instance.kv_version,
        execution: instance.execution,
        parent: instance.parent.map(|(parent, _)| parent),
        created_at: instance.created_at,
        updated_at: instance.updated_at,
        ended_at: instance.ended_at,
    })
}

/// Records that a caller waits for these instances, and reads them.
pub(super) fn watch(s: &mut DbSession<'_>, ids: &[InstanceId]) -> Res<Vec<Watched>> {
    let sql = include_str!("../../sql/queries/flow_lane_watch.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    for id in ids {
        if let Some(lane) = InstanceLane::named(s, id)? {
            statement.execute([lane.id])?;
        }
    }
    ids.iter().map(|id| instance(s, id)).collect()
}

/// Reads the instances from a snapshot, if the wait is already recorded for all of them.
pub(super) fn peek(s: &mut DbSession<'_>, ids: &[InstanceId]) -> Res<Option<Vec<Watched>>> {
    for id in ids {
        if InstanceLane::named(s, id)?.is_some_and(|lane| !lane.watched) {
            return Ok(None);
        }
    }
    Ok(Some(ids.iter().map(|id| instance(s, id)).collect::<Res<_>>()?))
}

/// The part of a history that a request reads.
pub(super) struct HistoryRange {
    pub(super) execution: Option<u64>,
    pub(super) from_event: u64,
    pub(super) bytes_max: usize,
}

/// Reads a part of the history of an execution.
pub(super) fn history(
    s: &DbSession<'_>,
    id: &InstanceId,
    range: &HistoryRange,
) -> Res<HistoryPage> {
    let Some(instance) = InstanceRow::named(s, id)? else { return Ok(HistoryPage::default()) };
    let execution = range.execution.unwrap_or(instance.execution);
    if instance::read_execution(s, instance.lane, execution)?.is_none() {
        return Ok(HistoryPage::default());
    }
    let from = first_of(s, instance.lane, execution, range.from_event)?;
    let mut bytes = 0;
    let position = HistoryPosition { lane: instance.lane, execution, from };
    let (batches, next) = instance::batches(s, position, |len| {
        bytes += len;
        bytes > range.bytes_max
    })?;
    Ok(HistoryPage { execution, batches, next })
}

/// The first event of the batch that contains an event.
fn first_of(s: &DbSession<'_>, lane: i64, execution: u64, event: u64) -> Res<u64> {
    let sql = include_str!("../../sql/queries/flow_history_within.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (lane, number("execution", execution)?, number("from_event", event)?);
    let mut rows = statement.query(params)?;
    match rows.next()? {
        Some(row) if count("history", row.get(1)?)? >= event => count("history", row.get(0)?),
        _ => Ok(event),
    }
}

/// The executions of an instance, oldest first.
pub(super) fn executions(s: &DbSession<'_>, id: &InstanceId) -> Res<Vec<ExecutionDetail>> {
    let Some(lane) = InstanceLane::named(s, id)? else { return Ok(Vec::new()) };
    let sql = include_str!("../../sql/queries/flow_execution_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([lane.id])?;
    let mut executions = Vec::new();
    while let Some(row) = rows.next()? {
        executions.push(instance::decode_execution(lane.id, row)?);
    }
    Ok(executions)
}

/// The current key-value state, of one key or of all.
pub(super) fn kv(s: &DbSession<'_>, id: &InstanceId, key: Option<&KvKey>) -> Res<Vec<KvEntry>> {
    match InstanceLane::named(s, id)? {
        Some(lane) => kv::live(s, lane.id, key),
        None => Ok(Vec::new()),
    }
}

/// An instance and its descendants, parents before children.
pub(super) fn tree(s: &DbSession<'_>, id: &InstanceId) -> Res<Vec<InstanceId>> {
    match InstanceRow::named(s, id)? {
        Some(_) => family(s, id),
        None => Ok(Vec::new()),
    }
}

/// Like [`tree`], also if the instance itself does not exist.
pub(super) fn family(s: &DbSession<'_>, id: &InstanceId) -> Res<Vec<InstanceId>> {
    let sql = include_str!("../../sql/queries/flow_instance_children.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut seen = HashSet::from([id.clone()]);
    let mut tree = vec![id.clone()];
    let mut next = 0;
    while let Some(parent) = tree.get(next) {
        next += 1;
        let found = statement.query_map([parent.as_str()], |row| row.get::<_, String>(1))?;
        let children: Vec<String> = found.collect::<Result<_, _>>()?;
        for child in children {
            let child = InstanceId::new(child).map_err(crate::error::corrupt("instance", id))?;
            if seen.insert(child.clone()) {
                tree.push(child);
            }
        }
    }
    Ok(tree)
}

/// The size of an instance: its history, messages, activities and key-value state.
pub(super) fn stats(s: &DbSession<'_>, id: &InstanceId) -> Res<Option<InstanceStats>> {
    let Some(instance) = InstanceRow::named(s, id)? else { return Ok(None) };
    let execution = instance::read_execution(s, instance.lane, instance.execution)?;
    let sql = include_str!("../../sql/queries/flow_stats.sql");
    let (messages, work): (i64, i64) = s
        .conn
        .prepare_cached(sql)?
        .query_row([instance.lane], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let kv = kv::live(s, instance.lane, None)?;
    Ok(Some(InstanceStats {
        events: execution.as_ref().map_or(0, |execution| execution.events),
        history_bytes: execution.as_ref().map_or(0, |execution| execution.history_bytes),
        messages: count("lane", messages)?,
        work: count("lane", work)?,
        kv_keys: kv.len() as u64,
        kv_bytes: kv.iter().map(|entry| entry.value.len() as u64).sum(),
    }))
}

/// Counts of the messages, activities and instances of the whole store.
pub(super) fn depths(s: &DbSession<'_>) -> Res<FlowDepths> {
    let mut statement = s.conn.prepare_cached(include_str!("../../sql/queries/flow_depths.sql"))?;
    let counts: [i64; 7] = statement.query_row([s.now.0], |row| {
        let mut counts = [0; 7];
        for (n, place) in counts.iter_mut().enumerate() {
            *place = row.get(n)?;
        }
        Ok(counts)
    })?;
    let [messages, delayed, leased_turns, work, leased_work, executions, events] = counts;
    let mut depths = FlowDepths {
        messages: count("count", messages)?,
        work: count("count", work - leased_work)?,
        leased_turns: count("count", leased_turns)?,
        leased_work: count("count", leased_work)?,
        delayed: count("count", delayed)?,
        executions: count("count", executions)?,
        events: count("count", events)?,
        ..FlowDepths::default()
    };
    let mut statement =
        s.conn.prepare_cached(include_str!("../../sql/queries/flow_depths_states.sql"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = decode_state("instance", 0, &row.get::<_, String>(0)?)?;
        if let Some(place) = InstanceState::ALL.iter().position(|other| *other == state) {
            depths.instances[place] = count("count", row.get(1)?)?;
        }
    }
    Ok(depths)
}
