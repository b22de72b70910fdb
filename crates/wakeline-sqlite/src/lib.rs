//! The SQLite store: durable queues, orchestrations and webhooks in one file, for one machine.
//!
//! # Where it sits
//! Implements the traits of `wakeline-store`. Only the composition root names it.
//!
//! # How it works
//! One thread writes and commits what waits together ([`SqliteStore`] sends it commands); a few
//! connections read beside it. Other processes on the same file are told through small files in
//! the folder `<database>.hints`.
//!
//! # Invariants
//! * An answered write is on the disk: WAL with `synchronous = FULL`, read back at the start.
//! * The store's clock counts elapsed time, and never runs backwards within the file.
//! * All writing transactions begin as writers (`BEGIN IMMEDIATE`), so none fails half-way because
//!   another process was faster.

mod access;
mod admin;
mod ballast;
mod call;
mod clock;
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
use wakeline_store::{Sealing, StoreError};

pub use migrate::{MigrationStatus, dump_schema, migrate_status, migrate_up};
pub use options::SqliteOptions;
#[doc(hidden)]
pub use options::TestClock;
pub use writer::WriterCounters;

use ballast::Ballast;
use call::Work;
use clock::Clock;
use connect::Role;
use error::Res;
use listener::Listener;
use readers::Readers;
use session::Session;
use writer::{Tools, Writer};

/// A queue store in one SQLite file. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    options: SqliteOptions,
    writer: Writer,
    readers: Arc<Readers>,
    listener: Arc<Listener>,
    sealing: Arc<Sealing>,
}

impl SqliteStore {
    /// Opens the database, making it if it does not exist, and brings its schema up to date.
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
        let clock = Clock::open(options.clock.clone(), &conn);
        let clock = Arc::new(clock.map_err(|error| error::database("open", error))?);
        ballast.lay(&conn);
        let sealing = Arc::new(Sealing::default());
        let readers = Readers::open(&options, Arc::clone(&clock), Arc::clone(&sealing))?;
        let readers = Arc::new(readers);
        let listener = Arc::new(Listener::start(&options));
        let sidecar = listener.sidecar();
        let tools = Tools { conn, clock, ballast, sidecar, sealing: Arc::clone(&sealing) };
        let writer = Writer::start(tools)?;
        Ok(Self { inner: Arc::new(Inner { options, writer, readers, listener, sealing }) })
    }

    /// How much the writer has done since the store was opened.
    pub fn counters(&self) -> WriterCounters {
        self.inner.writer.counters()
    }

    pub(crate) fn options(&self) -> &SqliteOptions {
        &self.inner.options
    }

    pub(crate) fn sealing(&self) -> &Sealing {
        &self.inner.sealing
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.inner.listener
    }

    pub(crate) async fn write<T: Send + 'static>(&self, work: Work<T>) -> Result<T, StoreError> {
        self.inner.writer.call(work).await
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Session<'_>) -> Res<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.readers.read(operation, work).await
    }

    /// Housekeeping that the safety sweep brings along: what dead processes left behind.
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

/// Opens the connection that writes. After a crash SQLite reads the log into the `-shm` file first,
/// which then has to grow: on a full disk in the place of the ballast.
fn open_writer(options: &SqliteOptions, ballast: &Ballast) -> Result<Connection, StoreError> {
    match connect::open(options, Role::Writer) {
        Err(StoreError::Full { .. }) if ballast.give_up() => connect::open(options, Role::Writer),
        opened => opened,
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.inner.options.path).finish()
    }
}
