//! The store's clock: the machine's, but never behind what was already committed to the file.
//!
//! # Where it sits
//! The writer reads it after it has the write lock, readers inside their snapshot.
//!
//! # Invariants
//! * It never runs backwards, neither within this process nor in a later one on the same file.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use wakeline_core::Timestamp;

use crate::options::TestClock;

/// The clock that decides visibility, leases and retries.
#[derive(Debug)]
pub(crate) struct Clock {
    test: Option<TestClock>,
    last: AtomicI64,
}

impl Clock {
    pub(crate) fn new(test: Option<TestClock>) -> Self {
        Self { test, last: AtomicI64::new(0) }
    }

    /// The time now, no earlier than any that was told before.
    pub(crate) fn now(&self) -> Timestamp {
        let now = match &self.test {
            Some(clock) => clock.now().0,
            None => machine_micros(),
        };
        Timestamp(self.last.fetch_max(now, Ordering::SeqCst).max(now))
    }

    /// Catches up with what another process, or an earlier one, committed to the file.
    pub(crate) fn catch_up(&self, conn: &Connection) -> rusqlite::Result<()> {
        let mut read = conn.prepare_cached(include_str!("../sql/queries/clock_read.sql"))?;
        let stored: i64 = read.query_row([], |row| row.get(0))?;
        self.last.fetch_max(stored, Ordering::SeqCst);
        Ok(())
    }

    /// Writes down how far it got, in the transaction that is about to commit.
    pub(crate) fn store(&self, conn: &Connection) -> rusqlite::Result<()> {
        let last = self.last.load(Ordering::SeqCst);
        conn.prepare_cached(include_str!("../sql/queries/clock_store.sql"))?.execute([last])?;
        Ok(())
    }
}

fn machine_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn clock_never_runs_backwards_behind_what_was_stored() {
        let test = TestClock::new(Timestamp(50));
        let clock = Clock::new(Some(test.clone()));
        let conn = Connection::open_in_memory().expect("in memory");
        conn.execute_batch("CREATE TABLE clock (one, at); INSERT INTO clock VALUES (1, 1000)")
            .expect("a clock table");
        clock.catch_up(&conn).expect("readable");
        assert_eq!(clock.now(), Timestamp(1000));
        test.advance(Duration::from_millis(1));
        assert_eq!(clock.now(), Timestamp(1050));
        clock.store(&conn).expect("writable");
        let stored: i64 =
            conn.query_row("SELECT at FROM clock", [], |row| row.get(0)).expect("one row");
        assert_eq!(stored, 1050);
    }
}
