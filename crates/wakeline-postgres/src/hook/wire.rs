//! How the nouns of webhooks are given to PostgreSQL, and read back.
//!
//! # Invariants
//! * Spans are microseconds, and end long before the last timestamp that PostgreSQL knows.
//! * A text that PostgreSQL cannot keep is refused before it is sent.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use wakeline_core::{
    ApplicationRef, Channel, EndpointRef, HookChange, HookWhat, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{DisableReason, EndpointSecret};

use crate::rows::{self, Columns};

/// Longest span: 100 years.
const SPAN_MAX: Duration = Duration::from_secs(3_155_760_000);

/// A span in microseconds.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(SPAN_MAX).as_micros()).expect("100 years fit")
}

/// A number of rows or of a place, as it is counted from 1 there.
pub(super) fn index(ord: i32) -> usize {
    usize::try_from(ord - 1).expect("counted from 1")
}

/// A length as PostgreSQL counts it.
pub(super) fn length(len: usize) -> i32 {
    i32::try_from(len).expect("calls are small")
}

/// A number that PostgreSQL keeps, which is never below zero.
pub(super) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A small number that PostgreSQL keeps.
pub(super) fn small(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Refuses a text that PostgreSQL cannot keep.
pub(super) fn plain(field: &'static str, text: &str) -> Result<(), StoreError> {
    if text.contains('\0') {
        let reason = "must not contain the character U+0000".to_owned();
        return Err(StoreError::Invalid { field, reason });
    }
    Ok(())
}

/// A text for people to read, in which what PostgreSQL cannot keep is shown as missing.
pub(super) fn shown(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// By the server's id or by the user's own.
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
        DisableReason::Asked => 1,
        DisableReason::Gone => 2,
        DisableReason::Failing => 3,
    }
}

pub(super) fn disabled(code: i16) -> DisableReason {
    match code {
        1 => DisableReason::Asked,
        2 => DisableReason::Gone,
        _ => DisableReason::Failing,
    }
}

/// A hint for what an endpoint has.
pub(super) fn change(endpoint: Uuid, pull: bool, due_us: i64) -> HookChange {
    let what =
        if pull { HookWhat::Pull(wakeline_core::EndpointId(endpoint)) } else { HookWhat::Push };
    HookChange { what, due_in: rows::span(due_us) }
}

/// Puts hints together: of each kind the earliest.
pub(super) fn merge(changes: &mut Vec<HookChange>, change: HookChange) {
    match changes.iter_mut().find(|known| known.what == change.what) {
        Some(known) => known.due_in = known.due_in.min(change.due_in),
        None => changes.push(change),
    }
}

/// The keys that sign at a moment.
pub(super) fn secrets(
    sealed: Vec<Vec<u8>>,
    ends: Vec<Option<SystemTime>>,
    now: Timestamp,
) -> Vec<EndpointSecret> {
    let secret = |(sealed, end): (Vec<u8>, Option<SystemTime>)| EndpointSecret {
        sealed: sealed.into(),
        expires_at: end.map(rows::timestamp),
    };
    let signs = |secret: &EndpointSecret| secret.expires_at.is_none_or(|end| end > now);
    sealed.into_iter().zip(ends).map(secret).filter(signs).collect()
}

/// A JSON text that was stored, and so was valid.
pub(super) fn json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| rows::corrupt(what, text, error))
}

/// A list of texts that were stored, and so were valid.
pub(super) fn texts<T: TryFrom<String>>(
    what: &'static str,
    texts: Option<Vec<String>>,
) -> Result<Vec<T>, StoreError>
where
    T::Error: Into<wakeline_store::BoxError>,
{
    texts.unwrap_or_default().into_iter().map(|one| text(what, one)).collect()
}

/// A text that was stored, and so was valid.
pub(super) fn text<T: TryFrom<String>>(what: &'static str, text: String) -> Result<T, StoreError>
where
    T::Error: Into<wakeline_store::BoxError>,
{
    T::try_from(text.clone()).map_err(|error| rows::corrupt(what, text, error))
}

/// Channels as they are sent: with commas between, which none of them has.
pub(super) fn joined(channels: &[Channel]) -> Option<String> {
    if channels.is_empty() {
        return None;
    }
    Some(channels.iter().map(Channel::as_str).collect::<Vec<_>>().join(","))
}

/// The next column, bytes or nothing.
pub(super) fn bytes_if(columns: &mut Columns<'_>) -> Result<Option<Bytes>, StoreError> {
    Ok(columns.take::<Option<Vec<u8>>>()?.map(Bytes::from))
}

/// The next column, bytes.
pub(super) fn bytes(columns: &mut Columns<'_>) -> Result<Bytes, StoreError> {
    Ok(columns.take::<Vec<u8>>()?.into())
}

/// The next column, a moment or nothing.
pub(super) fn moment_if(columns: &mut Columns<'_>) -> Result<Option<Timestamp>, StoreError> {
    Ok(columns.take::<Option<SystemTime>>()?.map(rows::timestamp))
}
