//! The rows of instances and their executions.

use bytes::Bytes;
use rusqlite::Row;
use wakeline_core::{InstanceId, OrchestrationName, Timestamp};
use wakeline_store::flow::{ExecutionDetail, HistoryBatch, InstanceState, NewInstance};

use super::lane::{InstanceLane, count, decode_state, number};
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// An instance with the columns of its row.
#[derive(Debug, Clone)]
pub(super) struct InstanceRow {
    pub(super) lane: i64,
    pub(super) instance: InstanceId,
    pub(super) name: OrchestrationName,
    pub(super) parent: Option<(InstanceId, u64)>,
    pub(super) execution: u64,
    pub(super) state: InstanceState,
    pub(super) output: Option<Bytes>,
    pub(super) status: Option<String>,
    pub(super) status_version: u64,
    pub(super) kv_version: u64,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    /// When its first starting message arrived. Only known for an instance that is created now.
    pub(super) started_at: Option<i64>,
}

impl InstanceRow {
    /// An instance that starts now and is not stored yet.
    pub(super) fn new(s: &DbSession<'_>, lane: &InstanceLane, new_instance: &NewInstance) -> Self {
        Self {
            lane: lane.id,
            instance: lane.instance.clone(),
            name: new_instance.name.clone(),
            parent: new_instance.parent.clone(),
            execution: 0,
            state: InstanceState::Running,
            output: None,
            status: None,
            status_version: 0,
            kv_version: 0,
            created_at: s.now,
            updated_at: s.now,
            ended_at: None,
            started_at: lane.started_at,
        }
    }

    pub(super) fn read(s: &DbSession<'_>, lane: i64) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/flow_instance_read.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([lane])?;
        rows.next()?.map(decode_instance).transpose()
    }

    pub(super) fn named(s: &DbSession<'_>, id: &InstanceId) -> Res<Option<Self>> {
        match InstanceLane::named(s, id)? {
            Some(lane) => Self::read(s, lane.id),
            None => Ok(None),
        }
    }

    /// Inserts the instance.
    pub(super) fn add(&self, s: &DbSession<'_>) -> Res<()> {
        let event = self.parent.as_ref().map(|(_, event)| number("parent", *event)).transpose()?;
        let sql = include_str!("../../sql/queries/flow_instance_add.sql");
        s.conn.prepare_cached(sql)?.execute((
            self.lane,
            self.instance.as_str(),
            self.name.as_str(),
            self.parent.as_ref().map(|(parent, _)| parent.as_str()),
            event,
            number("execution", self.execution)?,
            self.state.as_str(),
            &self.status,
            number("status", self.status_version)?,
            number("kv", self.kv_version)?,
            self.created_at.0,
            self.updated_at.0,
            self.ended_at.map(|at| at.0),
            self.output.as_deref(),
            self.started_at,
        ))?;
        Ok(())
    }

    /// Updates the columns that a turn changes if it leaves the state unchanged.
    pub(super) fn touch(&self, s: &DbSession<'_>) -> Res<()> {
        let sql = include_str!("../../sql/queries/flow_instance_touch.sql");
        s.conn.prepare_cached(sql)?.execute((
            self.lane,
            number("execution", self.execution)?,
            &self.status,
            number("status", self.status_version)?,
            number("kv", self.kv_version)?,
            self.updated_at.0,
        ))?;
        Ok(())
    }

    /// Updates all columns that can change.
    pub(super) fn write(&self, s: &DbSession<'_>) -> Res<()> {
        let sql = include_str!("../../sql/queries/flow_instance_write.sql");
        s.conn.prepare_cached(sql)?.execute((
            self.lane,
            number("execution", self.execution)?,
            self.state.as_str(),
            &self.status,
            number("status", self.status_version)?,
            number("kv", self.kv_version)?,
            self.updated_at.0,
            self.ended_at.map(|at| at.0),
            self.output.as_deref(),
        ))?;
        Ok(())
    }
}

