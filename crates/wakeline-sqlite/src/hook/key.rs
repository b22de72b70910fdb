//! Idempotency keys: a request that made something is remembered with it, in the same commit.

use std::time::Duration;

use rusqlite::OptionalExtension as _;
use wakeline_store::hook::Idempotency;

use super::sql;
use crate::error::Res;
use crate::session::Session;

/// How long a request is remembered.
const REMEMBERED: Duration = Duration::from_secs(12 * 60 * 60);
/// The number that stands for no application.
pub(super) const SHARED: i64 = 0;

/// What requests make; their keys do not meet each other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope {
    Application,
    EventType,
    Endpoint,
    Message,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::EventType => "event_type",
            Self::Endpoint => "endpoint",
            Self::Message => "message",
        }
    }
}

/// What is remembered of a key.
pub(super) enum Earlier {
    /// Nothing: the request is new.
    Nothing,
    /// The same request made this.
    Made(String),
    /// Another request had the key.
    Other,
}

/// Looks whether a request was made before.
pub(super) fn look(
    s: &Session<'_>,
    scope: (Scope, i64),
    idempotency: Option<&Idempotency>,
) -> Res<Earlier> {
    let Some(Idempotency { key, print }) = idempotency else { return Ok(Earlier::Nothing) };
    let mut statement = s.conn.prepare_cached(sql!("key_read"))?;
    let params = (scope.0.as_str(), scope.1, key.as_str(), s.now.0);
    let found: Option<(Vec<u8>, String)> =
        statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(match found {
        None => Earlier::Nothing,
        Some((known, made)) if known == print => Earlier::Made(made),
        Some(_) => Earlier::Other,
    })
}

/// Remembers what a request made.
pub(super) fn remember(
    s: &Session<'_>,
    scope: (Scope, i64),
    idempotency: Option<&Idempotency>,
    made: &str,
) -> Res<()> {
    let Some(Idempotency { key, print }) = idempotency else { return Ok(()) };
    let until = s.now.plus(REMEMBERED).0;
    let params = (scope.0.as_str(), scope.1, key.as_str(), &print[..], made, until);
    s.conn.prepare_cached(sql!("key_put"))?.execute(params)?;
    Ok(())
}
