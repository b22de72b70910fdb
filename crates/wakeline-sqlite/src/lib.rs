//! The SQLite store: durable queues, orchestrations and webhooks in one file, for one machine.
//!
//! # Where it sits
//! Implements the traits of `wakeline-store`. Only the crates that choose a store (the binary, the
//! facade `wakeline` and the adapter `wakeline-duroxide`) depend on it.
//!
//! # How it works
//! One writer thread runs the commands that [`SqliteStore`] sends it, and commits those that wait
//! together in one transaction. A few connections read concurrently. Other processes on the same
//! file are notified through small files in the folder `<database>.hints`.
//!
//! # Invariants
//! * An answered write is on disk: the journal mode is WAL with `synchronous = FULL`, and both
//!   settings are read back when a connection opens.
//! * The store's clock counts elapsed time, and never runs backwards for one file.
//! * Every write transaction starts with `BEGIN IMMEDIATE`, so none fails half-way because another
//!   process took the write lock first.

mod access;
mod admin;
mod ballast;
mod clock;
mod command;
mod connect;
mod error;
mod flow;
mod hook;
mod keyed;
mod listener;
mod maintenance;
mod migrate;
mod options;
mod queue;
mod readers;
mod session;
mod sidecar;
mod writer;

use std::sync::Arc;

use rusqlite::Connection;
use wakeline_store::{PayloadEncryption, StoreError};

pub use migrate::{MigrationStatus, dump_schema, migrate_status, migrate_up};
pub use options::SqliteOptions;
#[doc(hidden)]
pub use options::TestClock;
pub use writer::WriterCounters;

use ballast::Ballast;
use clock::StoreClock;
use command::WriteCommand;
use connect::Role;
use error::Res;
use listener::HintFileListener;
use readers::Readers;
use session::DbSession;
use writer::{Writer, WriterResources};

/// A store in one SQLite file. Cloning is cheap: all clones share the same store.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    options: SqliteOptions,
    writer: Writer,
    readers: Arc<Readers>,
    listener: Arc<HintFileListener>,
    encryption: Arc<PayloadEncryption>,
}

impl SqliteStore {
    /// Opens the database, creates it if it does not exist, and migrates its schema.
    pub async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        tokio::task::spawn_blocking(move || Self::open_blocking(options))
            .await
            .map_err(|error| StoreError::Fatal { operation: "open", source: error.into() })?
    }

    fn open_blocking(options: SqliteOptions) -> Result<Self, StoreError> {
        connect::refuse_network(&options)?;
        let ballast = Ballast::new(&options);
        let conn = open_writer(&options, &ballast)?;
        if options.migrate {
            migrate::up(&conn)?;
        }
        migrate::require_current(&conn)?;
        let clock = StoreClock::open(options.clock.clone(), &conn);
        let clock = Arc::new(clock.map_err(|error| error::database("open", error))?);
        ballast.ensure(&conn);
        let encryption = Arc::new(PayloadEncryption::default());
        let readers = Readers::open(&options, Arc::clone(&clock), Arc::clone(&encryption))?;
        let readers = Arc::new(readers);
        let listener = Arc::new(HintFileListener::start(&options));
        let sidecar = listener.sidecar();
        let resources =
            WriterResources { conn, clock, ballast, sidecar, encryption: Arc::clone(&encryption) };
        let writer = Writer::start(resources)?;
        Ok(Self { inner: Arc::new(StoreInner { options, writer, readers, listener, encryption }) })
    }

    /// Returns what the writer has done since the store was opened.
    pub fn counters(&self) -> WriterCounters {
        self.inner.writer.counters()
    }

    pub(crate) fn options(&self) -> &SqliteOptions {
        &self.inner.options
    }

    pub(crate) fn encryption(&self) -> &PayloadEncryption {
        &self.inner.encryption
    }

    pub(crate) fn listener(&self) -> &HintFileListener {
        &self.inner.listener
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: WriteCommand<T>,
    ) -> Result<T, StoreError> {
        self.inner.writer.call(work).await
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut DbSession<'_>) -> Res<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.readers.read(operation, work).await
    }

    /// Removes the hint files of dead processes. Runs with each safety sweep.
    pub(crate) fn tidy(&self) {
        let listener = Arc::clone(&self.inner.listener);
        drop(tokio::task::spawn_blocking(move || listener.tidy()));
    }

    pub(crate) async fn shut_down(&self) {
        self.inner.writer.close().await;
        self.inner.readers.close().await;
        self.inner.listener.close();
    }
}

/// Opens the connection that writes. After a crash SQLite first rebuilds the `-shm` file from the
/// write-ahead log. On a full disk this file can only grow if the ballast file is removed.
fn open_writer(options: &SqliteOptions, ballast: &Ballast) -> Result<Connection, StoreError> {
    match connect::open(options, Role::Writer) {
        Err(StoreError::Full { .. }) if ballast.release() => connect::open(options, Role::Writer),
        opened => opened,
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.inner.options.path).finish()
    }
}
