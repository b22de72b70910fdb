//! Deliveries: one message for one endpoint, and the lease of its attempt.
//!
//! # Invariants
//! * `due_at` stays unchanged while a delivery is leased, so that releasing it restores the
//!   delivery.
//! * An open delivery of an endpoint in strict order is marked in the column `in_order`. The index
//!   over the marked deliveries gives the first one.

use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{AttemptId, DeliveryToken, Timestamp};
use wakeline_store::hook::{SettledState, Trigger};

use super::cache::{self, EndpointConfig};
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The state of a delivery as stored in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryRowState {
    Waiting,
    Leased,
    Delivered,
    Failed,
    Cancelled,
}

impl DeliveryRowState {
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

    /// The state that is returned to the caller that settled an attempt.
    pub(super) fn settled(self) -> SettledState {
        match self {
            Self::Waiting | Self::Leased => SettledState::Retrying,
            Self::Delivered => SettledState::Delivered,
            Self::Failed => SettledState::Failed,
            Self::Cancelled => SettledState::Cancelled,
        }
    }
}

/// The class of a delivery, which decides the order in which the deliveries of an endpoint are
/// leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryClass {
    /// Waits for its first attempt, by its schedule.
    Fresh = 0,
    /// Waits for a later attempt, by its schedule.
    Retry = 1,
    /// Waits for an attempt that was requested by a call or a job. It comes after all others.
    Behind = 2,
    /// Waits for its first attempt, which was requested by a job.
    FreshBehind = 3,
}

impl DeliveryClass {
    pub(super) const ALL: [Self; 4] = [Self::Fresh, Self::Retry, Self::Behind, Self::FreshBehind];

    /// Whether it waits for its first attempt.
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

/// The lease of the attempt that is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeliveryLease {
    pub(super) key: AttemptId,
    pub(super) at: i64,
    pub(super) until: i64,
}

/// The state to which a delivery returns if a requested attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BeforeResend {
    pub(super) state: DeliveryRowState,
    pub(super) due_at: Option<i64>,
    pub(super) behind: bool,
}

/// A delivery with the columns of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeliveryRow {
    pub(super) no: i64,
    pub(super) endpoint: i64,
    pub(super) message: i64,
    pub(super) state: DeliveryRowState,
    pub(super) class: DeliveryClass,
    pub(super) due_at: Option<i64>,
    /// The number of attempts that have ended.
    pub(super) attempts: u32,
    /// The number of ended attempts that belong to the current schedule.
    pub(super) scheduled: u32,
    pub(super) before_resend: Option<BeforeResend>,
    pub(super) lease: Option<DeliveryLease>,
    /// Whether it was cancelled during an attempt, so that no further attempt follows.
    pub(super) cancelled: bool,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// When its last ended attempt was claimed. In strict order, deliveries with the same time are
    /// attempted together again.
    pub(super) attempted_at: Option<i64>,
}

impl DeliveryRow {
    pub(super) fn read(s: &DbSession<'_>, no: i64) -> Res<Option<Self>> {
        let mut statement = s.conn.prepare_cached(sql!("delivery_read"))?;
        let mut rows = statement.query([no])?;
        rows.next()?.map(decode).transpose()
    }

    /// Reads the delivery of a message for an endpoint.
    pub(super) fn of(s: &DbSession<'_>, message: i64, endpoint: i64) -> Res<Option<Self>> {
        let mut statement = s.conn.prepare_cached(sql!("delivery_of"))?;
        let mut rows = statement.query((message, endpoint))?;
        rows.next()?.map(decode).transpose()
    }

    /// Reads the delivery whose live lease has the token, unless its application is deleted.
    pub(super) fn held(
        s: &mut DbSession<'_>,
        token: DeliveryToken,
    ) -> Res<Option<(Self, DeliveryLease)>> {
        let Some(delivery) = Self::read(s, token.delivery)? else { return Ok(None) };
        let Some(lease) = delivery.lease.filter(|_| delivery.state == DeliveryRowState::Leased)
        else {
            return Ok(None);
        };
        let live = lease.key == token.attempt && lease.until > s.now.0;
        let there = live && !cache::endpoint(s, delivery.endpoint)?.application_deleted;
        Ok(there.then_some((delivery, lease)))
    }

    /// Reads the deliveries that a statement finds.
    pub(super) fn several(
        s: &DbSession<'_>,
        sql: &'static str,
        params: impl rusqlite::Params,
    ) -> Res<Vec<Self>> {
        Self::each(s, sql, params)?.into_iter().map(|(_, decoded)| decoded).collect()
    }

