//! The store's clock: it counts elapsed time, even if the machine's date is changed.
//!
//! A date can be set forward by a day and back again. If leases and timers followed it, they would
//! end a day early, and those made in between would end a day late. So the date is read once, when
//! the file is first opened after the machine was started. From then on the clock follows the
//! machine's uptime, which cannot be set.
//!
//! # Where it sits
//! The writer reads it after it has the write lock, readers inside their snapshot. Each commit
//! stores the clock's time and the machine's uptime in the file, so that all processes on one
//! machine share the clock.
//!
//! # Invariants
//! * It never runs backwards, neither within this process nor in a later one on the same file.
//! * While the machine runs, it is never faster than elapsed time: no lease or timer ends early.
//!   If the date is behind the clock, the clock runs slower by a tenth until the date catches up.

use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rusqlite::Connection;
use wakeline_core::Timestamp;

use crate::options::TestClock;

/// While the date is behind the clock, the clock runs slower by one part in this many.
const SLOWER_PART: i64 = 10;
/// Shortest time between two readings that are stored, so that a tenth of it is not rounded to 0.
const READING_MICROS_MIN: i64 = 1_000;
/// Changes of the date below this are not logged.
const STEP_LOGGED_MICROS: i64 = 10_000_000;

/// The clock that decides visibility, leases and retries.
#[derive(Debug)]
pub(crate) struct StoreClock {
    machine: MachineClocks,
    boot: Option<String>,
    last: Mutex<ClockState>,
}

/// The clock's state when it was last read.
#[derive(Debug, Clone, Copy)]
struct ClockState {
    /// The store's time in microseconds since 1970.
    at: i64,
    /// The latest time that was returned since.
    returned: i64,
    /// The machine's uptime at `at`.
    uptime: i64,
    /// The date minus the uptime. It changes only if the date is set.
    date_offset: i64,
}

/// The clock as the last commit stored it in the file.
struct StoredClock {
    at: i64,
    boot: Option<String>,
    uptime: Option<i64>,
}

impl StoreClock {
    /// Continues from the time stored in the file. If the machine has not been restarted since the
    /// last commit, the uptime shows how much time passed. Otherwise the date is used, if it is
    /// later than the stored time.
    pub(crate) fn open(test: Option<TestClock>, conn: &Connection) -> rusqlite::Result<Self> {
        let machine = MachineClocks(test);
        let (boot, uptime, date) = (machine.boot(), machine.uptime(), machine.date());
        let stored = StoredClock::read(conn)?;
        let at = match stored.uptime.filter(|_| boot.is_some() && stored.boot == boot) {
            Some(then) => stored.at.saturating_add((uptime - then).max(0)),
            None => stored.at.max(date),
        };
        if (date - at).abs() >= STEP_LOGGED_MICROS {
            warn("the machine's clock differs from the store's clock", date - at);
        }
        let last = Mutex::new(ClockState { at, returned: at, uptime, date_offset: date - uptime });
        Ok(Self { machine, boot, last })
    }

    /// The current time, never earlier than a time that was returned before.
    pub(crate) fn now(&self) -> Timestamp {
        let (uptime, date) = (self.machine.uptime(), self.machine.date());
        let mut last = self.last.lock();
        let elapsed = (uptime - last.uptime).max(0);
        let ahead = (last.at + elapsed - date).max(0);
        let at = last.at + elapsed - ahead.min(elapsed / SLOWER_PART);
        last.returned = last.returned.max(at);
        if elapsed >= READING_MICROS_MIN {
            (last.at, last.uptime) = (at, uptime);
        }
        let stepped = date - uptime - last.date_offset;
        if stepped.abs() >= STEP_LOGGED_MICROS {
            last.date_offset += stepped;
            warn("the machine's clock was set", stepped);
        }
        Timestamp(last.returned)
    }

    /// Advances to the time that another process committed to the file, if it is later.
    pub(crate) fn catch_up(&self, conn: &Connection) -> rusqlite::Result<()> {
        let stored = StoredClock::read(conn)?;
        if stored.at > self.now().0 {
            let mut last = self.last.lock();
            let at = stored.at.max(last.returned);
            (last.at, last.returned, last.uptime) = (at, at, self.machine.uptime());
        }
        Ok(())
    }

    /// Stores the current time in the transaction that is about to commit.
    pub(crate) fn store(&self, conn: &Connection) -> rusqlite::Result<()> {
        let (at, uptime) = (self.now().0, self.machine.uptime());
        let sql = include_str!("../sql/queries/clock_store.sql");
        conn.prepare_cached(sql)?.execute((at, &self.boot, uptime))?;
        Ok(())
    }
}

