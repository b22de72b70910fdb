//! Deliveries as rows: one message for one endpoint, and the lease of its attempt.
//!
//! # Invariants
//! * `due_at` stays while a delivery is leased, so that giving it back restores what was.
//! * A delivery of an endpoint in strict order is marked so for as long as it has not ended: the
//!   index over these gives the head.

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{AttemptId, DeliveryToken, Timestamp};
use wakeline_store::hook::{SettledState, Trigger};

use super::known::{self, Config};
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::Session;

/// How a delivery stands in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Leased,
    Delivered,
    Failed,
    Cancelled,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Leased => "leased",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn parse(no: i64, text: &str) -> Res<Self> {
        Ok(match text {
            "waiting" => Self::Waiting,
            "leased" => Self::Leased,
            "delivered" => Self::Delivered,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            other => {
                return Err(corrupt("delivery", no)(format!(
                    "{other:?} is not a state of a delivery"
                )));
            }
        })
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Leased)
    }

    /// What whoever settled an attempt is told.
    pub(super) fn settled(self) -> SettledState {
        match self {
            Self::Waiting | Self::Leased => SettledState::Retrying,
            Self::Delivered => SettledState::Delivered,
            Self::Failed => SettledState::Failed,
            Self::Cancelled => SettledState::Cancelled,
        }
    }
}

/// Which deliveries of an endpoint go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Its first attempt, by its schedule.
    Fresh = 0,
    /// A later one, by its schedule.
    Retry = 1,
    /// Asked for, or of a job: after all others.
    Behind = 2,
    /// Of a job, and its first attempt.
    FreshBehind = 3,
}

impl Class {
    pub(super) const ALL: [Self; 4] = [Self::Fresh, Self::Retry, Self::Behind, Self::FreshBehind];

    /// Whether it is for a first attempt by schedule.
    pub(super) fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh | Self::FreshBehind)
    }

    pub(super) fn is_behind(self) -> bool {
        matches!(self, Self::Behind | Self::FreshBehind)
    }

    fn parse(no: i64, value: i64) -> Res<Self> {
        Self::ALL
            .into_iter()
            .find(|class| *class as i64 == value)
            .ok_or_else(|| corrupt("delivery", no)(format!("{value} is not a class of a delivery")))
    }
}

/// The attempt that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) key: AttemptId,
    pub(super) at: i64,
    pub(super) until: i64,
}

/// What a delivery is again after an attempt that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Back {
    pub(super) state: State,
    pub(super) due_at: Option<i64>,
    pub(super) behind: bool,
}

/// A delivery as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) no: i64,
    pub(super) endpoint: i64,
    pub(super) message: i64,
    pub(super) state: State,
    pub(super) class: Class,
    pub(super) due_at: Option<i64>,
    /// Attempts that have ended.
    pub(super) attempts: u32,
    /// Of these, by its present schedule.
    pub(super) scheduled: u32,
    pub(super) back: Option<Back>,
    pub(super) lease: Option<Lease>,
    /// Nothing follows the attempt that is under way.
    pub(super) cancelled: bool,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// When its last attempt that has ended was claimed. In strict order it goes again with those
    /// that have the same time.
    pub(super) attempted_at: Option<i64>,
}

impl Delivery {
    pub(super) fn read(s: &Session<'_>, no: i64) -> Res<Option<Self>> {
        let mut statement = s.conn.prepare_cached(sql!("delivery_read"))?;
        let mut rows = statement.query([no])?;
        rows.next()?.map(decode).transpose()
    }

    /// That of a message for an endpoint.
    pub(super) fn of(s: &Session<'_>, message: i64, endpoint: i64) -> Res<Option<Self>> {
        let mut statement = s.conn.prepare_cached(sql!("delivery_of"))?;
        let mut rows = statement.query((message, endpoint))?;
        rows.next()?.map(decode).transpose()
    }

    /// The one whose live lease a token proves.
    pub(super) fn held(s: &mut Session<'_>, token: DeliveryToken) -> Res<Option<(Self, Lease)>> {
        let Some(delivery) = Self::read(s, token.delivery)? else { return Ok(None) };
        let Some(lease) = delivery.lease.filter(|_| delivery.state == State::Leased) else {
            return Ok(None);
        };
        let live = lease.key == token.attempt && lease.until > s.now.0;
        let there = live && !known::endpoint(s, delivery.endpoint)?.gone;
        Ok(there.then_some((delivery, lease)))
    }

    /// Several, by a statement that finds them.
    pub(super) fn several(
        s: &Session<'_>,
        sql: &'static str,
        params: impl rusqlite::Params,
    ) -> Res<Vec<Self>> {
        Self::each(s, sql, params)?.into_iter().map(|(_, decoded)| decoded).collect()
    }

