//! What can go wrong in a store, by what the caller does next.

/// Any error that a driver may report.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store call failed. Expected outcomes (a stale lease, a duplicate) are results instead.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Serialization failure, deadlock, timeout, dropped connection. The outcome may be unknown:
    /// repeat only what is idempotent (a push by its transaction ids, a claim by its token).
    #[error("{operation} failed: the connection was lost, or the database was too busy")]
    Transient {
        /// The operation that failed.
        operation: &'static str,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// The database cannot be reached or is shutting down. Nothing was written.
    #[error("{operation}: the database cannot be reached")]
    Unavailable {
        /// The operation that failed.
        operation: &'static str,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// The command itself is wrong. Do not repeat it.
    #[error("{field} {reason}")]
    Invalid {
        /// The field at fault, in the words of the wire.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk or the database is full. Nothing was written. Reading and settling still work.
    #[error("{operation} failed: no disk space is left; reading and settling still work")]
    Full {
        /// The operation that failed.
        operation: &'static str,
    },
    /// Something is stored encrypted only, and this node has no keys. Nothing was written.
    #[error(
        "{operation} needs encryption keys, and this node has none: set WAKELINE_ENCRYPTION_KEYS"
    )]
    NoKeys {
        /// The operation that failed.
        operation: &'static str,
    },
    /// Pushes are refused for the time of a maintenance. Nothing was written.
    #[error("{operation} is refused: this server is under maintenance")]
    Maintenance {
        /// The operation that was refused.
        operation: &'static str,
    },
    /// A row cannot be understood. It is left where it is.
    #[error("{what} {id} cannot be read")]
    Corrupt {
        /// The kind of row.
        what: &'static str,
        /// Which one.
        id: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// A defect or a database error that repeating will not mend.
    #[error("{operation} failed")]
    Fatal {
        /// The operation that failed.
        operation: &'static str,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
}

/// What is wrong with one command of a call that others share: an error for whoever sent it, and
/// nothing to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// The field at fault, in the words of the wire.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl InvalidField {
    /// A moment that must not be in the future does.
    pub fn future(field: &'static str) -> Self {
        Self { field, reason: "must not be in the future".to_owned() }
    }

    /// As the error of a call that nobody shares.
    pub fn into_error(self) -> StoreError {
        StoreError::Invalid { field: self.field, reason: self.reason }
    }
}

impl StoreError {
    /// The error of a later step of a call, once an earlier one has written something, or may
    /// have. Such a call must not say that nothing was done, so every variant that promises it
    /// becomes [`StoreError::Transient`].
    #[must_use]
    pub fn after_write(self) -> Self {
        match self {
            Self::Unavailable { operation, source } => Self::Transient { operation, source },
            Self::Full { operation }
            | Self::NoKeys { operation }
            | Self::Maintenance { operation } => {
                let source = format!("{self}, and an earlier step may have written").into();
                Self::Transient { operation, source }
            }
            error => error,
        }
    }

    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. } | Self::Unavailable { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_after_a_write_says_that_nothing_was_written() {
        let operation = "test";
        let source = || "the driver's words".into();
        let promises = [
            StoreError::Unavailable { operation, source: source() },
            StoreError::Full { operation },
            StoreError::NoKeys { operation },
            StoreError::Maintenance { operation },
        ];
        for error in promises {
            let words = error.to_string();
            let after = error.after_write();
            assert!(matches!(after, StoreError::Transient { .. }), "{words}: {after:?}");
        }
        let fatal = StoreError::Fatal { operation, source: source() }.after_write();
        assert!(matches!(fatal, StoreError::Fatal { .. }), "{fatal:?}");
    }
}
