//! Notices when the clock of the database's machine was set, and keeps the store's clock from going
//! back.
//!
//! # Where it sits
//! Claims return the time of the store's clock. Each node compares it with the time that passed by
//! its own monotonic clock since an earlier answer; no statement is added for it. If the clock has
//! gone back, the SQL function `clock_hold` moves it forward again, for all nodes and for SQL.
//!
//! # Invariants
//! * The time until something is due is not trusted if the claim read a clock that had gone back:
//!   the caller claims again.
//! * The clock is moved once, even if several nodes notice the same step.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio_postgres::Row;
use wakeline_core::{Timestamp, error_chain};
use wakeline_store::StoreError;

use crate::Shared;
use crate::connect::{Params, Sql};
use crate::options::Schema;
use crate::rows::{self, Columns};

/// Two correct clocks drift apart by less than one part in this many.
const DRIFT_PART: u32 = 1_000;
const OPERATION: &str = "correct the clock";

/// The delay before repeating a claim that found nothing because the clock had gone back.
const CLAIM_AGAIN: Duration = Duration::from_millis(5);
/// The delay before repeating it if the clock could not be corrected.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Compares the store's clock with elapsed time.
pub(crate) struct ClockWatch {
    last: Mutex<Option<ClockSample>>,
    hold: Sql,
    start: Sql,
    /// Smaller steps are ignored.
    step_min: Duration,
}

/// What the clock showed at some time between a call and its answer.
#[derive(Debug, Clone, Copy)]
struct ClockSample {
    at: Timestamp,
    sent: Instant,
    received: Instant,
}

/// How a new reading relates to the previous one.
#[derive(Debug, PartialEq, Eq)]
enum ClockStep {
    Steady,
    /// The clock is ahead of elapsed time by this much.
    Forward(Duration),
    /// The clock is behind an earlier reading plus the microseconds that passed since.
    Back {
        then: Timestamp,
        passed_us: i64,
    },
}

impl ClockWatch {
    /// Creates a watch without a reading.
    pub(crate) fn new(schema: &Schema, step_min: Duration) -> Self {
        Self {
            last: Mutex::new(None),
            hold: Sql::new(schema, include_str!("../sql/queries/clock_hold.sql")),
            start: Sql::new(schema, include_str!("../sql/queries/clock_start.sql")),
            step_min,
        }
    }

    /// Looks for a step that happened while no node ran.
    pub(crate) async fn start(&self, shared: &Shared) -> Result<(), StoreError> {
        self.move_on(shared, &self.start, &[]).await
    }

    /// Records the clock value in the answer to a call that was sent at `sent`; the column of this
    /// name has it in one of the rows. If the clock had gone back, returns when to claim again.
    pub(crate) async fn claim_again(
        &self,
        shared: &Shared,
        sent: Instant,
        rows: &[Row],
        column: &str,
    ) -> Option<Duration> {
        let shown = |row: &Row| row.try_get::<_, Option<SystemTime>>(column).ok().flatten();
        let at = rows.iter().find_map(shown).map(rows::timestamp)?;
        match self.note(ClockSample { at, sent, received: Instant::now() }) {
            ClockStep::Steady => None,
            ClockStep::Forward(by) => {
                tracing::warn!(
                    by_secs = by.as_secs(),
                    "PostgreSQL's clock was set forward, or this machine was suspended: leases and \
                     timers may have ended early"
                );
                None
            }
            // Boxed: it is rare, and its future is larger than everything else here.
            ClockStep::Back { then, passed_us } => {
                Some(Box::pin(self.hold(shared, then, passed_us)).await)
            }
        }
    }

    fn note(&self, reading: ClockSample) -> ClockStep {
        let mut last = self.last.lock();
        let seen = last.map_or(ClockStep::Steady, |last| self.compare(last, reading));
        // A call that was overtaken by another is compared, but not remembered.
        let newer = last.is_none_or(|last| last.received < reading.sent);
        if newer && !matches!(seen, ClockStep::Back { .. }) {
            *last = Some(reading);
        }
        seen
    }

