//! How long to wait for answers that are prompt as a rule.
//!
//! # Where it sits
//! Beside each [`crate::connect::Link`], for its claims and sweeps: waiters get nothing while one
//! of them hangs on a connection that was lost silently.
//!
//! # Invariants
//! * A database that is slow makes progress: a call that it is known to be at work on has time
//!   until the deadline of all calls. Where it cannot be asked, each miss doubles the span up to
//!   that, and only a prompt answer shortens it again.
//! * Each operation has a span of its own: one that is slow is not given up for ever because others
//!   on the same link are quick.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The shortest span.
pub(crate) const SPAN_MIN: Duration = Duration::from_millis(1_500);
/// An answer within this is a prompt one.
const PROMPT: Duration = Duration::from_millis(500);

/// How often in a row answers have not come in time, by operation.
#[derive(Default)]
pub(crate) struct Promptness {
    misses: Mutex<HashMap<&'static str, u32>>,
}

impl Promptness {
    /// How long to wait for the next answer.
    pub(crate) fn span(&self, operation: &'static str, deadline: Duration) -> Duration {
        let misses = self.misses.lock().get(operation).copied().unwrap_or(0).min(10);
        (SPAN_MIN * (1 << misses)).min(deadline)
    }

    /// A call has ended after a while, by its answer or at the end of its span.
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
    fn a_slow_database_is_given_more_time_until_it_is_prompt_again() {
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
