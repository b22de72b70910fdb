//! Idempotency keys: what a request created is stored under its key, in the same commit.

use std::time::Duration;

use rusqlite::OptionalExtension as _;
use wakeline_store::hook::Idempotency;

use super::sql;
use crate::error::Res;
use crate::session::DbSession;

/// How long a key is kept.
const REMEMBERED: Duration = Duration::from_secs(12 * 60 * 60);
/// The application number of keys that belong to no application.
const SHARED: i64 = 0;

/// What a request creates. Keys of different scopes are independent of each other.
#[derive(Debug, Clone, Copy)]
pub(super) enum IdempotencyScope {
    Application,
    EventType,
    Endpoint,
    Message,
}

impl IdempotencyScope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::EventType => "event_type",
            Self::Endpoint => "endpoint",
            Self::Message => "message",
        }
    }
}

/// What a request creates, and the application for which it does.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdempotencyKeyScope {
    kind: IdempotencyScope,
    application: i64,
}

impl IdempotencyKeyScope {
    pub(super) const fn new(kind: IdempotencyScope, application: i64) -> Self {
        Self { kind, application }
    }

    /// The scope of objects that belong to no application.
    pub(super) const fn shared(kind: IdempotencyScope) -> Self {
        Self::new(kind, SHARED)
    }
}

/// What is stored under a key.
pub(super) enum EarlierRequest {
    /// The key is new.
    Nothing,
    /// The same request was made before, and created the object with this id.
    Made(String),
    /// A different request used the key.
    Other,
}

/// Looks up the key of a request.
pub(super) fn look(
    s: &DbSession<'_>,
    scope: IdempotencyKeyScope,
    idempotency: Option<&Idempotency>,
) -> Res<EarlierRequest> {
    let Some(Idempotency { key, digest }) = idempotency else { return Ok(EarlierRequest::Nothing) };
    let mut statement = s.conn.prepare_cached(sql!("key_read"))?;
    let params = (scope.kind.as_str(), scope.application, key.as_str(), s.now.0);
    let found: Option<(Vec<u8>, String)> =
        statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(match found {
        None => EarlierRequest::Nothing,
        Some((known, made)) if known == digest => EarlierRequest::Made(made),
        Some(_) => EarlierRequest::Other,
    })
}

/// Stores what a request created under its key.
pub(super) fn remember(
    s: &DbSession<'_>,
    scope: IdempotencyKeyScope,
    idempotency: Option<&Idempotency>,
    made: &str,
) -> Res<()> {
    let Some(Idempotency { key, digest }) = idempotency else { return Ok(()) };
    let until = s.now.plus(REMEMBERED).0;
    let params = (scope.kind.as_str(), scope.application, key.as_str(), &digest[..], made, until);
    s.conn.prepare_cached(sql!("key_put"))?.execute(params)?;
    Ok(())
}
