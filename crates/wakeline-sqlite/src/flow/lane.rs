//! Lanes: the mailboxes in which messages to an instance wait, and their leases.
//!
//! # Invariants
//! * `due_at` of a lane is exact whenever it is written: the lease's end while it is leased,
//!   otherwise the first time at which a message is visible, and NULL while the lane is suspended.
//!   Claims walk only the index over it.
//! * A lease holds the messages that were visible when it began (`at`), up to a sequence number
//!   (`seq`). So leasing writes one row, regardless of the number of messages.
//! * An expired lease stays in its row until it is ended. Only then is its attempt counted.

use std::collections::HashMap;

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind, FlowToken, InstanceId, Timestamp};
use wakeline_store::flow::InstanceState;

use super::message;
use super::names;
use crate::error::{Res, StoreFault, corrupt};
use crate::session::DbSession;

/// A lease of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneLease {
    pub(super) key: Uuid,
    pub(super) until: i64,
    /// When the lease began. It holds messages that were visible at this time.
    pub(super) at: i64,
    /// The highest sequence number of the messages that the lease holds.
    pub(super) seq: i64,
}

/// Why a lane is suspended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaneSuspension {
    /// The stored kind: `operator` or `mismatch`.
    pub(super) kind: String,
    pub(super) reason: String,
}

/// A lane with the columns of its row, and the state of its instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceLane {
    pub(super) id: i64,
    pub(super) instance: InstanceId,
    pub(super) capability: Option<i64>,
    pub(super) due_at: Option<i64>,
    pub(super) next_seq: i64,
    pub(super) lease: Option<LaneLease>,
    pub(super) suspension: Option<LaneSuspension>,
    pub(super) watched: bool,
    /// The state of its instance, if the instance exists.
    pub(super) state: Option<InstanceState>,
    /// When the first starting message arrived; `None` once the instance exists.
    pub(super) started_at: Option<i64>,
    /// The instance that sent the first starting message; `None` once the instance exists.
    pub(super) parent: Option<String>,
}

impl InstanceLane {
    fn fresh(id: i64, instance: &InstanceId) -> Self {
        Self {
            id,
            instance: instance.clone(),
            capability: None,
            due_at: None,
            next_seq: 1,
            lease: None,
            suspension: None,
            watched: false,
            state: None,
            started_at: None,
            parent: None,
        }
    }

    pub(super) fn read(s: &DbSession<'_>, id: i64) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/flow_lane_by_id.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        rows.next()?.map(decode).transpose()
    }

    pub(super) fn named(s: &DbSession<'_>, instance: &InstanceId) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/flow_lane_by_instance.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([instance.as_str()])?;
        rows.next()?.map(decode).transpose()
    }

    pub(super) fn write(&self, s: &DbSession<'_>) -> Res<()> {
        let sql = include_str!("../../sql/queries/flow_lane_write.sql");
        s.conn.prepare_cached(sql)?.execute((
            self.id,
            self.capability,
            self.due_at,
            self.next_seq,
            self.lease.map(|lease| lease.key.into_bytes()),
            self.lease.map(|lease| lease.until),
            self.lease.map(|lease| lease.at),
            self.lease.map(|lease| lease.seq),
            self.suspension.as_ref().map(|suspension| &suspension.kind),
            self.suspension.as_ref().map(|suspension| &suspension.reason),
            self.watched,
            self.started_at.filter(|_| self.state.is_none()),
            self.parent.as_ref().filter(|_| self.state.is_none()),
        ))?;
        Ok(())
    }

    /// Whether a token belongs to the live lease of the lane.
    pub(super) fn is_held_by(&self, token: FlowToken, now: Timestamp) -> bool {
        token.work.is_none()
            && self.lease.is_some_and(|lease| lease.key == token.key && lease.until > now.0)
    }

    /// The due time of the lane without a lease.
    pub(super) fn free_due(&self, s: &DbSession<'_>) -> Res<Option<i64>> {
        if self.suspension.is_some() { Ok(None) } else { message::due(s, self.id) }
    }

    /// Ends the lease, if there is one. If it is counted, the attempts of its messages grow by one.
    pub(super) fn end_lease(&mut self, s: &DbSession<'_>, counted: bool) -> Res<()> {
        if let Some(lease) = self.lease.take()
            && counted
        {
            message::return_taken(
                s,
                self.id,
                lease,
                message::ReturnOptions { visible_at: None, counted },
            )?;
        }
        self.due_at = self.free_due(s)?;
        Ok(())
    }

    /// Whether the lane can be claimed now by a dispatcher with its capability.
    fn is_open(&self, now: Timestamp) -> bool {
        self.capability.is_some() && self.due_at.is_some_and(|due_at| due_at <= now.0)
    }
}

