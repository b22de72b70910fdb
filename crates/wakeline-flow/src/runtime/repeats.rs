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

/// Pauses between repetitions of one call.
pub(super) struct Repeats {
    pause: Duration,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { pause: PAUSE_MIN }
    }
}

impl Repeats {
    /// Pauses before the next try.
    pub(super) async fn pause(&mut self) {
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
}
