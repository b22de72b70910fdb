//! Connections that read concurrently with the writer, each call in one snapshot.
//!
//! # Invariants
//! * A reader never writes (`query_only`) and never waits for the writer.
//! * A read that begins after a write was answered sees that write.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;
use wakeline_store::{PayloadEncryption, StoreError};

use crate::clock::StoreClock;
use crate::connect::{self, Role};
use crate::error::{Res, closed, database};
use crate::options::SqliteOptions;
use crate::session::{DbSession, SessionCache};

/// A small pool of read-only connections.
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    permits_len: u32,
    clock: Arc<StoreClock>,
    encryption: Arc<PayloadEncryption>,
}

impl Readers {
    pub(crate) fn open(
        options: &SqliteOptions,
        clock: Arc<StoreClock>,
        encryption: Arc<PayloadEncryption>,
    ) -> Result<Self, StoreError> {
        let permits_len = u32::try_from(options.readers_len.clamp(1, 64)).expect("64 fits");
        let idle = (0..permits_len)
            .map(|_| connect::open(options, Role::Reader))
            .collect::<Result<Vec<_>, _>>()?;
        let permits = Semaphore::new(permits_len as usize);
        Ok(Self { idle: Mutex::new(idle), permits, permits_len, clock, encryption })
    }

    /// Runs a read in one snapshot, on a blocking thread.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        work: impl FnOnce(&mut DbSession<'_>) -> Res<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.permits.acquire().await.map_err(|_| closed(operation))?;
        let this = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || this.run(operation, work)).await;
        drop(permit);
        let outcome = done
            .map_err(|error| StoreError::Fatal { operation, source: error.into() })
            .and_then(|outcome| outcome);
        crate::writer::count_call(operation, &outcome);
        outcome
    }

    fn run<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut DbSession<'_>) -> Res<T>,
    ) -> Result<T, StoreError> {
        let conn = self.idle.lock().pop().ok_or_else(|| closed(operation))?;
        let snapshot = PooledConnection { conn: Some(conn), idle: &self.idle };
        let conn = snapshot.conn.as_ref().expect("taken only on drop");
        let read = || -> Res<T> {
            conn.execute_batch("BEGIN")?;
            self.clock.catch_up(conn)?;
            let mut cache = SessionCache::default();
            work(&mut DbSession::new(conn, &mut cache, &self.encryption, self.clock.now()))
        };
        let outcome = read().map_err(|fault| fault.named(operation));
        if !conn.is_autocommit() {
            conn.execute_batch("ROLLBACK").map_err(|error| database(operation, error))?;
        }
        outcome
    }

    /// Waits for running reads, then closes the connections.
    pub(crate) async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(self.permits_len).await {
            self.idle.lock().clear();
            self.permits.close();
            drop(all);
        }
    }
}

/// Returns a connection to the pool, even if the read panics.
struct PooledConnection<'r> {
    conn: Option<Connection>,
    idle: &'r Mutex<Vec<Connection>>,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            if !conn.is_autocommit() {
                // A panic left the transaction open. If this fails, the next BEGIN reports it.
                let _ = conn.execute_batch("ROLLBACK");
            }
            self.idle.lock().push(conn);
        }
    }
}