    async fn hold(&self, shared: &Shared, then: Timestamp, passed_us: i64) -> Duration {
        let params: Params<'_> = &[&rows::system_time(then), &passed_us];
        match self.move_on(shared, &self.hold, params).await {
            Ok(()) => CLAIM_AGAIN,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "PostgreSQL's clock was set back, and was not corrected yet");
                TRY_AGAIN
            }
        }
    }

    /// Makes a call that may move the clock, and remembers the new reading: answers from before the
    /// call are compared with it and count as behind it.
    async fn move_on(
        &self,
        shared: &Shared,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<(), StoreError> {
        let sent = Instant::now();
        let answer = shared.links.general.query(OPERATION, sql, params).await?;
        let Some(row) = answer.first() else { return Ok(()) };
        let mut columns = Columns::new(OPERATION, row);
        let (moved_us, at): (i64, Timestamp) = (columns.take()?, columns.moment()?);
        *self.last.lock() = Some(ClockSample { at, sent, received: Instant::now() });
        if moved_us > 0 {
            tracing::warn!(
                by_secs = moved_us / 1_000_000,
                "PostgreSQL's clock was set back: the store's clock continues at nine tenths of \
                 its speed until both agree"
            );
        }
        Ok(())
    }

    /// Compares two readings. A difference counts as a step only if elapsed time cannot explain it.
    fn compare(&self, last: ClockSample, now: ClockSample) -> ClockStep {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let most = now.received.saturating_duration_since(last.sent);
        // Negative if that call was sent before the last answer was received.
        let least = match now.sent.checked_duration_since(last.received) {
            Some(later) => micros(later),
            None => -micros(last.received.saturating_duration_since(now.sent)),
        };
        let shown = now.at.0.saturating_sub(last.at.0);
        let slack = micros(self.step_min + most / DRIFT_PART);
        if least.saturating_sub(shown) > slack {
            return ClockStep::Back { then: last.at, passed_us: least };
        }
        let over = shown.saturating_sub(micros(most));
        match u64::try_from(over) {
            Ok(over) if over > slack.unsigned_abs() => {
                ClockStep::Forward(Duration::from_micros(over))
            }
            _ => ClockStep::Steady,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn watch() -> ClockWatch {
        let schema = Schema::new("x").expect("valid");
        ClockWatch::new(&schema, Duration::from_secs(10))
    }

    fn reading(at: i64, sent: Instant, received: Instant) -> ClockSample {
        ClockSample { at: Timestamp(at), sent, received }
    }

    #[test]
    fn a_step_is_what_elapsed_time_cannot_explain() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let after = |secs: u32| start + second * secs;
        for (shown_us, expected) in [
            (100_000_000, ClockStep::Steady),
            (92_000_000, ClockStep::Steady),
            (109_000_000, ClockStep::Steady),
            (
                100_000_000 + DAY,
                ClockStep::Forward(Duration::from_micros(DAY.unsigned_abs()) - second),
            ),
            (100_000_000 - DAY, ClockStep::Back { then: Timestamp(DAY), passed_us: 100_000_000 }),
        ] {
            let watch = watch();
            assert_eq!(watch.note(reading(DAY, start, start)), ClockStep::Steady);
            let seen = watch.note(reading(DAY + shown_us, after(100), after(101)));
            assert_eq!(seen, expected, "{shown_us}");
        }
    }

    #[test]
    fn slow_calls_are_no_step() {
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let watch = watch();
        let quick = start + minute;
        // Read when the call began, received a minute later.
        watch.note(reading(DAY, start, quick));
        assert_eq!(watch.note(reading(DAY + 61_000_000, quick, quick)), ClockStep::Steady);
        // Sent before the other answer was received, and received after it.
        let slow = reading(DAY + 1_000_000, start, start + 2 * minute);
        assert_eq!(watch.note(slow), ClockStep::Steady);
    }

    #[test]
    fn an_answer_from_before_the_correction_is_not_trusted() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let watch = watch();
        *watch.last.lock() = Some(reading(DAY, start + second, start + 2 * second));
        let late = watch.note(reading(5_000_000, start, start + 3 * second));
        assert!(matches!(late, ClockStep::Back { .. }), "{late:?}");
    }
}
