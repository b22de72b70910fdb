//! Notices when the clock of the database's machine was set, and keeps the store's from going back.
//!
//! # Where it sits
//! Claims return what the store's clock shows. Each node compares that with the time that passed
//! by its own monotonic clock since an earlier answer; no statement is added for it. If the clock
//! has gone back, the SQL function `clock_hold` moves it on, for all nodes and for SQL.
//!
//! # Invariants
//! * What a claim says of the time until something is due is not believed if it read a clock that
//!   had gone back: the caller claims again.
//! * Nodes that notice the same step move the clock once.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio_postgres::Row;
use wakeline_core::Timestamp;
use wakeline_store::StoreError;

use crate::connect::{Params, Sql};
use crate::{Shared, error, rows};

/// Two good clocks differ by less than one part in so many.
const DRIFT_PART: u32 = 1_000;
const OPERATION: &str = "hold clock";

/// When something that found nothing because the clock had gone back is claimed again.
pub(crate) const CLAIM_AGAIN: Duration = Duration::from_millis(5);

/// Compares the store's clock with elapsed time.
pub(crate) struct ClockWatch {
    last: Mutex<Option<Reading>>,
    hold: Sql,
    /// The least step that is noticed.
    step_min: Duration,
}

/// What the clock showed, and by when.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Timestamp,
    heard: Instant,
}

/// What a new reading says.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Steady,
    /// Ahead of elapsed time by so much.
    Forward(Duration),
    /// Behind an earlier reading and the microseconds that passed since.
    Back {
        then: Timestamp,
        passed_us: i64,
    },
}

impl ClockWatch {
    pub(crate) fn new(hold: Sql, step_min: Duration) -> Self {
        Self { last: Mutex::new(None), hold, step_min }
    }

    /// Takes note of what the clock showed in the answer to a call that was sent at a moment:
    /// `column` has it in one of the rows. Returns whether it had gone back.
    pub(crate) async fn went_back(
        &self,
        shared: &Shared,
        sent: Instant,
        (rows, column): (&[Row], &str),
    ) -> bool {
        let shown = |row: &Row| row.try_get::<_, Option<SystemTime>>(column).ok().flatten();
        let Some(at) = rows.iter().find_map(shown).map(rows::timestamp) else { return false };
        match self.note(sent, Reading { at, heard: Instant::now() }) {
            Seen::Steady => false,
            Seen::Forward(by) => {
                tracing::warn!(
                    by_secs = by.as_secs(),
                    "PostgreSQL's clock was set forward, or this machine was suspended: leases and \
                     timers may have ended early"
                );
                false
            }
            Seen::Back { then, passed_us } => {
                // On the heap: it is rare, and larger than everything else here.
                Box::pin(self.hold(shared, then, passed_us)).await;
                true
            }
        }
    }

    fn note(&self, sent: Instant, reading: Reading) -> Seen {
        let mut last = self.last.lock();
        let seen = last.map_or(Seen::Steady, |last| self.compare(last, sent, reading));
        // A call that was overtaken by another is compared, but not kept.
        let newer = last.is_none_or(|last| last.heard < sent);
        if newer && !matches!(seen, Seen::Back { .. }) {
            *last = Some(reading);
        }
        seen
    }

    async fn hold(&self, shared: &Shared, then: Timestamp, passed_us: i64) {
        let params: Params<'_> = &[&rows::system_time(then), &passed_us];
        match shared.links.general.query(OPERATION, &self.hold, params).await {
            Ok(answer) => {
                // Begin again: another node may have moved it, or it runs slower for a while.
                *self.last.lock() = None;
                report(&answer);
            }
            // The next claim sees the same, and tries again.
            Err(error) => {
                let error = error::chain(&error);
                tracing::warn!(error, "PostgreSQL's clock was set back, and was not corrected yet");
            }
        }
    }

    /// Only what is certain is a step: the clock was read at some moment between a call's being
    /// sent and its answer's being heard.
    fn compare(&self, last: Reading, sent: Instant, now: Reading) -> Seen {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let most = now.heard.saturating_duration_since(last.heard);
        // Less than nothing if that call was sent before this reading was heard.
        let least = match sent.checked_duration_since(last.heard) {
            Some(later) => micros(later),
            None => -micros(last.heard.saturating_duration_since(sent)),
        };
        let shown = now.at.0.saturating_sub(last.at.0);
        let slack = micros(self.step_min + most / DRIFT_PART);
        if least.saturating_sub(shown) > slack {
            return Seen::Back { then: last.at, passed_us: least };
        }
        let over = shown.saturating_sub(micros(most));
        match u64::try_from(over) {
            Ok(over) if over > slack.unsigned_abs() => Seen::Forward(Duration::from_micros(over)),
            _ => Seen::Steady,
        }
    }
}

/// Looks for a step that happened while no node ran.
pub(crate) async fn start(shared: &Shared) -> Result<(), StoreError> {
    let start = shared.sql(include_str!("../sql/queries/clock_start.sql"));
    let answer = shared.links.general.query(OPERATION, &start, &[]).await?;
    report(&answer);
    Ok(())
}

/// Says by how much the clock was moved, if it was.
fn report(answer: &[Row]) {
    let moved = answer.first().and_then(|row| row.get::<_, Option<i64>>(0)).unwrap_or_default();
    if moved > 0 {
        tracing::warn!(
            by_secs = moved / 1_000_000,
            "PostgreSQL's clock was set back: the store's clock goes on, and runs slower by a \
             tenth until both agree"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn watch() -> ClockWatch {
        let schema = crate::options::Schema::new("x").expect("valid");
        ClockWatch::new(Sql::new(&schema, "SELECT 1"), Duration::from_secs(10))
    }

    #[test]
    fn a_step_is_what_elapsed_time_cannot_explain() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let after = |secs: u32| start + second * secs;
        for (shown_us, expected) in [
            (100_000_000, Seen::Steady),
            (92_000_000, Seen::Steady),
            (109_000_000, Seen::Steady),
            (100_000_000 + DAY, Seen::Forward(Duration::from_micros(DAY.unsigned_abs()) - second)),
            (100_000_000 - DAY, Seen::Back { then: Timestamp(DAY), passed_us: 100_000_000 }),
        ] {
            let watch = watch();
            let first = Reading { at: Timestamp(DAY), heard: start };
            assert_eq!(watch.note(start, first), Seen::Steady);
            let then = Reading { at: Timestamp(DAY + shown_us), heard: after(101) };
            assert_eq!(watch.note(after(100), then), expected, "{shown_us}");
        }
    }

    #[test]
    fn a_slow_call_is_no_step() {
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let watch = watch();
        watch.note(start, Reading { at: Timestamp(DAY), heard: start });
        let quick = Reading { at: Timestamp(DAY + 60_000_000), heard: start + minute };
        assert_eq!(watch.note(start + minute, quick), Seen::Steady);
        // Sent before the other one was, heard after it.
        let slow = Reading { at: Timestamp(DAY + 1_000_000), heard: start + 2 * minute };
        assert_eq!(watch.note(start, slow), Seen::Steady);
    }
}
