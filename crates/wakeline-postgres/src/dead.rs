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
    DeadLetter, DeadLetterFilter, DeadLetters, Page, PushItem, QueueChores, QueueDeadLetters,
    Redrive, RedriveJob, RedriveState, Sealing, StoreError,
};

use crate::PostgresStore;
use crate::access::{Act, Changed};
use crate::admin::count;
use crate::connect::Sql;
use crate::rows::{self, Columns};

/// Dead letters that go in one transaction.
const PURGE_LEN: i64 = 5_000;

/// A filter as columns.
struct Fitting {
    queue: Option<String>,
    group: Option<String>,
    partition: Option<String>,
    number: Option<i64>,
    from: Option<SystemTime>,
    to: Option<SystemTime>,
    error: Option<String>,
}

impl Fitting {
    fn new(filter: DeadLetterFilter) -> Self {
        Self {
            queue: filter.queue.map(Into::into),
            group: filter.group.map(Into::into),
            partition: filter.partition.map(Into::into),
            number: filter.number.map(|number| number.0),
            from: filter.from.map(rows::system_time),
            to: filter.to.map(rows::system_time),
            // PostgreSQL keeps no NUL in a text, so nothing contains one.
            error: filter.error.map(|error| error.replace('\0', "\u{fffd}")),
        }
    }

    /// Runs a statement with the filter as its first parameters, and more; records the deed that
    /// it is called under if it changed something.
    async fn query(
        &self,
        store: &PostgresStore,
        (operation, sql, changed): (&'static str, &Sql, Changed),
        more: &[i64],
    ) -> Result<Vec<Row>, StoreError> {
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![
            &self.queue,
            &self.group,
            &self.partition,
            &self.number,
            &self.from,
            &self.to,
            &self.error,
        ];
        params
            .extend(more.iter().map(|number| number as &(dyn tokio_postgres::types::ToSql + Sync)));
        let act = Act { operation, sql, params: &params, changed };
        store.queue.core.recorded(act).await
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
        let fitting = Fitting::new(filter);
        let part = [i64::from(page.limit), i64::from(page.offset)];
        let rows =
            fitting.query(self, (OPERATION, &sql.dead_letter_list, Act::never), &part).await?;
        let letters = rows.iter().map(|row| self.dead_letter(&mut Columns::new(OPERATION, row)));
        let letters = letters.collect::<Result<_, _>>()?;
        let rows =
            fitting.query(self, (OPERATION, &sql.dead_letter_count, Act::never), &[]).await?;
        Ok(DeadLetters { letters, total: first_count(OPERATION, &rows)? })
    }

    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        const OPERATION: &str = "purge dead letters";
        let sql = &self.queue.core.sql.dead_letter_purge;
        let fitting = Fitting::new(filter);
        let mut gone = 0;
        loop {
            let rows = fitting.query(self, (OPERATION, sql, Act::counted), &[PURGE_LEN]).await;
            let rows = rows.map_err(|error| if gone > 0 { error.after_write() } else { error })?;
            let went = first_count(OPERATION, &rows)?;
            gone += went;
            if went < PURGE_LEN.unsigned_abs() {
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
        let Fitting { queue, group, partition, number, from, to, error } = Fitting::new(filter);
        let to_queue: Option<String> = to_queue.map(Into::into);
        let rate = rate.map(|rate| i32::try_from(rate).unwrap_or(i32::MAX));
        let params: crate::connect::Params<'_> =
            &[&id.0, &number, &queue, &group, &partition, &from, &to, &error, &to_queue, &rate];
        let sql = &core.sql.redrive_start;
        core.recorded(Act { operation: OPERATION, sql, params, changed: Act::any }).await?;
        let job = self.redrive_job(id).await.map_err(StoreError::after_write)?;
        let job = job.ok_or_else(|| StoreError::Transient {
            operation: OPERATION,
            source: "the job is gone again".into(),
        })?;
        let changes = vec![Change::of_chores(Duration::ZERO)];
        self.shared.notifier.tell(&changes);
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

    async fn do_queue_chores(&self, rows: u32) -> Result<QueueChores, StoreError> {
        const OPERATION: &str = "redrive";
        let core = &self.queue.core;
        let most = i32::try_from(rows).unwrap_or(i32::MAX);
        let rows = core.general(OPERATION, &core.sql.redrive_go, &[&most]).await?;
        let mut chores = QueueChores::default();
        let mut moving = Moving::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            match columns.take::<i16>()? {
                0 => {
                    chores.rows = count(columns.take()?);
                    chores.next_due = columns.take::<Option<i64>>()?.map(rows::span);
                }
                1 => {
                    columns.skip(1);
                    let due_in = rows::span(columns.take()?);
                    let change = rows::change(&mut columns)?;
                    let group = Some(columns.name("group")?);
                    chores.changes.push(Change { group, due_in, ..change });
                }
                _ => moving.add(&mut columns, &self.shared.sealing)?,
            }
        }
        self.shared.notifier.tell(&chores.changes);
        if let Some(job) = moving.job {
            chores.changes = self.move_letters(job, moving).await?;
        }
        Ok(chores)
    }
}

/// Dead letters on their way to another queue.
#[derive(Default)]
struct Moving {
    job: Option<Uuid>,
    numbers: Vec<i64>,
    items: Vec<PushItem>,
}

impl Moving {
    fn add(&mut self, columns: &mut Columns<'_>, sealing: &Sealing) -> Result<(), StoreError> {
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
            payload: sealing.open(old, payload).map_err(broken)?,
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
            payload: (self.shared.sealing)
                .open(MessageId(id), Bytes::from(columns.take::<Vec<u8>>()?))
                .map_err(|error| rows::corrupt("dead letter", number.to_string(), error))?,
            producer: columns.take()?,
            created_at: columns.moment()?,
            failed_at: columns.moment()?,
        })
    }

    /// Pushes dead letters and deletes them. What another node did meanwhile is left to it.
    async fn move_letters(&self, job: Uuid, moving: Moving) -> Result<Vec<Change>, StoreError> {
        const OPERATION: &str = "move dead letters";
        let core = &self.queue.core;
        let mut along = core.along(moving.items);
        loop {
            core.plan_along(&mut along).await?;
            let mut params = along.params();
            params.push(&job);
            params.push(&moving.numbers);
            let rows = core.general(OPERATION, &core.sql.redrive_push, &params).await?;
            if rows.is_empty() {
                return Ok(Vec::new());
            }
            let slots = rows.iter().filter(|row| row.get::<_, i16>(0) == 0);
            if core.read_along(&mut along, (OPERATION, 1), slots).await? {
                return Ok(core.finish_along(along).await?.1);
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
