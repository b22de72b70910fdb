//! How long to wait for answers that are prompt as a rule.
//!
//! # Where it sits
//! Beside each [`crate::connect::Link`], for its claims: waiters get nothing while a claim hangs on
//! a connection that was lost silently.
//!
//! # Invariants
//! * A database that is slow makes progress: each miss doubles the span up to the deadline of all
//!   calls, and only a prompt answer shortens it again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest span.
const SPAN_MIN: Duration = Duration::from_millis(1_500);
/// An answer within this is a prompt one.
const PROMPT: Duration = Duration::from_millis(500);

/// How often in a row answers have not come in time.
#[derive(Default)]
pub(crate) struct Promptness {
    misses: AtomicU64,
}

impl Promptness {
    /// How long to wait for the next answer.
    pub(crate) fn span(&self, deadline: Duration) -> Duration {
        let misses = self.misses.load(Ordering::Relaxed).min(10);
        (SPAN_MIN * (1 << misses)).min(deadline)
    }

    /// A call has ended after a while, by its answer or at the end of its span.
    pub(crate) fn note(&self, took: Duration, span: Duration) {
        if took >= span {
            self.misses.fetch_add(1, Ordering::Relaxed);
        } else if took < PROMPT {
            self.misses.store(0, Ordering::Relaxed);
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
            let span = promptness.span(deadline);
            spans.push(span.as_millis());
            promptness.note(span, span);
        }
        assert_eq!(spans, [1_500, 3_000, 6_000, 12_000, 12_000]);
        promptness.note(Duration::from_secs(4), deadline);
        assert_eq!(promptness.span(deadline), deadline, "it answers, but slowly");
        promptness.note(Duration::from_millis(3), deadline);
        assert_eq!(promptness.span(deadline), SPAN_MIN);
    }
}
