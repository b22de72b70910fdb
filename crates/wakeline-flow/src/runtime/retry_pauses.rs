//! Pauses between attempts to commit a result that the provider could not store.
//!
//! # Invariants
//! * The attempts continue as long as the lease lives, and the lease is renewed meanwhile: an
//!   outage only delays a turn or an activity.

use std::time::Duration;

/// The first pause; each pause is twice as long as the one before, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After this many failures a warning is logged, and then each time their number has doubled.
const NOTABLE: u32 = 4;

/// Pauses between repetitions of one call.
pub(super) struct RetryPauses {
    pause: Duration,
    so_far: u32,
}

impl Default for RetryPauses {
    fn default() -> Self {
        Self { pause: PAUSE_MIN, so_far: 0 }
    }
}

impl RetryPauses {
    /// The number of pauses so far.
    pub(super) fn so_far(&self) -> u32 {
        self.so_far
    }

    /// Whether the failure before the next pause should be logged as a warning. An outage is long
    /// by then, and must not fill the log.
    pub(super) fn is_notable(&self) -> bool {
        let failures = self.so_far.saturating_add(1);
        failures >= NOTABLE && failures.is_power_of_two()
    }

    /// Pauses before the next attempt.
    pub(super) async fn pause(&mut self) {
        self.so_far = self.so_far.saturating_add(1);
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
            if retry_pauses.is_notable() {
                warned.push(failure);
            }
            retry_pauses.pause().await;
        }
        assert_eq!(warned, [4, 8, 16, 32, 64]);
    }
}
