//! What is stored encrypted, and sealing it anew with another key.
//!
//! # Where it sits
//! Implements `KeyedStore`. `wakeline rekey` goes through the kinds step by step.
//!
//! # Invariants
//! * A step reads some rows in order of their keys and replaces what another key sealed, one row
//!   at a time. It holds no lock between rows; whoever reads meanwhile finds either form.
//! * What cannot be opened stays as it is, and is told.
//! * A deed is recorded with the first row of a step, in its transaction.

use async_trait::async_trait;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{EndpointId, MessageId};
use wakeline_seal::{KeyRing, SealError};
use wakeline_store::{
    BoxError, EndpointSeal, KeyedStore, KeysNeeded, Rekeyed, SealedKind, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::connect::{Params, Sql};
use crate::rows::Columns;

const OPERATION: &str = "rekey";

/// Rows that a step looks at.
const STEP_LEN: i64 = 200;

#[async_trait]
impl KeyedStore for PostgresStore {
    fn use_keys(&self, keys: std::sync::Arc<KeyRing>) {
        self.shared.sealing.use_keys(keys);
    }

    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError> {
        const OPERATION: &str = "look for encrypted rows";
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.keys_needed, &[]).await?;
        let Some(row) = rows.first() else { return Ok(KeysNeeded::default()) };
        let mut columns = Columns::new(OPERATION, row);
        Ok(KeysNeeded { queues: columns.take()?, endpoints: columns.take()? })
    }

    async fn rekey(&self, kind: SealedKind, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        self.shared.sealing.keys(OPERATION)?;
        match kind {
            SealedKind::Messages => self.rekey_segments(after).await,
            SealedKind::Scheduled => {
                let sql = &self.queue.core.sql;
                let statements = (&sql.rekey_scheduled, &sql.rekey_scheduled_one);
                self.rekey_payloads("scheduled message", statements, after).await
            }
            SealedKind::DeadLetters => {
                let sql = &self.queue.core.sql;
                let statements = (&sql.rekey_dead_letters, &sql.rekey_dead_letter);
                self.rekey_payloads("dead letter", statements, after).await
            }
            SealedKind::Traces => {
                let sql = &self.queue.core.sql;
                let statements = (&sql.rekey_traces, &sql.rekey_trace);
                self.rekey_payloads("trace", statements, after).await
            }
            SealedKind::Endpoints => self.rekey_endpoints(after).await,
        }
    }
}

impl PostgresStore {
    /// Replaces one row by what was sealed anew. The first one of a step leaves an entry in the
    /// audit, if somebody is named for it. False if somebody else has just changed the row.
    async fn put_sealed(
        &self,
        done: &mut Rekeyed,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<bool, StoreError> {
        let core = &self.queue.core;
        let rows = match done.resealed {
            0 => {
                core.recorded(Act { operation: OPERATION, sql, params, changed: Act::any }).await?
            }
            _ => core.general(OPERATION, sql, params).await?,
        };
        done.resealed += u64::from(!rows.is_empty());
        Ok(!rows.is_empty())
    }

    async fn rekey_segments(&self, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        let core = &self.queue.core;
        let (partition, offset) = match after {
            Some(after) => {
                let (partition, offset) = after.split_at_checked(8).ok_or_else(foreign)?;
                (number(partition)?, number(offset)?)
            }
            None => (i64::MIN, i64::MIN),
        };
        let sql = &core.sql.rekey_segments;
        let rows = core.general(OPERATION, sql, &[&partition, &offset, &STEP_LEN]).await?;
        let mut done = Rekeyed::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let (partition, first): (i64, i64) = (columns.take()?, columns.take()?);
            done.next = Some(place(partition, first));
            let sealed = match self.reseal_segment(&mut columns) {
                Ok(Some(sealed)) => sealed,
                Ok(None) => continue,
                Err(why) => {
                    done.failed
                        .push(format!("segment at offset {first} of partition {partition}: {why}"));
                    continue;
                }
            };
            let (body, ends) = sealed;
            let sql = &core.sql.rekey_segment;
            if !self.put_sealed(&mut done, sql, &[&partition, &first, &body, &ends]).await? {
                // Removed, or shorter than it was read: what is left of it is the next step's.
                done.next = Some(place(partition, first - 1));
                return Ok(done);
            }
        }
        Ok(ended(done, &rows))
    }

    /// The payloads of a segment, sealed anew, and where each ends.
    fn reseal_segment(&self, columns: &mut Columns<'_>) -> Result<Option<Body>, BoxError> {
        let (ids, ends): (Vec<Uuid>, Vec<i32>) = (columns.take()?, columns.take()?);
        let Some(stored) = columns.take::<Option<&[u8]>>()? else { return Ok(None) };
        let (mut body, mut new_ends) = (Vec::with_capacity(stored.len()), Vec::new());
        let (mut start, mut changed) = (0, false);
        for (id, end) in ids.iter().zip(&ends) {
            let end = usize::try_from(*end)?;
            let old = stored.get(start..end).ok_or("its payloads end outside of its body")?;
            match self.shared.sealing.reseal(MessageId(*id), old)? {
                Some(new) => {
                    body.extend_from_slice(&new);
                    changed = true;
                }
                None => body.extend_from_slice(old),
            }
            new_ends.push(i32::try_from(body.len())?);
            start = end;
        }
        Ok(changed.then_some((body, new_ends)))
    }

