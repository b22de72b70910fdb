//! Pauses between attempts to commit a result that the provider could not store.
//!
//! # Invariants
//! * The attempts continue until the lease is lost, and the lease is renewed meanwhile: an
//!   outage only delays a turn or an activity.

use std::time::Duration;

/// The first pause; each pause is twice as long as the one before, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After this many failures a warning is logged, and then each time their number has doubled.
const WARN_AFTER: u32 = 4;

/// Pauses between repetitions of one call.
pub(super) struct RetryPauses {
    pause: Duration,
    count: u32,
}

impl Default for RetryPauses {
    fn default() -> Self {
        Self { pause: PAUSE_MIN, count: 0 }
    }
}

impl RetryPauses {
    /// The number of pauses so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the failure before the next pause is logged as a warning: not the first ones, which
    /// are usual in a short outage, and then ever more rarely, so that a long outage does not fill
    /// the log.
    pub(super) fn should_warn(&self) -> bool {
        let failures = self.count.saturating_add(1);
        failures >= WARN_AFTER && failures.is_power_of_two()
    }

    /// Pauses before the next attempt.
    pub(super) async fn pause(&mut self) {
        self.count = self.count.saturating_add(1);
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_second_and_no_further() {
        let (began, mut retry_pauses) = (Instant::now(), RetryPauses::default());
        for _ in 0..40 {
            let last = Instant::now();
            retry_pauses.pause().await;
            assert!(last.elapsed() <= PAUSE_MAX + Duration::from_millis(1));
        }
        assert!((35..=40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn warnings_begin_after_a_few_failures_and_become_rare() {
        let (mut retry_pauses, mut warned) = (RetryPauses::default(), Vec::new());
        for failure in 1..=100 {
            if retry_pauses.should_warn() {
                warned.push(failure);
            }
            retry_pauses.pause().await;
        }
        assert_eq!(warned, [4, 8, 16, 32, 64]);
    }
}
