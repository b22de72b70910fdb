//! The one thread that writes: commands that wait together are committed together.
//!
//! # Where it sits
//! Every write of the store is a [`Call`] sent to this thread. Readers run beside it.
//!
//! # Invariants
//! * A command is answered after the commit (fsync) that holds it, never before.
//! * Each command runs under its own savepoint: a bad one fails alone (trap 70).
//! * A commit that fails is an error for each command in it (trap 71).
//! * A lone command waits for nothing; what arrives during a commit goes with the next one.
//! * A caller that goes away changes nothing: its command runs to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use wakeline_core::error_chain;
use wakeline_store::{Sealing, StoreError};

use crate::ballast::Ballast;
use crate::call::{Call, Command, Ran, Work};
use crate::clock::Clock;
use crate::connect;
use crate::error::{Fault, closed, is_full};
use crate::session::{Cache, Session};
use crate::sidecar::{Hints, Sidecar};

/// Most commands in one commit.
const COMMANDS_LEN_MAX: usize = 1_000;
/// Most bytes of payload in one commit.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Commands that may wait; beyond it callers wait to send.
const WAITING_LEN_MAX: usize = 4_096;

/// How much the writer has done since it started.
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
struct Counters {
    commits: AtomicU64,
    commands: AtomicU64,
    peeked: AtomicU64,
}

/// The handle to the thread that writes.
pub(crate) struct Writer {
    waiting: Mutex<Option<mpsc::Sender<Box<dyn Command>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Arc<Counters>,
}

/// What the thread works with.
pub(crate) struct Tools {
    pub(crate) conn: Connection,
    pub(crate) clock: Arc<Clock>,
    pub(crate) ballast: Ballast,
    pub(crate) sidecar: Arc<Sidecar>,
    pub(crate) sealing: Arc<Sealing>,
}