    /// A step over rows that have a number, the id that they are bound to, and a payload.
    async fn rekey_payloads(
        &self,
        what: &str,
        (read, write): (&Sql, &Sql),
        after: Option<Vec<u8>>,
    ) -> Result<Rekeyed, StoreError> {
        let core = &self.queue.core;
        let after = after.map_or(Ok(i64::MIN), |after| number(&after))?;
        let rows = core.general(OPERATION, read, &[&after, &STEP_LEN]).await?;
        let mut done = Rekeyed::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let number: i64 = columns.take()?;
            done.next = Some(number.to_be_bytes().to_vec());
            let id = MessageId(columns.take()?);
            let Some(stored) = columns.take::<Option<&[u8]>>()? else { continue };
            match self.shared.sealing.reseal(id, stored) {
                Ok(Some(new)) => {
                    self.put_sealed(&mut done, write, &[&number, &new]).await?;
                }
                Ok(None) => {}
                Err(why) => done.failed.push(format!("{what} {number}: {why}")),
            }
        }
        Ok(ended(done, &rows))
    }

    async fn rekey_endpoints(&self, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        let core = &self.queue.core;
        let keys = self.shared.sealing.keys(OPERATION)?;
        let after = after
            .map_or(Ok(Uuid::nil()), |after| Uuid::from_slice(&after).map_err(|_| foreign()))?;
        let rows = core.general(OPERATION, &core.sql.rekey_endpoints, &[&after, &STEP_LEN]).await?;
        let mut done = Rekeyed::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let id = EndpointId(columns.take()?);
            done.next = Some(id.0.as_bytes().to_vec());
            let (headers, secrets): (&[u8], Vec<&[u8]>) = (columns.take()?, columns.take()?);
            match reseal_endpoint(keys, id, (headers, &secrets)) {
                Ok(Some((new_headers, new_secrets))) => {
                    let sql = &core.sql.rekey_endpoint;
                    let params: Params<'_> =
                        &[&id.0, &headers, &secrets, &new_headers, &new_secrets];
                    if !self.put_sealed(&mut done, sql, params).await? {
                        done.failed.push(format!("{id}: was just changed; run it again"));
                    }
                }
                Ok(None) => {}
                Err(why) => done.failed.push(format!("{id}: {why}")),
            }
        }
        Ok(ended(done, &rows))
    }
}

/// Where the next step over segments begins.
fn place(partition: i64, first: i64) -> Vec<u8> {
    [partition.to_be_bytes(), first.to_be_bytes()].concat()
}

/// Payloads, and where each ends.
type Body = (Vec<u8>, Vec<i32>);
/// Headers and secrets.
type Sealed = (Vec<u8>, Vec<Vec<u8>>);

/// Headers and secrets of an endpoint sealed anew; `None` if the active key has sealed them all.
fn reseal_endpoint(
    keys: &KeyRing,
    id: EndpointId,
    (headers, secrets): (&[u8], &[&[u8]]),
) -> Result<Option<Sealed>, SealError> {
    let new_headers = match headers.is_empty() {
        true => None,
        false => keys.reseal(EndpointSeal::Headers.place(id).as_bytes(), headers)?,
    };
    let place = EndpointSeal::Secret.place(id);
    let reseal = |secret: &&[u8]| keys.reseal(place.as_bytes(), secret);
    let new_secrets = secrets.iter().map(reseal).collect::<Result<Vec<_>, _>>()?;
    if new_headers.is_none() && new_secrets.iter().all(Option::is_none) {
        return Ok(None);
    }
    let secrets = new_secrets.into_iter().zip(secrets);
    let secrets = secrets.map(|(new, old)| new.unwrap_or_else(|| old.to_vec())).collect();
    Ok(Some((new_headers.unwrap_or_else(|| headers.to_vec()), secrets)))
}

/// A step that saw fewer rows than it asked for was the last.
fn ended(done: Rekeyed, rows: &[Row]) -> Rekeyed {
    let full = rows.len() as i64 == STEP_LEN;
    Rekeyed { next: done.next.filter(|_| full), ..done }
}

fn number(bytes: &[u8]) -> Result<i64, StoreError> {
    bytes.try_into().map(i64::from_be_bytes).map_err(|_| foreign())
}

fn foreign() -> StoreError {
    let reason = "must be the next value of an earlier step".to_owned();
    StoreError::Invalid { field: "after", reason }
}
