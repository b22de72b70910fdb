//! Lanes: where messages to an instance wait, and who holds them.
//!
//! # Invariants
//! * `due_at` of a lane is exact whenever it is written: the lease's end while it is leased, the
//!   first time at which a message is visible otherwise, nothing while it is suspended. Claims
//!   walk the index over it and nothing else.
//! * A lease holds the messages that were visible when it began (`at`), up to a place (`seq`). So
//!   leasing writes one row, however many messages there are.
//! * A lease that has expired stays in its row until it is ended: only then its attempt is counted.

use std::collections::HashMap;

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowToken, FlowWhat, InstanceId, Timestamp};
use wakeline_store::flow::InstanceState;

use super::message;
use super::names;
use crate::error::{Fault, Res, corrupt};
use crate::session::Session;

/// A lease of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneLease {
    pub(super) key: Uuid,
    pub(super) until: i64,
    /// It holds what was visible then,
    pub(super) at: i64,
    /// up to this place.
    pub(super) seq: i64,
}

/// Why a lane is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    /// `operator` or `mismatch`.
    pub(super) kind: String,
    pub(super) reason: String,
}

/// A lane as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) id: i64,
    pub(super) instance: InstanceId,
    pub(super) capability: Option<i64>,
    pub(super) due_at: Option<i64>,
    pub(super) next_seq: i64,
    pub(super) lease: Option<LaneLease>,
    pub(super) held: Option<Held>,
    pub(super) watched: bool,
    /// How its instance stands, if there is one.
    pub(super) state: Option<InstanceState>,
    /// When the first start arrived; `None` once there is an instance.
    pub(super) started_at: Option<i64>,
    /// Who sent the first start and waits; `None` once there is an instance.
    pub(super) parent: Option<String>,
}

impl Lane {
    fn fresh(id: i64, instance: &InstanceId) -> Self {
        Self {
            id,
            instance: instance.clone(),
            capability: None,
            due_at: None,
            next_seq: 1,
            lease: None,
            held: None,
            watched: false,
            state: None,
            started_at: None,
            parent: None,
        }
    }

    pub(super) fn read(s: &Session<'_>, id: i64) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/flow_lane_by_id.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        rows.next()?.map(decode).transpose()
    }

    pub(super) fn named(s: &Session<'_>, instance: &InstanceId) -> Res<Option<Self>> {
        let sql = include_str!("../../sql/queries/flow_lane_by_instance.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query([instance.as_str()])?;
        rows.next()?.map(decode).transpose()
    }

    pub(super) fn write(&self, s: &Session<'_>) -> Res<()> {
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
            self.held.as_ref().map(|held| &held.kind),
            self.held.as_ref().map(|held| &held.reason),
            self.watched,
            self.started_at.filter(|_| self.state.is_none()),
            self.parent.as_ref().filter(|_| self.state.is_none()),
        ))?;
        Ok(())
    }

    /// Whether this token proves a live lease of the lane.
    pub(super) fn is_held_by(&self, token: FlowToken, now: Timestamp) -> bool {
        token.work.is_none()
            && self.lease.is_some_and(|lease| lease.key == token.key && lease.until > now.0)
    }

    /// When there is something to take, now that nobody holds it.
    pub(super) fn free_due(&self, s: &Session<'_>) -> Res<Option<i64>> {
        if self.held.is_some() { Ok(None) } else { message::due(s, self.id) }
    }

    /// Ends the lease, if there is one. Its messages keep the attempt if it is counted.
    pub(super) fn end_lease(&mut self, s: &Session<'_>, counted: bool) -> Res<()> {
        if let Some(lease) = self.lease.take()
            && counted
        {
            message::return_taken(
                s,
                self.id,
                lease,
                message::Return { visible_at: None, counted },
            )?;
        }
        self.due_at = self.free_due(s)?;
        Ok(())
    }

    /// Whether the lane can be claimed now, by whoever has its capability.
    fn is_open(&self, now: Timestamp) -> bool {
        self.capability.is_some() && self.due_at.is_some_and(|due_at| due_at <= now.0)
    }
}