impl StoredClock {
    fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut read = conn.prepare_cached(include_str!("../sql/queries/clock_read.sql"))?;
        read.query_row([], |row| {
            Ok(Self { at: row.get("at")?, boot: row.get("boot")?, uptime: row.get("uptime")? })
        })
    }
}

fn warn(what: &str, micros: i64) {
    let secs = micros / 1_000_000;
    tracing::warn!(
        ahead_secs = secs,
        "{what}; leases and timers follow elapsed time and are not affected"
    );
}

/// The machine's clocks, or those of a test.
#[derive(Debug)]
struct MachineClocks(Option<TestClock>);

impl MachineClocks {
    /// Microseconds since 1970. It jumps when the date is set by hand or by a time service.
    fn date(&self) -> i64 {
        if let Some(test) = &self.0 {
            return test.now().0;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    /// Microseconds since the machine was started, including the time that it was suspended.
    fn uptime(&self) -> i64 {
        if let Some(test) = &self.0 {
            return test.uptime();
        }
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
    }

    /// Identifies the current boot of the machine. `None` where the system does not provide an id.
    fn boot(&self) -> Option<String> {
        if let Some(test) = &self.0 {
            return Some(test.boot());
        }
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DAY: i64 = 86_400;

    fn file() -> Connection {
        let conn = Connection::open_in_memory().expect("in memory");
        let table = "CREATE TABLE clock (one, at, boot, uptime); \
                     INSERT INTO clock VALUES (1, 1000, NULL, NULL)";
        conn.execute_batch(table).expect("a clock table");
        conn
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp(secs * 1_000_000)
    }

    #[test]
    fn clock_never_runs_backwards_behind_the_stored_time() {
        let (test, conn) = (TestClock::new(Timestamp(50)), file());
        let clock = StoreClock::open(Some(test.clone()), &conn).expect("readable");
        assert_eq!(clock.now(), Timestamp(1_000));
        test.advance(Duration::from_millis(100));
        assert_eq!(clock.now(), Timestamp(100_050), "the date has caught up");
        clock.store(&conn).expect("writable");
        let stored = StoredClock::read(&conn).expect("one row");
        assert_eq!((stored.at, stored.uptime), (100_050, Some(100_000)));
    }

    #[test]
    fn setting_the_date_does_not_move_the_clock() {
        for days in [1, 30, -1, -30] {
            let (test, conn) = (TestClock::new(at(100 * DAY)), file());
            let clock = StoreClock::open(Some(test.clone()), &conn).expect("readable");
            assert_eq!(clock.now(), at(100 * DAY));
            test.step(days * DAY);
            assert_eq!(clock.now(), at(100 * DAY), "by {days} days");
            test.advance(Duration::from_secs(10));
            let passed = if days < 0 { 9 } else { 10 };
            assert_eq!(clock.now(), at(100 * DAY + passed), "neither fast nor stuck");
            test.step(-days * DAY);
            test.advance(Duration::from_secs(100));
            assert_eq!(clock.now(), at(100 * DAY + passed + 100), "the date is right again");
        }
    }

    #[test]
    fn processes_on_one_machine_agree_after_its_date_was_set() {
        let (test, conn) = (TestClock::new(at(100 * DAY)), file());
        let first = StoreClock::open(Some(test.clone()), &conn).expect("readable");
        first.now();
        first.store(&conn).expect("writable");
        test.step(DAY);
        test.advance(Duration::from_secs(5));
        let second = StoreClock::open(Some(test.clone()), &conn).expect("readable");
        assert_eq!(second.now(), at(100 * DAY + 5));
        assert_eq!(first.now(), second.now());
    }

    #[test]
    fn after_a_restart_of_the_machine_a_later_date_is_used() {
        let (test, conn) = (TestClock::new(at(100 * DAY)), file());
        let clock = StoreClock::open(Some(test), &conn).expect("readable");
        clock.now();
        clock.store(&conn).expect("writable");
        let later = TestClock::new(at(101 * DAY));
        let clock = StoreClock::open(Some(later), &conn).expect("readable");
        assert_eq!(clock.now(), at(101 * DAY));
        let earlier = TestClock::new(at(70 * DAY));
        let clock = StoreClock::open(Some(earlier.clone()), &conn).expect("readable");
        assert_eq!(clock.now(), at(100 * DAY));
        earlier.advance(Duration::from_secs(10));
        assert_eq!(clock.now(), at(100 * DAY + 9), "a clock that is ahead is slower, not stuck");
    }
}
