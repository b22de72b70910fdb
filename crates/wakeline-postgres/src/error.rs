//! What PostgreSQL's errors mean to callers: the only place that knows SQLSTATEs.
//!
//! # Invariants
//! * `Unavailable` only where surely nothing was written: the connection could not be opened.
//!   Whatever happens after a statement was sent is `Transient`: its outcome may be unknown.

use tokio_postgres::error::SqlState;
use wakeline_core::error_chain;
use wakeline_store::{BoxError, StoreError, TimeLimit};

/// What a call's failure asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Try the same again later.
    Transient,
    /// The connection never came to be; nothing was written.
    Unavailable,
    /// No space.
    Full,
    /// The values are at fault. In a fused call: run each command alone.
    Data,
    /// The cached statement is out of date: prepare it anew and repeat. Nothing was executed.
    StalePlan,
    /// Repeating will not help.
    Fatal,
}

/// Sorts an error by its SQLSTATE.
pub(crate) fn kind_of_state(state: &SqlState) -> Kind {
    let code = state.code();
    match code {
        // Disk full, out of memory, too many connections: only the first is about data.
        "53100" => Kind::Full,
        // The latter two: a pooler gave this client's prepared statements to others.
        "0A000" | "26000" | "42P05" => Kind::StalePlan,
        // Starting up, shutting down: refused before anything ran.
        "57P03" | "53300" | "08001" | "08004" => Kind::Unavailable,
        // Lock not available, object in use.
        "55P03" | "55006" => Kind::Transient,
        _ => match &code[..2] {
            // Connection, rollback (serialization, deadlock), resources, operator, system.
            "08" | "40" | "53" | "57" | "58" => Kind::Transient,
            // Data, constraints, limits of the program (an index row, a value's depth), raised.
            "22" | "23" | "54" | "P0" => Kind::Data,
            _ => Kind::Fatal,
        },
    }
}

/// Sorts an error of a statement that was sent.
pub(crate) fn kind(error: &tokio_postgres::Error) -> Kind {
    match error.code() {
        Some(state) => match kind_of_state(state) {
            // After a statement was sent even these leave its outcome open.
            Kind::Unavailable => Kind::Transient,
            other => other,
        },
        // Without a SQLSTATE: the driver. Closed and I/O come from the connection; the rest
        // (a value of the wrong type, a missing column) is a defect.
        None if is_connection_loss(error) => Kind::Transient,
        None => Kind::Fatal,
    }
}

/// The error of a statement, for callers.
pub(crate) fn statement_failed(
    operation: &'static str,
    error: tokio_postgres::Error,
) -> StoreError {
    match kind(&error) {
        Kind::Full => StoreError::Full { operation },
        Kind::Transient | Kind::Unavailable | Kind::StalePlan => {
            StoreError::Transient { operation, source: error.into() }
        }
        Kind::Data | Kind::Fatal => StoreError::Fatal { operation, source: error.into() },
    }
}

/// The error of a connection that could not be opened. Wrong credentials and unknown databases
/// stay wrong, but they may be mended while a node runs, so they are not fatal.
pub(crate) fn connect_failed(operation: &'static str, source: impl Into<BoxError>) -> StoreError {
    StoreError::Unavailable { operation, source: source.into() }
}

/// The error of a call that did not end in time. Its outcome is unknown.
pub(crate) fn timed_out(operation: &'static str) -> StoreError {
    StoreError::Transient {
        operation,
        source: "PostgreSQL did not answer within the time limit".into(),
    }
}

/// The error of a command for which the database returned nothing: a defect.
pub(crate) fn no_result(operation: &'static str) -> StoreError {
    let source = "PostgreSQL returned no result for one of its items; this is a defect: report it";
    StoreError::Fatal { operation, source: source.into() }
}

/// The error of a command that its call did not answer: the call panicked, say. It may have been
/// committed before that, so the outcome is unknown.
pub(crate) fn unanswered(operation: &'static str) -> StoreError {
    StoreError::Transient { operation, source: "the call ended without an answer".into() }
}

/// Whether a failed statement blames its values, so that a fused call is repeated one command at
/// a time to find the one at fault (trap 70).
pub(crate) fn blames_values(error: &StoreError) -> bool {
    if matches!(error, StoreError::NoKeys { .. } | StoreError::Invalid { .. }) {
        return true;
    }
    let StoreError::Fatal { source, .. } = error else { return false };
    source.downcast_ref::<tokio_postgres::Error>().is_some_and(|error| kind(error) == Kind::Data)
}

