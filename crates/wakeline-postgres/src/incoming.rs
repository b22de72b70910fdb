//! Takes over messages for queues and for webhook endpoints that users' own transactions left in
//! `incoming`.
//!
//! # Where it sits
//! Runs beside the listener, in the future of the feed, because the node's own waiters must hear
//! of what it pushes. Rung by the notification of the SQL functions `push` and `emit` or of the
//! trigger, after every join, and by a sweep that sees rows. While nothing can be heard (poll
//! mode, notify = off, a lost listener) claims look for rows as well, so that polling is enough to
//! find them.
//!
//! # Invariants
//! * A row is deleted only after its push is durable; repeating the push after a crash in between
//!   is caught by its transaction id.
//! * What is emitted is stored, and its row deleted, by one transaction.
//! * Rows for a queue that is full wait, in order, and hold up no other queue's. While they do the
//!   queue is looked at once a second.
//! * A row that can never be pushed, whose application is unknown or whose payload does not fit its
//!   event type is quarantined with the reason, never dropped, and holds up nobody. Rows that fail
//!   together are taken over in smaller pieces, until the one at fault is alone.
//! * A piece has at most [`ROWS_MAX`] rows and about [`BYTES_MAX`] bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;
use tokio_postgres::Row;
use wakeline_core::{
    ApplicationRef, Change, Channel, EventId, EventTypeName, HookChange, HookMessageId,
    MESSAGE_RETENTION_DEFAULT, MessageId, NameError, PartitionName, QueueName, TransactionId,
    lane_of,
};
use wakeline_store::flow::Visible;
use wakeline_store::hook::{EmitOutcome, NewMessage};
use wakeline_store::{
    HintOrigin, HintSink, PushItem, QueueRoom, QueueStore, ScheduleItem, StoreError,
    TransactCommand, TransactOutcome,
};

use crate::connect::{LinkTransaction, Sql};
use crate::{PostgresStore, Shared, error, rows};

const OPERATION: &str = "take over incoming";

/// How soon a queue that was full is looked at again.
const FULL_AGAIN: Duration = Duration::from_secs(1);

/// Most rows of one take-over.
const ROWS_MAX: i64 = 500;

/// Bytes of payload after which a take-over reads no further row.
const BYTES_MAX: i64 = 8 * 1024 * 1024;

/// A take-over that failed, and the first row that it was about.
struct Failed {
    seq: Option<i64>,
    error: StoreError,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self { seq: None, error }
    }
}

