//! Activities: inserting and completing them.

use rusqlite::{OptionalExtension as _, Row};
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind, FlowToken, InstanceId, SessionId, Timestamp};
use wakeline_store::flow::{
    Completion, CompletionReply, InstanceState, NewWork, TurnRequest, WorkKey, WorkOutcome,
};

use super::lane::{InstanceLanes, OpenedLanes, count, decode_state, number};
use super::message;
use super::names::{self, RouteIds};
use super::session;
use super::turn;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// An activity with the columns of its row, without its payload.
#[derive(Debug, Clone)]
pub(super) struct WorkRow {
    pub(super) id: i64,
    pub(super) lane: i64,
    pub(super) instance: InstanceId,
    pub(super) key: WorkKey,
    pub(super) route: RouteIds,
    pub(super) session: Option<SessionId>,
    pub(super) due_at: Option<i64>,
    /// The key and the end of the last lease.
    pub(super) lease: Option<(Uuid, i64)>,
    pub(super) attempts: u32,
}

impl WorkRow {
    pub(super) fn read(s: &DbSession<'_>, id: i64) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/flow_work_read.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        rows.next()?.map(decode).transpose()
    }

    /// The activity whose last lease has the key of a token.
    pub(super) fn leased_by(s: &DbSession<'_>, token: FlowToken) -> Res<Option<Self>> {
        let Some(id) = token.work else { return Ok(None) };
        let last = |row: &Self| {
            row.lane == token.lane && row.lease.is_some_and(|(key, _)| key == token.key)
        };
        Ok(Self::read(s, id)?.filter(last))
    }

    /// The activity whose live lease has the key of a token.
    pub(super) fn held_by(s: &DbSession<'_>, token: FlowToken) -> Res<Option<Self>> {
        let live = |row: &Self| row.lease.is_some_and(|(_, until)| until > s.now.0);
        Ok(Self::leased_by(s, token)?.filter(live))
    }

    pub(super) fn write(&self, s: &DbSession<'_>) -> Res<()> {
        let sql = include_str!("../../sql/queries/flow_work_write.sql");
        s.conn.prepare_cached(sql)?.execute((
            self.id,
            self.due_at,
            self.lease.map(|(key, _)| key.into_bytes()),
            self.lease.map(|(_, until)| until),
            self.attempts,
            s.now.0,
        ))?;
        Ok(())
    }

    /// The state of the execution that scheduled it.
    pub(super) fn state(&self, s: &DbSession<'_>) -> Res<Option<InstanceState>> {
        let sql = include_str!("../../sql/queries/flow_execution_state.sql");
        let params = (self.lane, number("execution", self.key.execution)?);
        let found = s.conn.prepare_cached(sql)?.query_row(params, |row| row.get::<_, String>(0));
        let state = found.optional()?;
        state.map(|state| decode_state("execution", self.lane, &state)).transpose()
    }
}

fn decode(row: &Row<'_>) -> Res<WorkRow> {
    let id: i64 = row.get(0)?;
    let (instance, session): (String, Option<String>) = (row.get(2)?, row.get(6)?);
    let lease = match row.get::<_, Option<Vec<u8>>>(8)? {
        Some(key) => Some((Uuid::from_slice(&key).map_err(corrupt("work", id))?, row.get(9)?)),
        None => None,
    };
    Ok(WorkRow {
        id,
        lane: row.get(1)?,
        instance: InstanceId::new(instance).map_err(corrupt("work", id))?,
        key: WorkKey {
            execution: count("work", row.get(3)?)?,
            activity: count("work", row.get(4)?)?,
        },
        route: RouteIds { tag: row.get(5)?, name: row.get(11)? },
        session: session.map(SessionId::new).transpose().map_err(corrupt("work", id))?,
        due_at: row.get(7)?,
        lease,
        attempts: row.get(10)?,
    })
}

/// Inserts an activity of a lane. Returns its id and a hint, or `None` if it exists.
pub(super) fn insert(
    s: &mut DbSession<'_>,
    lane: i64,
    work: &NewWork,
) -> Res<Option<(i64, FlowChange)>> {
    let route = names::ensure_route(s, &work.route())?;
    let taker = session::taker(s, work.session.as_ref())?;
    let visible_at = message::visible_at(work.visible, s.now);
    let sql = include_str!("../../sql/queries/flow_work_add.sql");
    let added = s.conn.prepare_cached(sql)?.execute((
        lane,
        number("execution", work.key.execution)?,
        number("activity", work.key.activity)?,
        route.tag,
        route.name,
        work.session.as_ref().map(SessionId::as_str),
        taker,
        Some(visible_at).filter(|at| *at > s.now.0),
        work.payload.as_ref(),
        visible_at,
    ))?;
    let due_in = s.now.until(Timestamp(visible_at));
    let change = FlowChange { what: FlowChangeKind::Work(work.route()), due_in };
    Ok((added > 0).then(|| (s.conn.last_insert_rowid(), change)))
}

/// Inserts an activity outside of a turn.
pub(super) fn enqueue(s: &mut DbSession<'_>, work: &NewWork) -> Res<Vec<FlowChange>> {
    let mut lanes = InstanceLanes::default();
    let lane = lanes.ensure(s, &work.instance)?.id;
    let changes: Vec<_> = insert(s, lane, work)?.map(|(_, change)| change).into_iter().collect();
    s.hint_flow(&changes);
    Ok(changes)
}

/// Removes a leased activity, and stores the message with its outcome for the instance.
pub(super) fn complete(
    s: &mut DbSession<'_>,
    completion: &Completion,
    requests: &[TurnRequest],
) -> Res<CompletionReply> {
    let Some(row) = WorkRow::held_by(s, completion.token)? else {
        let outcome = WorkOutcome::Stale;
        return Ok(CompletionReply { outcome, turns: Vec::new(), changes: Vec::new() });
    };
    let sql = include_str!("../../sql/queries/flow_work_remove.sql");
    s.conn.prepare_cached(sql)?.execute([row.id])?;
    session::touch(s, row.session.as_ref())?;
    let (mut enqueued, mut opened) = (None, OpenedLanes::default());
    if let Some(envelope) = &completion.message {
        let mut lanes = InstanceLanes::default();
        enqueued = Some(message::store(s, &mut lanes, envelope)?);
        opened = lanes.finish(s)?;
    }
    let (turns, changes) = turn::lease_on_insert(s, opened, requests)?;
    Ok(CompletionReply { outcome: WorkOutcome::Completed(enqueued), turns, changes })
}