/// Whether a row itself is at fault, so that it fails again wherever it is tried: its values, or a
/// limit of the database that it exceeds. A missing function or right is not the row's fault.
pub(crate) fn blames_rows(error: &StoreError) -> bool {
    match error {
        StoreError::Invalid { .. } | StoreError::Corrupt { .. } => true,
        StoreError::Fatal { source, .. } => state_of(source).is_some_and(|state| {
            kind_of_state(state) == Kind::Data || state.code().starts_with("54")
        }),
        _ => false,
    }
}

/// Whether rows of other queues may do better: a queue is encrypted and this node has no keys, or
/// somebody holds its locks, so that a statement waited or worked too long.
pub(crate) fn blames_queue(error: &StoreError) -> bool {
    match error {
        StoreError::NoKeys { .. } => true,
        StoreError::Transient { source, .. } => state_of(source).is_some_and(|state| {
            matches!(*state, SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE)
        }),
        _ => false,
    }
}

/// Whether the server ended the statement: it took longer than it may, or somebody cancelled it,
/// which has the same SQLSTATE and a text in the server's language.
pub(crate) fn was_cancelled(error: &StoreError) -> bool {
    let StoreError::Transient { source, .. } = error else { return false };
    state_of(source).is_some_and(|state| *state == SqlState::QUERY_CANCELED)
}

/// The same error; if the server ended the statement, marked as one of a call that took longer
/// than it may.
pub(crate) fn beyond_limit(error: StoreError) -> StoreError {
    let cancelled = was_cancelled(&error);
    match error {
        StoreError::Transient { operation, source } if cancelled => {
            StoreError::Transient { operation, source: Box::new(TimeLimit(source)) }
        }
        other => other,
    }
}

/// Whether the transaction was surely rolled back, so that repeating it whole is safe:
/// serialization failure, deadlock, lock timeout.
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

/// Whether a statement found a name taken that was free when it looked: another one took it at that
/// moment. Nothing was written; a second try sees who has it.
pub(crate) fn lost_a_name(error: &StoreError) -> bool {
    let StoreError::Fatal { source, .. } = error else { return false };
    source
        .downcast_ref::<tokio_postgres::Error>()
        .and_then(tokio_postgres::Error::code)
        .is_some_and(|state| *state == SqlState::UNIQUE_VIOLATION)
}

/// Whether a prepared statement is gone, or its name is taken: sessions are shared with others.
pub(crate) fn is_of_prepared_statements(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| {
        matches!(*state, SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT)
    })
}

/// Whether a connection was refused because of a startup option, as poolers do: PgBouncer calls it
/// a protocol violation, others a feature that they lack.
pub(crate) fn refuses_options(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| {
        matches!(*state, SqlState::PROTOCOL_VIOLATION | SqlState::FEATURE_NOT_SUPPORTED)
    })
}

/// What the driver said, once more: for another command of the same call.
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

/// A copy of what the driver said, with all its causes.
pub(crate) fn copy_of(source: &BoxError) -> BoxError {
    Box::new(Copied { text: error_chain(&**source), state: state_of(source).cloned() })
}

fn state_of(source: &BoxError) -> Option<&SqlState> {
    let copied = source.downcast_ref::<Copied>().and_then(|copied| copied.state.as_ref());
    copied.or_else(|| source.downcast_ref::<tokio_postgres::Error>()?.code())
}

/// Whether the server was reached and refused the session: the credentials are wrong, or there is
/// no such database. Unlike a server that is away, waiting does not help.
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
    fn every_sqlstate_says_what_to_do_next() {
        let table = [
            ("40001", Kind::Transient),
            ("40P01", Kind::Transient),
            ("55P03", Kind::Transient),
            ("57014", Kind::Transient),
            ("57P01", Kind::Transient),
            ("57P02", Kind::Transient),
            ("57P03", Kind::Unavailable),
            ("53100", Kind::Full),
            ("53200", Kind::Transient),
            ("53300", Kind::Unavailable),
            ("08006", Kind::Transient),
            ("08001", Kind::Unavailable),
            ("58030", Kind::Transient),
            ("0A000", Kind::StalePlan),
            ("26000", Kind::StalePlan),
            ("42P05", Kind::StalePlan),
            ("22021", Kind::Data),
            ("22P05", Kind::Data),
            ("23505", Kind::Data),
            ("54000", Kind::Data),
            ("54001", Kind::Data),
            ("P0001", Kind::Data),
            ("42601", Kind::Fatal),
            ("42883", Kind::Fatal),
            ("42501", Kind::Fatal),
            ("XX000", Kind::Fatal),
        ];
        for (code, expected) in table {
            assert_eq!(kind_of_state(&SqlState::from_code(code)), expected, "{code}");
        }
    }
}
