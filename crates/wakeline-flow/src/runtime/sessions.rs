//! Sessions that this runtime owns: kept while they are used, without a statement while they are
//! not.

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
    used_at: Mutex<Option<Instant>>,
    used: Notify,
}

impl Sessions {
    pub(super) fn new(options: &RuntimeOptions) -> Self {
        let session = options
            .session_owner
            .clone()
            .map(|owner| Session { owner, lock_timeout: options.session_lock_timeout });
        let idle_timeout = options.session_idle_timeout;
        Self { session, idle_timeout, used_at: Mutex::new(None), used: Notify::new() }
    }

    /// How work of sessions is claimed.
    pub(super) fn claim(&self) -> Option<Session> {
        self.session.clone()
    }

    /// An activity of a session is being run.
    pub(super) fn touch(&self) {
        *self.used_at.lock() = Some(Instant::now());
        self.used.notify_one();
    }

    fn in_use(&self) -> bool {
        self.used_at.lock().is_some_and(|at| at.elapsed() < self.idle_timeout)
    }
}

/// Renews the sessions' leases while some are in use; removes those that nobody needs when they
/// have fallen idle.
pub(super) async fn keep(shared: Arc<Shared>) {
    let Some(session) = shared.sessions.claim() else { return };
    loop {
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = shared.sessions.used.notified() => {}
        }
        while shared.sessions.in_use() {
            tokio::select! {
                () = shared.closing.cancelled() => return,
                () = tokio::time::sleep(session.lock_timeout / 3) => {}
            }
            let owners = [session.owner.clone()];
            let (span, idle) = (session.lock_timeout, shared.sessions.idle_timeout);
            if let Err(error) = shared.provider.renew_session_lock(&owners, span, idle).await {
                tracing::warn!(error = error_chain(&error), "could not renew sessions");
            }
        }
        if let Err(error) = shared.provider.cleanup_orphaned_sessions().await {
            tracing::warn!(error = error_chain(&error), "could not remove idle sessions");
        }
    }
}
