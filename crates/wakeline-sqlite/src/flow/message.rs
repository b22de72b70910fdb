//! Messages in lanes: storing them, and the messages that a lease holds.

use bytes::Bytes;
use rusqlite::OptionalExtension as _;
use wakeline_core::Timestamp;
use wakeline_store::flow::{EnqueueOutcome, Envelope, LaneMessage, Visible};

use super::lane::{InstanceLane, InstanceLanes, LaneLease, number};
use super::names;
use crate::error::Res;
use crate::session::DbSession;

/// Approximate size of a message on disk without its payload.
const MESSAGE_BYTES: usize = 200;
/// The maximum number of messages that are delivered with one turn.
const TAKEN_LEN_MAX: usize = 1_000;
/// Approximate limit on the bytes of these messages. One message is always delivered.
const TAKEN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Approximate size of messages on disk.
pub(super) fn bytes(envelopes: &[Envelope]) -> usize {
    envelopes.iter().map(|envelope| MESSAGE_BYTES + envelope.payload.len()).sum()
}

/// The time from which a message or an activity can be claimed.
pub(super) fn visible_at(visible: Visible, now: Timestamp) -> i64 {
    match visible {
        Visible::Now => now.0,
        Visible::After(span) => now.plus(span).0,
        Visible::At(at) => at.0,
    }
}

/// Stores a message, or returns why it was not stored.
pub(super) fn store(
    s: &mut DbSession<'_>,
    lanes: &mut InstanceLanes,
    envelope: &Envelope,
) -> Res<EnqueueOutcome> {
    let lane = lanes.ensure(s, &envelope.instance)?;
    if envelope.unique && (lane.state.is_some() || start_waits(s, lane.id)?) {
        return Ok(EnqueueOutcome::Exists);
    }
    let ended = lane.state.is_some_and(|state| state.is_ended());
    if ended && !envelope.even_if_ended {
        return Ok(EnqueueOutcome::Ended);
    }
    if append(s, lane, envelope)?
        && let Some(needed) = &envelope.starts
    {
        if ended || lane.capability.is_none() {
            lane.capability = Some(names::ensure_capability(s, needed)?);
        }
        if lane.started_at.is_none() {
            lane.started_at = Some(s.now.0);
            lane.parent = envelope.parent.as_ref().map(|parent| parent.as_str().to_owned());
        }
    }
    Ok(EnqueueOutcome::Queued)
}

/// Appends a message. Returns false if the lane has a message with this key.
fn append(s: &DbSession<'_>, lane: &mut InstanceLane, envelope: &Envelope) -> Res<bool> {
    let visible_at = visible_at(envelope.visible, s.now);
    let key = match envelope.key {
        Some((execution, event)) => Some((number("key", execution)?, number("key", event)?)),
        None => None,
    };
    let sql = include_str!("../../sql/queries/flow_message_add.sql");
    let added = s.conn.prepare_cached(sql)?.execute((
        lane.id,
        lane.next_seq,
        visible_at,
        envelope.starts.is_some(),
        key.map(|(execution, _)| execution),
        key.map(|(_, event)| event),
        envelope.payload.as_ref(),
    ))?;
    if added > 0 {
        lane.next_seq += 1;
        if lane.lease.is_none() && lane.suspension.is_none() {
            lane.due_at = Some(lane.due_at.map_or(visible_at, |due_at| due_at.min(visible_at)));
        }
    }
    Ok(added > 0)
}

/// Whether a message that can start an execution waits in a lane.
pub(super) fn start_waits(s: &DbSession<'_>, lane: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/flow_message_starts.sql");
    Ok(s.conn.prepare_cached(sql)?.exists([lane])?)
}

/// When the first message of a lane is visible.
pub(super) fn due(s: &DbSession<'_>, lane: i64) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/flow_message_due.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([lane])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
}

