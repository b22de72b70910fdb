//! A pool of connections for calls that are not fused.
//!
//! # Invariants
//! * Each call has a connection to itself, so that a slow call delays no other.
//! * Waiting for a connection ends at a deadline with `Unavailable`: nothing was sent.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::Row;
use wakeline_store::StoreError;

use crate::connect::{Params, PgLink, Sql};
use crate::connector::PgConnector;
use crate::error;

/// Links for calls that are not fused: each call has one to itself.
pub(crate) struct Pool {
    idle: Mutex<Vec<PgLink>>,
    permits: Semaphore,
    size: u32,
    patience: Duration,
}

impl Pool {
    /// Creates a pool without opening its connections.
    pub(crate) fn new(connector: &Arc<PgConnector>, size: usize) -> Self {
        let size = size.max(1);
        Self {
            idle: Mutex::new((0..size).map(|_| PgLink::new(connector.clone())).collect()),
            permits: Semaphore::new(size),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            patience: connector.deadline(),
        }
    }

    /// Takes a link, waiting for one if all are in use.
    pub(crate) async fn link(&self, operation: &'static str) -> Result<PooledLink<'_>, StoreError> {
        let permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                metrics::counter!("wakeline_store_pool_waits_total").increment(1);
                match timeout(self.patience, self.permits.acquire()).await {
                    Ok(Ok(permit)) => permit,
                    Ok(Err(_)) => {
                        return Err(error::connect_failed(
                            operation,
                            "the store is closed and accepts no more calls",
                        ));
                    }
                    Err(_) => {
                        return Err(error::connect_failed(
                            operation,
                            "all connections were in use for the whole time limit: raise \
                             pg_pool_max",
                        ));
                    }
                }
            }
        };
        let link = self.idle.lock().pop().expect("there are as many links as permits");
        in_use().increment(1);
        Ok(PooledLink { pool: self, link: Some(link), _permit: permit })
    }

    /// Runs one statement on a free link.
    pub(crate) async fn query(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.link(operation).await?.query(operation, sql, params).await
    }

    /// Runs [`PgLink::query_promptly`] on a free link.
    pub(crate) async fn query_promptly(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.link(operation).await?.query_promptly(operation, sql, params).await
    }

    /// Waits for the calls in flight, then closes all links permanently.
    pub(crate) async fn close(&self) {
        let all = self.permits.acquire_many(self.size).await;
        self.permits.close();
        drop(all);
        let links = std::mem::take(&mut *self.idle.lock());
        for link in links {
            link.close().await;
        }
    }
}

/// A link that is borrowed from a [`Pool`] until it is dropped.
pub(crate) struct PooledLink<'a> {
    pool: &'a Pool,
    link: Option<PgLink>,
    _permit: SemaphorePermit<'a>,
}

impl std::ops::Deref for PooledLink<'_> {
    type Target = PgLink;

    fn deref(&self) -> &PgLink {
        self.link.as_ref().expect("only drop removes the link")
    }
}

impl Drop for PooledLink<'_> {
    fn drop(&mut self) {
        // The permit is a field and so is dropped after this.
        if let Some(link) = self.link.take() {
            self.pool.idle.lock().push(link);
            in_use().decrement(1);
        }
    }
}

/// The number of borrowed links in all pools of the process.
fn in_use() -> metrics::Gauge {
    metrics::gauge!("wakeline_store_pool_in_use")
}
