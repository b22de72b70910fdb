//! Encrypted rows, and encrypting them again with another key.
//!
//! # Where it sits
//! Implements `KeyedStore`. `wakeline rekey` goes through the kinds of rows step by step.
//!
//! # Invariants
//! * A step reads some rows in the order of their keys and replaces those that were encrypted with
//!   another key, one row at a time. It holds no lock between rows; concurrent readers find either
//!   form.
//! * Rows that cannot be decrypted stay as they are and are reported.
//! * The audit entry is recorded with the first row of a step, in its transaction.

use async_trait::async_trait;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{EndpointId, MessageId};
use wakeline_encryption::{EncryptionError, EncryptionKeys};
use wakeline_store::{
    BoxError, EncryptedEndpointField, EncryptedKind, KeyedStore, KeysNeeded, Rekeyed, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::connect::{Params, Sql};
use crate::rows::Columns;

const OPERATION: &str = "rekey";

/// The number of rows that a step reads.
const STEP_LEN: i64 = 200;

#[async_trait]
impl KeyedStore for PostgresStore {
    fn use_keys(&self, keys: std::sync::Arc<EncryptionKeys>) {
        self.shared.encryption.use_keys(keys);
    }

    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError> {
        const OPERATION: &str = "look for encrypted rows";
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.keys_needed, &[]).await?;
        let Some(row) = rows.first() else { return Ok(KeysNeeded::default()) };
        let mut columns = Columns::new(OPERATION, row);
        Ok(KeysNeeded { queues: columns.take()?, endpoints: columns.take()? })
    }

    async fn rekey(
        &self,
        kind: EncryptedKind,
        after: Option<Vec<u8>>,
    ) -> Result<Rekeyed, StoreError> {
        self.shared.encryption.keys(OPERATION)?;
        match kind {
            EncryptedKind::Messages => self.rekey_segments(after).await,
            EncryptedKind::Scheduled => {
                let sql = &self.queue.core.sql;
                self.rekey_payloads(
                    "scheduled message",
                    &sql.rekey_scheduled,
                    &sql.rekey_scheduled_one,
                    after,
                )
                .await
            }
            EncryptedKind::DeadLetters => {
                let sql = &self.queue.core.sql;
                self.rekey_payloads(
                    "dead letter",
                    &sql.rekey_dead_letters,
                    &sql.rekey_dead_letter,
                    after,
                )
                .await
            }
            EncryptedKind::Traces => {
                let sql = &self.queue.core.sql;
                self.rekey_payloads("trace", &sql.rekey_traces, &sql.rekey_trace, after).await
            }
            EncryptedKind::Endpoints => self.rekey_endpoints(after).await,
        }
    }
}

