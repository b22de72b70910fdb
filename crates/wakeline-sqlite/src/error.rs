//! Maps SQLite's error codes to store errors. No other module looks at the codes.

use std::sync::Arc;

use rusqlite::ErrorCode;
use wakeline_store::{BoxError, StoreError};

/// An error inside an operation, before the operation's name is added for the caller.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreFault {
    /// SQLite reported an error.
    #[error(transparent)]
    Db(#[from] rusqlite::Error),
    /// A row cannot be decoded.
    #[error("{what} {id} is corrupt in the store (see \"Corrupt rows\" in the operation guide)")]
    Corrupt {
        what: &'static str,
        id: String,
        #[source]
        source: BoxError,
    },
    /// The disk, or the database, is too full for the operation.
    #[error("the disk or the database is full")]
    Full,
    /// The operation needs encryption keys, and this node has none.
    #[error("this node has no encryption keys")]
    NoKeys,
    /// Pushes are refused during maintenance.
    #[error("pushes are refused during maintenance")]
    Maintenance,
    /// A field of the command is invalid.
    #[error("{field} {reason}")]
    Invalid { field: &'static str, reason: String },
    /// The command panicked, which is a defect. Its writes were rolled back.
    #[error(
        "the command panicked, and what it wrote was rolled back; this is a defect: report it \
         with the panic's message from the log"
    )]
    Panicked,
}

pub(crate) type Res<T> = Result<T, StoreFault>;

impl StoreFault {
    /// Whether the disk, or the database, has no space left.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Db(error) => is_full(error),
            other => matches!(other, Self::Full),
        }
    }

    /// Whether the cause is one corrupt row, so that other rows can still be read.
    pub(crate) fn is_corrupt_row(&self) -> bool {
        match self {
            Self::Db(error) => undecodable(error).is_some(),
            other => matches!(other, Self::Corrupt { .. }),
        }
    }

    /// Converts to the store error of the given operation.
    pub(crate) fn named(self, operation: &'static str) -> StoreError {
        match self {
            Self::Db(error) => database(operation, error),
            Self::Corrupt { what, id, source } => StoreError::Corrupt { what, id, source },
            Self::Full => StoreError::Full { operation },
            Self::NoKeys => StoreError::NoKeys { operation },
            Self::Maintenance => StoreError::Maintenance { operation },
            Self::Invalid { field, reason } => StoreError::Invalid { field, reason },
            Self::Panicked => StoreError::Fatal { operation, source: self.into() },
        }
    }
}

/// Wraps a decoding error of a row in a [`StoreFault::Corrupt`].
pub(crate) fn corrupt<E: Into<BoxError>>(
    what: &'static str,
    id: impl std::fmt::Display,
) -> impl FnOnce(E) -> StoreFault {
    move |source| StoreFault::Corrupt { what, id: id.to_string(), source: source.into() }
}

/// The error for a database that cannot be used at all.
pub(crate) fn unusable(operation: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { operation, source: reason.into().into() }
}

/// The error of a call after the store was closed, or after its writer ended.
pub(crate) fn closed(operation: &'static str) -> StoreError {
    unusable(operation, "the store is closed")
}

/// Converts a database error to the store error of an operation.
pub(crate) fn database(operation: &'static str, error: rusqlite::Error) -> StoreError {
    shared(operation, Arc::new(error))
}

/// Like [`database`], for an error that several commands of one transaction share.
pub(crate) fn shared(operation: &'static str, error: Arc<rusqlite::Error>) -> StoreError {
    if let Some(column) = undecodable(&error) {
        let id = format!("{column} of a row that the store call {operation:?} read");
        return StoreError::Corrupt { what: "column", id, source: error.into() };
    }
    if is_full(&error) {
        return StoreError::Full { operation };
    }
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OperationInterrupted
            | ErrorCode::SystemIoFailure
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::Transient { operation, source: error.into() },
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            StoreError::Unavailable { operation, source: error.into() }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { what: "database", id: "file".to_owned(), source: error.into() }
        }
        _ => StoreError::Fatal { operation, source: error.into() },
    }
}

/// Whether the disk, or the database, has no space left. If the `-shm` file cannot grow, SQLite
/// reports an I/O error about that file's size instead of `SQLITE_FULL`.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    let Some(error) = error.sqlite_error() else { return false };
    error.code == ErrorCode::DiskFull || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
}

/// The column whose value has the wrong type, is out of range, or is not valid text.
fn undecodable(error: &rusqlite::Error) -> Option<String> {
    match error {
        rusqlite::Error::InvalidColumnType(_, name, _) => Some(name.clone()),
        rusqlite::Error::IntegralValueOutOfRange(index, _)
        | rusqlite::Error::Utf8Error(index, _)
        | rusqlite::Error::FromSqlConversionFailure(index, ..) => Some(index.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: std::ffi::c_int) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn sqlite_codes_map_to_store_errors() {
        use rusqlite::ffi;
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_IOERR_FSYNC] {
            assert!(matches!(database("op", failure(code)), StoreError::Transient { .. }));
        }
        for code in [ffi::SQLITE_CANTOPEN, ffi::SQLITE_READONLY, ffi::SQLITE_PERM] {
            assert!(matches!(database("op", failure(code)), StoreError::Unavailable { .. }));
        }
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            assert!(is_full(&failure(code)));
            let full = database("op", failure(code));
            assert!(matches!(full, StoreError::Full { operation: "op" }));
        }
        let garbage = database("op", failure(ffi::SQLITE_NOTADB));
        assert!(matches!(garbage, StoreError::Corrupt { what: "database", .. }));
        let defect = database("op", failure(ffi::SQLITE_CONSTRAINT));
        assert!(matches!(defect, StoreError::Fatal { .. }));
    }
}
