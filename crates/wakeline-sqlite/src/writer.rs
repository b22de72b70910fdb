//! The writer thread: commands that are waiting together are committed in one transaction.
//!
//! # Where it sits
//! Every write of the store is a [`PendingCommand`] sent to this thread. Readers run concurrently.
//!
//! # Invariants
//! * A command is answered after the commit (fsync) that holds it, never before.
//! * Each command runs under its own savepoint, so that a bad command fails alone.
//! * A commit that fails is an error for each command in it, because the outcome of all of them is
//!   unknown.
//! * A single command does not wait for others; commands that arrive during a commit are in the
//!   next one.
//! * A command runs to its end even if its caller has gone away.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use wakeline_core::error_chain;
use wakeline_store::{PayloadEncryption, StoreError};

use crate::ballast::Ballast;
use crate::clock::StoreClock;
use crate::command::{CommandOutcome, PendingCommand, QueuedCommand, WriteCommand};
use crate::connect;
use crate::error::{StoreFault, closed, is_full};
use crate::session::{DbSession, SessionCache};
use crate::sidecar::{Hints, Sidecar};

/// The maximum number of commands in one commit.
const COMMANDS_LEN_MAX: usize = 1_000;
/// The maximum number of bytes of payload in one commit.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Capacity of the command channel. When it is full, callers wait to send.
const WAITING_LEN_MAX: usize = 4_096;

/// What the writer has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterCounters {
    /// Commits that wrote something.
    pub commits: u64,
    /// Commands that ran in a write transaction.
    pub commands: u64,
    /// Claims that were answered from a snapshot, without a write transaction.
    pub peeked: u64,
}

#[derive(Debug, Default)]
struct AtomicCounters {
    commits: AtomicU64,
    commands: AtomicU64,
    peeked: AtomicU64,
}

/// The handle of the writer thread.
pub(crate) struct Writer {
    waiting: Mutex<Option<mpsc::Sender<Box<dyn QueuedCommand>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<AtomicCounters>,
}

/// The resources that the writer thread owns.
pub(crate) struct WriterResources {
    pub(crate) conn: Connection,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) ballast: Ballast,
    pub(crate) sidecar: Arc<Sidecar>,
    pub(crate) encryption: Arc<PayloadEncryption>,
}

impl Writer {
    pub(crate) fn start(resources: WriterResources) -> Result<Self, StoreError> {
        let (sender, waiting) = mpsc::channel(WAITING_LEN_MAX);
        let counters = Arc::new(AtomicCounters::default());
        let writer_loop = WriterLoop {
            changes_seen: resources.conn.total_changes(),
            resources,
            waiting,
            cache: SessionCache::default(),
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new()
            .name("wakeline-sqlite-writer".to_owned())
            .spawn(move || writer_loop.serve())
            .map_err(|error| StoreError::Unavailable { operation: "open", source: error.into() })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { waiting: Mutex::new(Some(sender)), thread, counters })
    }

