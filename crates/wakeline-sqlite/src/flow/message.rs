//! Messages in lanes: storing them, and those that a lease holds.

use bytes::Bytes;
use wakeline_core::Timestamp;
use wakeline_store::flow::{EnqueueOutcome, Envelope, LaneMessage, Visible};

use super::lane::{Lane, LaneLease, Lanes, number};
use super::names;
use crate::error::Res;
use crate::session::Session;

/// Space that a message takes besides its payload, roughly.
const MESSAGE_BYTES: usize = 200;
/// Most messages that a turn takes along.
const TAKEN_LEN_MAX: usize = 1_000;
/// About as many bytes at most, but always one message.
const TAKEN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What envelopes take of the disk, roughly.
pub(super) fn bytes(envelopes: &[Envelope]) -> usize {
    envelopes.iter().map(|envelope| MESSAGE_BYTES + envelope.payload.len()).sum()
}

/// The moment from which something can be claimed.
pub(super) fn visible_at(visible: Visible, now: Timestamp) -> i64 {
    match visible {
        Visible::Now => now.0,
        Visible::After(span) => now.plus(span).0,
        Visible::At(at) => at.0,
    }
}

/// Stores a message, or says why not.
pub(super) fn store(
    s: &mut Session<'_>,
    lanes: &mut Lanes,
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

/// False if the lane has a message of this key.
fn append(s: &Session<'_>, lane: &mut Lane, envelope: &Envelope) -> Res<bool> {
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
        if lane.lease.is_none() && lane.held.is_none() {
            lane.due_at = Some(lane.due_at.map_or(visible_at, |due_at| due_at.min(visible_at)));
        }
    }
    Ok(added > 0)
}

/// Whether a message that may begin an execution waits in a lane.
pub(super) fn start_waits(s: &Session<'_>, lane: i64) -> Res<bool> {
    let sql = include_str!("../../sql/queries/flow_message_starts.sql");
    Ok(s.conn.prepare_cached(sql)?.exists([lane])?)
}

/// When the first message of a lane is visible.
pub(super) fn due(s: &Session<'_>, lane: i64) -> Res<Option<i64>> {
    let sql = include_str!("../../sql/queries/flow_message_due.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query([lane])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
}

/// The messages that a lease takes which begins now. Those that may begin an execution and lie
/// behind what fits into a turn are moved to the front of the lane first: without them nobody could
/// take the messages before them.
pub(super) fn take(s: &Session<'_>, lane: i64, lease: LaneLease) -> Res<Vec<LaneMessage>> {
    let messages = taken(s, lane, lease)?;
    let Some(last) = messages.last() else { return Ok(messages) };
    let sql = include_str!("../../sql/queries/flow_message_starts_behind.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement.query_map((lane, lease.at, last.seq), |row| row.get(0))?;
    let behind: Vec<i64> = found.collect::<Result<_, _>>()?;
    if behind.is_empty() {
        return Ok(messages);
    }
    let sql = include_str!("../../sql/queries/flow_message_to_front.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    for seq in behind {
        statement.execute((lane, seq))?;
    }
    taken(s, lane, lease)
}

/// The messages that a lease holds, in order of arrival; of a lease that begins, those that it
/// can take at once.
pub(super) fn taken(s: &Session<'_>, lane: i64, lease: LaneLease) -> Res<Vec<LaneMessage>> {
    let sql = include_str!("../../sql/queries/flow_message_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut messages = Vec::new();
    let mut bytes = 0;
    for seq in visible(s, lane, lease)? {
        let (attempts, payload): (u32, Vec<u8>) =
            statement.query_row((lane, seq), |row| Ok((row.get(1)?, row.get(2)?)))?;
        bytes += payload.len();
        if bytes > TAKEN_BYTES_MAX && !messages.is_empty() {
            break;
        }
        let attempt = attempts.saturating_add(1);
        messages.push(LaneMessage { seq, attempt, payload: Bytes::from(payload) });
    }
    Ok(messages)
}

/// Their places: found among the visible ones, or, if those are very many, by walking the lane.
fn visible(s: &Session<'_>, lane: i64, lease: LaneLease) -> Res<Vec<i64>> {
    let find = |sql: &str, limit: usize| -> Res<Vec<i64>> {
        let mut statement = s.conn.prepare_cached(sql)?;
        let limit = i64::try_from(limit).expect("a small constant");
        let params = (lane, lease.at, lease.seq, limit);
        let found = statement.query_map(params, |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(found)
    };
    let sql = include_str!("../../sql/queries/flow_message_visible.sql");
    let mut seqs = find(sql, TAKEN_LEN_MAX + 1)?;
    if seqs.len() > TAKEN_LEN_MAX {
        return find(include_str!("../../sql/queries/flow_message_first.sql"), TAKEN_LEN_MAX);
    }
    seqs.sort_unstable();
    Ok(seqs)
}

/// Removes what a lease holds.
pub(super) fn remove_taken(s: &Session<'_>, lane: i64, lease: LaneLease) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_message_taken_remove.sql");
    s.conn.prepare_cached(sql)?.execute((lane, lease.at, lease.seq))?;
    Ok(())
}

/// How messages are given back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Return {
    /// When they are visible; `None`: as they were.
    pub(super) visible_at: Option<i64>,
    /// Whether the lease counts as an attempt.
    pub(super) counted: bool,
}

/// Gives what a lease holds back.
pub(super) fn return_taken(s: &Session<'_>, lane: i64, lease: LaneLease, how: Return) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_message_taken_return.sql");
    let params = (lane, lease.at, lease.seq, how.visible_at, how.counted);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// Takes a message back by its key, if it is there.
pub(super) fn cancel(s: &Session<'_>, lane: i64, key: (u64, u64)) -> Res<()> {
    let sql = include_str!("../../sql/queries/flow_message_cancel.sql");
    let params = (lane, number("key", key.0)?, number("key", key.1)?);
    s.conn.prepare_cached(sql)?.execute(params)?;
    Ok(())
}