fn decode(row: &Row<'_>) -> Res<Lane> {
    let id: i64 = row.get(0)?;
    let instance: String = row.get(1)?;
    let kind: Option<String> = row.get(9)?;
    let reason: Option<String> = row.get(10)?;
    let state: Option<String> = row.get(12)?;
    Ok(Lane {
        id,
        instance: InstanceId::new(instance).map_err(corrupt("lane", id))?,
        capability: row.get(2)?,
        due_at: row.get(3)?,
        next_seq: row.get(4)?,
        lease: decode_lease(row, id)?,
        held: kind.map(|kind| Held { kind, reason: reason.unwrap_or_default() }),
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

/// A state from its text.
pub(super) fn decode_state(
    what: &'static str,
    id: i64,
    text: &str,
) -> Result<InstanceState, Fault> {
    InstanceState::parse(text)
        .ok_or_else(|| corrupt(what, id)(format!("{text:?} is not a state of an instance")))
}

/// A number of the seam as the database keeps it.
pub(super) fn number(field: &'static str, value: u64) -> Res<i64> {
    i64::try_from(value).map_err(|_| Fault::Invalid { field, reason: "is too large".to_owned() })
}

/// A number of the database as the seam has it.
pub(super) fn count(what: &'static str, value: i64) -> Res<u64> {
    u64::try_from(value).map_err(corrupt(what, value))
}

/// The lanes that a command touches: read once, written once.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_instance: HashMap<InstanceId, i64>,
    touched: Vec<i64>,
    lanes: HashMap<i64, Touched>,
}

#[derive(Debug)]
struct Touched {
    before: Lane,
    lane: Lane,
}

/// What a command made of the lanes that it touched.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// Lanes that can be claimed now and could not before.
    pub(super) lanes: Vec<i64>,
    /// The lanes that there is something to tell about, now or later.
    pub(super) told: Vec<(i64, FlowChange)>,
}

impl Lanes {
    /// A lane; made if it does not exist.
    pub(super) fn ensure(&mut self, s: &Session<'_>, instance: &InstanceId) -> Res<&mut Lane> {
        if let Some(id) = self.by_instance.get(instance) {
            let touched = self.lanes.get_mut(id).expect("both maps hold the same lanes");
            return Ok(&mut touched.lane);
        }
        let lane = match Lane::named(s, instance)? {
            Some(lane) => lane,
            None => {
                let sql = include_str!("../../sql/queries/flow_lane_add.sql");
                s.conn.prepare_cached(sql)?.execute([instance.as_str()])?;
                Lane::fresh(s.conn.last_insert_rowid(), instance)
            }
        };
        Ok(self.add(lane))
    }

    /// Takes a lane in that was read already.
    pub(super) fn add(&mut self, lane: Lane) -> &mut Lane {
        let id = lane.id;
        self.by_instance.insert(lane.instance.clone(), id);
        self.touched.push(id);
        self.lanes.insert(id, Touched { before: lane.clone(), lane });
        self.get(id)
    }

    /// A lane that was taken in.
    pub(super) fn get(&mut self, id: i64) -> &mut Lane {
        &mut self.lanes.get_mut(&id).expect("it was taken in").lane
    }

    /// Writes those back that have changed.
    pub(super) fn finish(self, s: &mut Session<'_>) -> Res<Opened> {
        let mut opened = Opened::default();
        for id in &self.touched {
            let Touched { before, lane } = &self.lanes[id];
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
            // Others wait for it now, if only for the end of its lease.
            let others = before.capability != lane.capability;
            if freed || sooner || others {
                let what = FlowWhat::Turn(names::capability_name(s, capability)?);
                let due_in = s.now.until(Timestamp(due_at));
                opened.told.push((*id, FlowChange { what, due_in }));
            }
        }
        Ok(opened)
    }
}