    /// Runs a command and waits for its commit.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: WriteCommand<T>,
    ) -> Result<T, StoreError> {
        let operation = work.operation;
        let (reply, answer) = oneshot::channel();
        let sender = self.waiting.lock().clone().ok_or_else(|| closed(operation))?;
        let command = Box::new(PendingCommand::new(work, reply));
        sender.send(command).await.map_err(|_| closed(operation))?;
        drop(sender);
        // The thread has ended; it is unknown whether the command was committed.
        let outcome = answer.await.unwrap_or_else(|_| Err(closed(operation).after_write()));
        count_call(operation, &outcome);
        outcome
    }

    pub(crate) fn counters(&self) -> WriterCounters {
        WriterCounters {
            commits: self.counters.commits.load(Ordering::Relaxed),
            commands: self.counters.commands.load(Ordering::Relaxed),
            peeked: self.counters.peeked.load(Ordering::Relaxed),
        }
    }

    /// Runs the waiting commands, then ends the thread.
    pub(crate) async fn close(&self) {
        drop(self.waiting.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // If the thread panicked, every caller has already received an error.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Counts a store call by its outcome.
pub(crate) fn count_call<T>(operation: &'static str, outcome: &Result<T, StoreError>) {
    let outcome = match outcome {
        Ok(_) => "ok",
        Err(StoreError::Transient { .. }) => "transient",
        Err(StoreError::Unavailable { .. }) => "unavailable",
        Err(StoreError::Invalid { .. }) => "invalid",
        Err(StoreError::Full { .. }) => "full",
        Err(StoreError::NoKeys { .. }) => "no_keys",
        Err(StoreError::Maintenance { .. }) => "maintenance",
        Err(StoreError::Corrupt { .. }) => "corrupt",
        Err(StoreError::Fatal { .. }) => "fatal",
    };
    metrics::counter!("wakeline_store_calls_total", "op" => operation, "outcome" => outcome)
        .increment(1);
}

/// How a transaction of commands ended.
enum BatchOutcome {
    /// The commands were committed, or wrote nothing.
    Done(Hints),
    /// The disk is full. Nothing was written.
    Full,
    /// The transaction failed as a whole.
    Failed(rusqlite::Error),
}

/// The state of the writer thread.
struct WriterLoop {
    resources: WriterResources,
    waiting: mpsc::Receiver<Box<dyn QueuedCommand>>,
    cache: SessionCache,
    counters: Arc<AtomicCounters>,
    /// `total_changes` of the connection at the end of the last transaction.
    changes_seen: u64,
}

impl WriterLoop {
    fn serve(mut self) {
        while let Some(first) = self.waiting.blocking_recv() {
            let mut batch = vec![first];
            self.fill(&mut batch);
            self.answer_from_snapshot(&mut batch);
            if !batch.is_empty() {
                self.write(batch);
            }
        }
    }

    /// Adds the waiting commands, up to the limits.
    fn fill(&mut self, batch: &mut Vec<Box<dyn QueuedCommand>>) {
        let mut bytes: usize = batch.iter().map(|command| command.bytes()).sum();
        while batch.len() < COMMANDS_LEN_MAX && bytes < BYTES_MAX {
            let Ok(command) = self.waiting.try_recv() else { break };
            bytes += command.bytes();
            batch.push(command);
        }
    }

    /// If all commands can be answered from a snapshot, answers those that have nothing to write
    /// without taking the write lock. If there is a push among them, the claims run after it
    /// instead, because they may find its messages.
    fn answer_from_snapshot(&mut self, batch: &mut Vec<Box<dyn QueuedCommand>>) {
        if !batch.iter().all(|command| command.can_peek()) {
            return;
        }
        let Ok(()) = self.resources.conn.execute_batch("BEGIN") else { return };
        let ready = self.resources.clock.catch_up(&self.resources.conn).is_ok()
            && self.cache.validate(&self.resources.conn).is_ok();
        let mut rest = Vec::with_capacity(batch.len());
        for mut command in batch.drain(..) {
            let now = self.resources.clock.now();
            let mut session = DbSession::new(
                &self.resources.conn,
                &mut self.cache,
                &self.resources.encryption,
                now,
            );
            if ready && command.peek(&mut session) {
                self.counters.peeked.fetch_add(1, Ordering::Relaxed);
                command.answer();
            } else {
                rest.push(command);
            }
        }
        *batch = rest;
        self.roll_back();
    }

    fn write(&mut self, mut batch: Vec<Box<dyn QueuedCommand>>) {
        let ran = self.begin().and_then(|()| {
            // Commands that arrived during the wait for the write lock join the transaction.
            self.fill(&mut batch);
            self.run_all(&mut batch)
        });
        let mut round = self.finish(ran, batch.len());
        if matches!(round, BatchOutcome::Full) {
            self.free_space();
            round = self.run_batch(&mut batch);
        }
        match round {
            BatchOutcome::Done(hints) => {
                batch.into_iter().for_each(|command| command.answer());
                self.resources.sidecar.announce(hints);
            }
            BatchOutcome::Full => batch.into_iter().for_each(|command| self.write_alone(command)),
            BatchOutcome::Failed(error) => {
                let error = Arc::new(error);
                for mut command in batch {
                    command.fail(&error);
                    command.answer();
                }
            }
        }
    }

    /// Removes the ballast file and moves the write-ahead log into the database, which frees the
    /// space of the log.
    fn free_space(&mut self) {
        if self.resources.ballast.release() {
            self.resources.ballast.raise_page_limit(&self.resources.conn);
        }
        if let Err(error) = connect::checkpoint(&self.resources.conn) {
            tracing::error!(
                error = error_chain(&error),
                "the disk is full: the write-ahead log could not be moved into the database; free \
                 some disk space"
            );
        }
    }

    /// Runs one command on a full disk without ballast: commands that need no space succeed.
    fn write_alone(&mut self, command: Box<dyn QueuedCommand>) {
        let mut batch = vec![command];
        let hints = match self.run_batch(&mut batch) {
            BatchOutcome::Done(hints) => hints,
            BatchOutcome::Full => {
                batch.iter_mut().for_each(|command| command.set_fault(StoreFault::Full));
                Hints::default()
            }
            BatchOutcome::Failed(error) => {
                let error = Arc::new(error);
                batch.iter_mut().for_each(|command| command.fail(&error));
                Hints::default()
            }
        };
        batch.into_iter().for_each(|command| command.answer());
        self.resources.sidecar.announce(hints);
    }

    /// Runs all commands in one transaction.
    fn run_batch(&mut self, batch: &mut [Box<dyn QueuedCommand>]) -> BatchOutcome {
        let ended = self.begin().and_then(|()| self.run_all(batch));
        self.finish(ended, batch.len())
    }

    /// Commits the transaction, or rolls it back.
    fn finish(&mut self, ran: rusqlite::Result<Option<Hints>>, commands: usize) -> BatchOutcome {
        let ended = ran.and_then(|ran| match ran {
            Some(hints) => self.commit(commands).map(|()| Some(hints)),
            None => Ok(None),
        });
        if !matches!(ended, Ok(Some(_))) {
            self.roll_back();
            self.cache.clear();
        }
        match ended {
            Ok(Some(hints)) => BatchOutcome::Done(hints),
            Ok(None) => BatchOutcome::Full,
            Err(error) if is_full(&error) => BatchOutcome::Full,
            Err(error) => BatchOutcome::Failed(error),
        }
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        let conn = &self.resources.conn;
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.resources.clock.catch_up(conn)?;
        self.cache.fan_outs.begin();
        self.cache.validate(conn)
    }

    /// Runs each command under its own savepoint. Returns `None` if the disk is full.
    fn run_all(&mut self, batch: &mut [Box<dyn QueuedCommand>]) -> rusqlite::Result<Option<Hints>> {
        let WriterResources { conn, clock, ballast, encryption, .. } = &self.resources;
        let has_space = batch.iter().any(|command| command.grows()) && ballast.may_grow(conn);
        let mut hints = Hints::default();
        for command in batch {
            if command.grows() && !has_space {
                command.set_fault(StoreFault::Full);
                continue;
            }
            conn.prepare_cached("SAVEPOINT command")?.execute([])?;
            let mut session = DbSession::new(conn, &mut self.cache, encryption, clock.now());
            let ran = catch_unwind(AssertUnwindSafe(|| command.run(&mut session)));
            let more = std::mem::take(&mut session.hints);
            let kept = match ran {
                Ok(CommandOutcome::Full) => return Ok(None),
                Ok(ran) => ran == CommandOutcome::Kept,
                Err(_) => {
                    command.set_fault(StoreFault::Panicked);
                    false
                }
            };
            if conn.is_autocommit() {
                return Err(rolled_back());
            }
            if kept {
                hints.extend(more);
            } else {
                conn.prepare_cached("ROLLBACK TO command")?.execute([])?;
                self.cache.clear();
            }
            conn.prepare_cached("RELEASE command")?.execute([])?;
        }
        Ok(Some(hints))
    }

    /// Commits the transaction. If nothing changed, nothing is written to the disk.
    fn commit(&mut self, commands: usize) -> rusqlite::Result<()> {
        let WriterResources { conn, clock, .. } = &self.resources;
        self.counters.commands.fetch_add(commands as u64, Ordering::Relaxed);
        if conn.total_changes() == self.changes_seen {
            return conn.prepare_cached("COMMIT")?.execute([]).map(drop);
        }
        let started = Instant::now();
        clock.store(conn)?;
        conn.prepare_cached("COMMIT")?.execute([])?;
        self.changes_seen = conn.total_changes();
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        metrics::histogram!("wakeline_store_commit_seconds")
            .record(started.elapsed().as_secs_f64());
        metrics::histogram!("wakeline_store_commands_per_commit").record(commands as f64);
        Ok(())
    }

    fn roll_back(&mut self) {
        let conn = &self.resources.conn;
        if !conn.is_autocommit()
            && let Err(error) = conn.execute_batch("ROLLBACK")
        {
            tracing::error!(error = error_chain(&error), "a transaction could not be rolled back");
        }
        self.changes_seen = conn.total_changes();
    }
}

/// The error if SQLite rolled back the whole transaction itself, as it may after an I/O error.
fn rolled_back() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
    let reason = "SQLite rolled the transaction back".to_owned();
    rusqlite::Error::SqliteFailure(code, Some(reason))
}
