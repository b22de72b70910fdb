//! Takes over messages that users' own transactions left in `incoming`.
//!
//! # Where it sits
//! Runs beside the listener, in the future of the feed, because the node's own waiters must hear
//! of what it pushes. Rung by the notification of the SQL function `push` or of the trigger, after
//! every join, and by a sweep that sees rows. While nothing can be heard (poll mode, notify = off,
//! a lost listener) claims look for rows as well, so that polling is enough to find them.
//!
//! # Invariants
//! * A row is deleted only after its push is durable; repeating the push after a crash in between
//!   is caught by its transaction id.
//! * A row that can never be pushed is set aside with the reason, never dropped, and holds up
//!   nobody.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use wakeline_core::{MessageId, NameError, PartitionName, QueueName, TransactionId};
use wakeline_store::{HintOrigin, HintSink, PushItem, QueueStore, StoreError};

use crate::Shared;
use crate::connect::{LinkTransaction, Sql};

const OPERATION: &str = "take over incoming";

/// Pushes what arrives in `incoming`.
pub(crate) struct IncomingPump<'a> {
    shared: &'a Shared,
    store: &'a dyn QueueStore,
    sink: Arc<dyn HintSink>,
    lock: Sql,
    read: Sql,
    done: Sql,
    refuse: Sql,
}

impl<'a> IncomingPump<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        store: &'a dyn QueueStore,
        sink: Arc<dyn HintSink>,
    ) -> Self {
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
        let (mut items, mut pushed) = (Vec::new(), Vec::new());
        for row in &rows {
            let seq: i64 = row.get("seq");
            match item(row) {
                Ok(item) => {
                    items.push(item);
                    pushed.push(seq);
                }
                Err(error) => {
                    tracing::error!(seq, reason = %error, "an incoming message was set aside");
                    transaction.query(&self.refuse, &[&seq, &error.to_string()]).await?;
                }
            }
        }
        if !items.is_empty() {
            let reply = self.store.push(items).await?;
            self.sink.changed(&reply.changes, HintOrigin::Notify);
        }
        transaction.query(&self.done, &[&pushed]).await?;
        transaction.commit().await?;
        Ok(rows.len())
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