/// Pushes what arrives in `incoming`.
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
        // Queues that were full, and when to look at them again.
        let mut full: HashMap<QueueName, Instant> = HashMap::new();
        loop {
            let again = full.values().min().copied();
            tokio::select! {
                () = self.shared.notifier.incoming().notified() => {}
                () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)),
                    if again.is_some() => {}
            }
            let now = Instant::now();
            full.retain(|_, again| *again > now);
            loop {
                match self.take_over(rows_max, &mut full).await {
                    Ok(0) => break,
                    Ok(_) => {
                        backoff = timings.reconnect_min;
                        rows_max = (rows_max * 2).min(ROWS_MAX);
                    }
                    Err(failed) => {
                        if !self.narrowed_down(rows_max, &failed).await {
                            tracing::warn!(
                                error = &failed.error as &dyn std::error::Error,
                                "incoming messages wait"
                            );
                            tokio::time::sleep(backoff).await;
                            backoff = (backoff * 2).min(timings.reconnect_max);
                        }
                        rows_max = (rows_max / 2).max(1);
                    }
                }
            }
        }
    }

    /// Whether a take-over failed because of its rows, and a smaller piece may do better at once. A
    /// row that failed alone is quarantined.
    async fn narrowed_down(&self, rows_max: i64, failed: &Failed) -> bool {
        let Some(seq) = failed.seq else { return false };
        let blamed = error::blames_rows(&failed.error);
        if rows_max > 1 {
            return blamed || error::took_too_long(&failed.error);
        }
        if !blamed {
            return false;
        }
        let quarantine = async {
            let transaction = self.shared.links.incoming.begin(OPERATION).await?;
            self.set_aside(&transaction, seq, &error::chain(&failed.error)).await?;
            transaction.commit().await
        };
        quarantine.await.is_ok()
    }

    /// Pushes the next rows; returns how many it read. Rows of queues that are full stay.
    async fn take_over(
        &self,
        rows_max: i64,
        full: &mut HashMap<QueueName, Instant>,
    ) -> Result<usize, Failed> {
        let transaction = self.shared.links.incoming.begin(OPERATION).await?;
        let rows = self.locked_rows(&transaction, rows_max, full).await?;
        let Some(first) = rows.first() else {
            transaction.rollback().await?;
            return Ok(0);
        };
        let seq = Some(first.get("seq"));
        match self.take_over_rows(&transaction, &rows, full).await {
            Ok(changes) => {
                transaction.commit().await.map_err(|error| Failed { seq, error })?;
                if !changes.is_empty() {
                    self.store.hook.core().tell(&changes);
                    self.sink.hook_changed(&changes, HintOrigin::Notify);
                }
                Ok(rows.len())
            }
            Err(error) => {
                // The first error counts.
                let _ = transaction.rollback().await;
                Err(Failed { seq, error })
            }
        }
    }

    /// Pushes and emits what some rows ask for, and deletes or quarantines them. Returns what
    /// senders of webhooks are notified of after the commit.
    async fn take_over_rows(
        &self,
        transaction: &LinkTransaction<'_>,
        rows: &[Row],
        full: &mut HashMap<QueueName, Instant>,
    ) -> Result<Vec<HookChange>, StoreError> {
        let mut work = Work::default();
        for row in rows {
            let seq: i64 = row.get("seq");
            if let Err(reason) = work.add(seq, row) {
                self.set_aside(transaction, seq, &reason).await?;
            }
        }
        self.hold_back(&mut work, full).await?;
        if !work.items.is_empty() || !work.schedules.is_empty() {
            self.push(&mut work, full).await?;
        }
        let emitted = self.store.hook.core().emit_along(transaction, &work.messages).await?;
        for (seq, outcome) in work.emitted.iter().zip(&emitted.outcomes) {
            match outcome {
                EmitOutcome::NoApplication => {
                    self.set_aside(transaction, *seq, "there is no such application").await?;
                }
                EmitOutcome::Refused(reason) => self.set_aside(transaction, *seq, reason).await?,
                _ => work.done.push(*seq),
            }
        }
        transaction.query(&self.done, &[&work.done]).await?;
        Ok(emitted.changes)
    }

    /// Pushes, and stores what is to be delivered later. What is refused for the time of a
    /// maintenance stays, as what there is no room for.
    async fn push(
        &self,
        work: &mut Work,
        full: &mut HashMap<QueueName, Instant>,
    ) -> Result<(), StoreError> {
        let (mut rows, pushes): (Vec<i64>, Vec<PushItem>) =
            std::mem::take(&mut work.items).into_iter().unzip();
        let (later, schedules): (Vec<i64>, Vec<ScheduleItem>) =
            std::mem::take(&mut work.schedules).into_iter().unzip();
        rows.extend(later);
        let messages = pushes.iter().chain(schedules.iter().map(|item| &item.message));
        let queues: Vec<QueueName> = messages.map(|item| item.queue.clone()).collect();
        match self.store_messages(pushes, schedules).await {
            Ok(changes) => {
                work.done.extend(rows);
                self.sink.changed(&changes, HintOrigin::Notify);
                Ok(())
            }
            Err(StoreError::Maintenance { .. }) => {
                let again = Instant::now() + FULL_AGAIN;
                full.extend(queues.into_iter().map(|queue| (queue, again)));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn store_messages(
        &self,
        pushes: Vec<PushItem>,
        schedules: Vec<ScheduleItem>,
    ) -> Result<Vec<Change>, StoreError> {
        if schedules.is_empty() {
            return self.store.push(pushes).await.map(|reply| reply.changes);
        }
        let command = TransactCommand { pushes, schedules, ..TransactCommand::default() };
        let reply = self.store.transact(command).await?;
        match reply.outcome {
            TransactOutcome::Committed(_) => Ok(reply.changes),
            TransactOutcome::Refused(refusal) => {
                let source = format!("refused: {refusal:?}").into();
                Err(StoreError::Fatal { operation: OPERATION, source })
            }
        }
    }

    /// Takes out what there is no room for, and what follows it in the same queue.
    async fn hold_back(
        &self,
        work: &mut Work,
        full: &mut HashMap<QueueName, Instant>,
    ) -> Result<(), StoreError> {
        for (queue, mut partitions) in std::mem::take(&mut work.limited) {
            partitions.sort();
            partitions.dedup();
            let Some(mut room) = self.store.room(&queue, &partitions).await? else { continue };
            let mut closed = false;
            work.items.retain(|(_, item)| {
                if item.queue != queue {
                    return true;
                }
                let place = partitions.binary_search(&item.partition).ok();
                let there = place.and_then(|place| room.partition_lens.get_mut(place));
                let narrow = there.as_ref().is_some_and(|len| **len >= room.partition_len_max);
                closed |= narrow || (room.len_max > 0 && room.len >= room.len_max);
                if !closed {
                    room.len += 1;
                    there.into_iter().for_each(|len| *len += 1);
                }
                !closed
            });
            if closed {
                full.insert(queue, Instant::now() + FULL_AGAIN);
            }
        }
        Ok(())
    }

    /// Leaves a row where it is, with the reason.
    async fn set_aside(
        &self,
        transaction: &LinkTransaction<'_>,
        seq: i64,
        reason: &str,
    ) -> Result<(), StoreError> {
        tracing::error!(seq, reason, "SQL message quarantined");
        metrics::counter!("wakeline_incoming_refused_total").increment(1);
        transaction.query(&self.refuse, &[&seq, &reason]).await.map(drop)
    }

    async fn locked_rows(
        &self,
        transaction: &LinkTransaction<'_>,
        rows_max: i64,
        full: &HashMap<QueueName, Instant>,
    ) -> Result<Vec<Row>, StoreError> {
        let key = self.shared.schema.incoming_lock();
        let locked = transaction.query(&self.lock, &[&key]).await?;
        if locked.first().is_some_and(|row| row.get("locked")) {
            let passed: Vec<&str> = full.keys().map(QueueName::as_str).collect();
            transaction.query(&self.read, &[&passed, &rows_max, &BYTES_MAX]).await
        } else {
            Ok(Vec::new())
        }
    }
}

/// What some rows ask for.
#[derive(Default)]
struct Work {
    /// Messages for queues, with their rows.
    items: Vec<(i64, PushItem)>,
    /// The same, to be delivered later.
    schedules: Vec<(i64, ScheduleItem)>,
    /// Queues with limits, and which of their partitions are meant.
    limited: BTreeMap<QueueName, Vec<PartitionName>>,
    messages: Vec<NewMessage>,
    /// The rows of the messages.
    emitted: Vec<i64>,
    /// Rows that can go.
    done: Vec<i64>,
}

impl Work {
    /// Reads a row, or says why it can never be taken over.
    fn add(&mut self, seq: i64, row: &Row) -> Result<(), String> {
        match row.get::<_, Option<&str>>("application") {
            None => {
                let item = item(row).map_err(|error| error.to_string())?;
                if let Some(at) = row.get::<_, Option<SystemTime>>("deliver_at") {
                    let due = Visible::At(rows::timestamp(at));
                    self.schedules.push((seq, ScheduleItem { message: item, due, key: None }));
                    return Ok(());
                }
                if row.get("limited") {
                    let partitions = self.limited.entry(item.queue.clone()).or_default();
                    partitions.push(item.partition.clone());
                }
                self.items.push((seq, item));
            }
            Some(application) => {
                self.messages.push(message(application, row)?);
                self.emitted.push(seq);
            }
        }
        Ok(())
    }
}

fn item(row: &Row) -> Result<PushItem, NameError> {
    let transaction_id = TransactionId::new(row.get::<_, &str>("transaction_id"))?;
    let partition = PartitionName::new(row.get::<_, &str>("partition"))?;
    let lanes = u32::try_from(row.get::<_, i64>("lanes")).unwrap_or(0);
    let laned = lanes > 0 && partition == PartitionName::default_partition();
    Ok(PushItem {
        queue: QueueName::new(row.get::<_, &str>("queue"))?,
        partition: if laned { lane_of(&transaction_id, lanes) } else { partition },
        id: MessageId::generate(),
        transaction_id,
        trace_id: None,
        payload: Bytes::from(row.get::<_, String>("payload")),
        producer: None,
    })
}

fn message(application: &str, row: &Row) -> Result<NewMessage, String> {
    let channels: Option<Vec<&str>> = row.get("channels");
    let channels = channels.unwrap_or_default().into_iter().map(Channel::new);
    let event_id: Option<&str> = row.get("event_id");
    Ok(NewMessage {
        id: HookMessageId(row.get("message_id")),
        application: ApplicationRef::parse(application).map_err(|error| error.to_string())?,
        create_application: None,
        event_type: EventTypeName::new(row.get::<_, &str>("event_type"))
            .map_err(|error| error.to_string())?,
        event_id: event_id.map(EventId::parse).transpose().map_err(|error| error.to_string())?,
        channels: channels.collect::<Result<_, _>>().map_err(|error| error.to_string())?,
        payload: Bytes::from(row.get::<_, String>("payload")),
        retention: MESSAGE_RETENTION_DEFAULT,
        only: None,
        idempotency: None,
    })
}
