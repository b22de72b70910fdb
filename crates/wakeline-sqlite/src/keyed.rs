//! Encrypted rows, and encrypting them again with another key.
//!
//! # Where it sits
//! Implements `KeyedStore`. `wakeline rekey` processes one kind of row after the other, step by
//! step.
//!
//! # Invariants
//! * A step is one short transaction of the writer, so that it delays no other command much.
//! * Rows that cannot be decrypted stay unchanged and are reported.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{EndpointId, MessageId};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::{
    EncryptedEndpointField, EncryptedKind, KeyedStore, KeysNeeded, PayloadEncryptionError, Rekeyed,
    StoreError,
};

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::{Res, StoreFault, corrupt};
use crate::session::DbSession;

const OPERATION: &str = "rekey";

/// Number of rows that one step processes.
const STEP_LEN: u32 = 200;

/// A kind of row with an encrypted payload, and its statements.
struct PayloadRows {
    /// The name of such a row in reports.
    what: &'static str,
    read: &'static str,
    write: &'static str,
}

#[async_trait]
impl KeyedStore for SqliteStore {
    fn use_keys(&self, keys: Arc<EncryptionKeys>) {
        self.encryption().use_keys(keys);
    }

    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError> {
        self.read("look for encrypted rows", |s| {
            let sql = include_str!("../sql/queries/keys_needed.sql");
            let found = |row: &rusqlite::Row<'_>| {
                Ok(KeysNeeded { queues: row.get(0)?, endpoints: row.get(1)? })
            };
            Ok(s.conn.prepare_cached(sql)?.query_row([], found)?)
        })
        .await
    }

    async fn rekey(
        &self,
        kind: EncryptedKind,
        after: Option<Vec<u8>>,
    ) -> Result<Rekeyed, StoreError> {
        self.encryption().keys(OPERATION)?;
        let step = move |s: &mut DbSession<'_>| match kind {
            EncryptedKind::Messages => messages(s, after.as_deref()),
            EncryptedKind::Scheduled => {
                let rows = PayloadRows {
                    what: "scheduled message",
                    read: include_str!("../sql/queries/rekey_scheduled.sql"),
                    write: include_str!("../sql/queries/rekey_scheduled_one.sql"),
                };
                payloads(s, &rows, after.as_deref())
            }
            EncryptedKind::DeadLetters => {
                let rows = PayloadRows {
                    what: "dead letter",
                    read: include_str!("../sql/queries/rekey_dead_letters.sql"),
                    write: include_str!("../sql/queries/rekey_dead_letter.sql"),
                };
                payloads(s, &rows, after.as_deref())
            }
            EncryptedKind::Traces => {
                let rows = PayloadRows {
                    what: "trace",
                    read: include_str!("../sql/queries/rekey_traces.sql"),
                    write: include_str!("../sql/queries/rekey_trace.sql"),
                };
                payloads(s, &rows, after.as_deref())
            }
            EncryptedKind::Endpoints => endpoints(s, after.as_deref()),
        };
        self.write(WriteCommand::new(OPERATION, step).recorded()).await
    }
}

fn messages(s: &DbSession<'_>, after: Option<&[u8]>) -> Res<Rekeyed> {
    let (partition, offset) = match after {
        Some(after) => {
            let (partition, offset) = after.split_at_checked(8).ok_or_else(invalid_position)?;
            (number(partition)?, number(offset)?)
        }
        None => (i64::MIN, i64::MIN),
    };
    type FoundRow = (i64, i64, Vec<u8>, Option<Vec<u8>>);
    let sql = include_str!("../sql/queries/rekey_messages.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let rows: Vec<FoundRow> =
        statement.query_map((partition, offset, STEP_LEN), read)?.collect::<Result<_, _>>()?;
    let mut done = Rekeyed::default();
    for (partition, offset, id, stored) in &rows {
        done.next = Some([partition.to_be_bytes(), offset.to_be_bytes()].concat());
        let Some(stored) = stored else { continue };
        let place = format!("message {partition}/{offset}");
        let payload = KeyedPayload { place, id, stored };
        let Some(encrypted) = reencrypt(s, &payload, &mut done)? else { continue };
        let sql = include_str!("../sql/queries/rekey_message.sql");
        s.conn.prepare_cached(sql)?.execute((partition, offset, encrypted))?;
        done.reencrypted += 1;
    }
    Ok(ended(done, rows.len()))
}

/// Runs a step over rows with a number, the message id that their encryption is bound to, and a
/// payload.
fn payloads(s: &DbSession<'_>, kind: &PayloadRows, after: Option<&[u8]>) -> Res<Rekeyed> {
    let after = after.map_or(Ok(i64::MIN), number)?;
    let mut statement = s.conn.prepare_cached(kind.read)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(i64, Vec<u8>, Option<Vec<u8>>)> =
        statement.query_map((after, STEP_LEN), read)?.collect::<Result<_, _>>()?;
    let mut done = Rekeyed::default();
    for (number, id, stored) in &rows {
        done.next = Some(number.to_be_bytes().to_vec());
        let Some(stored) = stored else { continue };
        let place = format!("{} {number}", kind.what);
        let payload = KeyedPayload { place, id, stored };
        let Some(encrypted) = reencrypt(s, &payload, &mut done)? else { continue };
        s.conn.prepare_cached(kind.write)?.execute((number, encrypted))?;
        done.reencrypted += 1;
    }
    Ok(ended(done, rows.len()))
}

/// A stored payload that is encrypted again.
struct KeyedPayload<'a> {
    /// The name of its row in reports.
    place: String,
    /// The message id that its encryption is bound to.
    id: &'a [u8],
    stored: &'a [u8],
}

