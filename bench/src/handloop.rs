//! The rival of the wake layer: NOTIFY and SKIP LOCKED, written by hand.
//!
//! What a careful programmer writes against one table: the producer inserts and notifies in one
//! transaction; the consumer listens on one connection and takes a row on another, with
//! `FOR UPDATE SKIP LOCKED`, as soon as it hears something. No HTTP, no leases, no groups.

use std::future::poll_fn;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Statement};

use crate::database::Database;
use crate::wake::Sample;

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

/// How the producer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Producer {
    /// BEGIN, INSERT, NOTIFY, COMMIT: four round trips.
    Plain,
    /// The same transaction as one statement: one round trip. The hardest to beat.
    OneTrip,
}

/// A producer and a consumer over one table.
pub(crate) struct HandLoop {
    producer: Producer,
    writer: Client,
    insert: Statement,
    consumer: Client,
    claim: Statement,
    settle: Statement,
    /// Kept: the listening connection ends with it.
    _listener: Client,
    heard: mpsc::UnboundedReceiver<()>,
}

impl HandLoop {
    /// Makes the table and the connections.
    pub(crate) async fn start(database: &Database, producer: Producer) -> Result<Self> {
        let (writer, consumer) = (database.connect().await?, database.connect().await?);
        writer.batch_execute(TABLE).await?;
        let (listener, mut messages) = database.connect_raw().await?;
        let (hear, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| messages.poll_message(context)).await {
                let notified = matches!(message, AsyncMessage::Notification(_));
                if notified && hear.send(()).is_err() {
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
            heard,
        })
    }

    /// One job, from its insert to the moment at which the consumer has it.
    pub(crate) async fn sample(&mut self, payload: &str) -> Result<Sample> {
        while self.heard.try_recv().is_ok() {}
        let sent = Instant::now();
        let write = write(&mut self.writer, (&self.insert, self.producer), payload);
        let take = take(&self.consumer, &self.claim, &mut self.heard);
        let (written, taken) = tokio::join!(write, take);
        let (answered, (had, job)) = (written?, taken?);
        let gone = self.consumer.execute(&self.settle, &[&job]).await?;
        ensure!(gone == 1, "a hand-written job vanished");
        Ok(Sample::new(sent, answered, had))
    }
}

async fn write(
    writer: &mut Client,
    (insert, producer): (&Statement, Producer),
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

/// Waits to hear of a job. Another loop on the same table may have been meant: then it waits on.
async fn take(
    consumer: &Client,
    claim: &Statement,
    heard: &mut mpsc::UnboundedReceiver<()>,
) -> Result<(Instant, i64)> {
    loop {
        heard.recv().await.context("the listener ended")?;
        if let Some(row) = consumer.query_opt(claim, &[]).await? {
            return Ok((Instant::now(), row.get(0)));
        }
    }
}
