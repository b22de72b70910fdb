//! Adaptive time limits for calls that are usually answered quickly.
//!
//! # Where it sits
//! Each [`crate::connect::PgLink`] has one for its claims and sweeps: waiters get nothing while one
//! of these calls hangs on a connection that was lost silently.
//!
//! # Invariants
//! * A slow database is not an error: a call that the server is known to execute may take until the
//!   deadline of all calls. Where the server cannot be asked, each timeout doubles the limit up to
//!   that deadline, and only a quick answer resets it.
//! * Each operation has a limit of its own, so that a slow operation is not cut off repeatedly
//!   because others on the same link are quick.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The shortest time limit.
pub(crate) const SPAN_MIN: Duration = Duration::from_millis(1_500);
/// An answer within this time resets the limit.
const PROMPT: Duration = Duration::from_millis(500);

/// The number of consecutive timeouts by operation.
#[derive(Default)]
pub(crate) struct Promptness {
    misses: Mutex<HashMap<&'static str, u32>>,
}

impl Promptness {
    /// The time limit for the next answer.
    pub(crate) fn span(&self, operation: &'static str, deadline: Duration) -> Duration {
        let misses = self.misses.lock().get(operation).copied().unwrap_or(0).min(10);
        (SPAN_MIN * (1 << misses)).min(deadline)
    }

    /// Records how long a call took, either until its answer or until its time limit.
    pub(crate) fn note(&self, operation: &'static str, took: Duration, span: Duration) {
        if took >= span {
            *self.misses.lock().entry(operation).or_default() += 1;
        } else if took < PROMPT {
            self.misses.lock().remove(operation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_double_the_limit_until_a_quick_answer() {
        let (promptness, deadline) = (Promptness::default(), Duration::from_secs(12));
        let mut spans = Vec::new();
        for _ in 0..5 {
            let span = promptness.span("slow", deadline);
            spans.push(span.as_millis());
            promptness.note("slow", span, span);
            promptness.note("quick", Duration::from_millis(3), span);
        }
        assert_eq!(spans, [1_500, 3_000, 6_000, 12_000, 12_000]);
        promptness.note("slow", Duration::from_secs(4), deadline);
        assert_eq!(promptness.span("slow", deadline), deadline, "it answers, but slowly");
        promptness.note("slow", Duration::from_millis(3), deadline);
        assert_eq!(promptness.span("slow", deadline), SPAN_MIN);
    }
}
