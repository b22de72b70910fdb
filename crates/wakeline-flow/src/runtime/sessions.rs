//! The sessions that this runtime owns. They are renewed while they are used, cost no statements
//! while they are not, and are released when the runtime ends.
//!
//! # Invariants
//! * A session is in use while one of its activities runs, however long that takes, and for the
//!   idle time afterwards.
//! * Sessions are released after the last worker task has ended, whether the runtime was shut down
//!   or dropped: none of their activities runs here any more.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;
use wakeline_core::error_chain;

use super::{RuntimeOptions, RuntimeShared, SETTLE_TIME};
use crate::provider::SessionLock;

/// The use of the sessions of this runtime.
pub(crate) struct Sessions {
    session: Option<SessionLock>,
    idle_timeout: Duration,
    uses: Mutex<SessionUses>,
    changed: Notify,
    /// The tasks that fetch and run activities.
    workers: TaskTracker,
}

#[derive(Default)]
struct SessionUses {
    /// Whether an activity of a session was ever fetched.
    ever: bool,
    /// The number of running activities of sessions.
    running: usize,
    /// When such an activity last began or ended.
    at: Option<Instant>,
}

/// Counts an activity of a session as running until it is dropped.
pub(super) struct InSession<'a>(&'a Sessions);

impl Sessions {
    pub(super) fn new(options: &RuntimeOptions) -> Self {
        let session = options
            .session_owner
            .clone()
            .map(|owner| SessionLock { owner, lock_timeout: options.session_lock_timeout });
        Self {
            session,
            idle_timeout: options.session_idle_timeout,
            uses: Mutex::default(),
            changed: Notify::new(),
            workers: TaskTracker::new(),
        }
    }

    /// Returns the owner for which sessions are claimed; `None` if this runtime takes none.
    pub(super) fn claim(&self) -> Option<SessionLock> {
        self.session.clone()
    }

    /// Tracks a worker task: sessions are not released before it has ended.
    pub(super) fn worker<F: Future>(&self, work: F) -> TrackedFuture<F> {
        self.workers.track_future(work)
    }

    /// Records that an activity of a session was fetched, so this runtime owns the session.
    pub(super) fn fetched(&self) {
        self.uses.lock().ever = true;
    }

    /// Records that an activity of a session runs until the guard is dropped.
    pub(super) fn enter(&self) -> InSession<'_> {
        self.note(|uses| uses.running += 1);
        InSession(self)
    }

    fn note(&self, change: impl FnOnce(&mut SessionUses)) {
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

    /// The idle time by which the store decides which sessions are renewed. A running activity
    /// counts as use of its session only when its lease is renewed, so the idle time is then at
    /// least as long as the lease.
    fn idle(&self, lease: Duration) -> Duration {
        if self.is_running() { self.idle_timeout.max(lease) } else { self.idle_timeout }
    }
}

impl Drop for InSession<'_> {
    fn drop(&mut self) {
        self.0.note(|uses| uses.running -= 1);
    }
}

/// Renews the leases of the sessions while some are in use, also while activities still run after
/// the runtime began to close, and removes idle sessions. Releases all of them once nothing runs
/// any more.
pub(super) async fn keep(shared: Arc<RuntimeShared>) {
    let Some(session) = shared.sessions.claim() else { return };
    let workers = &shared.sessions.workers;
    // All worker tasks have been registered already.
    workers.close();
    tokio::select! {
        () = keep_in_use(&shared, &session) => {}
        () = workers.wait() => {}
    }
    workers.wait().await;
    release(&shared, session).await;
}

/// Returns when the runtime closes and no session is in use.
async fn keep_in_use(shared: &RuntimeShared, session: &SessionLock) {
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

/// Releases the sessions, so that other workers take over at once.
async fn release(shared: &RuntimeShared, session: SessionLock) {
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
            tracing::warn!(error, "could not release sessions; their leases will expire");
        }
        Err(_) => tracing::warn!("sessions were not released in time; their leases will expire"),
    }
}
