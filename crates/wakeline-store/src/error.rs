//! Errors of stores, grouped by what the caller should do next.

/// Any error that a driver may report.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store call failed. Expected outcomes (a stale lease, a duplicate) are results instead.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A serialization failure, deadlock, timeout or dropped connection. The outcome may be
    /// unknown: repeat only what is idempotent (a push by its transaction ids, a claim by its
    /// token).
    #[error(
        "the store call {operation:?} failed, and may or may not have taken effect: the connection \
         to the database was lost, or the database was too busy; try again"
    )]
    Transient {
        /// The operation that failed.
        operation: &'static str,
        /// The driver's error.
        #[source]
        source: BoxError,
    },
    /// The database cannot be reached or is shutting down. Nothing was written.
    #[error(
        "the store call {operation:?} failed, and nothing was written: the database cannot be \
         reached or used"
    )]
    Unavailable {
        /// The operation that failed.
        operation: &'static str,
        /// The driver's error.
        #[source]
        source: BoxError,
    },
    /// The command itself is wrong. Do not repeat it.
    #[error("{field} {reason}")]
    Invalid {
        /// The field at fault, by its name on the wire.
        field: &'static str,
        /// What is wrong with the field.
        reason: String,
    },
    /// The disk or the database is full. Nothing was written. Reading and settling still work.
    #[error(
        "the store call {operation:?} failed, and nothing was written: the disk or the database is \
         full; free some disk space, or pop and ack messages, which still work"
    )]
    Full {
        /// The operation that failed.
        operation: &'static str,
    },
    /// The data is stored encrypted, and this node has no keys. Nothing was written.
    #[error(
        "the store call {operation:?} needs encryption keys, and this node has none: set \
         WAKELINE_ENCRYPTION_KEYS or --encryption-key-file"
    )]
    NoKeys {
        /// The operation that failed.
        operation: &'static str,
    },
    /// Pushes are refused during maintenance. Nothing was written.
    #[error(
        "the store call {operation:?} is refused during maintenance, and nothing was written: try \
         again after `wakeline maintenance off`"
    )]
    Maintenance {
        /// The operation that was refused.
        operation: &'static str,
    },
    /// A row is corrupt. It was left unchanged.
    #[error(
        "{what} {id} is corrupt in the store, and was left as it is: restore it from a backup, \
         or remove it (see \"Corrupt rows\" in the operation guide)"
    )]
    Corrupt {
        /// The kind of row.
        what: &'static str,
        /// The id of the row.
        id: String,
        /// The reason why the row cannot be read.
        #[source]
        source: BoxError,
    },
    /// A defect or a database error that a retry does not fix.
    #[error("the store call {operation:?} failed, and would fail again")]
    Fatal {
        /// The operation that failed.
        operation: &'static str,
        /// The driver's error.
        #[source]
        source: BoxError,
    },
}

/// The source of a [`StoreError::Transient`] when the database cancelled a statement that exceeded
/// its time limit. Nothing was written, and as far as the store knows, the time was not spent
/// waiting for a lock.
#[derive(Debug, thiserror::Error)]
#[error("it took longer than the statement timeout of the database")]
pub struct TimeLimit(#[source] pub BoxError);

/// What is wrong with one command of a fused call. It is an error for the caller that sent the
/// command and does not affect the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// The field at fault, by its name on the wire.
    pub field: &'static str,
    /// What is wrong with the field.
    pub reason: String,
}

impl InvalidField {
    /// The error for a time that must not be in the future but is.
    pub fn future(field: &'static str) -> Self {
        Self { field, reason: "must not be in the future".to_owned() }
    }

    /// Converts it to the error of a call with a single command.
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
            Self::Full { operation } => {
                Self::Transient { operation, source: "the disk or the database is full".into() }
            }
            Self::NoKeys { operation } => {
                Self::Transient { operation, source: "this node has no encryption keys".into() }
            }
            Self::Maintenance { operation } => {
                let source = "pushes are refused during maintenance".into();
                Self::Transient { operation, source }
            }
            error => error,
        }
    }

    /// Whether the call took longer than the database allows ([`TimeLimit`]).
    pub fn exceeded_time_limit(&self) -> bool {
        matches!(self, Self::Transient { source, .. } if source.is::<TimeLimit>())
    }

    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. } | Self::Unavailable { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_variant() -> Vec<StoreError> {
        let (operation, source) = ("push", || "the driver's words".into());
        vec![
            StoreError::Transient { operation, source: source() },
            StoreError::Unavailable { operation, source: source() },
            StoreError::Invalid { field: "delayMs", reason: "must not be negative".to_owned() },
            StoreError::Full { operation },
            StoreError::NoKeys { operation },
            StoreError::Maintenance { operation },
            StoreError::Corrupt { what: "queue", id: "7".to_owned(), source: source() },
            StoreError::Fatal { operation, source: source() },
        ]
    }

    #[test]
    fn every_error_names_what_failed_its_cause_and_what_to_do() {
        for error in every_variant() {
            let text = wakeline_core::error_chain(&error);
            let (named, next) = match &error {
                StoreError::Transient { .. } => ("\"push\" failed", "try again"),
                StoreError::Unavailable { .. } => ("\"push\" failed", "the driver's words"),
                StoreError::Invalid { .. } => ("delayMs", "must not be negative"),
                StoreError::Full { .. } => ("\"push\" failed", "free some disk space"),
                StoreError::NoKeys { .. } => ("\"push\" needs", "set WAKELINE_ENCRYPTION_KEYS"),
                StoreError::Maintenance { .. } => ("\"push\" is refused", "try again after"),
                StoreError::Corrupt { .. } => ("queue 7 is corrupt", "restore it from a backup"),
                StoreError::Fatal { .. } => ("\"push\" failed", "would fail again"),
            };
            assert!(text.contains(named) && text.contains(next), "{text}");
            let has_cause = std::error::Error::source(&error).is_none()
                || text.ends_with(": the driver's words");
            assert!(has_cause, "{text}");
        }
    }

    #[test]
    fn an_error_after_a_write_never_claims_that_nothing_was_written() {
        for error in every_variant() {
            let text = wakeline_core::error_chain(&error.after_write());
            assert!(!text.contains("nothing was written"), "{text}");
        }
    }

    #[test]
    fn after_a_write_errors_of_unwritten_calls_become_transient() {
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
