//! What PostgreSQL's errors mean to callers: the only place that interprets SQLSTATEs.
//!
//! # Invariants
//! * `Unavailable` is returned only if nothing was written for certain, because the connection
//!   could not be opened. Every failure after a statement was sent is `Transient`: its outcome may
//!   be unknown.

use tokio_postgres::error::SqlState;
use wakeline_core::error_chain;
use wakeline_store::{BoxError, StoreError, TimeLimit};

/// What the caller should do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PgErrorKind {
    /// Try the same again later.
    Transient,
    /// The connection could not be opened; nothing was written.
    Unavailable,
    /// The disk is full.
    Full,
    /// The values caused the error. In a fused call: run each command alone.
    Data,
    /// The cached statement is out of date: prepare it again and repeat it. Nothing was executed.
    StalePlan,
    /// Repeating will not help.
    Fatal,
}

/// Classifies an error by its SQLSTATE.
pub(crate) fn kind_of_state(state: &SqlState) -> PgErrorKind {
    let code = state.code();
    match code {
        // Disk full, out of memory, too many connections: only the first is about data.
        "53100" => PgErrorKind::Full,
        // The latter two: a pooler gave this client's prepared statements to others.
        "0A000" | "26000" | "42P05" => PgErrorKind::StalePlan,
        // Starting up, shutting down: refused before anything ran.
        "57P03" | "53300" | "08001" | "08004" => PgErrorKind::Unavailable,
        // Lock not available, object in use.
        "55P03" | "55006" => PgErrorKind::Transient,
        _ => match &code[..2] {
            // Connection, rollback (serialization, deadlock), resources, operator, system.
            "08" | "40" | "53" | "57" | "58" => PgErrorKind::Transient,
            // Data, constraints, limits of the program (an index row, a value's depth), raised.
            "22" | "23" | "54" | "P0" => PgErrorKind::Data,
            _ => PgErrorKind::Fatal,
        },
    }
}

/// Classifies the error of a statement that was sent.
pub(crate) fn kind(error: &tokio_postgres::Error) -> PgErrorKind {
    match error.code() {
        Some(state) => match kind_of_state(state) {
            // After a statement was sent, even these leave its outcome unknown.
            PgErrorKind::Unavailable => PgErrorKind::Transient,
            other => other,
        },
        // An error without a SQLSTATE comes from the driver. Closed connections and I/O errors are
        // transient; the rest (a value of the wrong type, a missing column) is a defect.
        None if is_connection_loss(error) => PgErrorKind::Transient,
        None => PgErrorKind::Fatal,
    }
}

/// Turns the error of a statement into the error for callers.
pub(crate) fn statement_failed(
    operation: &'static str,
    error: tokio_postgres::Error,
) -> StoreError {
    match kind(&error) {
        PgErrorKind::Full => StoreError::Full { operation },
        PgErrorKind::Transient | PgErrorKind::Unavailable | PgErrorKind::StalePlan => {
            StoreError::Transient { operation, source: error.into() }
        }
        PgErrorKind::Data | PgErrorKind::Fatal => {
            StoreError::Fatal { operation, source: error.into() }
        }
    }
}

/// The error of a connection that could not be opened. Wrong credentials and unknown databases are
/// not fatal, because they may be corrected while a node runs.
pub(crate) fn connect_failed(operation: &'static str, source: impl Into<BoxError>) -> StoreError {
    StoreError::Unavailable { operation, source: source.into() }
}

/// The error of a call that did not end in time. Its outcome is unknown.
pub(crate) fn timed_out(operation: &'static str) -> StoreError {
    StoreError::Transient {
        operation,
        source: "PostgreSQL did not respond within the time limit".into(),
    }
}

/// The error of a command for which the database returned nothing: a defect.
pub(crate) fn no_result(operation: &'static str) -> StoreError {
    let source = "PostgreSQL returned no result for one of its items; this is a defect: report it";
    StoreError::Fatal { operation, source: source.into() }
}

/// The error of a command that its call did not answer, for example because the call panicked. It
/// may have been committed before that, so the outcome is unknown.
pub(crate) fn unanswered(operation: &'static str) -> StoreError {
    StoreError::Transient { operation, source: "the call ended without a result".into() }
}

/// Whether the values of a statement caused its failure. A fused call is then repeated one command
/// at a time, so that only the command at fault fails.
pub(crate) fn blames_values(error: &StoreError) -> bool {
    if matches!(error, StoreError::NoKeys { .. } | StoreError::Invalid { .. }) {
        return true;
    }
    let StoreError::Fatal { source, .. } = error else { return false };
    source
        .downcast_ref::<tokio_postgres::Error>()
        .is_some_and(|error| kind(error) == PgErrorKind::Data)
}

/// Whether a row itself is at fault, so that it would fail again anywhere: its values, or a limit
/// of the database that it exceeds. A missing function or privilege is not the row's fault.
pub(crate) fn blames_rows(error: &StoreError) -> bool {
    match error {
        StoreError::Invalid { .. } | StoreError::Corrupt { .. } => true,
        StoreError::Fatal { source, .. } => state_of(source).is_some_and(|state| {
            kind_of_state(state) == PgErrorKind::Data || state.code().starts_with("54")
        }),
        _ => false,
    }
}

