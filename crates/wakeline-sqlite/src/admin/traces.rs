//! Traces of messages.

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use uuid::Uuid;
use wakeline_core::{
    GroupName, MessageId, PartitionId, PartitionName, QueueName, Timestamp, TraceName,
};
use wakeline_store::{
    AddTraceOutcome, MessageKey, NamedTrace, NamedTraces, NewTrace, Page, PayloadEncryptionError,
    TRACES_PER_MESSAGE_MAX, Trace, TraceNameDetail, TraceNames,
};

use crate::error::{Res, StoreFault, corrupt};
use crate::queue::message;
use crate::session::DbSession;

/// Approximate size of a trace on disk without its data.
pub(super) const TRACE_BYTES: usize = 300;

/// Adds a trace to a message.
pub(super) fn add(s: &mut DbSession<'_>, trace: &NewTrace) -> Res<AddTraceOutcome> {
    let Some((offset, queue)) = newest(s, &trace.message)? else {
        return Ok(AddTraceOutcome::Missing);
    };
    let partition = trace.message.partition.0;
    let sql = include_str!("../../sql/queries/trace_count.sql");
    let params = (partition, offset);
    let there: u32 = s.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0))?;
    if there >= TRACES_PER_MESSAGE_MAX {
        return Ok(AddTraceOutcome::TooMany);
    }
    let missing = || corrupt("partition", partition)("its queue is missing");
    let is_encrypted = s.queue_by_id(queue)?.ok_or_else(missing)?.options.encrypted;
    let encrypted = if is_encrypted {
        Some(
            s.encryption
                .encrypt(MessageId(trace.id), &trace.data)
                .map_err(encryption_failed(trace.id))?,
        )
    } else {
        None
    };
    let sql = include_str!("../../sql/queries/trace_add.sql");
    s.conn.prepare_cached(sql)?.execute((
        trace.id.as_bytes().as_slice(),
        partition,
        offset,
        &trace.event_type,
        trace.group.as_str(),
        &trace.worker,
        encrypted.as_deref().unwrap_or(&trace.data),
        s.now.0,
    ))?;
    let number = s.conn.last_insert_rowid();
    let sql = include_str!("../../sql/queries/trace_name_add.sql");
    for name in &trace.names {
        s.conn.prepare_cached(sql)?.execute((name.as_str(), number))?;
    }
    Ok(AddTraceOutcome::Done)
}

fn encryption_failed(id: Uuid) -> impl Fn(PayloadEncryptionError) -> StoreFault {
    move |error| match error {
        PayloadEncryptionError::NoKeys => StoreFault::NoKeys,
        PayloadEncryptionError::Encryption(error) => corrupt("trace", id)(error),
    }
}

/// The offset and the queue of the newest message with a transaction id.
fn newest(s: &DbSession<'_>, message: &MessageKey) -> Res<Option<(i64, i64)>> {
    let sql = include_str!("../../sql/queries/message_newest.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let params = (message.partition.0, message.transaction_id.as_str());
    Ok(statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// The traces of a message, oldest first.
pub(super) fn list(s: &mut DbSession<'_>, message: &MessageKey) -> Res<Vec<Trace>> {
    let Some((offset, _)) = newest(s, message)? else { return Ok(Vec::new()) };
    let sql = include_str!("../../sql/queries/trace_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((message.partition.0, offset))?;
    let mut traces = Vec::new();
    while let Some(row) = rows.next()? {
        traces.push(decode(s, row)?);
    }
    Ok(traces)
}

/// The traces with a name, newest first.
pub(super) fn named(s: &mut DbSession<'_>, name: &TraceName, page: Page) -> Res<NamedTraces> {
    let sql = include_str!("../../sql/queries/trace_named.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((name.as_str(), page.limit, page.offset))?;
    let mut traces = Vec::new();
    while let Some(row) = rows.next()? {
        let trace = decode(s, row)?;
        let (partition, offset): (i64, i64) = (row.get(7)?, row.get(8)?);
        let (queue, partition_name): (String, String) = (row.get(9)?, row.get(10)?);
        let message = message::read(s, partition, offset, 0)?;
        traces.push(NamedTrace {
            trace,
            queue: QueueName::new(&queue).map_err(corrupt("queue", &queue))?,
            partition: PartitionName::new(partition_name)
                .map_err(corrupt("partition", partition))?,
            partition_id: PartitionId(partition),
            transaction_id: message.transaction_id,
            payload: message.payload,
        });
    }
    let sql = include_str!("../../sql/queries/trace_named_count.sql");
    let total: i64 = s.conn.prepare_cached(sql)?.query_row([name.as_str()], |row| row.get(0))?;
    Ok(NamedTraces { traces, total: total.unsigned_abs() })
}

/// The names of traces, most recently used first.
pub(super) fn names(s: &mut DbSession<'_>, page: Page) -> Res<TraceNames> {
    let sql = include_str!("../../sql/queries/trace_names.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((page.limit, page.offset))?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let (traces, messages): (i64, i64) = (row.get(1)?, row.get(2)?);
        names.push(TraceNameDetail {
            name: TraceName::new(&name).map_err(corrupt("trace name", &name))?,
            traces: traces.unsigned_abs(),
            messages: messages.unsigned_abs(),
            last_seen: Timestamp(row.get(3)?),
        });
    }
    let sql = include_str!("../../sql/queries/trace_names_count.sql");
    let total: i64 = s.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(TraceNames { names, total: total.unsigned_abs() })
}

/// Columns: trace_no, trace_id, event_type, group_name, worker, data, created_at.
fn decode(s: &DbSession<'_>, row: &Row<'_>) -> Res<Trace> {
    let number: i64 = row.get(0)?;
    let id: Vec<u8> = row.get(1)?;
    let id = Uuid::from_slice(&id).map_err(corrupt("trace", number))?;
    let group: String = row.get(3)?;
    let data: Vec<u8> = row.get(5)?;
    let sql = include_str!("../../sql/queries/trace_names_of.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let names: Vec<String> =
        statement.query_map([number], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let names = names.into_iter().map(TraceName::new).collect::<Result<_, _>>();
    Ok(Trace {
        id,
        event_type: row.get(2)?,
        group: GroupName::new(group).map_err(corrupt("trace", number))?,
        worker: row.get(4)?,
        names: names.map_err(corrupt("trace", number))?,
        data: s
            .encryption
            .decrypt(MessageId(id), Bytes::from(data))
            .map_err(corrupt("trace", number))?,
        created_at: Timestamp(row.get(6)?),
    })
}
