//! Reads leased turns and activities from rows.
//!
//! # Invariants
//! * The columns are those of the functions `flow_leased_turns` and `flow_leased_work`, in their
//!   order.

use std::time::SystemTime;

use bytes::Bytes;
use tokio_postgres::Row;
use wakeline_core::{ActivityRoute, FlowToken, KvKey};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    HistoryBatch, InlineHistory, InstanceState, KvEntry, LaneMessage, TurnItem, WorkItem, WorkKey,
};

use crate::rows::{self, Columns};

/// The number of columns of a turn.
pub(super) const TURN_COLUMNS: usize = 25;

/// A leased turn or activity, with the index of its command (or line) and of its request in it.
pub(super) struct LeasedItem<T> {
    pub(super) command: usize,
    pub(super) request: usize,
    pub(super) item: T,
}

const UNKNOWN_STATE: &str = "this release does not know it; a newer one may have written it";

/// Decodes the stored state of an instance.
pub(super) fn state(text: &str) -> Result<InstanceState, StoreError> {
    InstanceState::parse(text)
        .ok_or_else(|| rows::corrupt("state of an instance", text, UNKNOWN_STATE))
}

/// Converts a number that is counted from 1 to an index.
pub(super) fn index(number: i32) -> usize {
    usize::try_from(number - 1).expect("numbers begin at 1")
}

/// Converts a stored number to the unsigned number that the runtime passed.
pub(super) fn unsigned(number: i64) -> u64 {
    number.cast_unsigned()
}

fn attempts(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// Reads a leased turn; its columns begin at `first`.
pub(super) fn turn(
    operation: &'static str,
    row: &Row,
    first: usize,
) -> Result<LeasedItem<TurnItem>, StoreError> {
    let mut columns = Columns::from(operation, row, first);
    let command = index(columns.take()?);
    let request: i32 = columns.take()?;
    let token = FlowToken { lane: columns.take()?, work: None, key: columns.take()? };
    let instance = columns.name("instance")?;
    let name = columns.name_if("orchestration")?;
    let parent = columns.name_if("instance")?;
    let parent_event: Option<i64> = columns.take()?;
    let capability = columns.name_if("capability")?;
    let execution: Option<i64> = columns.take()?;
    let last_event: Option<i64> = columns.take()?;
    let state_text: Option<&str> = columns.take()?;
    let messages = messages(&mut columns)?;
    let history = history(&mut columns)?;
    let kv = kv(&mut columns)?;
    let item = TurnItem {
        token,
        attempt: messages.iter().map(|message| message.attempt).max().unwrap_or(0),
        instance,
        name,
        parent: parent.map(|parent| (parent, unsigned(parent_event.unwrap_or(0)))),
        capability,
        execution: unsigned(execution.unwrap_or(0)),
        last_event: unsigned(last_event.unwrap_or(0)),
        state: state_text.map(state).transpose()?,
        messages,
        history,
        kv,
        now: columns.moment()?,
        lease_for: rows::span(columns.take()?),
    };
    Ok(LeasedItem { command, request: usize::try_from(request).unwrap_or(0), item })
}

fn messages(columns: &mut Columns<'_>) -> Result<Vec<LaneMessage>, StoreError> {
    let seqs: Option<Vec<i64>> = columns.take()?;
    let counts: Option<Vec<i32>> = columns.take()?;
    let payloads: Option<Vec<Vec<u8>>> = columns.take()?;
    let message = |((seq, count), payload): ((i64, i32), Vec<u8>)| LaneMessage {
        seq,
        attempt: attempts(count),
        payload: payload.into(),
    };
    let fields = seqs.into_iter().flatten().zip(counts.into_iter().flatten());
    Ok(fields.zip(payloads.into_iter().flatten()).map(message).collect())
}

fn history(columns: &mut Columns<'_>) -> Result<InlineHistory, StoreError> {
    let whole: bool = columns.take()?;
    let firsts: Option<Vec<i64>> = columns.take()?;
    let lasts: Option<Vec<i64>> = columns.take()?;
    let events: Option<Vec<Vec<u8>>> = columns.take()?;
    if !whole {
        return Ok(InlineHistory::TooLong);
    }
    let batch = |((first, last), events): ((i64, i64), Vec<u8>)| HistoryBatch {
        first: unsigned(first),
        last: unsigned(last),
        events: events.into(),
    };
    let fields = firsts.into_iter().flatten().zip(lasts.into_iter().flatten());
    Ok(InlineHistory::Complete(fields.zip(events.into_iter().flatten()).map(batch).collect()))
}

fn kv(columns: &mut Columns<'_>) -> Result<Vec<KvEntry>, StoreError> {
    let keys: Option<Vec<String>> = columns.take()?;
    let values: Option<Vec<Vec<u8>>> = columns.take()?;
    let executions: Option<Vec<i64>> = columns.take()?;
    let ats: Option<Vec<SystemTime>> = columns.take()?;
    let mut entries = Vec::new();
    let fields = keys.into_iter().flatten().zip(values.into_iter().flatten());
    let marks = executions.into_iter().flatten().zip(ats.into_iter().flatten());
    for ((key, value), (execution, at)) in fields.zip(marks) {
        let key: KvKey = rows::name("key", key)?;
        let (execution, updated_at) = (unsigned(execution), rows::timestamp(at));
        entries.push(KvEntry { key, value: value.into(), execution, updated_at });
    }
    Ok(entries)
}

/// Reads a leased activity; its columns begin at `first`.
pub(super) fn work(
    operation: &'static str,
    row: &Row,
    first: usize,
) -> Result<LeasedItem<WorkItem>, StoreError> {
    let mut columns = Columns::from(operation, row, first);
    let command = index(columns.take()?);
    let request: i32 = columns.take()?;
    let work: i64 = columns.take()?;
    let token = FlowToken { lane: columns.take()?, work: Some(work), key: columns.take()? };
    let attempt = attempts(columns.take()?);
    let instance = columns.name("instance")?;
    let key = WorkKey { execution: unsigned(columns.take()?), activity: unsigned(columns.take()?) };
    let name = columns.name_if("activity")?;
    let tag = columns.name_if("tag")?;
    let session = columns.name_if("session")?;
    let payload = Bytes::from(columns.take::<Vec<u8>>()?);
    let state_text: Option<&str> = columns.take()?;
    let state = state_text.map(state).transpose()?;
    let lease_for = rows::span(columns.take()?);
    let item =
        WorkItem { token, attempt, instance, key, name, tag, session, payload, state, lease_for };
    Ok(LeasedItem { command, request: usize::try_from(request).unwrap_or(0), item })
}

/// Reads the tag and the name of an activity.
pub(super) fn route(columns: &mut Columns<'_>) -> Result<ActivityRoute, StoreError> {
    Ok(ActivityRoute { tag: columns.name_if("tag")?, name: columns.name_if("activity")? })
}
