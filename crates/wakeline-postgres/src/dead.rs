//! Dead letters: listing, purging, and the jobs that redrive them.
//!
//! # Where it sits
//! Implements `QueueDeadLetters`. Nothing here is hot: each call is one statement or a few, on a
//! connection for general use.
//!
//! # Invariants
//! * A dead letter is deleted by the transaction that delivers its message again, under the lock of
//!   its job. A call of unknown outcome is therefore safe to repeat.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{
    Change, DeadLetterId, GroupName, MessageId, PartitionId, PartitionName, QueueName, RedriveId,
    TransactionId,
};
use wakeline_store::{
    DeadLetter, DeadLetterFilter, DeadLetters, Page, PayloadEncryption, PushItem,
    QueueBackgroundReport, QueueDeadLetters, Redrive, RedriveJob, RedriveState, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::admin::count;
use crate::connect::Params;
use crate::rows::{self, Columns};

/// The number of dead letters that one transaction deletes.
const PURGE_LEN: i64 = 5_000;

/// A dead letter filter as the leading parameters of a statement.
struct DeadLetterParams {
    queue: Option<String>,
    group: Option<String>,
    partition: Option<String>,
    number: Option<i64>,
    from: Option<SystemTime>,
    to: Option<SystemTime>,
    error: Option<String>,
}

impl DeadLetterParams {
    fn new(filter: DeadLetterFilter) -> Self {
        Self {
            queue: filter.queue.map(Into::into),
            group: filter.group.map(Into::into),
            partition: filter.partition.map(Into::into),
            number: filter.number.map(|number| number.0),
            from: filter.from.map(rows::system_time),
            to: filter.to.map(rows::system_time),
            // PostgreSQL stores no NUL in a text, so no stored error contains one.
            error: filter.error.map(|error| error.replace('\0', "\u{fffd}")),
        }
    }

    /// Runs a statement with the filter as its first parameters, followed by those of `act`;
    /// records the current audit action if it changed something.
    async fn query(&self, store: &PostgresStore, act: Act<'_>) -> Result<Vec<Row>, StoreError> {
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![
            &self.queue,
            &self.group,
            &self.partition,
            &self.number,
            &self.from,
            &self.to,
            &self.error,
        ];
        params.extend(act.params);
        store.queue.core.recorded(Act { params: &params, ..act }).await
    }
}

#[async_trait]
impl QueueDeadLetters for PostgresStore {
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError> {
        const OPERATION: &str = "list dead letters";
        let sql = &self.queue.core.sql;
        let filter = DeadLetterParams::new(filter);
        let (limit, offset) = (i64::from(page.limit), i64::from(page.offset));
        let list = Act {
            operation: OPERATION,
            sql: &sql.dead_letter_list,
            params: &[&limit, &offset],
            changed: Act::never,
        };
        let rows = filter.query(self, list).await?;
        let letters = rows.iter().map(|row| self.dead_letter(&mut Columns::new(OPERATION, row)));
        let letters = letters.collect::<Result<_, _>>()?;
        let count = Act {
            operation: OPERATION,
            sql: &sql.dead_letter_count,
            params: &[],
            changed: Act::never,
        };
        let rows = filter.query(self, count).await?;
        Ok(DeadLetters { letters, total: first_count(OPERATION, &rows)? })
    }

    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        const OPERATION: &str = "purge dead letters";
        let sql = &self.queue.core.sql.dead_letter_purge;
        let filter = DeadLetterParams::new(filter);
        let mut gone = 0;
        loop {
            let params: Params<'_> = &[&PURGE_LEN];
            let purge = Act { operation: OPERATION, sql, params, changed: Act::counted };
            let rows = filter.query(self, purge).await;
            let rows = rows.map_err(|error| if gone > 0 { error.after_write() } else { error })?;
            let deleted = first_count(OPERATION, &rows)?;
            gone += deleted;
            if deleted < PURGE_LEN.unsigned_abs() {
                return Ok(gone);
            }
        }
    }

    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError> {
        const OPERATION: &str = "start redrive";
        let core = &self.queue.core;
        let Redrive { id, filter, to_queue, rate } = redrive;
        let DeadLetterParams { queue, group, partition, number, from, to, error } =
            DeadLetterParams::new(filter);
        let to_queue: Option<String> = to_queue.map(Into::into);
        let rate = rate.map(|rate| i32::try_from(rate).unwrap_or(i32::MAX));
        let params: Params<'_> =
            &[&id.0, &number, &queue, &group, &partition, &from, &to, &error, &to_queue, &rate];
        let sql = &core.sql.redrive_start;
        core.recorded(Act { operation: OPERATION, sql, params, changed: Act::any }).await?;
        let job = self.redrive_job(id).await.map_err(StoreError::after_write)?;
        let job = job.ok_or_else(|| StoreError::Transient {
            operation: OPERATION,
            source: "the job was deleted at the same time".into(),
        })?;
        let changes = vec![Change::of_background(Duration::ZERO)];
        self.shared.notifier.notify(&changes);
        Ok((job, changes))
    }

    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        const OPERATION: &str = "read redrive";
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.redrive_get, &[&job.0]).await?;
        rows.first().map(|row| redrive_job(job, &mut Columns::new(OPERATION, row))).transpose()
    }

    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        const OPERATION: &str = "cancel redrive";
        let core = &self.queue.core;
        let (sql, changed) = (&core.sql.redrive_cancel, Act::any);
        core.recorded(Act { operation: OPERATION, sql, params: &[&job.0], changed }).await?;
        self.redrive_job(job).await.map_err(StoreError::after_write)
    }

    async fn run_queue_background(&self, rows: u32) -> Result<QueueBackgroundReport, StoreError> {
        const OPERATION: &str = "redrive";
        let core = &self.queue.core;
        let most = i32::try_from(rows).unwrap_or(i32::MAX);
        let rows = core.general(OPERATION, &core.sql.redrive_go, &[&most]).await?;
        let mut done = QueueBackgroundReport::default();
        let mut moving = Moving::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            match columns.take::<i16>()? {
                0 => {
                    done.rows = count(columns.take()?);
                    done.next_due = columns.take::<Option<i64>>()?.map(rows::span);
                }
                1 => {
                    columns.skip(1);
                    let due_in = rows::span(columns.take()?);
                    let change = rows::change(&mut columns)?;
                    let group = Some(columns.name("group")?);
                    done.changes.push(Change { group, due_in, ..change });
                }
                _ => moving.add(&mut columns, &self.shared.encryption)?,
            }
        }
        self.shared.notifier.notify(&done.changes);
        if let Some(job) = moving.job {
            done.changes = self.move_letters(job, moving).await?;
        }
        Ok(done)
    }
}

