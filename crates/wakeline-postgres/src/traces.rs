//! Stores and reads the traces of messages.
//!
//! # Where it sits
//! Implements `QueueTraces`. Each call is one statement or two on a connection for general use.
//!
//! # Invariants
//! * The data of a trace on a message of an encrypted queue is stored encrypted, or not at all.

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{MessageId, PartitionId, TraceName, TransactionId};
use wakeline_store::{
    AddTraceOutcome, MessageKey, NamedTrace, NamedTraces, NewTrace, Page, PayloadEncryptionError,
    QueueTraces, StoreError, TRACES_PER_MESSAGE_MAX, Trace, TraceNameDetail, TraceNames,
};

use crate::PostgresStore;
use crate::admin::count;
use crate::connect::Sql;
use crate::rows::{self, Columns};

#[async_trait]
impl QueueTraces for PostgresStore {
    async fn add_trace(&self, trace: NewTrace) -> Result<AddTraceOutcome, StoreError> {
        match self.try_add(&trace, None).await? {
            0 => Ok(AddTraceOutcome::Done),
            2 => Ok(AddTraceOutcome::TooMany),
            3 => {
                let encrypted = self.encrypt_trace(&trace)?;
                match self.try_add(&trace, Some(&encrypted)).await? {
                    0 => Ok(AddTraceOutcome::Done),
                    2 => Ok(AddTraceOutcome::TooMany),
                    _ => Ok(AddTraceOutcome::Missing),
                }
            }
            _ => Ok(AddTraceOutcome::Missing),
        }
    }

    async fn traces(&self, message: MessageKey) -> Result<Vec<Trace>, StoreError> {
        const OPERATION: &str = "list traces";
        let core = &self.queue.core;
        let params: crate::connect::Params<'_> =
            &[&message.partition.0, &message.transaction_id.as_str()];
        let rows = core.general(OPERATION, &core.sql.trace_list, params).await?;
        rows.iter().map(|row| self.trace(&mut Columns::new(OPERATION, row))).collect()
    }

    async fn traces_named(&self, name: &TraceName, page: Page) -> Result<NamedTraces, StoreError> {
        const OPERATION: &str = "find traces";
        let core = &self.queue.core;
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let sql = &core.sql.trace_named;
        let rows = core.general(OPERATION, sql, &[&name.as_str(), &limit, &offset]).await?;
        let traces = rows.iter().map(|row| self.named_trace(&mut Columns::new(OPERATION, row)));
        let traces = traces.collect::<Result<_, _>>()?;
        let total = self.total(&core.sql.trace_named_count, &[&name.as_str()]).await?;
        Ok(NamedTraces { traces, total })
    }

    async fn trace_names(&self, page: Page) -> Result<TraceNames, StoreError> {
        const OPERATION: &str = "list names of traces";
        let core = &self.queue.core;
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let rows = core.general(OPERATION, &core.sql.trace_names, &[&limit, &offset]).await?;
        let names = rows.iter().map(|row| detail(&mut Columns::new(OPERATION, row)));
        let names = names.collect::<Result<_, _>>()?;
        Ok(TraceNames { names, total: self.total(&core.sql.trace_names_count, &[]).await? })
    }
}

impl PostgresStore {
    async fn try_add(&self, trace: &NewTrace, encrypted: Option<&[u8]>) -> Result<i16, StoreError> {
        const OPERATION: &str = "add trace";
        let core = &self.queue.core;
        let names: Vec<&str> = trace.names.iter().map(TraceName::as_str).collect();
        let most = i32::try_from(TRACES_PER_MESSAGE_MAX).unwrap_or(i32::MAX);
        let params: crate::connect::Params<'_> = &[
            &trace.message.partition.0,
            &trace.message.transaction_id.as_str(),
            &trace.id,
            &trace.event_type,
            &trace.group.as_str(),
            &trace.worker,
            &names,
            &encrypted.unwrap_or(&trace.data),
            &encrypted.is_some(),
            &most,
        ];
        let rows = core.general(OPERATION, &core.sql.trace_add, params).await?;
        rows.first().map_or(Ok(1), |row| Columns::new(OPERATION, row).take())
    }

    fn encrypt_trace(&self, trace: &NewTrace) -> Result<Vec<u8>, StoreError> {
        let operation = "add trace";
        self.shared.encryption.encrypt(MessageId(trace.id), &trace.data).map_err(
            |error| match error {
                PayloadEncryptionError::NoKeys => StoreError::NoKeys { operation },
                PayloadEncryptionError::Encryption(error) => {
                    StoreError::Fatal { operation, source: error.into() }
                }
            },
        )
    }

    async fn total(
        &self,
        sql: &Sql,
        params: crate::connect::Params<'_>,
    ) -> Result<u64, StoreError> {
        const OPERATION: &str = "count traces";
        let rows: Vec<Row> = self.queue.core.general(OPERATION, sql, params).await?;
        let total = rows.first().map(|row| Columns::new(OPERATION, row).take()).transpose()?;
        Ok(count(total.unwrap_or(0)))
    }

    fn trace(&self, columns: &mut Columns<'_>) -> Result<Trace, StoreError> {
        let id: Uuid = columns.take()?;
        let broken = |error| rows::corrupt("trace", id.to_string(), error);
        let (event_type, group) = (columns.take()?, columns.name("group")?);
        let worker = columns.take()?;
        let names: Vec<String> = columns.take()?;
        let names = names.into_iter().map(|name| rows::name("trace name", name));
        let names = names.collect::<Result<_, _>>()?;
        let data = Bytes::from(columns.take::<Vec<u8>>()?);
        Ok(Trace {
            id,
            event_type,
            group,
            worker,
            names,
            data: self.shared.encryption.decrypt(MessageId(id), data).map_err(broken)?,
            created_at: columns.moment()?,
        })
    }

    fn named_trace(&self, columns: &mut Columns<'_>) -> Result<NamedTrace, StoreError> {
        let trace = self.trace(columns)?;
        let (queue, partition) = (columns.name("queue")?, columns.name("partition")?);
        let partition_id = PartitionId(columns.take()?);
        let transaction_id: String = columns.take()?;
        let id: Uuid = columns.take()?;
        let broken = |error| rows::corrupt("message", id.to_string(), error);
        let payload = Bytes::from(columns.take::<Vec<u8>>()?);
        Ok(NamedTrace {
            trace,
            queue,
            partition,
            partition_id,
            transaction_id: TransactionId::new(transaction_id)
                .map_err(|error| rows::corrupt("message", id.to_string(), error))?,
            payload: self.shared.encryption.decrypt(MessageId(id), payload).map_err(broken)?,
        })
    }
}

fn detail(columns: &mut Columns<'_>) -> Result<TraceNameDetail, StoreError> {
    Ok(TraceNameDetail {
        name: columns.name("trace name")?,
        traces: count(columns.take()?),
        messages: count(columns.take()?),
        last_seen: columns.moment()?,
    })
}
