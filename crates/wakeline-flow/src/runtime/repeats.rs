//! How long, and how often, a result is told again that the provider could not take.
//!
//! # Invariants
//! * It goes on for as long as the lease of what ended may last: an outage costs a turn or an
//!   activity the time of the outage, not the rest of its lease.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Repetitions of one call.
pub(super) struct Repeats {
    until: Instant,
    pause: Duration,
}

impl Repeats {
    /// For a lease that lasts so long from now on, at most.
    pub(super) fn within(lease: Duration) -> Self {
        Self { until: Instant::now() + lease, pause: PAUSE_MIN }
    }

    /// Pauses before the next try. False if there is no use in another one.
    pub(super) async fn again(&mut self) -> bool {
        if Instant::now() + self.pause >= self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_used_to_its_end_with_a_second_between_tries_at_most() {
        let (began, mut repeats) = (Instant::now(), Repeats::within(Duration::from_secs(30)));
        let (mut tries, mut last) = (0, began);
        while repeats.again().await {
            tries += 1;
            assert!(last.elapsed() <= PAUSE_MAX + Duration::from_millis(1));
            last = Instant::now();
        }
        assert!((29..=30).contains(&last.duration_since(began).as_secs()), "{tries} tries");
        assert!(tries < 40, "{tries}");
    }
}