    /// The same, with their numbers: one that cannot be read is not an error for the others.
    pub(super) fn each(
        s: &Session<'_>,
        sql: &'static str,
        params: impl rusqlite::Params,
    ) -> Res<Vec<(i64, Res<Self>)>> {
        let mut statement = s.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((row.get(0)?, decode(row)));
        }
        Ok(found)
    }

    /// One that is due now; it is not there before it is added.
    pub(super) fn new(s: &Session<'_>, config: &Config, message: i64, class: Class) -> Self {
        Self {
            no: 0,
            endpoint: config.no,
            message,
            state: State::Waiting,
            class,
            due_at: Some(s.now.0),
            attempts: 0,
            scheduled: 0,
            back: None,
            lease: None,
            cancelled: false,
            created_at: s.now,
            updated_at: s.now,
            attempted_at: None,
        }
    }

    /// Whether it was not added yet.
    pub(super) fn is_new(&self) -> bool {
        self.no == 0
    }

    /// Adds a new one.
    pub(super) fn add(&mut self, s: &Session<'_>, config: &Config) -> Res<()> {
        s.conn.prepare_cached(sql!("delivery_add"))?.execute((
            self.endpoint,
            self.message,
            self.state.as_str(),
            self.class as i64,
            config.options().fifo.is_some().then_some(1),
            config.options().pull,
            self.lease.map(|lease| lease.key.0.into_bytes()),
            self.lease.map(|lease| lease.until),
            self.created_at.0,
        ))?;
        self.no = s.conn.last_insert_rowid();
        Ok(())
    }

    /// Writes it back, as changed now.
    pub(super) fn write(&mut self, s: &Session<'_>, config: &Config) -> Res<()> {
        self.updated_at = s.now;
        self.restore(s, config)
    }

    /// Writes it back as it is.
    pub(super) fn restore(&self, s: &Session<'_>, config: &Config) -> Res<()> {
        let in_order = (config.options().fifo.is_some() && self.state.is_open()).then_some(1);
        s.conn.prepare_cached(sql!("delivery_write"))?.execute(rusqlite::params![
            self.no,
            self.state.as_str(),
            self.class as i64,
            self.due_at,
            self.attempts,
            self.scheduled,
            in_order,
            self.back.map(|back| back.state.as_str()),
            self.back.and_then(|back| back.due_at),
            self.back.map(|back| back.behind),
            self.lease.map(|lease| lease.key.0.into_bytes()),
            self.lease.map(|lease| lease.at),
            self.lease.map(|lease| lease.until),
            self.cancelled,
            config.options().pull,
            self.updated_at.0,
            self.attempted_at,
        ])?;
        Ok(())
    }

    /// Why its next attempt, or the one under way, is made.
    pub(super) fn trigger(&self) -> Trigger {
        if self.back.is_some() { Trigger::Manual } else { Trigger::Scheduled }
    }

    /// The number of its next attempt, or of the one under way.
    pub(super) fn attempt_no(&self) -> u32 {
        self.attempts.saturating_add(1)
    }

    /// Attempts of its schedule with the next one, or the one under way.
    pub(super) fn scheduled_no(&self) -> u32 {
        self.scheduled.saturating_add(u32::from(self.back.is_none()))
    }

    /// Counts the attempt that ends now.
    pub(super) fn count(&mut self) {
        self.scheduled = self.scheduled_no();
        self.attempts = self.attempt_no();
        self.attempted_at = self.lease.take().map(|lease| lease.at);
    }

    /// It has ended.
    pub(super) fn end(&mut self, state: State) {
        self.state = state;
        self.due_at = None;
        self.lease = None;
        self.back = None;
        self.cancelled = false;
    }

    /// It waits for an attempt by its schedule.
    pub(super) fn wait(&mut self, due_at: i64, behind: bool) {
        self.state = State::Waiting;
        self.due_at = Some(due_at);
        self.class = match (behind, self.attempts == 0) {
            (false, true) => Class::Fresh,
            (false, false) => Class::Retry,
            (true, false) => Class::Behind,
            (true, true) => Class::FreshBehind,
        };
        self.lease = None;
        self.back = None;
        self.cancelled = false;
    }

    /// One more attempt, now, that does not touch the schedule.
    pub(super) fn ask_again(&mut self, now: Timestamp) {
        let due_at = self.due_at.filter(|_| self.state == State::Waiting);
        let now_is = Back { state: self.state, due_at, behind: self.class.is_behind() };
        let back = self.back.unwrap_or(now_is);
        self.wait(now.0, true);
        self.class = Class::Behind;
        self.back = Some(back);
    }

    /// Its attempt was asked for and came to nothing: it is again what it was.
    pub(super) fn go_back(&mut self, back: Back) {
        match back.due_at.filter(|_| back.state == State::Waiting) {
            Some(due_at) => self.wait(due_at, back.behind),
            None => self.end(back.state),
        }
    }
}

/// Columns: delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled,
/// back_state, back_due_at, back_behind, lease_key, leased_at, lease_until, cancelled, created_at,
/// updated_at, attempted_at.
pub(super) fn decode(row: &Row<'_>) -> Res<Delivery> {
    let no: i64 = row.get(0)?;
    Ok(Delivery {
        no,
        endpoint: row.get(1)?,
        message: row.get(2)?,
        state: State::parse(no, row.get_ref(3)?.as_str().map_err(corrupt("delivery", no))?)?,
        class: Class::parse(no, row.get(4)?)?,
        due_at: row.get(5)?,
        attempts: row.get(6)?,
        scheduled: row.get(7)?,
        back: decode_back(row, no)?,
        lease: decode_lease(row, no)?,
        cancelled: row.get(14)?,
        created_at: Timestamp(row.get(15)?),
        updated_at: Timestamp(row.get(16)?),
        attempted_at: row.get(17)?,
    })
}

fn decode_back(row: &Row<'_>, no: i64) -> Res<Option<Back>> {
    let Some(state) = row.get::<_, Option<String>>(8)? else { return Ok(None) };
    let state = State::parse(no, &state)?;
    Ok(Some(Back { state, due_at: row.get(9)?, behind: row.get(10)? }))
}

fn decode_lease(row: &Row<'_>, no: i64) -> Res<Option<Lease>> {
    let Some(key) = row.get::<_, Option<Vec<u8>>>(11)? else { return Ok(None) };
    let key = Uuid::from_slice(&key).map_err(corrupt("delivery", no))?;
    Ok(Some(Lease { key: AttemptId(key), at: row.get(12)?, until: row.get(13)? }))
}