    /// Reads the deliveries that a statement finds, each with its number. A corrupt row is an error
    /// of its own entry only.
    pub(super) fn each(
        s: &DbSession<'_>,
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

    /// A new delivery that is due now and not stored yet.
    pub(super) fn new(
        s: &DbSession<'_>,
        config: &EndpointConfig,
        message: i64,
        class: DeliveryClass,
    ) -> Self {
        Self {
            no: 0,
            endpoint: config.no,
            message,
            state: DeliveryRowState::Waiting,
            class,
            due_at: Some(s.now.0),
            attempts: 0,
            scheduled: 0,
            before_resend: None,
            lease: None,
            cancelled: false,
            created_at: s.now,
            updated_at: s.now,
            attempted_at: None,
        }
    }

    /// Whether it is not stored yet.
    pub(super) fn is_new(&self) -> bool {
        self.no == 0
    }

    /// Inserts a new delivery.
    pub(super) fn add(&mut self, s: &DbSession<'_>, config: &EndpointConfig) -> Res<()> {
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

    /// Updates the row and its time of the last change.
    pub(super) fn write(&mut self, s: &DbSession<'_>, config: &EndpointConfig) -> Res<()> {
        self.updated_at = s.now;
        self.restore(s, config)
    }

    /// Updates the row without changing its time of the last change.
    pub(super) fn restore(&self, s: &DbSession<'_>, config: &EndpointConfig) -> Res<()> {
        let in_order = (config.options().fifo.is_some() && self.state.is_open()).then_some(1);
        s.conn.prepare_cached(sql!("delivery_write"))?.execute(rusqlite::params![
            self.no,
            self.state.as_str(),
            self.class as i64,
            self.due_at,
            self.attempts,
            self.scheduled,
            in_order,
            self.before_resend.map(|before_resend| before_resend.state.as_str()),
            self.before_resend.and_then(|before_resend| before_resend.due_at),
            self.before_resend.map(|before_resend| before_resend.behind),
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

    /// Why its next attempt, or the one in flight, is made.
    pub(super) fn trigger(&self) -> Trigger {
        if self.before_resend.is_some() { Trigger::Manual } else { Trigger::Scheduled }
    }

    /// The number of its next attempt, or of the one in flight.
    pub(super) fn attempt_no(&self) -> u32 {
        self.attempts.saturating_add(1)
    }

    /// The number of attempts in the current schedule, including the next one or the one in flight.
    pub(super) fn scheduled_no(&self) -> u32 {
        self.scheduled.saturating_add(u32::from(self.before_resend.is_none()))
    }

    /// Counts the attempt that ends now, and ends its lease.
    pub(super) fn count(&mut self) {
        self.scheduled = self.scheduled_no();
        self.attempts = self.attempt_no();
        self.attempted_at = self.lease.take().map(|lease| lease.at);
    }

    /// Ends the delivery in a final state.
    pub(super) fn end(&mut self, state: DeliveryRowState) {
        self.state = state;
        self.due_at = None;
        self.lease = None;
        self.before_resend = None;
        self.cancelled = false;
    }

    /// Makes the delivery wait for an attempt by its schedule.
    pub(super) fn wait(&mut self, due_at: i64, behind: bool) {
        self.state = DeliveryRowState::Waiting;
        self.due_at = Some(due_at);
        self.class = match (behind, self.attempts == 0) {
            (false, true) => DeliveryClass::Fresh,
            (false, false) => DeliveryClass::Retry,
            (true, false) => DeliveryClass::Behind,
            (true, true) => DeliveryClass::FreshBehind,
        };
        self.lease = None;
        self.before_resend = None;
        self.cancelled = false;
    }

    /// Makes the delivery due now for one more attempt that does not change its schedule.
    pub(super) fn request_resend(&mut self, now: Timestamp) {
        let due_at = self.due_at.filter(|_| self.state == DeliveryRowState::Waiting);
        let current = BeforeResend { state: self.state, due_at, behind: self.class.is_behind() };
        let before_resend = self.before_resend.unwrap_or(current);
        self.wait(now.0, true);
        self.class = DeliveryClass::Behind;
        self.before_resend = Some(before_resend);
    }

    /// Returns the delivery to the state before a requested attempt, which failed.
    pub(super) fn undo_resend(&mut self, before_resend: BeforeResend) {
        match before_resend.due_at.filter(|_| before_resend.state == DeliveryRowState::Waiting) {
            Some(due_at) => self.wait(due_at, before_resend.behind),
            None => self.end(before_resend.state),
        }
    }
}

/// Columns: delivery_no, endpoint_no, message_no, state, class, due_at, attempts, scheduled,
/// back_state, back_due_at, back_behind, lease_key, leased_at, lease_until, cancelled, created_at,
/// updated_at, attempted_at.
pub(super) fn decode(row: &Row<'_>) -> Res<DeliveryRow> {
    let no: i64 = row.get(0)?;
    Ok(DeliveryRow {
        no,
        endpoint: row.get(1)?,
        message: row.get(2)?,
        state: DeliveryRowState::parse(
            no,
            row.get_ref(3)?.as_str().map_err(corrupt("delivery", no))?,
        )?,
        class: DeliveryClass::parse(no, row.get(4)?)?,
        due_at: row.get(5)?,
        attempts: row.get(6)?,
        scheduled: row.get(7)?,
        before_resend: decode_before_resend(row, no)?,
        lease: decode_lease(row, no)?,
        cancelled: row.get(14)?,
        created_at: Timestamp(row.get(15)?),
        updated_at: Timestamp(row.get(16)?),
        attempted_at: row.get(17)?,
    })
}

fn decode_before_resend(row: &Row<'_>, no: i64) -> Res<Option<BeforeResend>> {
    let Some(state) = row.get::<_, Option<String>>(8)? else { return Ok(None) };
    let state = DeliveryRowState::parse(no, &state)?;
    Ok(Some(BeforeResend { state, due_at: row.get(9)?, behind: row.get(10)? }))
}

fn decode_lease(row: &Row<'_>, no: i64) -> Res<Option<DeliveryLease>> {
    let Some(key) = row.get::<_, Option<Vec<u8>>>(11)? else { return Ok(None) };
    let key = Uuid::from_slice(&key).map_err(corrupt("delivery", no))?;
    Ok(Some(DeliveryLease { key: AttemptId(key), at: row.get(12)?, until: row.get(13)? }))
}