/// Whether rows of other queues may succeed: this queue is encrypted and this node has no keys, or
/// its locks are held, so that a statement waited or worked too long.
pub(crate) fn blames_queue(error: &StoreError) -> bool {
    match error {
        StoreError::NoKeys { .. } => true,
        StoreError::Transient { source, .. } => state_of(source).is_some_and(|state| {
            matches!(*state, SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE)
        }),
        _ => false,
    }
}

/// Whether the server ended the statement because it took too long or was cancelled. Both have the
/// same SQLSTATE, and only a text in the server's language distinguishes them.
pub(crate) fn was_cancelled(error: &StoreError) -> bool {
    let StoreError::Transient { source, .. } = error else { return false };
    state_of(source).is_some_and(|state| *state == SqlState::QUERY_CANCELED)
}

/// Returns the same error; if the server ended the statement, marks it as a call that took longer
/// than allowed.
pub(crate) fn beyond_limit(error: StoreError) -> StoreError {
    let cancelled = was_cancelled(&error);
    match error {
        StoreError::Transient { operation, source } if cancelled => {
            StoreError::Transient { operation, source: Box::new(TimeLimit(source)) }
        }
        other => other,
    }
}

/// Whether the transaction was certainly rolled back, so that repeating it is safe: serialization
/// failure, deadlock, lock timeout.
pub(crate) fn was_rolled_back(error: &StoreError) -> bool {
    let StoreError::Transient { source, .. } = error else { return false };
    source
        .downcast_ref::<tokio_postgres::Error>()
        .and_then(tokio_postgres::Error::code)
        .is_some_and(|state| match state.code() {
            // The server itself does not know whether the statement was completed.
            "40003" => false,
            code => code.starts_with("40") || code == "55P03",
        })
}

/// Whether a statement failed because another transaction took the same name concurrently. Nothing
/// was written; a second attempt sees who has the name.
pub(crate) fn lost_a_name(error: &StoreError) -> bool {
    let StoreError::Fatal { source, .. } = error else { return false };
    source
        .downcast_ref::<tokio_postgres::Error>()
        .and_then(tokio_postgres::Error::code)
        .is_some_and(|state| *state == SqlState::UNIQUE_VIOLATION)
}

/// Whether a prepared statement is missing, or its name is taken, because sessions are shared with
/// other clients.
pub(crate) fn is_of_prepared_statements(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| {
        matches!(*state, SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT)
    })
}

/// Whether a connection was refused because of a startup option, as poolers do: PgBouncer reports a
/// protocol violation, others a missing feature.
pub(crate) fn refuses_options(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| {
        matches!(*state, SqlState::PROTOCOL_VIOLATION | SqlState::FEATURE_NOT_SUPPORTED)
    })
}

/// A copy of a driver error, for another command of the same call.
#[derive(Debug)]
struct Copied {
    text: String,
    state: Option<SqlState>,
}

impl std::fmt::Display for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Copied {}

/// Copies a driver error with the texts of all its causes.
pub(crate) fn copy_of(source: &BoxError) -> BoxError {
    Box::new(Copied { text: error_chain(&**source), state: state_of(source).cloned() })
}

fn state_of(source: &BoxError) -> Option<&SqlState> {
    let copied = source.downcast_ref::<Copied>().and_then(|copied| copied.state.as_ref());
    copied.or_else(|| source.downcast_ref::<tokio_postgres::Error>()?.code())
}

/// Whether the server was reached and refused the session: the credentials are wrong, or there is
/// no such database. Unlike for an unavailable server, waiting does not help.
pub fn is_refused(error: &StoreError) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<tokio_postgres::error::DbError>() {
            return error.code().code().starts_with("28")
                || *error.code() == SqlState::INVALID_CATALOG_NAME;
        }
        source = cause.source();
    }
    false
}

fn is_connection_loss(error: &tokio_postgres::Error) -> bool {
    if error.is_closed() {
        return true;
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sqlstate_has_a_kind() {
        let table = [
            ("40001", PgErrorKind::Transient),
            ("40P01", PgErrorKind::Transient),
            ("55P03", PgErrorKind::Transient),
            ("57014", PgErrorKind::Transient),
            ("57P01", PgErrorKind::Transient),
            ("57P02", PgErrorKind::Transient),
            ("57P03", PgErrorKind::Unavailable),
            ("53100", PgErrorKind::Full),
            ("53200", PgErrorKind::Transient),
            ("53300", PgErrorKind::Unavailable),
            ("08006", PgErrorKind::Transient),
            ("08001", PgErrorKind::Unavailable),
            ("58030", PgErrorKind::Transient),
            ("0A000", PgErrorKind::StalePlan),
            ("26000", PgErrorKind::StalePlan),
            ("42P05", PgErrorKind::StalePlan),
            ("22021", PgErrorKind::Data),
            ("22P05", PgErrorKind::Data),
            ("23505", PgErrorKind::Data),
            ("54000", PgErrorKind::Data),
            ("54001", PgErrorKind::Data),
            ("P0001", PgErrorKind::Data),
            ("42601", PgErrorKind::Fatal),
            ("42883", PgErrorKind::Fatal),
            ("42501", PgErrorKind::Fatal),
            ("XX000", PgErrorKind::Fatal),
        ];
        for (code, expected) in table {
            assert_eq!(kind_of_state(&SqlState::from_code(code)), expected, "{code}");
        }
    }
}
