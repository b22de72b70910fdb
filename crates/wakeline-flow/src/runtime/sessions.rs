//! Sessions that this runtime owns: kept while they are used, without a statement while they are
//! not, and let go when the runtime ends.
//!
//! # Invariants
//! * A session is used while one of its activities runs, however long that takes, and for the idle
//!   time afterwards.
//! * Sessions are let go after the last worker task has ended, whether the runtime was shut down or
//!   dropped: nothing of them runs here any more.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;
use wakeline_core::error_chain;

use super::{RuntimeOptions, SETTLE_TIME, Shared};
use crate::provider::Session;

/// What this runtime knows of its sessions.
pub(crate) struct Sessions {
    session: Option<Session>,
    idle_timeout: Duration,
    uses: Mutex<Uses>,
    changed: Notify,
    /// The tasks that fetch and run activities.
    workers: TaskTracker,
}

#[derive(Default)]
struct Uses {
    /// Whether an activity of a session was ever fetched.
    ever: bool,
    /// Activities of sessions that run.
    running: usize,
    /// When one began or ended last.
    at: Option<Instant>,
}

/// An activity of a session runs.
pub(super) struct InSession<'a>(&'a Sessions);

impl Sessions {
    pub(super) fn new(options: &RuntimeOptions) -> Self {
        let session = options
            .session_owner
            .clone()
            .map(|owner| Session { owner, lock_timeout: options.session_lock_timeout });
        let idle_timeout = options.session_idle_timeout;
        let (uses, changed, workers) = Default::default();
        Self { session, idle_timeout, uses, changed, workers }
    }

    /// How work of sessions is claimed.
    pub(super) fn claim(&self) -> Option<Session> {
        self.session.clone()
    }

    /// A task works until its future ends: sessions are not let go before.
    pub(super) fn worker<F: Future>(&self, work: F) -> TrackedFuture<F> {
        self.workers.track_future(work)
    }

    /// An activity of a session was fetched, so that the session is this runtime's.
    pub(super) fn fetched(&self) {
        self.uses.lock().ever = true;
    }

    /// An activity of a session runs until this is dropped.
    pub(super) fn enter(&self) -> InSession<'_> {
        self.note(|uses| uses.running += 1);
        InSession(self)
    }

    fn note(&self, change: impl FnOnce(&mut Uses)) {
        let mut uses = self.uses.lock();
        change(&mut uses);
        uses.at = Some(Instant::now());
        drop(uses);
        self.changed.notify_one();
    }

    fn is_running(&self) -> bool {
        self.uses.lock().running > 0
    }

    fn in_use(&self) -> bool {
        let uses = self.uses.lock();
        uses.running > 0 || uses.at.is_some_and(|at| at.elapsed() < self.idle_timeout)
    }

    /// The idle time by which the store tells which sessions are kept. Running activities count as
    /// activity of their sessions whenever their leases are renewed, so it is no shorter than that.
    fn idle(&self, lease: Duration) -> Duration {
        if self.is_running() { self.idle_timeout.max(lease) } else { self.idle_timeout }
    }
}

impl Drop for InSession<'_> {
    fn drop(&mut self) {
        self.0.note(|uses| uses.running -= 1);
    }
}

/// Renews the sessions' leases while some are in use, also after the runtime began to close while
/// activities still run; removes those that nobody needs when they have fallen idle. Lets all go
/// once nothing runs any more.
pub(super) async fn keep(shared: Arc<Shared>) {
    let Some(session) = shared.sessions.claim() else { return };
    let workers = &shared.sessions.workers;
    // Those that work are there already.
    workers.close();
    tokio::select! {
        () = keep_in_use(&shared, &session) => {}
        () = workers.wait() => {}
    }
    workers.wait().await;
    release(&shared, session).await;
}

/// Ends when the runtime closes and no session is in use.
async fn keep_in_use(shared: &Shared, session: &Session) {
    let owners = [session.owner.clone()];
    while !shared.closing.is_cancelled() {
        tokio::select! {
            () = shared.closing.cancelled() => {}
            () = shared.sessions.changed.notified() => {}
        }
        while shared.sessions.in_use() {
            tokio::time::sleep(session.lock_timeout / 3).await;
            let idle = shared.sessions.idle(shared.options.worker_lock_timeout);
            let span = session.lock_timeout;
            if let Err(error) = shared.provider.renew_session_lock(&owners, span, idle).await {
                tracing::warn!(error = error_chain(&error), "could not renew sessions");
            }
        }
        if shared.closing.is_cancelled() {
            return;
        }
        if let Err(error) = shared.provider.cleanup_orphaned_sessions().await {
            tracing::warn!(error = error_chain(&error), "could not remove idle sessions");
        }
    }
}

/// Lets the sessions go, so that other workers take over at once.
async fn release(shared: &Shared, session: Session) {
    if !shared.sessions.uses.lock().ever {
        return;
    }
    let owners = [session.owner];
    let released = shared.provider.release_sessions(&owners);
    // A store that does not answer must not keep a runtime that was dropped in memory.
    match tokio::time::timeout(SETTLE_TIME, released).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            let error = error_chain(&error);
            tracing::warn!(error, "could not release sessions; they end by themselves");
        }
        Err(_) => tracing::warn!("sessions were not released in time; they end by themselves"),
    }
}
