//! Reads and decodes messages.

use bytes::Bytes;
use rusqlite::Row;
use uuid::Uuid;
use wakeline_core::{MessageId, Timestamp, TransactionId};
use wakeline_store::Delivered;

use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// Reads a message of a partition by its offset. A missing message is an error, because it was
/// leased or parked.
pub(crate) fn read(
    s: &DbSession<'_>,
    partition: i64,
    offset: i64,
    failures: u32,
) -> Res<Delivered> {
    let sql = include_str!("../../sql/queries/message_read.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let mut rows = statement.query((partition, offset))?;
    match rows.next()? {
        Some(row) => decode(s, row, partition, failures),
        None => {
            let id = format!("{partition}/{offset}");
            Err(corrupt("message", id)("it is missing from its partition"))
        }
    }
}

/// Columns: offset, id, transaction_id, trace_id, producer, created_at, payload.
pub(crate) fn decode(
    s: &DbSession<'_>,
    row: &Row<'_>,
    partition: i64,
    failures: u32,
) -> Res<Delivered> {
    let offset: i64 = row.get(0)?;
    let place = || format!("{partition}/{offset}");
    let uuid = |bytes: &[u8]| Uuid::from_slice(bytes).map_err(corrupt("message", place()));
    let decode_error = |error| corrupt("message", place())(error);
    let id = uuid(row.get_ref(1)?.as_blob().map_err(decode_error)?)?;
    let text = row.get_ref(2)?.as_str().map_err(decode_error)?;
    let transaction_id = TransactionId::new(text).map_err(corrupt("message", place()))?;
    let trace_id = row.get_ref(3)?.as_blob_or_null().map_err(decode_error)?;
    let payload = row.get_ref(6)?.as_blob().map_err(decode_error)?;
    Ok(Delivered {
        id: MessageId(id),
        transaction_id,
        trace_id: trace_id.map(uuid).transpose()?,
        payload: (s.encryption.decrypt(MessageId(id), Bytes::copy_from_slice(payload)))
            .map_err(corrupt("message", place()))?,
        created_at: Timestamp(row.get(5)?),
        offset,
        attempt: failures.saturating_add(1),
        producer: row.get(4)?,
    })
}
