//! What is stored encrypted, and sealing it anew with another key.
//!
//! # Where it sits
//! Implements `KeyedStore`. `wakeline rekey` goes through the kinds step by step.
//!
//! # Invariants
//! * A step is one transaction of the writer, short enough to be in nobody's way.
//! * What cannot be opened stays as it is, and is told.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{EndpointId, MessageId};
use wakeline_seal::KeyRing;
use wakeline_store::{
    EndpointSeal, KeyedStore, KeysNeeded, Rekeyed, SealedKind, SealingError, StoreError,
};

use crate::SqliteStore;
use crate::call::Work;
use crate::error::{Fault, Res, corrupt};
use crate::session::Session;

const OPERATION: &str = "rekey";

/// Rows that a step looks at.
const STEP_LEN: u32 = 200;

#[async_trait]
impl KeyedStore for SqliteStore {
    fn use_keys(&self, keys: Arc<KeyRing>) {
        self.sealing().use_keys(keys);
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

    async fn rekey(&self, kind: SealedKind, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        self.sealing().keys(OPERATION)?;
        let step = move |s: &mut Session<'_>| match kind {
            SealedKind::Messages => messages(s, after.as_deref()),
            SealedKind::Scheduled => {
                let read = include_str!("../sql/queries/rekey_scheduled.sql");
                let write = include_str!("../sql/queries/rekey_scheduled_one.sql");
                payloads(s, "scheduled message", (read, write), after.as_deref())
            }
            SealedKind::DeadLetters => {
                let read = include_str!("../sql/queries/rekey_dead_letters.sql");
                let write = include_str!("../sql/queries/rekey_dead_letter.sql");
                payloads(s, "dead letter", (read, write), after.as_deref())
            }
            SealedKind::Traces => {
                let read = include_str!("../sql/queries/rekey_traces.sql");
                let write = include_str!("../sql/queries/rekey_trace.sql");
                payloads(s, "trace", (read, write), after.as_deref())
            }
            SealedKind::Endpoints => endpoints(s, after.as_deref()),
        };
        self.write(Work::new(OPERATION, step).recorded()).await
    }
}

fn messages(s: &Session<'_>, after: Option<&[u8]>) -> Res<Rekeyed> {
    let (partition, offset) = match after {
        Some(after) => {
            let (partition, offset) = after.split_at_checked(8).ok_or_else(foreign)?;
            (number(partition)?, number(offset)?)
        }
        None => (i64::MIN, i64::MIN),
    };
    type Found = (i64, i64, Vec<u8>, Option<Vec<u8>>);
    let sql = include_str!("../sql/queries/rekey_messages.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let rows: Vec<Found> =
        statement.query_map((partition, offset, STEP_LEN), read)?.collect::<Result<_, _>>()?;
    let mut done = Rekeyed::default();
    for (partition, offset, id, stored) in &rows {
        done.next = Some([partition.to_be_bytes(), offset.to_be_bytes()].concat());
        let Some(stored) = stored else { continue };
        let place = format!("message {partition}/{offset}");
        let Some(sealed) = reseal(s, id, stored, (place, &mut done))? else { continue };
        let sql = include_str!("../sql/queries/rekey_message.sql");
        s.conn.prepare_cached(sql)?.execute((partition, offset, sealed))?;
        done.resealed += 1;
    }
    Ok(ended(done, rows.len()))
}

/// A step over rows that have a number, the id that they are bound to, and a payload.
fn payloads(
    s: &Session<'_>,
    what: &str,
    (read_sql, write_sql): (&str, &str),
    after: Option<&[u8]>,
) -> Res<Rekeyed> {
    let after = after.map_or(Ok(i64::MIN), number)?;
    let mut statement = s.conn.prepare_cached(read_sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(i64, Vec<u8>, Option<Vec<u8>>)> =
        statement.query_map((after, STEP_LEN), read)?.collect::<Result<_, _>>()?;
    let mut done = Rekeyed::default();
    for (number, id, stored) in &rows {
        done.next = Some(number.to_be_bytes().to_vec());
        let Some(stored) = stored else { continue };
        let place = format!("{what} {number}");
        let Some(sealed) = reseal(s, id, stored, (place, &mut done))? else { continue };
        s.conn.prepare_cached(write_sql)?.execute((number, sealed))?;
        done.resealed += 1;
    }
    Ok(ended(done, rows.len()))
}

/// A payload sealed anew; `None` if there is nothing to do, or if it cannot be, which is told.
fn reseal(
    s: &Session<'_>,
    id: &[u8],
    stored: &[u8],
    (place, done): (String, &mut Rekeyed),
) -> Res<Option<Vec<u8>>> {
    let id = MessageId(Uuid::from_slice(id).map_err(corrupt("message", &place))?);
    match s.sealing.reseal(id, stored) {
        Ok(sealed) => Ok(sealed),
        Err(SealingError::NoKeys) => Err(Fault::NoKeys),
        Err(SealingError::Seal(why)) => {
            done.failed.push(format!("{place}: {why}"));
            Ok(None)
        }
    }
}

fn endpoints(s: &mut Session<'_>, after: Option<&[u8]>) -> Res<Rekeyed> {
    let after = after.map_or(Ok(i64::MIN), number)?;
    let keys = s.sealing.keys(OPERATION).map_err(|_| Fault::NoKeys)?;
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
            match keys.reseal(EndpointSeal::Headers.place(id).as_bytes(), headers) {
                Ok(Some(sealed)) => {
                    let sql = include_str!("../sql/queries/rekey_headers.sql");
                    s.conn.prepare_cached(sql)?.execute((number, sealed))?;
                    changed = true;
                }
                Ok(None) => {}
                Err(why) => done.failed.push(format!("headers of {id}: {why}")),
            }
        }
        changed |= secrets(s, (*number, id), keys, &mut done)?;
        done.resealed += u64::from(changed);
    }
    if done.resealed > 0 {
        s.cache.clear();
    }
    Ok(ended(done, rows.len()))
}

/// Whether a signing key of an endpoint was sealed anew.
fn secrets(
    s: &Session<'_>,
    (number, id): (i64, EndpointId),
    keys: &KeyRing,
    done: &mut Rekeyed,
) -> Res<bool> {
    let place = EndpointSeal::Secret.place(id);
    let sql = include_str!("../sql/queries/rekey_secrets.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let rows: Vec<(i64, Vec<u8>)> =
        statement.query_map([number], read)?.collect::<Result<_, _>>()?;
    let mut changed = false;
    for (secret, sealed) in rows {
        match keys.reseal(place.as_bytes(), &sealed) {
            Ok(Some(sealed)) => {
                let sql = include_str!("../sql/queries/rekey_secret.sql");
                s.conn.prepare_cached(sql)?.execute((number, secret, sealed))?;
                changed = true;
            }
            Ok(None) => {}
            Err(why) => done.failed.push(format!("a secret of {id}: {why}")),
        }
    }
    Ok(changed)
}

/// A step that saw fewer rows than it asked for was the last.
fn ended(done: Rekeyed, seen: usize) -> Rekeyed {
    Rekeyed { next: done.next.filter(|_| seen == STEP_LEN as usize), ..done }
}

fn number(bytes: &[u8]) -> Res<i64> {
    bytes.try_into().map(i64::from_be_bytes).map_err(|_| foreign())
}

fn foreign() -> Fault {
    let reason = "must be the next value of an earlier step".to_owned();
    Fault::Invalid { field: "after", reason }
}
