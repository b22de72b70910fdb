//! How often a result is offered again that the provider could not take.
//!
//! # Invariants
//! * It goes on for as long as the lease of what ended lives, and that is renewed meanwhile: an
//!   outage costs a turn or an activity the time of the outage and nothing else.

use std::time::Duration;

/// The first pause; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After so many failures one is worth a warning, and then each time that their number doubled.
const NOTABLE: u32 = 4;

/// Pauses between repetitions of one call.
pub(super) struct Repeats {
    pause: Duration,
    so_far: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { pause: PAUSE_MIN, so_far: 0 }
    }
}

impl Repeats {
    /// How often it was paused.
    pub(super) fn so_far(&self) -> u32 {
        self.so_far
    }

    /// Whether the failure before the next pause is worth a warning: an outage is long by then, and
    /// is not to fill the log.
    pub(super) fn is_notable(&self) -> bool {
        let failures = self.so_far.saturating_add(1);
        failures >= NOTABLE && failures.is_power_of_two()
    }

    /// Pauses before the next try.
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
        let (began, mut repeats) = (Instant::now(), Repeats::default());
        for _ in 0..40 {
            let last = Instant::now();
            repeats.pause().await;
            assert!(last.elapsed() <= PAUSE_MAX + Duration::from_millis(1));
        }
        assert!((35..=40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_warned_of_after_the_first_few_and_then_rarely() {
        let (mut repeats, mut warned) = (Repeats::default(), Vec::new());
        for failure in 1..=100 {
            if repeats.is_notable() {
                warned.push(failure);
            }
            repeats.pause().await;
        }
        assert_eq!(warned, [4, 8, 16, 32, 64]);
    }
}
