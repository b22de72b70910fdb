//! The rival of pushes: the same messages put into a plain table, without a server between.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use rusqlite::Connection as Sqlite;
use uuid::Uuid;

use crate::load::{Load, Measured, PARTITIONS, Tally, Target};
use crate::setup::Setup;
use crate::wire::PAYLOAD;

/// What a queue needs at least: who it is for, its order, a name that is not taken twice.
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

/// Inserts into a table of PostgreSQL for a while, one transaction per request.
pub(crate) async fn postgres(setup: &Setup, target: &Target, load: &Load) -> Result<Measured> {
    setup.database.connect().await?.batch_execute(POSTGRES_TABLE).await?;
    let tally = Arc::new(Tally::new());
    let mut tasks = Vec::with_capacity(load.connections);
    for index in 0..load.connections {
        let client = setup.database.connect().await?;
        let insert = client.prepare(POSTGRES_INSERT).await?;
        let (tally, load) = (Arc::clone(&tally), load.clone());
        tasks.push(tokio::spawn(async move {
            let inserted = async {
                for turn in index.. {
                    if !tally.goes_on() {
                        break;
                    }
                    let (partition, ids) = (format!("p{}", turn % PARTITIONS), names(load.batch));
                    let payload = PAYLOAD.as_bytes();
                    let sent = Instant::now();
                    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                        [&load.queue, &partition, &ids, &payload];
                    client.execute(&insert, &values).await?;
                    tally.count(load.batch, sent.elapsed());
                }
                Ok(())
            };
            tally.guard(inserted.await)
        }));
    }
    tally.watch(target, tasks).await
}

/// Inserts into a file of SQLite for a while: it has one writer, so this is one connection.
pub(crate) async fn sqlite(path: &Path, target: &Target, load: &Load) -> Result<Measured> {
    let mut connection = Sqlite::open(path).context("a file for the raw insertion")?;
    connection.execute_batch(SQLITE_TABLE)?;
    let tally = Arc::new(Tally::new());
    let (counting, load) = (Arc::clone(&tally), load.clone());
    let mut inserting = move || {
        for turn in 0.. {
            if !counting.goes_on() {
                break;
            }
            let partition = format!("p{}", turn % PARTITIONS);
            let sent = Instant::now();
            let transaction = connection.transaction()?;
            let mut insert = transaction.prepare_cached(SQLITE_INSERT)?;
            for id in names(load.batch) {
                insert.execute((&load.queue, &partition, id, PAYLOAD.as_bytes()))?;
            }
            drop(insert);
            transaction.commit()?;
            counting.count(load.batch, sent.elapsed());
        }
        Ok(())
    };
    let guard = Arc::clone(&tally);
    let task = tokio::task::spawn_blocking(move || guard.guard(inserting()));
    tally.watch(target, vec![task]).await
}

fn names(batch: usize) -> Vec<String> {
    (0..batch).map(|_| Uuid::now_v7().to_string()).collect()
}