/// Encrypts a payload with the current key. Returns `None` if it already is, or if it cannot be
/// decrypted, which is added to the report.
fn reencrypt(
    s: &DbSession<'_>,
    payload: &KeyedPayload<'_>,
    done: &mut Rekeyed,
) -> Res<Option<Vec<u8>>> {
    let KeyedPayload { place, id, stored } = payload;
    let id = MessageId(Uuid::from_slice(id).map_err(corrupt("message", place))?);
    match s.encryption.reencrypt(id, stored) {
        Ok(encrypted) => Ok(encrypted),
        Err(PayloadEncryptionError::NoKeys) => Err(StoreFault::NoKeys),
        Err(PayloadEncryptionError::Encryption(why)) => {
            done.failed.push(format!("{place}: {why}"));
            Ok(None)
        }
    }
}

fn endpoints(s: &mut DbSession<'_>, after: Option<&[u8]>) -> Res<Rekeyed> {
    let after = after.map_or(Ok(i64::MIN), number)?;
    let keys = s.encryption.keys(OPERATION).map_err(|_| StoreFault::NoKeys)?;
    let sql = include_str!("../sql/queries/rekey_endpoints.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(i64, Vec<u8>, Vec<u8>)> =
        statement.query_map((after, STEP_LEN), read)?.collect::<Result<_, _>>()?;
    drop(statement);
    let mut done = Rekeyed::default();
    for (number, id, headers) in &rows {
        done.next = Some(number.to_be_bytes().to_vec());
        let id = EndpointId(Uuid::from_slice(id).map_err(corrupt("endpoint", number))?);
        let mut changed = false;
        if !headers.is_empty() {
            match keys
                .reencrypt(EncryptedEndpointField::Headers.associated_data(id).as_bytes(), headers)
            {
                Ok(Some(encrypted)) => {
                    let sql = include_str!("../sql/queries/rekey_headers.sql");
                    s.conn.prepare_cached(sql)?.execute((number, encrypted))?;
                    changed = true;
                }
                Ok(None) => {}
                Err(why) => done.failed.push(format!("headers of {id}: {why}")),
            }
        }
        changed |= secrets(s, KeyedEndpoint { number: *number, id }, keys, &mut done)?;
        done.reencrypted += u64::from(changed);
    }
    if done.reencrypted > 0 {
        s.cache.clear();
    }
    Ok(ended(done, rows.len()))
}

/// An endpoint whose secrets are encrypted again.
struct KeyedEndpoint {
    number: i64,
    /// The id that the encryption of its secrets is bound to.
    id: EndpointId,
}

/// Encrypts the secrets of an endpoint with the current key. Returns whether any changed.
fn secrets(
    s: &DbSession<'_>,
    endpoint: KeyedEndpoint,
    keys: &EncryptionKeys,
    done: &mut Rekeyed,
) -> Res<bool> {
    let KeyedEndpoint { number, id } = endpoint;
    let place = EncryptedEndpointField::Secret.associated_data(id);
    let sql = include_str!("../sql/queries/rekey_secrets.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let rows: Vec<(i64, Vec<u8>)> =
        statement.query_map([number], read)?.collect::<Result<_, _>>()?;
    let mut changed = false;
    for (secret, stored) in rows {
        match keys.reencrypt(place.as_bytes(), &stored) {
            Ok(Some(encrypted)) => {
                let sql = include_str!("../sql/queries/rekey_secret.sql");
                s.conn.prepare_cached(sql)?.execute((number, secret, encrypted))?;
                changed = true;
            }
            Ok(None) => {}
            Err(why) => done.failed.push(format!("a secret of {id}: {why}")),
        }
    }
    Ok(changed)
}

/// Finishes a step. It was the last one if it read fewer rows than its limit.
fn ended(done: Rekeyed, seen: usize) -> Rekeyed {
    Rekeyed { next: done.next.filter(|_| seen == STEP_LEN as usize), ..done }
}

fn number(bytes: &[u8]) -> Res<i64> {
    bytes.try_into().map(i64::from_be_bytes).map_err(|_| invalid_position())
}

fn invalid_position() -> StoreFault {
    let reason = "must be a value that an earlier step returned as `next`".to_owned();
    StoreFault::Invalid { field: "after", reason }
}
