//! Sessions that this runtime owns: kept while they are used, without a statement while they are
//! not, and let go when the runtime ends.
//!
//! # Invariants
//! * A session is used while one of its activities runs, however long that takes, and for the idle
//!   time afterwards.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use wakeline_core::error_chain;

use super::{RuntimeOptions, Shared};
use crate::provider::Session;

/// What this runtime knows of its sessions.
pub(crate) struct Sessions {
    session: Option<Session>,
    idle_timeout: Duration,
    uses: Mutex<Uses>,
    changed: Notify,
}

#[derive(Default)]
struct Uses {
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
        Self { session, idle_timeout, uses: Mutex::default(), changed: Notify::new() }
    }

    /// How work of sessions is claimed.
    pub(super) fn claim(&self) -> Option<Session> {
        self.session.clone()
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
/// activities still run; removes those that nobody needs when they have fallen idle.
pub(super) async fn keep(shared: Arc<Shared>) {
    let Some(session) = shared.sessions.claim() else { return };
    let closed = async |shared: &Shared| {
        shared.closing.cancelled().await;
        while shared.sessions.is_running() {
            shared.sessions.changed.notified().await;
        }
    };
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => {}
            () = shared.sessions.changed.notified() => {}
        }
        while shared.sessions.in_use() {
            tokio::select! {
                () = closed(&shared) => return,
                () = tokio::time::sleep(session.lock_timeout / 3) => {}
            }
            let owners = [session.owner.clone()];
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

/// Lets the sessions go, so that other workers take over at once. Call it when nothing runs.
pub(super) async fn release(shared: &Shared) {
    let Some(session) = shared.sessions.claim() else { return };
    if shared.sessions.uses.lock().at.is_none() {
        return;
    }
    if let Err(error) = shared.provider.release_sessions(&[session.owner]).await {
        let error = error_chain(&error);
        tracing::warn!(error, "could not release sessions; they end by themselves");
    }
}