impl Writer {
    pub(crate) fn start(tools: Tools) -> Result<Self, StoreError> {
        let (sender, waiting) = mpsc::channel(WAITING_LEN_MAX);
        let counters = Arc::new(Counters::default());
        let desk = Desk {
            changes_seen: tools.conn.total_changes(),
            tools,
            waiting,
            cache: Cache::default(),
            counters: Arc::clone(&counters),
        };
        let thread = std::thread::Builder::new()
            .name("wakeline-sqlite-writer".to_owned())
            .spawn(move || desk.serve())
            .map_err(|error| StoreError::Unavailable { operation: "open", source: error.into() })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { waiting: Mutex::new(Some(sender)), thread, counters })
    }

    /// Runs a command and waits for its commit.
    pub(crate) async fn call<T: Send + 'static>(&self, work: Work<T>) -> Result<T, StoreError> {
        let operation = work.operation;
        let (reply, answer) = oneshot::channel();
        let sender = self.waiting.lock().clone().ok_or_else(|| closed(operation))?;
        let command = Box::new(Call::new(work, reply));
        sender.send(command).await.map_err(|_| closed(operation))?;
        drop(sender);
        // The thread has ended, and nobody knows whether before or after its last commit.
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

    /// Finishes what waits and ends the thread.
    pub(crate) async fn close(&self) {
        drop(self.waiting.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // Its panic was already reported to every caller.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Counts a call of the store by its outcome.
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

/// How a round of commands ended.
enum Round {
    /// They are in one commit, or nothing was written.
    Done(Hints),
    /// The disk is full: nothing of it was written.
    Full,
    /// The transaction failed as a whole.
    Failed(rusqlite::Error),
}

/// The writing thread's own things.
struct Desk {
    tools: Tools,
    waiting: mpsc::Receiver<Box<dyn Command>>,
    cache: Cache,
    counters: Arc<Counters>,
    /// Rows changed on this connection up to the end of the last round.
    changes_seen: u64,
}

impl Desk {
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

    /// Adds what waits, up to the caps.
    fn fill(&mut self, batch: &mut Vec<Box<dyn Command>>) {
        let mut bytes: usize = batch.iter().map(|command| command.bytes()).sum();
        while batch.len() < COMMANDS_LEN_MAX && bytes < BYTES_MAX {
            let Ok(command) = self.waiting.try_recv() else { break };
            bytes += command.bytes();
            batch.push(command);
        }
    }

    /// Answers claims that find nothing without taking the write lock, if all of them are claims.
    /// With a push among them they run after it instead, and may find what it brings.
    fn answer_from_snapshot(&mut self, batch: &mut Vec<Box<dyn Command>>) {
        if !batch.iter().all(|command| command.can_peek()) {
            return;
        }
        let Ok(()) = self.tools.conn.execute_batch("BEGIN") else { return };
        let ready = self.tools.clock.catch_up(&self.tools.conn).is_ok()
            && self.cache.validate(&self.tools.conn).is_ok();
        let mut rest = Vec::with_capacity(batch.len());
        for mut command in batch.drain(..) {
            let now = self.tools.clock.now();
            let mut session =
                Session::new(&self.tools.conn, &mut self.cache, &self.tools.sealing, now);
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

    fn write(&mut self, mut batch: Vec<Box<dyn Command>>) {
        let ran = self.begin().and_then(|()| {
            // What came while the write lock was awaited goes along.
            self.fill(&mut batch);
            self.run_all(&mut batch)
        });
        let mut round = self.ended(ran, batch.len());
        if matches!(round, Round::Full) {
            self.make_room();
            round = self.round(&mut batch);
        }
        match round {
            Round::Done(hints) => {
                batch.into_iter().for_each(|command| command.answer());
                self.tools.sidecar.tell(hints);
            }
            Round::Full => batch.into_iter().for_each(|command| self.write_alone(command)),
            Round::Failed(error) => {
                let error = Arc::new(error);
                for mut command in batch {
                    command.fail(&error);
                    command.answer();
                }
            }
        }
    }

    /// Gives the ballast up, and moves the log into the database in its place: what the log took
    /// is then free again.
    fn make_room(&mut self) {
        if self.tools.ballast.give_up() {
            self.tools.ballast.grow_into_its_place(&self.tools.conn);
        }
        if let Err(error) = connect::checkpoint(&self.tools.conn) {
            tracing::error!(
                error = error_chain(&error),
                "disk full: the log could not be moved into the database"
            );
        }
    }

    /// On a full disk that has no ballast left: what needs no space still goes through.
    fn write_alone(&mut self, command: Box<dyn Command>) {
        let mut batch = vec![command];
        let hints = match self.round(&mut batch) {
            Round::Done(hints) => hints,
            Round::Full => {
                batch.iter_mut().for_each(|command| command.set_fault(Fault::Full));
                Hints::default()
            }
            Round::Failed(error) => {
                let error = Arc::new(error);
                batch.iter_mut().for_each(|command| command.fail(&error));
                Hints::default()
            }
        };
        batch.into_iter().for_each(|command| command.answer());
        self.tools.sidecar.tell(hints);
    }

    /// One transaction for all commands.
    fn round(&mut self, batch: &mut [Box<dyn Command>]) -> Round {
        let ended = self.begin().and_then(|()| self.run_all(batch));
        self.ended(ended, batch.len())
    }

    /// Commits what ran, or undoes it.
    fn ended(&mut self, ran: rusqlite::Result<Option<Hints>>, commands: usize) -> Round {
        let ended = ran.and_then(|ran| match ran {
            Some(hints) => self.commit(commands).map(|()| Some(hints)),
            None => Ok(None),
        });
        if !matches!(ended, Ok(Some(_))) {
            self.roll_back();
            self.cache.clear();
        }
        match ended {
            Ok(Some(hints)) => Round::Done(hints),
            Ok(None) => Round::Full,
            Err(error) if is_full(&error) => Round::Full,
            Err(error) => Round::Failed(error),
        }
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        let conn = &self.tools.conn;
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.tools.clock.catch_up(conn)?;
        self.cache.fan_outs.begin();
        self.cache.validate(conn)
    }

    /// Runs each command under its own savepoint. `None` if the disk is full.
    fn run_all(&mut self, batch: &mut [Box<dyn Command>]) -> rusqlite::Result<Option<Hints>> {
        let Tools { conn, clock, ballast, sealing, .. } = &self.tools;
        let roomy = batch.iter().any(|command| command.grows()) && ballast.may_grow(conn);
        let mut hints = Hints::default();
        for command in batch {
            if command.grows() && !roomy {
                command.set_fault(Fault::Full);
                continue;
            }
            conn.prepare_cached("SAVEPOINT command")?.execute([])?;
            let mut session = Session::new(conn, &mut self.cache, sealing, clock.now());
            let ran = catch_unwind(AssertUnwindSafe(|| command.run(&mut session)));
            let more = std::mem::take(&mut session.hints);
            let kept = match ran {
                Ok(Ran::Full) => return Ok(None),
                Ok(ran) => ran == Ran::Kept,
                Err(_) => {
                    command.set_fault(Fault::Panicked);
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

    /// Makes the round durable. A round that wrote nothing costs no write.
    fn commit(&mut self, commands: usize) -> rusqlite::Result<()> {
        let Tools { conn, clock, .. } = &self.tools;
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
        let conn = &self.tools.conn;
        if !conn.is_autocommit()
            && let Err(error) = conn.execute_batch("ROLLBACK")
        {
            tracing::error!(error = error_chain(&error), "a transaction could not be rolled back");
        }
        self.changes_seen = conn.total_changes();
    }
}

/// The database undid the whole transaction by itself, as it may after an I/O error.
fn rolled_back() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
    let reason = "SQLite rolled the transaction back".to_owned();
    rusqlite::Error::SqliteFailure(code, Some(reason))
}
