//! Remembers that the database is unavailable, so that callers fail at once instead of waiting.
//!
//! # Where it sits
//! Each [`crate::connector::PgConnector`] has one for all links that it opens. The listener has a
//! connection and a retry schedule of its own and does not consult it, but it retries at once when
//! the database is available again.
//!
//! # Invariants
//! * Only failures to open a connection count, and one success ends the outage.
//! * While the database is known to be unavailable, one task probes it: the outage and the probe
//!   begin under one lock, and end under one lock.
//! * While the database is unavailable, callers fail at once with the error of the last attempt.
//!   Probes run beside them, twice a second.
//! * An attempt without an answer delays no other: after an outage that swallowed packets, the next
//!   attempt finds the database, and whoever waits for an older attempt starts a new one.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wakeline_core::error_chain;
use wakeline_store::StoreError;

use crate::connector::PgConnector;
use crate::error;
use crate::session::Session;

/// The first pause between two probes of an unavailable database; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause. It bounds how long a node takes to find a database that is available again.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The maximum number of concurrent probes.
const TRIES_MAX: usize = 12;
/// An attempt without an answer for this long may never get one: others are made beside it.
const SUSPICIOUS: Duration = Duration::from_secs(1);

/// Whether the database is known to be unavailable, and why.
#[derive(Default)]
pub(crate) struct ConnectBreaker {
    state: Mutex<BreakerState>,
    back: Notify,
}

#[derive(Default)]
struct BreakerState {
    /// The error of the last attempt, if it failed.
    down: Option<String>,
    /// A task probes the database.
    watched: bool,
}

impl ConnectBreaker {
    /// Returns the last error if the database is known to be unavailable.
    pub(crate) fn admit(&self, operation: &'static str) -> Result<(), StoreError> {
        match &self.state.lock().down {
            None => Ok(()),
            Some(why) => Err(error::connect_failed(operation, why.clone())),
        }
    }

    /// Waits until an attempt succeeds after others have failed or had no answer.
    pub(crate) async fn until_back(&self) {
        self.back.notified().await;
    }

    /// Records that an attempt failed. Returns true if the caller has to start the probe.
    fn failed(&self, why: String) -> bool {
        let mut state = self.state.lock();
        if state.down.replace(why).is_none() {
            metrics::gauge!("wakeline_store_unavailable").set(1.0);
        }
        !std::mem::replace(&mut state.watched, true)
    }

    /// Records that an attempt succeeded. The probe ends if the attempt was its own.
    fn succeeded(&self, by_probe: bool) {
        let mut state = self.state.lock();
        let was_down = state.down.take().is_some();
        if was_down {
            metrics::gauge!("wakeline_store_unavailable").set(0.0);
        }
        let was_watched = state.watched;
        state.watched &= !by_probe;
        drop(state);
        if was_down || was_watched {
            self.back.notify_waiters();
        }
    }

    /// Returns true if no task probes the database yet, so that the caller has to start one.
    fn watch(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().watched, true)
    }
}

/// Opens a session, unless the database is known to be unavailable.
pub(crate) async fn open(
    connector: &Arc<PgConnector>,
    operation: &'static str,
) -> Result<Session, StoreError> {
    connector.breaker().admit(operation)?;
    let opened = open_or_begin_again(connector, operation).await;
    match &opened {
        Ok(_) => connector.breaker().succeeded(false),
        Err(error) if connector.breaker().failed(error_chain(error)) => spawn_look_out(connector),
        Err(_) => {}
    }
    opened
}

/// Makes one attempt. If it gets no answer while another one succeeds, it is started again.
async fn open_or_begin_again(
    connector: &Arc<PgConnector>,
    operation: &'static str,
) -> Result<Session, StoreError> {
    let mut back = pin!(connector.breaker().back.notified());
    back.as_mut().enable();
    let mut opening = pin!(Session::open(connector, operation));
    tokio::select! {
        opened = &mut opening => return opened,
        () = sleep(SUSPICIOUS) => watch(connector),
    }
    tokio::select! {
        opened = opening => opened,
        () = back => Session::open(connector, operation).await,
    }
}

/// Starts the probe, if none runs.
fn watch(connector: &Arc<PgConnector>) {
    if connector.breaker().watch() {
        spawn_look_out(connector);
    }
}

fn spawn_look_out(connector: &Arc<PgConnector>) {
    tokio::spawn(look_out(Arc::downgrade(connector)));
}

/// Probes the database until it is available, or the connector is dropped.
async fn look_out(connector: Weak<PgConnector>) {
    let mut tries = JoinSet::new();
    let mut pause = PAUSE_MIN;
    loop {
        tokio::select! {
            () = sleep(pause) => {
                let Some(connector) = connector.upgrade() else { return };
                pause = (pause * 2).min(PAUSE_MAX);
                if tries.len() < TRIES_MAX {
                    tries.spawn(async move {
                        Session::open(&connector, "probe the database").await.map(drop)
                    });
                }
            }
            Some(Ok(tried)) = tries.join_next() => {
                let Some(connector) = connector.upgrade() else { return };
                match tried {
                    Ok(()) => return connector.breaker().succeeded(true),
                    // True only if no probe runs, and this is the probe.
                    Err(error) => _ = connector.breaker().failed(error_chain(&error)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Wake, Waker};

    use super::*;

    #[test]
    fn an_unavailable_database_is_an_error_at_once_until_an_attempt_succeeds() {
        let breaker = ConnectBreaker::default();
        assert!(breaker.admit("test").is_ok(), "no failure was recorded");
        assert!(breaker.failed("connection refused".into()), "the caller has to start the probe");
        assert!(!breaker.watch(), "the probe runs already");
        let refused = breaker.admit("test").expect_err("the database is known to be unavailable");
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
        assert!(error_chain(&refused).contains("connection refused"), "{refused:?}");
        breaker.succeeded(true);
        assert!(breaker.admit("test").is_ok(), "it is available again");
        assert!(
            breaker.failed("connection refused".into()),
            "the caller has to start the probe again"
        );
    }

    /// A caller whose attempt fails while waiters are notified that the database is available.
    struct FailsWhenWoken(Arc<ConnectBreaker>);

    impl Wake for FailsWhenWoken {
        fn wake(self: Arc<Self>) {
            self.0.failed("connection refused".into());
        }
    }

    /// Without the probe no caller would notice that the database is available again.
    #[test]
    fn a_database_that_fails_during_the_recovery_is_probed_again() {
        let breaker = Arc::new(ConnectBreaker::default());
        breaker.failed("connection refused".into());
        let waker = Waker::from(Arc::new(FailsWhenWoken(breaker.clone())));
        let mut back = pin!(breaker.back.notified());
        assert!(back.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        breaker.succeeded(true);
        let state = breaker.state.lock();
        assert!(state.down.is_some(), "it is unavailable again");
        assert!(state.watched, "unavailable, and no probe runs");
    }
}