fn decode(row: &Row<'_>) -> Res<InstanceLane> {
    let id: i64 = row.get(0)?;
    let instance: String = row.get(1)?;
    let kind: Option<String> = row.get(9)?;
    let reason: Option<String> = row.get(10)?;
    let state: Option<String> = row.get(12)?;
    Ok(InstanceLane {
        id,
        instance: InstanceId::new(instance).map_err(corrupt("lane", id))?,
        capability: row.get(2)?,
        due_at: row.get(3)?,
        next_seq: row.get(4)?,
        lease: decode_lease(row, id)?,
        suspension: kind.map(|kind| LaneSuspension { kind, reason: reason.unwrap_or_default() }),
        watched: row.get(11)?,
        state: state.map(|state| decode_state("instance", id, &state)).transpose()?,
        started_at: row.get(13)?,
        parent: row.get(14)?,
    })
}

fn decode_lease(row: &Row<'_>, lane: i64) -> Res<Option<LaneLease>> {
    let Some(key) = row.get::<_, Option<Vec<u8>>>(5)? else { return Ok(None) };
    let key = Uuid::from_slice(&key).map_err(corrupt("lane", lane))?;
    Ok(Some(LaneLease { key, until: row.get(6)?, at: row.get(7)?, seq: row.get(8)? }))
}

/// Decodes the state of an instance.
pub(super) fn decode_state(
    what: &'static str,
    id: i64,
    text: &str,
) -> Result<InstanceState, StoreFault> {
    InstanceState::parse(text)
        .ok_or_else(|| corrupt(what, id)(format!("{text:?} is not a state of an instance")))
}

/// Converts a number of a command to the type of its column.
pub(super) fn number(field: &'static str, value: u64) -> Res<i64> {
    i64::try_from(value)
        .map_err(|_| StoreFault::Invalid { field, reason: "is too large".to_owned() })
}

/// Converts a number of the database to the type that the store's API uses.
pub(super) fn count(what: &'static str, value: i64) -> Res<u64> {
    u64::try_from(value).map_err(corrupt(what, value))
}

/// The lanes that a command changes. Each is read once and written once.
#[derive(Debug, Default)]
pub(super) struct InstanceLanes {
    by_instance: HashMap<InstanceId, i64>,
    touched: Vec<i64>,
    lanes: HashMap<i64, ChangedInstanceLane>,
}

#[derive(Debug)]
struct ChangedInstanceLane {
    before: InstanceLane,
    lane: InstanceLane,
}

/// What a command made available in the lanes that it changed.
#[derive(Debug, Default)]
pub(super) struct OpenedLanes {
    /// The lanes that can be claimed now and could not be claimed before.
    pub(super) lanes: Vec<i64>,
    /// The hints for dispatchers, each with its lane.
    pub(super) changes: Vec<(i64, FlowChange)>,
}

impl InstanceLanes {
    /// Returns the lane of an instance. It is created if it does not exist.
    pub(super) fn ensure(
        &mut self,
        s: &DbSession<'_>,
        instance: &InstanceId,
    ) -> Res<&mut InstanceLane> {
        if let Some(id) = self.by_instance.get(instance) {
            let touched = self.lanes.get_mut(id).expect("both maps hold the same lanes");
            return Ok(&mut touched.lane);
        }
        let lane = match InstanceLane::named(s, instance)? {
            Some(lane) => lane,
            None => {
                let sql = include_str!("../../sql/queries/flow_lane_add.sql");
                s.conn.prepare_cached(sql)?.execute([instance.as_str()])?;
                InstanceLane::fresh(s.conn.last_insert_rowid(), instance)
            }
        };
        Ok(self.add(lane))
    }

    /// Adds a lane that was already read.
    pub(super) fn add(&mut self, lane: InstanceLane) -> &mut InstanceLane {
        let id = lane.id;
        self.by_instance.insert(lane.instance.clone(), id);
        self.touched.push(id);
        self.lanes.insert(id, ChangedInstanceLane { before: lane.clone(), lane });
        self.get(id)
    }

    /// Returns a lane that was added.
    pub(super) fn get(&mut self, id: i64) -> &mut InstanceLane {
        &mut self.lanes.get_mut(&id).expect("it was taken in").lane
    }

    /// Writes the lanes that have changed.
    pub(super) fn finish(self, s: &mut DbSession<'_>) -> Res<OpenedLanes> {
        let mut opened = OpenedLanes::default();
        for id in &self.touched {
            let ChangedInstanceLane { before, lane } = &self.lanes[id];
            if lane == before {
                continue;
            }
            lane.write(s)?;
            let (Some(due_at), Some(capability)) = (lane.due_at, lane.capability) else { continue };
            let freed = before.lease.is_some() && lane.lease.is_none();
            if lane.is_open(s.now) && (freed || !before.is_open(s.now)) {
                opened.lanes.push(*id);
            }
            let sooner = before.due_at.is_none_or(|before| due_at < before);
            // Other dispatchers can run it now, even if only after its lease ends.
            let others = before.capability != lane.capability;
            if freed || sooner || others {
                let what = FlowChangeKind::Turn(names::capability_name(s, capability)?);
                let due_in = s.now.until(Timestamp(due_at));
                opened.changes.push((*id, FlowChange { what, due_in }));
            }
        }
        Ok(opened)
    }
}