impl PostgresStore {
    /// Replaces one row by its newly encrypted form. The first one of a step is audited. False if
    /// another transaction has just changed the row.
    async fn put_encrypted(
        &self,
        done: &mut Rekeyed,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<bool, StoreError> {
        let core = &self.queue.core;
        let rows = if done.reencrypted == 0 {
            core.recorded(Act { operation: OPERATION, sql, params, changed: Act::any }).await?
        } else {
            core.general(OPERATION, sql, params).await?
        };
        done.reencrypted += u64::from(!rows.is_empty());
        Ok(!rows.is_empty())
    }

    async fn rekey_segments(&self, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        let core = &self.queue.core;
        let (partition, offset) = match after {
            Some(after) => {
                let (partition, offset) = after.split_at_checked(8).ok_or_else(unknown_position)?;
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
            let encrypted = match self.reencrypt_segment(&mut columns) {
                Ok(Some(encrypted)) => encrypted,
                Ok(None) => continue,
                Err(why) => {
                    done.failed
                        .push(format!("segment at offset {first} of partition {partition}: {why}"));
                    continue;
                }
            };
            let (body, ends) = encrypted;
            let sql = &core.sql.rekey_segment;
            if !self.put_encrypted(&mut done, sql, &[&partition, &first, &body, &ends]).await? {
                // The segment was removed or cut since it was read: the next step handles what is
                // left of it.
                done.next = Some(place(partition, first - 1));
                return Ok(done);
            }
        }
        Ok(ended(done, &rows))
    }

    /// The payloads of a segment, encrypted with the active key, and where each ends.
    fn reencrypt_segment(&self, columns: &mut Columns<'_>) -> Result<Option<Body>, BoxError> {
        let (ids, ends): (Vec<Uuid>, Vec<i32>) = (columns.take()?, columns.take()?);
        let Some(stored) = columns.take::<Option<&[u8]>>()? else { return Ok(None) };
        let (mut body, mut new_ends) = (Vec::with_capacity(stored.len()), Vec::new());
        let (mut start, mut changed) = (0, false);
        for (id, end) in ids.iter().zip(&ends) {
            let end = usize::try_from(*end)?;
            let old = stored.get(start..end).ok_or("its payloads end outside of its body")?;
            match self.shared.encryption.reencrypt(MessageId(*id), old)? {
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

    /// Makes a step over rows that have a number, the id that their encryption is bound to, and a
    /// payload.
    async fn rekey_payloads(
        &self,
        what: &str,
        read: &Sql,
        write: &Sql,
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
            match self.shared.encryption.reencrypt(id, stored) {
                Ok(Some(new)) => {
                    self.put_encrypted(&mut done, write, &[&number, &new]).await?;
                }
                Ok(None) => {}
                Err(why) => done.failed.push(format!("{what} {number}: {why}")),
            }
        }
        Ok(ended(done, &rows))
    }

    async fn rekey_endpoints(&self, after: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        let core = &self.queue.core;
        let keys = self.shared.encryption.keys(OPERATION)?;
        let after = after.map_or(Ok(Uuid::nil()), |after| {
            Uuid::from_slice(&after).map_err(|_| unknown_position())
        })?;
        let rows = core.general(OPERATION, &core.sql.rekey_endpoints, &[&after, &STEP_LEN]).await?;
        let mut done = Rekeyed::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let id = EndpointId(columns.take()?);
            done.next = Some(id.0.as_bytes().to_vec());
            let (headers, secrets): (&[u8], Vec<&[u8]>) = (columns.take()?, columns.take()?);
            match reencrypt_endpoint(keys, id, headers, &secrets) {
                Ok(Some((new_headers, new_secrets))) => {
                    let sql = &core.sql.rekey_endpoint;
                    let params: Params<'_> =
                        &[&id.0, &headers, &secrets, &new_headers, &new_secrets];
                    if !self.put_encrypted(&mut done, sql, params).await? {
                        done.failed.push(format!(
                            "{id}: it was changed concurrently; run the command again"
                        ));
                    }
                }
                Ok(None) => {}
                Err(why) => done.failed.push(format!("{id}: {why}")),
            }
        }
        Ok(ended(done, &rows))
    }
}

/// The position after which the next step over segments begins.
fn place(partition: i64, first: i64) -> Vec<u8> {
    [partition.to_be_bytes(), first.to_be_bytes()].concat()
}

/// The payloads of a segment, and where each ends.
type Body = (Vec<u8>, Vec<i32>);
/// The encrypted headers and secrets of an endpoint.
type EncryptedColumns = (Vec<u8>, Vec<Vec<u8>>);

/// Encrypts the headers and secrets of an endpoint with the active key; `None` if it has encrypted
/// them all already.
fn reencrypt_endpoint(
    keys: &EncryptionKeys,
    id: EndpointId,
    headers: &[u8],
    secrets: &[&[u8]],
) -> Result<Option<EncryptedColumns>, EncryptionError> {
    let new_headers = if headers.is_empty() {
        None
    } else {
        keys.reencrypt(EncryptedEndpointField::Headers.associated_data(id).as_bytes(), headers)?
    };
    let place = EncryptedEndpointField::Secret.associated_data(id);
    let reencrypt = |secret: &&[u8]| keys.reencrypt(place.as_bytes(), secret);
    let new_secrets = secrets.iter().map(reencrypt).collect::<Result<Vec<_>, _>>()?;
    if new_headers.is_none() && new_secrets.iter().all(Option::is_none) {
        return Ok(None);
    }
    let secrets = new_secrets.into_iter().zip(secrets);
    let secrets = secrets.map(|(new, old)| new.unwrap_or_else(|| old.to_vec())).collect();
    Ok(Some((new_headers.unwrap_or_else(|| headers.to_vec()), secrets)))
}

/// Clears the next position after the last step, which has fewer rows than the limit.
fn ended(done: Rekeyed, rows: &[Row]) -> Rekeyed {
    let full = rows.len() as i64 == STEP_LEN;
    Rekeyed { next: done.next.filter(|_| full), ..done }
}

fn number(bytes: &[u8]) -> Result<i64, StoreError> {
    bytes.try_into().map(i64::from_be_bytes).map_err(|_| unknown_position())
}

fn unknown_position() -> StoreError {
    let reason = "must be a value that an earlier step returned as `next`".to_owned();
    StoreError::Invalid { field: "after", reason }
}