/// The messages of a lease that begins now. If not all visible messages fit into a turn, those
/// beyond the cut that can start an execution are moved to the front of the lane first, because
/// without them no dispatcher could process the messages before them. The messages moved to the
/// front are then delivered alone: an execution that continues as new carries over the messages of
/// its turns that it did not consume, so otherwise each turn of a loop over a large mailbox would
/// carry all earlier messages.
pub(super) fn take(s: &DbSession<'_>, lane: i64, lease: LaneLease) -> Res<Vec<LaneMessage>> {
    let (messages, cut) = fitting(s, lane, visible(s, lane, lease)?)?;
    let Some(last) = messages.last().filter(|_| cut) else { return Ok(messages) };
    let sql = include_str!("../../sql/queries/flow_message_starts_behind.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement.query_map((lane, lease.at, last.seq), |row| row.get(0))?;
    let behind: Vec<i64> = found.collect::<Result<_, _>>()?;
    let sql = include_str!("../../sql/queries/flow_message_to_front.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    for seq in behind {
        statement.execute((lane, seq))?;
    }
    let sql = include_str!("../../sql/queries/flow_message_first_other.sql");
    let other = s.conn.prepare_cached(sql)?.query_row((lane, lease.at), |row| row.get(0));
    let end = other.optional()?.unwrap_or(i64::MAX);
    let (in_front, _) = fitting(s, lane, first(s, lane, LaneLease { seq: end - 1, ..lease })?)?;
    Ok(if in_front.is_empty() { messages } else { in_front })
}

/// The messages that a lease holds, in order of arrival.
pub(super) fn taken(s: &DbSession<'_>, lane: i64, lease: LaneLease) -> Res<Vec<LaneMessage>> {
    fitting(s, lane, visible(s, lane, lease)?).map(|(messages, _)| messages)
}

/// Reads the messages with these sequence numbers, as many as fit into a turn. Also returns whether
/// there are more.
fn fitting(s: &DbSession<'_>, lane: i64, places: Vec<i64>) -> Res<(Vec<LaneMessage>, bool)> {
    let sql = include_str!("../../sql/queries/flow_message_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut messages = Vec::new();
    let mut bytes = 0;
    for seq in places {
        let (attempts, payload): (u32, Vec<u8>) =
            statement.query_row((lane, seq), |row| Ok((row.get(1)?, row.get(2)?)))?;
        bytes += payload.len();
        if messages.len() == TAKEN_LEN_MAX || (bytes > TAKEN_BYTES_MAX && !messages.is_empty()) {
            return Ok((messages, true));
        }
        let attempt = attempts.saturating_add(1);
        messages.push(LaneMessage { seq, attempt, payload: Bytes::from(payload) });
    }
    Ok((messages, false))
}

/// The sequence numbers of the visible messages, and one more than fit into a turn if there are so
/// many. They are searched among the visible messages, or, if those are very many, by walking the
/// lane.
fn visible(s: &DbSession<'_>, lane: i64, lease: LaneLease) -> Res<Vec<i64>> {
    let sql = include_str!("../../sql/queries/flow_message_visible.sql");
    let mut seqs = places(s, sql, lane, lease)?;
    if seqs.len() > TAKEN_LEN_MAX {
        return first(s, lane, lease);
    }
    seqs.sort_unstable();
    Ok(seqs)
}

/// Like [`visible`], by walking the lane.
fn first(s: &DbSession<'_>, lane: i64, lease: LaneLease) -> Res<Vec<i64>> {
    places(s, include_str!("../../sql/queries/flow_message_first.sql"), lane, lease)
}

fn places(s: &DbSession<'_>, sql: &str, lane: i64, lease: LaneLease) -> Res<Vec<i64>> {
    let mut statement = s.conn.prepare_cached(sql)?;
    let limit = i64::try_from(TAKEN_LEN_MAX + 1).expect("a small constant");
    let found = statement.query_map((lane, lease.at, lease.seq, limit), |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Removes the messages that a lease holds.
pub(super) fn remove_taken(s: &DbSession<'_>, lane: i64, lease: LaneLease) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_message_taken_remove.sql");
    s.conn.prepare_cached(sql)?.execute((lane, lease.at, lease.seq))?;
    Ok(())
}

/// How the messages of a lease are returned to the lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReturnOptions {
    /// When they become visible, or `None` to keep their times.
    pub(super) visible_at: Option<i64>,
    /// Whether the lease counts as an attempt.
    pub(super) counted: bool,
}

/// Returns the messages that a lease holds to the lane.
pub(super) fn return_taken(
    s: &DbSession<'_>,
    lane: i64,
    lease: LaneLease,
    options: ReturnOptions,
) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_message_taken_return.sql");
    let params = (lane, lease.at, lease.seq, options.visible_at, options.counted);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// Removes a message by its key, if it exists.
pub(super) fn cancel(s: &DbSession<'_>, lane: i64, key: (u64, u64)) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_message_cancel.sql");
    let params = (lane, number("key", key.0)?, number("key", key.1)?);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}