/// Columns as in `flow_instance_read.sql`.
pub(super) fn decode_instance(row: &Row<'_>) -> Res<InstanceRow> {
    let lane: i64 = row.get(0)?;
    let (instance, name, state): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(6)?);
    let parent: Option<String> = row.get(3)?;
    let event: Option<i64> = row.get(4)?;
    let parent = match parent {
        Some(parent) => {
            let parent = InstanceId::new(parent).map_err(corrupt("instance", lane))?;
            Some((parent, count("instance", event.unwrap_or(0))?))
        }
        None => None,
    };
    Ok(InstanceRow {
        lane,
        instance: InstanceId::new(instance).map_err(corrupt("instance", lane))?,
        name: OrchestrationName::new(name).map_err(corrupt("instance", lane))?,
        parent,
        execution: count("instance", row.get(5)?)?,
        state: decode_state("instance", lane, &state)?,
        status: row.get(7)?,
        status_version: count("instance", row.get(8)?)?,
        kv_version: count("instance", row.get(9)?)?,
        created_at: Timestamp(row.get(10)?),
        updated_at: Timestamp(row.get(11)?),
        ended_at: row.get::<_, Option<i64>>(12)?.map(Timestamp),
        started_at: None,
        output: row.get::<_, Option<Vec<u8>>>(13)?.map(Bytes::from),
    })
}

/// Reads one execution of the instance of a lane.
pub(super) fn read_execution(
    s: &DbSession<'_>,
    lane: i64,
    execution: u64,
) -> Res<Option<ExecutionDetail>> {
    let sql = include_str!("../../sql/queries/flow_execution_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((lane, number("execution", execution)?))?;
    rows.next()?.map(|row| decode_execution(lane, row)).transpose()
}

/// Columns as in `flow_execution_read.sql`.
pub(super) fn decode_execution(lane: i64, row: &Row<'_>) -> Res<ExecutionDetail> {
    let state: String = row.get(2)?;
    let output: Option<Vec<u8>> = row.get(3)?;
    Ok(ExecutionDetail {
        execution: count("execution", row.get(0)?)?,
        version: row.get(1)?,
        state: decode_state("execution", lane, &state)?,
        output: output.map(Bytes::from),
        events: count("execution", row.get(4)?)?,
        history_bytes: count("execution", row.get(5)?)?,
        started_at: Timestamp(row.get(6)?),
        ended_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
    })
}

/// Inserts an execution, or updates it if it exists.
pub(super) fn write_execution(
    s: &DbSession<'_>,
    lane: i64,
    execution: &ExecutionDetail,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_execution_write.sql");
    s.conn.prepare_cached(sql)?.execute((
        lane,
        number("execution", execution.execution)?,
        &execution.version,
        execution.state.as_str(),
        execution.output.as_deref(),
        number("history", execution.events)?,
        number("history", execution.history_bytes)?,
        execution.started_at.0,
        execution.ended_at.map(|at| at.0),
    ))?;
    Ok(())
}

/// A position in the history of an execution.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryPosition {
    pub(super) lane: i64,
    pub(super) execution: u64,
    /// Batches that begin with this event or a later one are read.
    pub(super) from: u64,
}

/// Reads the batches of an execution from a position on, until `enough` returns true for the size
/// of the next one. Also returns the first event of that next batch.
pub(super) fn batches(
    s: &DbSession<'_>,
    position: HistoryPosition,
    mut enough: impl FnMut(usize) -> bool,
) -> Res<(Vec<HistoryBatch>, Option<u64>)> {
    let HistoryPosition { lane, execution, from } = position;
    let sql = include_str!("../../sql/queries/flow_history_from.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows =
        statement.query((lane, number("execution", execution)?, number("from", from)?))?;
    let mut batches = Vec::new();
    while let Some(row) = rows.next()? {
        let first = count("history", row.get(0)?)?;
        let len = row.get_ref(2)?.as_blob().map_err(corrupt("history", lane))?.len();
        if enough(len) && !batches.is_empty() {
            return Ok((batches, Some(first)));
        }
        let last = count("history", row.get(1)?)?;
        let events = Bytes::from(row.get::<_, Vec<u8>>(2)?);
        batches.push(HistoryBatch { first, last, events });
    }
    Ok((batches, None))
}
