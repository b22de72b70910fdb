//! Repeated log lines are written once, then counted.
//!
//! While a database is unavailable, every request and every background task fails for the same
//! reason, thousands of times. The first of several equal lines is written. Repetitions within
//! [`REPEATED_FOR`] are counted, and the count is written when that time is over.
//!
//! # Invariants
//! * Only lines that are equal in all their fields are counted together, so that no information is
//!   lost.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How long repetitions of a line are counted instead of written.
const REPEATED_FOR: Duration = Duration::from_secs(30);
/// Maximum number of different lines that are remembered; further lines are always written.
const LINES_LEN_MAX: usize = 1_000;

/// Lines that were written recently, and how often they were repeated.
#[derive(Debug, Clone, Default)]
pub(super) struct RepeatedLines {
    recent: Arc<Mutex<HashMap<String, RepeatCount>>>,
}

/// When a line was written, and how often it was repeated since.
#[derive(Debug)]
struct RepeatCount {
    since: Instant,
    repetitions: u64,
}

/// A repeated line, and the number of repetitions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatedLine {
    pub(super) line: String,
    pub(super) times: u64,
}

impl RepeatedLines {
    /// Whether to write a line. Counts it if not.
    fn is_new(&self, line: String, now: Instant) -> bool {
        let mut recent = self.recent.lock();
        if let Some(repeat) = recent.get_mut(&line) {
            repeat.repetitions += 1;
            return false;
        }
        if recent.len() < LINES_LEN_MAX {
            recent.insert(line, RepeatCount { since: now, repetitions: 0 });
        }
        true
    }

    /// Forgets lines that are older than [`REPEATED_FOR`]. Returns those that were repeated.
    pub(super) fn take_expired(&self, now: Instant) -> Vec<RepeatedLine> {
        let mut expired = Vec::new();
        self.recent.lock().retain(|line, repeat| {
            let is_recent = now.duration_since(repeat.since) < REPEATED_FOR;
            if !is_recent && repeat.repetitions > 0 {
                expired.push(RepeatedLine { line: line.clone(), times: repeat.repetitions });
            }
            is_recent
        });
        expired
    }

    /// How long until the next line must be forgotten.
    pub(super) fn time_until_expiry(&self, now: Instant) -> Option<Duration> {
        let first = self.recent.lock().values().map(|repeat| repeat.since).min();
        first.map(|since| (since + REPEATED_FOR).saturating_duration_since(now))
    }
}

impl<S: Subscriber> Layer<S> for RepeatedLines {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        // Debug and trace lines are always written, and so are the lines of this module.
        let meta = event.metadata();
        if *meta.level() > Level::INFO || meta.target() == module_path!() {
            return true;
        }
        let mut line = LineText(format!("{} ", meta.target()));
        event.record(&mut line);
        self.is_new(line.0, Instant::now())
    }
}

/// A line as text, independent of the format of the log.
struct LineText(String);

impl Visit for LineText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }
}

/// Logs how often lines were repeated.
pub(super) fn log(repeated: Vec<RepeatedLine>) {
    for RepeatedLine { line, times } in repeated {
        tracing::warn!(
            times,
            line = line.trim_end(),
            "a log line was repeated: its repetitions were counted instead of written"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_is_written_once_and_then_counted() {
        let (repeats, start) = (RepeatedLines::default(), Instant::now());
        assert_eq!(repeats.time_until_expiry(start), None);
        let is_new: Vec<_> =
            ["a", "b", "a", "a"].map(|line| repeats.is_new(line.into(), start)).into();
        assert_eq!(is_new, [true, true, false, false]);
        assert_eq!(repeats.time_until_expiry(start), Some(REPEATED_FOR));
        assert_eq!(repeats.take_expired(start + REPEATED_FOR / 2), []);
        let expired = repeats.take_expired(start + REPEATED_FOR);
        assert_eq!(expired, [RepeatedLine { line: "a".into(), times: 2 }]);
        assert!(repeats.is_new("a".into(), start + REPEATED_FOR), "it is written again");
    }

    #[test]
    fn the_number_of_remembered_lines_is_bounded() {
        let (repeats, now) = (RepeatedLines::default(), Instant::now());
        for n in 0..LINES_LEN_MAX * 2 {
            assert!(repeats.is_new(n.to_string(), now));
        }
        assert_eq!(repeats.recent.lock().len(), LINES_LEN_MAX);
    }
}
