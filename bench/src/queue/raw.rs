//! Raw insertion: inserts the same messages into a plain table without a server, for comparison
//! with pushes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use rusqlite::Connection as Sqlite;
use uuid::Uuid;

use crate::load::{Load, LoadCounters, LoadMeasurement, LoadTarget, PARTITIONS};
use crate::setup::Setup;
use crate::wire::PAYLOAD;

/// The minimum that a queue needs: the queue and partition of a message, their order, and unique
/// transaction ids.
const POSTGRES_TABLE: &str = "
    CREATE TABLE IF NOT EXISTS raw_messages (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue text NOT NULL, partition text NOT NULL, transaction_id text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(), payload bytea NOT NULL,
        UNIQUE (queue, partition, transaction_id))";
const POSTGRES_INSERT: &str = "
    INSERT INTO raw_messages (queue, partition, transaction_id, payload)
    SELECT $1, $2, t.id, $4 FROM unnest($3::text[]) AS t (id)";
const SQLITE_TABLE: &str = "
    PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS raw_messages (
        id INTEGER PRIMARY KEY, queue TEXT NOT NULL, partition TEXT NOT NULL,
        transaction_id TEXT NOT NULL, created_at INTEGER NOT NULL DEFAULT (unixepoch()),
        payload BLOB NOT NULL, UNIQUE (queue, partition, transaction_id))";
const SQLITE_INSERT: &str = "
    INSERT INTO raw_messages (queue, partition, transaction_id, payload) VALUES (?1, ?2, ?3, ?4)";

/// Inserts into a table of PostgreSQL for the duration of the target, with one transaction per
/// request.
pub(crate) async fn postgres(
    setup: &Setup,
    target: &LoadTarget,
    load: &Load,
) -> Result<LoadMeasurement> {
    setup.database.connect().await?.batch_execute(POSTGRES_TABLE).await?;
    let counters = Arc::new(LoadCounters::new());
    let mut tasks = Vec::with_capacity(load.connections);
    for index in 0..load.connections {
        let client = setup.database.connect().await?;
        let insert = client.prepare(POSTGRES_INSERT).await?;
        let (counters, load) = (Arc::clone(&counters), load.clone());
        tasks.push(tokio::spawn(async move {
            let inserted = async {
                for turn in index.. {
                    if !counters.is_running() {
                        break;
                    }
                    let (partition, ids) = (format!("p{}", turn % PARTITIONS), new_ids(load.batch));
                    let payload = PAYLOAD.as_bytes();
                    let sent = Instant::now();
                    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                        [&load.queue, &partition, &ids, &payload];
                    client.execute(&insert, &values).await?;
                    counters.count(load.batch, sent.elapsed());
                }
                Ok(())
            };
            counters.stop_on_error(inserted.await)
        }));
    }
    counters.watch(target, tasks).await
}

/// Inserts into a SQLite file for the duration of the target, with one connection because SQLite
/// has one writer.
pub(crate) async fn sqlite(
    path: &Path,
    target: &LoadTarget,
    load: &Load,
) -> Result<LoadMeasurement> {
    let mut connection =
        Sqlite::open(path).context("cannot open the file for the raw insertion")?;
    connection.execute_batch(SQLITE_TABLE)?;
    let counters = Arc::new(LoadCounters::new());
    let (counting, load) = (Arc::clone(&counters), load.clone());
    let mut inserting = move || {
        for turn in 0.. {
            if !counting.is_running() {
                break;
            }
            let partition = format!("p{}", turn % PARTITIONS);
            let sent = Instant::now();
            let transaction = connection.transaction()?;
            let mut insert = transaction.prepare_cached(SQLITE_INSERT)?;
            for id in new_ids(load.batch) {
                insert.execute((&load.queue, &partition, id, PAYLOAD.as_bytes()))?;
            }
            drop(insert);
            transaction.commit()?;
            counting.count(load.batch, sent.elapsed());
        }
        Ok(())
    };
    let stop_on_error = Arc::clone(&counters);
    let task = tokio::task::spawn_blocking(move || stop_on_error.stop_on_error(inserting()));
    counters.watch(target, vec![task]).await
}

fn new_ids(batch: usize) -> Vec<String> {
    (0..batch).map(|_| Uuid::now_v7().to_string()).collect()
}
