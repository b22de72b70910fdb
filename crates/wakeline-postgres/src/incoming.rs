//! Takes over messages for queues and webhook endpoints that users' own transactions left in the
//! table `incoming`.
//!
//! # Where it sits
//! Runs beside the listener, in the future of the feed, because the node's own waiters must be
//! notified of what it pushes. It is woken by the notification of the SQL functions `push` and
//! `emit` or of the trigger, after every join, and by a sweep that sees rows. While notifications
//! cannot be received (poll mode, notify = off, a lost listener), claims look for rows as well, so
//! that polling finds them.
//!
//! # Invariants
//! * A row is deleted only after its push is durable; if a crash in between repeats the push, its
//!   transaction id makes it a duplicate.
//! * A webhook message is stored, and its row deleted, in one transaction.
//! * Rows for a queue that accepts none at the moment (it is full, locked, or encrypted with keys
//!   that this node does not have) wait in order and do not delay rows of other queues. Meanwhile
//!   the queue is tried once a second.
//! * A row that can never be pushed, whose application is unknown or whose payload does not match
//!   its event type, is quarantined with the reason, never dropped, and delays no other row. Rows
//!   that fail together are taken over in smaller batches, until the one at fault is alone.
//! * A batch has at most [`ROWS_MAX`] rows and about [`BYTES_MAX`] bytes.

mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Row;
use wakeline_core::{Change, HookChange, QueueName, error_chain};
use wakeline_store::hook::EmitOutcome;
use wakeline_store::{
    HintOrigin, HintSink, QueueCapacities, QueueStore, ScheduleItem, StoreError, TransactCommand,
    TransactOutcome,
};

use crate::connect::{PgTransaction, Sql};
use crate::incoming::work::{IncomingItem, IncomingWork};
use crate::{PostgresStore, Shared, error};

const OPERATION: &str = "take over incoming";

/// The delay before a queue that accepted no row is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The maximum number of rows in one batch.
const ROWS_MAX: i64 = 500;

/// The number of payload bytes after which a batch reads no further row.
const BYTES_MAX: i64 = 8 * 1024 * 1024;

/// Queues whose rows are skipped for now, and when to try them again.
type Passed = HashMap<QueueName, Instant>;

/// The failure of a batch.
struct Failed {
    error: StoreError,
    /// The first row of the batch; `None` if it did not get that far.
    first: Option<FirstRow>,
}

struct FirstRow {
    seq: i64,
    /// `None` if the row is for webhook endpoints, or its queue name is not valid.
    queue: Option<QueueName>,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self { error, first: None }
    }
}

/// Pushes the messages that arrive in `incoming`.
pub(crate) struct IncomingPump<'a> {
    shared: &'a Shared,
    store: &'a PostgresStore,
    sink: Arc<dyn HintSink>,
    lock: Sql,
    read: Sql,
    done: Sql,
    refuse: Sql,
}

