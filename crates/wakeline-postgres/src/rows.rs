//! Decodes rows into the types of `wakeline-store`.
//!
//! # Where it sits
//! Everything that runs a query decodes its rows here or with [`Columns`].
//!
//! # Invariants
//! * A corrupt row is an error that names it; it is never silently dropped.
//! * All times come from the database; none is made from this machine's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use wakeline_core::{Change, NameError, Timestamp};
use wakeline_store::{BoxError, StoreError};

/// Reads the columns of a row one after another, in the order of the query.
pub(crate) struct Columns<'a> {
    operation: &'static str,
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    /// Starts at the first column.
    pub(crate) fn new(operation: &'static str, row: &'a Row) -> Self {
        Self { operation, row, next: 0 }
    }

    /// Starts at a later column.
    pub(crate) fn from(operation: &'static str, row: &'a Row, first: usize) -> Self {
        Self { operation, row, next: first }
    }

    /// Reads the next column.
    pub(crate) fn take<T: FromSql<'a>>(&mut self) -> Result<T, StoreError> {
        let index = self.next;
        self.next += 1;
        self.row.try_get(index).map_err(|error| StoreError::Fatal {
            operation: self.operation,
            source: Box::new(error),
        })
    }

    /// Skips columns.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    /// Reads the next column as a timestamp.
    pub(crate) fn moment(&mut self) -> Result<Timestamp, StoreError> {
        self.take::<SystemTime>().map(timestamp)
    }

    /// Reads the next column as a name.
    pub(crate) fn name<T: TryFrom<String, Error = NameError>>(
        &mut self,
        what: &'static str,
    ) -> Result<T, StoreError> {
        name(what, self.take()?)
    }

    /// Reads the next column as a name that may be NULL.
    pub(crate) fn name_if<T: TryFrom<String, Error = NameError>>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.take::<Option<String>>()?.map(|text| name(what, text)).transpose()
    }
}

/// Converts a time from the database.
pub(crate) fn timestamp(at: SystemTime) -> Timestamp {
    let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Timestamp(match at.duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    })
}

/// Converts a time for the database.
pub(crate) fn system_time(at: Timestamp) -> SystemTime {
    let span = Duration::from_micros(at.0.unsigned_abs());
    if at.0 >= 0 { UNIX_EPOCH + span } else { UNIX_EPOCH - span }
}

/// Converts a span in microseconds, rounded up to milliseconds so that a sleeper is never early.
pub(crate) fn span(micros: i64) -> Duration {
    Timestamp(0).until(Timestamp(micros))
}

/// Parses a stored name, which was valid when it was stored.
pub(crate) fn name<T: TryFrom<String, Error = NameError>>(
    what: &'static str,
    text: String,
) -> Result<T, StoreError> {
    T::try_from(text.clone()).map_err(|error| corrupt(what, text, error))
}

/// The error for a corrupt row.
pub(crate) fn corrupt(
    what: &'static str,
    id: impl Into<String>,
    source: impl Into<BoxError>,
) -> StoreError {
    StoreError::Corrupt { what, id: id.into(), source: source.into() }
}

/// Reads queue, partition, namespace and task. The caller adds the group and the due time.
pub(crate) fn change(columns: &mut Columns<'_>) -> Result<Change, StoreError> {
    Ok(Change {
        queue: columns.name("queue")?,
        partition: Some(columns.name("partition")?),
        namespace: columns.name_if("namespace")?,
        task: columns.name_if("task")?,
        group: None,
        due_in: Duration::ZERO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_survive_a_round_trip() {
        for micros in [0, 1, -1, 1_767_225_600_000_001, -86_400_000_000] {
            assert_eq!(timestamp(system_time(Timestamp(micros))), Timestamp(micros));
        }
    }

    #[test]
    fn spans_round_up() {
        assert_eq!(span(1), Duration::from_millis(1));
        assert_eq!(span(-5), Duration::ZERO);
    }
}
