//! Webhook messages: their rows, and looking them up.

use bytes::Bytes;
use rusqlite::OptionalExtension as _;
use wakeline_core::{
    ApplicationId, ApplicationRef, Channel, EventId, EventTypeName, HookMessageId, MessageRef,
    Timestamp,
};
use wakeline_store::hook::{NewMessage, StoredMessage};

use super::cache::{self, json, number, to_json, uuid};
use super::sql;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// Approximate size of a message on disk without its payload.
const MESSAGE_BYTES: usize = 500;

/// Approximate size of a message on disk.
pub(super) fn bytes(message: &NewMessage) -> usize {
    MESSAGE_BYTES + message.payload.len()
}

/// Looks up the numbers of a message and of its application.
pub(super) fn find(
    s: &mut DbSession<'_>,
    application: &ApplicationRef,
    message: &MessageRef,
) -> Res<Option<(i64, i64)>> {
    let Some((application, _)) = cache::application(s, application)? else { return Ok(None) };
    let no = match message {
        MessageRef::Id(id) => by_id(s, application, *id)?,
        MessageRef::Own(event_id) => by_event(s, application, event_id)?,
    };
    Ok(no.map(|no| (no, application)))
}

/// Looks up the number of a message by its id.
pub(super) fn by_id(s: &DbSession<'_>, application: i64, id: HookMessageId) -> Res<Option<i64>> {
    number(s, sql!("message_by_id"), (application, id.0.into_bytes()))
}

/// Looks up the number of a message by the id that its user chose.
pub(super) fn by_event(s: &DbSession<'_>, application: i64, id: &EventId) -> Res<Option<i64>> {
    number(s, sql!("message_by_event"), (application, id.as_str()))
}

/// Reads a message, with its payload if `with_content`.
pub(super) fn read(s: &DbSession<'_>, no: i64, with_content: bool) -> Res<StoredMessage> {
    let mut statement = s.conn.prepare_cached(sql!("message_read"))?;
    let mut rows = statement.query((no, with_content))?;
    let row = rows.next()?.ok_or_else(|| corrupt("webhook message", no)("its row is missing"))?;
    let event_type: String = row.get(2)?;
    let event_id: Option<String> = row.get(3)?;
    let channels: Option<String> = row.get(4)?;
    Ok(StoredMessage {
        id: HookMessageId(uuid("message", row, 0)?),
        application: ApplicationId(uuid("message", row, 1)?),
        event_type: EventTypeName::new(event_type).map_err(corrupt("webhook message", no))?,
        event_id: event_id.map(EventId::new).transpose().map_err(corrupt("webhook message", no))?,
        channels: channels.map_or(Ok(Vec::new()), |text| json("webhook message", no, &text))?,
        created_at: Timestamp(row.get(5)?),
        payload: row.get::<_, Option<Vec<u8>>>(6)?.map(Bytes::from),
    })
}

/// Inserts a message with its payload, and returns its number.
pub(super) fn add(s: &DbSession<'_>, application: i64, new: &NewMessage) -> Res<i64> {
    let channels = (!new.channels.is_empty()).then(|| to_json(&new.channels));
    s.conn.prepare_cached(sql!("message_add"))?.execute((
        application,
        new.id.0.into_bytes(),
        new.event_type.as_str(),
        new.event_id.as_ref().map(EventId::as_str),
        channels,
        s.now.0,
    ))?;
    let no = s.conn.last_insert_rowid();
    let expires_at = s.now.plus(new.retention).0;
    s.conn.prepare_cached(sql!("payload_add"))?.execute((no, expires_at, &new.payload[..]))?;
    Ok(no)
}

/// Whether the payload of a message exists.
pub(super) fn has_payload(s: &DbSession<'_>, no: i64) -> Res<bool> {
    Ok(number(s, sql!("payload_exists"), [no])?.is_some())
}

/// Removes the payload of a message.
pub(super) fn drop_payload(s: &DbSession<'_>, no: i64) -> Res<()> {
    s.conn.prepare_cached(sql!("payload_remove"))?.execute([no])?;
    Ok(())
}

/// The event type and the channels of a message, which endpoint filters use.
pub(super) fn filtered(s: &DbSession<'_>, no: i64) -> Res<(EventTypeName, Vec<Channel>)> {
    let mut statement = s.conn.prepare_cached(sql!("message_filtered"))?;
    let found: Option<(String, Option<String>)> =
        statement.query_row([no], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let missing = || corrupt("webhook message", no)("its row is missing");
    let (event_type, channels) = found.ok_or_else(missing)?;
    let event_type = EventTypeName::new(event_type).map_err(corrupt("webhook message", no))?;
    let channels = channels.map_or(Ok(Vec::new()), |text| json("webhook message", no, &text))?;
    Ok((event_type, channels))
}
