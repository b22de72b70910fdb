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
//! * A row that can never be pushed, whose application is unknown or whose payload does not fit its
//!   event type is set aside with the reason, never dropped, and holds up nobody.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use wakeline_core::{
    ApplicationRef, Channel, EventId, EventTypeName, HookMessageId, MESSAGE_RETENTION_DEFAULT,
    MessageId, NameError, PartitionName, QueueName, TransactionId,
};
use wakeline_store::hook::{EmitOutcome, NewMessage};
use wakeline_store::{HintOrigin, HintSink, PushItem, QueueStore, StoreError};

use crate::connect::{LinkTransaction, Sql};
use crate::{PostgresStore, Shared};

const OPERATION: &str = "take over incoming";

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
        loop {
            self.shared.notifier.incoming().notified().await;
            loop {
                match self.take_over().await {
                    Ok(0) => break,
                    Ok(_) => backoff = timings.reconnect_min,
                    Err(error) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "incoming messages wait"
                        );
                        tokio::time::sleep(backoff).await;
                        backoff = (backoff * 2).min(timings.reconnect_max);
                    }
                }
            }
        }
    }

    /// Pushes the next rows; returns how many it read.
    async fn take_over(&self) -> Result<usize, StoreError> {
        let transaction = self.shared.links.incoming.begin(OPERATION).await?;
        let rows = self.locked_rows(&transaction).await?;
        if rows.is_empty() {
            transaction.rollback().await?;
            return Ok(0);
        }
        let mut work = Work::default();
        for row in &rows {
            let seq: i64 = row.get("seq");
            if let Err(reason) = work.add(seq, row) {
                self.set_aside(&transaction, seq, &reason).await?;
            }
        }
        if !work.items.is_empty() {
            let reply = self.store.push(work.items).await?;
            self.sink.changed(&reply.changes, HintOrigin::Notify);
        }
        let emitted = self.store.hook.core().emit_along(&transaction, &work.messages).await?;
        for (seq, outcome) in work.emitted.iter().zip(&emitted.outcomes) {
            match outcome {
                EmitOutcome::NoApplication => {
                    self.set_aside(&transaction, *seq, "there is no such application").await?;
                }
                EmitOutcome::Refused(reason) => self.set_aside(&transaction, *seq, reason).await?,
                _ => work.done.push(*seq),
            }
        }
        transaction.query(&self.done, &[&work.done]).await?;
        transaction.commit().await?;
        if !emitted.changes.is_empty() {
            self.store.hook.core().tell(&emitted.changes);
            self.sink.hook_changed(&emitted.changes, HintOrigin::Notify);
        }
        Ok(rows.len())
    }

    /// Leaves a row where it is, with the reason.
    async fn set_aside(
        &self,
        transaction: &LinkTransaction<'_>,
        seq: i64,
        reason: &str,
    ) -> Result<(), StoreError> {
        tracing::error!(seq, reason, "an incoming message was set aside");
        metrics::counter!("wakeline_incoming_refused_total").increment(1);
        transaction.query(&self.refuse, &[&seq, &reason]).await.map(drop)
    }

    async fn locked_rows(&self, transaction: &LinkTransaction<'_>) -> Result<Vec<Row>, StoreError> {
        let key = self.shared.schema.incoming_lock();
        let locked = transaction.query(&self.lock, &[&key]).await?;
        if locked.first().is_some_and(|row| row.get("locked")) {
            transaction.query(&self.read, &[]).await
        } else {
            Ok(Vec::new())
        }
    }
}

/// What some rows ask for.
#[derive(Default)]
struct Work {
    items: Vec<PushItem>,
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
                self.items.push(item(row).map_err(|error| error.to_string())?);
                self.done.push(seq);
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
    Ok(PushItem {
        queue: QueueName::new(row.get::<_, &str>("queue"))?,
        partition: PartitionName::new(row.get::<_, &str>("partition"))?,
        id: MessageId::generate(),
        transaction_id: TransactionId::new(row.get::<_, &str>("transaction_id"))?,
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
