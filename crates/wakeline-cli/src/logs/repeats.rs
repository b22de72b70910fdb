//! Lines that repeat: written once, then counted.
//!
//! While a database is away every request and every background task fails for the same reason,
//! thousands of times. The first line of a kind is written; the same again within [`REPEATED_FOR`]
//! is counted, and the count is written when that time is over.
//!
//! # Invariants
//! * Only lines that are the same in all their fields are counted together: nothing that is said
//!   once is lost.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How long the same line is counted and not written.
const REPEATED_FOR: Duration = Duration::from_secs(30);
/// Different lines that are remembered; beyond it all are written.
const LINES_LEN_MAX: usize = 1_000;

/// Lines that were written lately, and how often they came again.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats {
    lately: Arc<Mutex<HashMap<String, Repeat>>>,
}

#[derive(Debug)]
struct Repeat {
    since: Instant,
    again: u64,
}

/// A line that came again, and how often.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) line: String,
    pub(super) times: u64,
}

impl Repeats {
    /// Whether a line is to be written; counts it otherwise.
    fn is_new(&self, line: String, now: Instant) -> bool {
        let mut lately = self.lately.lock();
        if let Some(repeat) = lately.get_mut(&line) {
            repeat.again += 1;
            return false;
        }
        if lately.len() < LINES_LEN_MAX {
            lately.insert(line, Repeat { since: now, again: 0 });
        }
        true
    }

    /// Forgets lines whose time is over; returns those that came again.
    pub(super) fn take_over(&self, now: Instant) -> Vec<Repeated> {
        let mut over = Vec::new();
        self.lately.lock().retain(|line, repeat| {
            let lasts = now.duration_since(repeat.since) < REPEATED_FOR;
            if !lasts && repeat.again > 0 {
                over.push(Repeated { line: line.clone(), times: repeat.again });
            }
            lasts
        });
        over
    }

    /// When the time of a line is over next.
    pub(super) fn next_over(&self, now: Instant) -> Option<Duration> {
        let first = self.lately.lock().values().map(|repeat| repeat.since).min();
        first.map(|since| (since + REPEATED_FOR).saturating_duration_since(now))
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        // Who wants details wants each of them. What this module writes is no repetition.
        let meta = event.metadata();
        if *meta.level() > Level::INFO || meta.target() == module_path!() {
            return true;
        }
        let mut line = Line(format!("{} ", meta.target()));
        event.record(&mut line);
        self.is_new(line.0, Instant::now())
    }
}

/// A line as text, whatever the format of the log is.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }
}

/// Writes how often lines came again.
pub(super) fn log(repeated: Vec<Repeated>) {
    for Repeated { line, times } in repeated {
        tracing::warn!(times, line = line.trim_end(), "the same line came again and was counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_is_written_once_and_then_counted() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        assert_eq!(repeats.next_over(start), None);
        let came: Vec<_> =
            ["a", "b", "a", "a"].map(|line| repeats.is_new(line.into(), start)).into();
        assert_eq!(came, [true, true, false, false]);
        assert_eq!(repeats.next_over(start), Some(REPEATED_FOR));
        assert_eq!(repeats.take_over(start + REPEATED_FOR / 2), []);
        let over = repeats.take_over(start + REPEATED_FOR);
        assert_eq!(over, [Repeated { line: "a".into(), times: 2 }]);
        assert!(repeats.is_new("a".into(), start + REPEATED_FOR), "it is written again");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for n in 0..LINES_LEN_MAX * 2 {
            assert!(repeats.is_new(n.to_string(), now));
        }
        assert_eq!(repeats.lately.lock().len(), LINES_LEN_MAX);
    }
}
