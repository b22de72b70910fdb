//! Whether a database is known to be away: then nobody waits for it in vain.
//!
//! # Where it sits
//! Beside each [`crate::connector::Connector`], for all links that it opens. The listener has a
//! connection and a pace of its own, and does not ask.
//!
//! # Invariants
//! * Only failures to open a connection count, and one success ends it.
//! * While a database is away nobody waits for it: callers fail at once, with what the last try
//!   failed of. Tries are made beside them, at first often, then every two seconds.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use wakeline_store::StoreError;

use crate::connector::Connector;
use crate::error;
use crate::session::Session;

/// The first pause between two tries while a database is away; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Whether a database is known to be away, and why.
#[derive(Default)]
pub(crate) struct Breaker {
    down: Mutex<Option<String>>,
}

impl Breaker {
    /// Says why a try is of no use now, if that is known.
    pub(crate) fn admit(&self, operation: &'static str) -> Result<(), StoreError> {
        match &*self.down.lock() {
            None => Ok(()),
            Some(why) => Err(error::connect_failed(operation, why.clone())),
        }
    }

    /// Says how a try went. True if the database is away since now.
    fn note(&self, failure: Option<String>) -> bool {
        let mut down = self.down.lock();
        let (was, is) = (down.is_some(), failure.is_some());
        *down = failure;
        if was != is {
            metrics::gauge!("wakeline_store_away").set(if is { 1.0 } else { 0.0 });
        }
        is && !was
    }
}

/// Opens a session, unless the database is known to be away.
pub(crate) async fn open(
    connector: &Arc<Connector>,
    operation: &'static str,
) -> Result<Session, StoreError> {
    connector.breaker().admit(operation)?;
    let opened = Session::open(connector, operation).await;
    if connector.breaker().note(opened.as_ref().err().map(|error| error::chain(error))) {
        tokio::spawn(look_out(Arc::downgrade(connector)));
    }
    opened
}

/// Tries until the database is back, or nobody needs it any more.
async fn look_out(connector: Weak<Connector>) {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        let Some(connector) = connector.upgrade() else { return };
        let opened = Session::open(&connector, "look out").await;
        connector.breaker().note(opened.as_ref().err().map(|error| error::chain(error)));
        if opened.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_be_away_is_an_error_at_once_until_a_try_succeeds() {
        let breaker = Breaker::default();
        assert!(breaker.admit("test").is_ok(), "nothing is known");
        assert!(breaker.note(Some("connection refused".into())), "somebody has to look out");
        assert!(!breaker.note(Some("connection refused".into())), "somebody does");
        let refused = breaker.admit("test").expect_err("known to be away");
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
        assert!(error::chain(&refused).contains("connection refused"), "{refused:?}");
        assert!(!breaker.note(None));
        assert!(breaker.admit("test").is_ok(), "it is back");
    }
}
