//! Whether a database is known to be away: then nobody waits for it in vain.
//!
//! # Where it sits
//! Beside each [`crate::connector::Connector`], for all links that it opens. The listener has a
//! connection and a pace of its own, and does not ask; but it tries at once when the database is
//! back.
//!
//! # Invariants
//! * Only failures to open a connection count, and one success ends it.
//! * While a database is known to be away somebody looks out for it: both begin under one lock, and
//!   end under one lock.
//! * While a database is away nobody waits for it: callers fail at once, with what the last try
//!   failed of. Tries are made beside them, twice a second.
//! * A try that gets no answer holds up no other: after an outage that swallowed packets the next
//!   try finds the database, and whoever waits for an older one begins again.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wakeline_core::error_chain;
use wakeline_store::StoreError;

use crate::connector::Connector;
use crate::error;
use crate::session::Session;

/// The first pause between two tries while a database is away; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause. It bounds how long a node takes to find a database that is back.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Most tries under way at a time.
const TRIES_MAX: usize = 12;
/// A try without an answer for so long may never get one: others are made beside it.
const SUSPICIOUS: Duration = Duration::from_secs(1);

/// Whether a database is known to be away, and why.
#[derive(Default)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    back: Notify,
}

#[derive(Default)]
struct State {
    /// Why the last try failed.
    down: Option<String>,
    /// Somebody looks out for the database.
    watched: bool,
}

impl Breaker {
    /// Says why a try is of no use now, if that is known.
    pub(crate) fn admit(&self, operation: &'static str) -> Result<(), StoreError> {
        match &self.state.lock().down {
            None => Ok(()),
            Some(why) => Err(error::connect_failed(operation, why.clone())),
        }
    }

    /// Waits until a try succeeds after others have failed, or had no answer.
    pub(crate) async fn until_back(&self) {
        self.back.notified().await;
    }

    /// A try has failed. True if somebody has to look out from now on.
    fn failed(&self, why: String) -> bool {
        let mut state = self.state.lock();
        if state.down.replace(why).is_none() {
            metrics::gauge!("wakeline_store_away").set(1.0);
        }
        !std::mem::replace(&mut state.watched, true)
    }

    /// A try has succeeded. If whoever looks out made it, nobody does so any more.
    fn succeeded(&self, looked_out: bool) {
        let mut state = self.state.lock();
        let was_down = state.down.take().is_some();
        if was_down {
            metrics::gauge!("wakeline_store_away").set(0.0);
        }
        let was_watched = state.watched;
        state.watched &= !looked_out;
        drop(state);
        if was_down || was_watched {
            self.back.notify_waiters();
        }
    }

    /// True if somebody has to look out from now on.
    fn watch(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().watched, true)
    }
}

/// Opens a session, unless the database is known to be away.
pub(crate) async fn open(
    connector: &Arc<Connector>,
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

/// One try. If it gets no answer while another one succeeds, it is begun again.
async fn open_or_begin_again(
    connector: &Arc<Connector>,
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

/// Has somebody look out for the database, if nobody does.
fn watch(connector: &Arc<Connector>) {
    if connector.breaker().watch() {
        spawn_look_out(connector);
    }
}

fn spawn_look_out(connector: &Arc<Connector>) {
    tokio::spawn(look_out(Arc::downgrade(connector)));
}

/// Tries until the database is back, or nobody needs it any more.
async fn look_out(connector: Weak<Connector>) {
    let mut tries = JoinSet::new();
    let mut pause = PAUSE_MIN;
    loop {
        tokio::select! {
            () = sleep(pause) => {
                let Some(connector) = connector.upgrade() else { return };
                pause = (pause * 2).min(PAUSE_MAX);
                if tries.len() < TRIES_MAX {
                    let open = async move { Session::open(&connector, "look out").await.map(drop) };
                    tries.spawn(open);
                }
            }
            Some(Ok(tried)) = tries.join_next() => {
                let Some(connector) = connector.upgrade() else { return };
                match tried {
                    Ok(()) => return connector.breaker().succeeded(true),
                    // Nobody else looks out while this one does.
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
    fn what_is_known_to_be_away_is_an_error_at_once_until_a_try_succeeds() {
        let breaker = Breaker::default();
        assert!(breaker.admit("test").is_ok(), "nothing is known");
        assert!(breaker.failed("connection refused".into()), "somebody has to look out");
        assert!(!breaker.watch(), "somebody does");
        let refused = breaker.admit("test").expect_err("known to be away");
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
        assert!(error_chain(&refused).contains("connection refused"), "{refused:?}");
        breaker.succeeded(true);
        assert!(breaker.admit("test").is_ok(), "it is back");
        assert!(breaker.failed("connection refused".into()), "somebody has to look out again");
    }

    /// A caller whose try fails at the moment in which waiters are told that it is back.
    struct FailsWhenWoken(Arc<Breaker>);

    impl Wake for FailsWhenWoken {
        fn wake(self: Arc<Self>) {
            self.0.failed("connection refused".into());
        }
    }

    /// Else nobody would ever find that it is back.
    #[test]
    fn a_database_that_goes_away_while_it_is_found_is_looked_out_for() {
        let breaker = Arc::new(Breaker::default());
        breaker.failed("connection refused".into());
        let waker = Waker::from(Arc::new(FailsWhenWoken(breaker.clone())));
        let mut back = pin!(breaker.back.notified());
        assert!(back.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        breaker.succeeded(true);
        let state = breaker.state.lock();
        assert!(state.down.is_some(), "it is away again");
        assert!(state.watched, "away, and nobody looks out");
    }
}
