//! A hand-written loop with NOTIFY and SKIP LOCKED, which the wake layer is compared with.
//!
//! It is what a careful programmer writes for one table. The producer inserts and notifies in one
//! transaction. The consumer listens on one connection, and claims a row on another connection with
//! `FOR UPDATE SKIP LOCKED` when it is notified. There is no HTTP, and there are no leases or
//! groups.

use std::future::poll_fn;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Statement};

use crate::database::Database;
use crate::wake::WakeSample;

const INSERT: &str = "INSERT INTO hand_jobs (payload) VALUES ($1)";
const INSERT_AND_NOTIFY: &str = "
    WITH job AS (INSERT INTO hand_jobs (payload) VALUES ($1) RETURNING id)
    SELECT pg_notify('hand_jobs', '') FROM job";
const CLAIM: &str = "
    UPDATE hand_jobs SET taken_at = now() WHERE id = (
        SELECT id FROM hand_jobs WHERE taken_at IS NULL
        ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
    RETURNING id, payload";
const SETTLE: &str = "DELETE FROM hand_jobs WHERE id = $1";
const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS hand_jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        payload text NOT NULL,
        taken_at timestamptz);
    CREATE INDEX IF NOT EXISTS hand_jobs_open ON hand_jobs (id) WHERE taken_at IS NULL";

/// How the producer writes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Producer {
    /// BEGIN, INSERT, NOTIFY, COMMIT: four round trips.
    Plain,
    /// The same transaction as one statement and one round trip, which is the fastest variant.
    OneTrip,
}

/// A producer and a consumer of one table.
pub(crate) struct HandLoop {
    producer: Producer,
    writer: Client,
    insert: Statement,
    consumer: Client,
    claim: Statement,
    settle: Statement,
    /// Keeps the listening connection open.
    _listener: Client,
    notified: mpsc::UnboundedReceiver<()>,
}

impl HandLoop {
    /// Creates the table and opens the connections.
    pub(crate) async fn start(database: &Database, producer: Producer) -> Result<Self> {
        let (writer, consumer) = (database.connect().await?, database.connect().await?);
        writer.batch_execute(TABLE).await?;
        let (listener, mut messages) = database.connect_raw().await?;
        let (notify, notified) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| messages.poll_message(context)).await {
                let is_notification = matches!(message, AsyncMessage::Notification(_));
                if is_notification && notify.send(()).is_err() {
                    return;
                }
            }
        });
        listener.batch_execute("LISTEN hand_jobs").await?;
        let insert = match producer {
            Producer::Plain => INSERT,
            Producer::OneTrip => INSERT_AND_NOTIFY,
        };
        Ok(Self {
            producer,
            insert: writer.prepare(insert).await?,
            claim: consumer.prepare(CLAIM).await?,
            settle: consumer.prepare(SETTLE).await?,
            writer,
            consumer,
            _listener: listener,
            notified,
        })
    }

    /// Measures one job, from its insert until the consumer has received it.
    pub(crate) async fn sample(&mut self, payload: &str) -> Result<WakeSample> {
        while self.notified.try_recv().is_ok() {}
        let sent = Instant::now();
        let write = write(&mut self.writer, &self.insert, self.producer, payload);
        let claim_job = claim_job(&self.consumer, &self.claim, &mut self.notified);
        let (written, taken) = tokio::join!(write, claim_job);
        let (answered, (had, job)) = (written?, taken?);
        let gone = self.consumer.execute(&self.settle, &[&job]).await?;
        ensure!(gone == 1, "a job of the hand-written loop was lost");
        Ok(WakeSample::new(sent, answered, had))
    }
}

async fn write(
    writer: &mut Client,
    insert: &Statement,
    producer: Producer,
    payload: &str,
) -> Result<Instant> {
    match producer {
        Producer::OneTrip => {
            writer.query(insert, &[&payload]).await?;
        }
        Producer::Plain => {
            let transaction = writer.transaction().await?;
            transaction.execute(insert, &[&payload]).await?;
            transaction.batch_execute("NOTIFY hand_jobs").await?;
            transaction.commit().await?;
        }
    }
    Ok(Instant::now())
}

/// Waits for a notification, and claims a job. A notification may be for another loop on the same
/// table: then it waits for the next one.
async fn claim_job(
    consumer: &Client,
    claim: &Statement,
    notified: &mut mpsc::UnboundedReceiver<()>,
) -> Result<(Instant, i64)> {
    loop {
        notified.recv().await.context("the listener ended")?;
        if let Some(row) = consumer.query_opt(claim, &[]).await? {
            return Ok((Instant::now(), row.get(0)));
        }
    }
}
