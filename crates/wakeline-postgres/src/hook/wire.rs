//! Converts the types of webhooks to parameters of SQL functions and back.
//!
//! # Invariants
//! * Time spans are in microseconds, and so short that no sum exceeds the last timestamp that
//!   PostgreSQL supports.
//! * A text that PostgreSQL cannot store is refused before it is sent.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use wakeline_core::{
    ApplicationRef, Channel, EndpointRef, HookChange, HookChangeKind, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{DisableReason, EndpointSecret};

use crate::rows::{self, Columns};

/// The longest span: 100 years.
const SPAN_MAX: Duration = Duration::from_secs(3_155_760_000);

/// Converts a span to microseconds.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(SPAN_MAX).as_micros()).expect("100 years fit")
}

/// Converts a number that is counted from 1 to an index.
pub(super) fn index(ord: i32) -> usize {
    usize::try_from(ord - 1).expect("counted from 1")
}

/// Converts a length to a PostgreSQL integer.
pub(super) fn length(len: usize) -> i32 {
    i32::try_from(len).expect("calls are small")
}

/// Converts a stored number, which is never negative.
pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a stored integer, which is never negative.
pub(super) fn small(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Refuses a text that PostgreSQL cannot store.
pub(super) fn plain(field: &'static str, text: &str) -> Result<(), StoreError> {
    if text.contains('\0') {
        let reason = "must not contain the character U+0000".to_owned();
        return Err(StoreError::Invalid { field, reason });
    }
    Ok(())
}

/// Replaces the characters of a text that PostgreSQL cannot store. Use it only for texts that
/// people read.
pub(super) fn shown(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The server's id or the user's own id of an object.
pub(super) type Named<'a> = (Option<Uuid>, Option<&'a str>);

pub(super) fn application(which: &ApplicationRef) -> Named<'_> {
    match which {
        ApplicationRef::Id(id) => (Some(id.0), None),
        ApplicationRef::Own(uid) => (None, Some(uid.as_str())),
    }
}

pub(super) fn endpoint(which: &EndpointRef) -> Named<'_> {
    match which {
        EndpointRef::Id(id) => (Some(id.0), None),
        EndpointRef::Own(uid) => (None, Some(uid.as_str())),
    }
}

pub(super) fn message(which: &MessageRef) -> Named<'_> {
    match which {
        MessageRef::Id(id) => (Some(id.0), None),
        MessageRef::Own(own) => (None, Some(own.as_str())),
    }
}

pub(super) fn disabled_code(reason: DisableReason) -> i16 {
    match reason {
        DisableReason::Requested => 1,
        DisableReason::Gone => 2,
        DisableReason::Failing => 3,
    }
}

pub(super) fn disabled(code: i16) -> DisableReason {
    match code {
        1 => DisableReason::Requested,
        2 => DisableReason::Gone,
        _ => DisableReason::Failing,
    }
}

/// Returns the change for deliveries of an endpoint that are due in some microseconds.
pub(super) fn change(endpoint: Uuid, pull: bool, due_us: i64) -> HookChange {
    let what = if pull {
        HookChangeKind::Pull(wakeline_core::EndpointId(endpoint))
    } else {
        HookChangeKind::Push
    };
    HookChange { what, due_in: rows::span(due_us) }
}

/// Adds a change; of changes of the same kind, only the earliest is kept.
pub(super) fn merge(changes: &mut Vec<HookChange>, change: HookChange) {
    match changes.iter_mut().find(|known| known.what == change.what) {
        Some(known) => known.due_in = known.due_in.min(change.due_in),
        None => changes.push(change),
    }
}

/// Returns the keys that are valid at the time `now`.
pub(super) fn secrets(
    encrypted: Vec<Vec<u8>>,
    ends: Vec<Option<SystemTime>>,
    now: Timestamp,
) -> Vec<EndpointSecret> {
    let secret = |(encrypted, end): (Vec<u8>, Option<SystemTime>)| EndpointSecret {
        encrypted: encrypted.into(),
        expires_at: end.map(rows::timestamp),
    };
    let signs = |secret: &EndpointSecret| secret.expires_at.is_none_or(|end| end > now);
    encrypted.into_iter().zip(ends).map(secret).filter(signs).collect()
}

/// Parses a stored JSON text. It was valid when it was stored, so an error means that it is
/// corrupt.
pub(super) fn json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| rows::corrupt(what, text, error))
}

/// Parses stored texts. They were valid when they were stored, so an error means that they are
/// corrupt.
pub(super) fn texts<T: TryFrom<String>>(
    what: &'static str,
    texts: Option<Vec<String>>,
) -> Result<Vec<T>, StoreError>
where
    T::Error: Into<wakeline_store::BoxError>,
{
    texts.unwrap_or_default().into_iter().map(|one| text(what, one)).collect()
}

/// Parses a stored text. It was valid when it was stored, so an error means that it is corrupt.
pub(super) fn text<T: TryFrom<String>>(what: &'static str, text: String) -> Result<T, StoreError>
where
    T::Error: Into<wakeline_store::BoxError>,
{
    T::try_from(text.clone()).map_err(|error| rows::corrupt(what, text, error))
}

/// Joins channels by commas, which no channel contains.
pub(super) fn joined(channels: &[Channel]) -> Option<String> {
    if channels.is_empty() {
        return None;
    }
    Some(channels.iter().map(Channel::as_str).collect::<Vec<_>>().join(","))
}

/// Reads the next column as bytes; `None` if it is null.
pub(super) fn bytes_if(columns: &mut Columns<'_>) -> Result<Option<Bytes>, StoreError> {
    Ok(columns.take::<Option<Vec<u8>>>()?.map(Bytes::from))
}

/// Reads the next column as bytes.
pub(super) fn bytes(columns: &mut Columns<'_>) -> Result<Bytes, StoreError> {
    Ok(columns.take::<Vec<u8>>()?.into())
}

/// Reads the next column as a timestamp; `None` if it is null.
pub(super) fn moment_if(columns: &mut Columns<'_>) -> Result<Option<Timestamp>, StoreError> {
    Ok(columns.take::<Option<SystemTime>>()?.map(rows::timestamp))
}