/// Dead letters that are being moved to another queue.
#[derive(Default)]
struct Moving {
    job: Option<Uuid>,
    numbers: Vec<i64>,
    items: Vec<PushItem>,
}

impl Moving {
    fn add(
        &mut self,
        columns: &mut Columns<'_>,
        encryption: &PayloadEncryption,
    ) -> Result<(), StoreError> {
        columns.skip(2);
        let (queue, partition) = (columns.name("queue")?, columns.name("partition")?);
        columns.skip(3);
        self.job = columns.take()?;
        let number: i64 = columns.take()?;
        self.numbers.push(number);
        let old = MessageId(columns.take()?);
        let (trace_id, producer) = (columns.take()?, columns.take()?);
        let payload = Bytes::from(columns.take::<Vec<u8>>()?);
        let broken = |error| rows::corrupt("dead letter", number.to_string(), error);
        let id = MessageId::generate();
        self.items.push(PushItem {
            queue,
            partition,
            id,
            transaction_id: TransactionId::of_message(id),
            trace_id,
            producer,
            payload: encryption.decrypt(old, payload).map_err(broken)?,
        });
        Ok(())
    }
}

impl PostgresStore {
    fn dead_letter(&self, columns: &mut Columns<'_>) -> Result<DeadLetter, StoreError> {
        let number: i64 = columns.take()?;
        let id: Uuid = columns.take()?;
        let txn: String = columns.take()?;
        let broken = |error| rows::corrupt("dead letter", number.to_string(), error);
        Ok(DeadLetter {
            number: DeadLetterId(number),
            id: MessageId(id),
            transaction_id: TransactionId::new(txn).map_err(broken)?,
            trace_id: columns.take()?,
            partition_id: PartitionId(columns.take()?),
            queue: columns.name("queue")?,
            partition: columns.name("partition")?,
            group: columns.name("group")?,
            error: columns.take()?,
            failures: u32::try_from(columns.take::<i32>()?).unwrap_or(0),
            payload: (self.shared.encryption)
                .decrypt(MessageId(id), Bytes::from(columns.take::<Vec<u8>>()?))
                .map_err(|error| rows::corrupt("dead letter", number.to_string(), error))?,
            producer: columns.take()?,
            created_at: columns.moment()?,
            failed_at: columns.moment()?,
        })
    }

    /// Pushes dead letters and deletes them. Nothing is done if another node moved them meanwhile.
    async fn move_letters(&self, job: Uuid, moving: Moving) -> Result<Vec<Change>, StoreError> {
        const OPERATION: &str = "move dead letters";
        let core = &self.queue.core;
        let mut pushes = core.piggyback(moving.items);
        loop {
            core.plan_piggybacked(&mut pushes).await?;
            let mut params = pushes.params();
            params.push(&job);
            params.push(&moving.numbers);
            let rows = core.general(OPERATION, &core.sql.redrive_push, &params).await?;
            if rows.is_empty() {
                return Ok(Vec::new());
            }
            let slots = rows.iter().filter(|row| row.get::<_, i16>(0) == 0);
            if core.read_piggybacked(&mut pushes, OPERATION, 1, slots).await? {
                return Ok(core.finish_piggybacked(pushes).await?.1);
            }
        }
    }
}

fn first_count(operation: &'static str, rows: &[Row]) -> Result<u64, StoreError> {
    let number = rows.first().map(|row| Columns::new(operation, row).take()).transpose()?;
    Ok(count(number.unwrap_or(0)))
}

fn redrive_job(id: RedriveId, columns: &mut Columns<'_>) -> Result<RedriveJob, StoreError> {
    let number = columns.take::<Option<i64>>()?.map(DeadLetterId);
    let queue: Option<QueueName> = columns.name_if("queue")?;
    let group: Option<GroupName> = columns.name_if("group")?;
    let partition: Option<PartitionName> = columns.name_if("partition")?;
    let from = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    let to = columns.take::<Option<SystemTime>>()?.map(rows::timestamp);
    let error = columns.take()?;
    let filter = DeadLetterFilter { number, queue, group, partition, from, to, error };
    let to_queue = columns.name_if("queue")?;
    let rate = columns.take::<Option<i32>>()?.and_then(|rate| u32::try_from(rate).ok());
    Ok(RedriveJob {
        redrive: Redrive { id, filter, to_queue, rate },
        state: match columns.take::<i16>()? {
            0 => RedriveState::Running,
            1 => RedriveState::Finished,
            _ => RedriveState::Cancelled,
        },
        total: count(columns.take()?),
        done: count(columns.take()?),
        failed: count(columns.take()?),
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
    })
}