impl<'a> IncomingPump<'a> {
    pub(crate) fn new(store: &'a PostgresStore, sink: Arc<dyn HintSink>) -> Self {
        let shared = &*store.shared;
        let sql = |template| shared.sql(template);
        Self {
            lock: sql(include_str!("../sql/queries/incoming_lock.sql")),
            read: sql(include_str!("../sql/queries/incoming_read.sql")),
            done: sql(include_str!("../sql/queries/incoming_done.sql")),
            refuse: sql(include_str!("../sql/queries/incoming_refuse.sql")),
            shared,
            store,
            sink,
        }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(&self) {
        let timings = &self.shared.options.timings;
        let mut backoff = timings.reconnect_min;
        let mut rows_max = ROWS_MAX;
        let mut skipped = Passed::new();
        loop {
            let again = skipped.values().min().copied();
            tokio::select! {
                () = self.shared.notifier.incoming().notified() => {}
                () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)),
                    if again.is_some() => {}
            }
            let now = Instant::now();
            skipped.retain(|_, again| *again > now);
            loop {
                match self.take_over(rows_max, &mut skipped).await {
                    Ok(0) => break,
                    Ok(_) => {
                        backoff = timings.reconnect_min;
                        rows_max = (rows_max * 2).min(ROWS_MAX);
                    }
                    Err(failed) => {
                        if !self.narrowed_down(rows_max, &failed, &mut skipped).await {
                            tracing::warn!(
                                error = error_chain(&failed.error),
                                "messages that SQL clients pushed cannot be moved from the table \
                                 incoming to their queues and endpoints: trying again"
                            );
                            tokio::time::sleep(backoff).await;
                            backoff = (backoff * 2).min(timings.reconnect_max);
                        }
                        // A batch that waited for a queue's locks is reduced to one row at once, so
                        // that the wait is not repeated with each half.
                        let pieces = if error::blames_queue(&failed.error) { rows_max } else { 2 };
                        rows_max = (rows_max / pieces).max(1);
                    }
                }
            }
        }
    }

    /// Whether a batch failed because of its rows or their queues, so that other rows may succeed
    /// at once. A row that failed alone is quarantined, or its queue is skipped.
    async fn narrowed_down(&self, rows_max: i64, failed: &Failed, skipped: &mut Passed) -> bool {
        let Some(first) = &failed.first else { return false };
        let blamed = error::blames_rows(&failed.error);
        let queue = first.queue.as_ref().filter(|_| error::blames_queue(&failed.error));
        if rows_max > 1 {
            return blamed || error::blames_queue(&failed.error);
        }
        if let Some(queue) = queue {
            let error = error_chain(&failed.error);
            tracing::warn!(
                %queue, error,
                "messages that SQL clients pushed wait, because their queue accepts none at the \
                 moment"
            );
            skipped.insert(queue.clone(), Instant::now() + TRY_AGAIN);
            return true;
        }
        if !blamed {
            return false;
        }
        let quarantine = async {
            let transaction = self.shared.links.incoming.begin(OPERATION).await?;
            self.refuse_row(&transaction, first.seq, &error_chain(&failed.error)).await?;
            transaction.commit().await
        };
        quarantine.await.is_ok()
    }

    /// Pushes the next batch; returns the number of its rows. Rows of queues that accept none stay.
    async fn take_over(&self, rows_max: i64, skipped: &mut Passed) -> Result<usize, Failed> {
        let transaction = self.shared.links.incoming.begin(OPERATION).await?;
        let rows = self.locked_rows(&transaction, rows_max, skipped).await?;
        let Some(first) = rows.first() else {
            transaction.rollback().await?;
            return Ok(0);
        };
        let queue: Option<&str> = first.get("queue");
        let queue = queue.and_then(|name| QueueName::new(name).ok());
        let first = Some(FirstRow { seq: first.get("seq"), queue });
        match self.take_over_rows(&transaction, &rows, skipped).await {
            Ok(changes) => {
                if let Err(error) = transaction.commit().await {
                    return Err(Failed { error, first });
                }
                if !changes.is_empty() {
                    self.store.hook.core().notify(&changes);
                    self.sink.hook_changed(&changes, HintOrigin::Notify);
                }
                Ok(rows.len())
            }
            Err(error) => {
                // The first error is returned; that of the rollback is ignored.
                let _ = transaction.rollback().await;
                Err(Failed { error, first })
            }
        }
    }

    /// Pushes and emits the messages of some rows, and deletes or quarantines the rows. Returns the
    /// changes that senders of webhooks are notified of after the commit.
    async fn take_over_rows(
        &self,
        transaction: &PgTransaction<'_>,
        rows: &[Row],
        skipped: &mut Passed,
    ) -> Result<Vec<HookChange>, StoreError> {
        let mut work = IncomingWork::default();
        for row in rows {
            let seq: i64 = row.get("seq");
            if let Err(reason) = work.add(seq, row) {
                self.refuse_row(transaction, seq, &reason).await?;
            }
        }
        self.hold_back(&mut work, skipped).await?;
        if !work.items.is_empty() {
            self.push(&mut work, skipped).await?;
        }
        let emitted = self.store.hook.core().emit_piggybacked(transaction, &work.messages).await?;
        for (seq, outcome) in work.emitted.iter().zip(&emitted.outcomes) {
            match outcome {
                EmitOutcome::NoApplication => {
                    self.refuse_row(transaction, *seq, "there is no such application").await?;
                }
                EmitOutcome::Refused(reason) => self.refuse_row(transaction, *seq, reason).await?,
                _ => work.done.push(*seq),
            }
        }
        transaction.query(&self.done, &[&work.done]).await?;
        Ok(emitted.changes)
    }

    /// Pushes messages and stores scheduled ones. Rows that are refused during a maintenance stay,
    /// like those that exceed the capacity of their queue.
    async fn push(&self, work: &mut IncomingWork, skipped: &mut Passed) -> Result<(), StoreError> {
        let rows: Vec<i64> = work.items.iter().map(|one| one.seq).collect();
        let queues: Vec<QueueName> = work.items.iter().map(|one| one.item.queue.clone()).collect();
        match self.store_messages(std::mem::take(&mut work.items)).await {
            Ok(changes) => {
                work.done.extend(rows);
                self.sink.changed(&changes, HintOrigin::Notify);
                Ok(())
            }
            Err(StoreError::Maintenance { .. }) => {
                let again = Instant::now() + TRY_AGAIN;
                skipped.extend(queues.into_iter().map(|queue| (queue, again)));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn store_messages(&self, items: Vec<IncomingItem>) -> Result<Vec<Change>, StoreError> {
        let (mut pushes, mut schedules) = (Vec::new(), Vec::new());
        for IncomingItem { item: message, due, .. } in items {
            match due {
                None => pushes.push(message),
                Some(due) => schedules.push(ScheduleItem { message, due, key: None }),
            }
        }
        if schedules.is_empty() {
            return self.store.push(pushes).await.map(|reply| reply.changes);
        }
        let command = TransactCommand { pushes, schedules, ..TransactCommand::default() };
        let reply = self.store.transact(command).await?;
        match reply.outcome {
            TransactOutcome::Committed(_) => Ok(reply.changes),
            TransactOutcome::Refused(refusal) => {
                let source = format!("the message was refused: {refusal:?}").into();
                Err(StoreError::Fatal { operation: OPERATION, source })
            }
        }
    }

    /// Removes the items that exceed the capacity of their queue, and those that follow them in the
    /// same queue.
    async fn hold_back(
        &self,
        work: &mut IncomingWork,
        skipped: &mut Passed,
    ) -> Result<(), StoreError> {
        for (queue, mut partitions) in std::mem::take(&mut work.limited) {
            partitions.sort();
            partitions.dedup();
            let Some(mut capacity) = self.store.capacity(&queue, &partitions).await? else {
                continue;
            };
            let mut full = false;
            work.items.retain(|IncomingItem { item, .. }| {
                if item.queue != queue {
                    return true;
                }
                let place = partitions.binary_search(&item.partition).ok();
                let partition_len = place.and_then(|place| capacity.partition_lens.get_mut(place));
                let partition_full =
                    partition_len.as_ref().is_some_and(|len| **len >= capacity.partition_len_max);
                full |=
                    partition_full || (capacity.len_max > 0 && capacity.len >= capacity.len_max);
                if !full {
                    capacity.len += 1;
                    partition_len.into_iter().for_each(|len| *len += 1);
                }
                !full
            });
            if full {
                skipped.insert(queue, Instant::now() + TRY_AGAIN);
            }
        }
        Ok(())
    }

    /// Keeps a row in the table and records why it was refused.
    async fn refuse_row(
        &self,
        transaction: &PgTransaction<'_>,
        seq: i64,
        reason: &str,
    ) -> Result<(), StoreError> {
        tracing::error!(
            seq,
            reason,
            "quarantined a message that an SQL client pushed, because it was refused"
        );
        metrics::counter!("wakeline_incoming_refused_total").increment(1);
        transaction.query(&self.refuse, &[&seq, &reason]).await.map(drop)
    }

    async fn locked_rows(
        &self,
        transaction: &PgTransaction<'_>,
        rows_max: i64,
        skipped: &Passed,
    ) -> Result<Vec<Row>, StoreError> {
        let key = self.shared.schema.incoming_lock();
        let locked = transaction.query(&self.lock, &[&key]).await?;
        if locked.first().is_some_and(|row| row.get("locked")) {
            let skipped: Vec<&str> = skipped.keys().map(QueueName::as_str).collect();
            transaction.query(&self.read, &[&skipped, &rows_max, &BYTES_MAX]).await
        } else {
            Ok(Vec::new())
        }
    }
}
