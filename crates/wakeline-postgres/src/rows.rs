//! Reads rows into the types of the seam.
//!
//! # Where it sits
//! Everything that runs a query of the queue decodes its rows here or with [`Columns`].
//!
//! # Invariants
//! * A row that cannot be understood is an error that names it, never silently dropped (trap 46).
//! * Times are the database's; none is made from this machine's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use wakeline_core::{Change, NameError, Timestamp};
use wakeline_store::{BoxError, StoreError};

/// The columns of a row, one after another, as the query lists them.
pub(crate) struct Columns<'a> {
    operation: &'static str,
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    /// Begins with the first column.
    pub(crate) fn new(operation: &'static str, row: &'a Row) -> Self {
        Self { operation, row, next: 0 }
    }

    /// Begins with a later column.
    pub(crate) fn from(operation: &'static str, row: &'a Row, first: usize) -> Self {
        Self { operation, row, next: first }
    }

    /// The next column.
    pub(crate) fn take<T: FromSql<'a>>(&mut self) -> Result<T, StoreError> {
        let index = self.next;
        self.next += 1;
        self.row.try_get(index).map_err(|error| StoreError::Fatal {
            operation: self.operation,
            source: Box::new(error),
        })
    }

    /// Passes over columns.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    /// The next column, a moment.
    pub(crate) fn moment(&mut self) -> Result<Timestamp, StoreError> {
        self.take::<SystemTime>().map(timestamp)
    }

    /// The next column, a name.
    pub(crate) fn name<T: TryFrom<String, Error = NameError>>(
        &mut self,
        what: &'static str,
    ) -> Result<T, StoreError> {
        name(what, self.take()?)
    }

    /// The next column, a name or nothing.
    pub(crate) fn name_if<T: TryFrom<String, Error = NameError>>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.take::<Option<String>>()?.map(|text| name(what, text)).transpose()
    }
}

/// A moment of the database.
pub(crate) fn timestamp(at: SystemTime) -> Timestamp {
    let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Timestamp(match at.duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    })
}

/// A moment for the database.
pub(crate) fn system_time(at: Timestamp) -> SystemTime {
    let span = Duration::from_micros(at.0.unsigned_abs());
    if at.0 >= 0 { UNIX_EPOCH + span } else { UNIX_EPOCH - span }
}

/// A span that the database counted in microseconds, rounded up to milliseconds so that a sleeper
/// is never early.
pub(crate) fn span(micros: i64) -> Duration {
    Timestamp(0).until(Timestamp(micros))
}

/// A name that was stored, and so was valid.
pub(crate) fn name<T: TryFrom<String, Error = NameError>>(
    what: &'static str,
    text: String,
) -> Result<T, StoreError> {
    T::try_from(text.clone()).map_err(|error| corrupt(what, text, error))
}

/// A row that cannot be understood.
pub(crate) fn corrupt(
    what: &'static str,
    id: impl Into<String>,
    source: impl Into<BoxError>,
) -> StoreError {
    StoreError::Corrupt { what, id: id.into(), source: source.into() }
}

/// Reads queue, partition, namespace and task. Group and time are the caller's.
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
    fn moments_survive_the_way_to_the_database_and_back() {
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
