//! How activities are retried: by the workers, without turns and without history.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long to wait between two tries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The same time always.
    Fixed {
        /// The time.
        delay_ms: u64,
    },
    /// The first time, then one more each time.
    Linear {
        /// The first, and the step.
        delay_ms: u64,
        /// Never more than this.
        max_ms: u64,
    },
    /// The first time, then more by a factor each time.
    Exponential {
        /// The first.
        delay_ms: u64,
        /// The factor, at least 1.
        factor: f64,
        /// Never more than this.
        max_ms: u64,
    },
}

impl Backoff {
    /// The wait after the `failures`th failure, counted from 1.
    pub fn delay(&self, failures: u32) -> Duration {
        let nth = failures.max(1);
        let ms = match *self {
            Self::Fixed { delay_ms } => delay_ms,
            Self::Linear { delay_ms, max_ms } => {
                delay_ms.saturating_mul(u64::from(nth)).min(max_ms)
            }
            Self::Exponential { delay_ms, factor, max_ms } => {
                let grown = delay_ms as f64
                    * factor.max(1.0).powi(i32::try_from(nth - 1).unwrap_or(i32::MAX));
                if grown.is_finite() { (grown as u64).min(max_ms) } else { max_ms }
            }
        };
        Duration::from_millis(ms)
    }
}

/// How often and how long an activity is tried. By default once, without a limit of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivityPolicy {
    /// Most tries; at least 1.
    pub attempts_max: u32,
    /// How long to wait between two.
    pub backoff: Backoff,
    /// How long one try may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_ms: Option<u64>,
}

impl Default for ActivityPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 1,
            backoff: Backoff::Exponential { delay_ms: 100, factor: 2.0, max_ms: 60_000 },
            attempt_timeout_ms: None,
        }
    }
}

impl ActivityPolicy {
    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_as_asked_and_stay_below_their_limit() {
        let ms = |backoff: &Backoff, nth| backoff.delay(nth).as_millis();
        let fixed = Backoff::Fixed { delay_ms: 50 };
        assert_eq!([ms(&fixed, 1), ms(&fixed, 9)], [50, 50]);
        let linear = Backoff::Linear { delay_ms: 100, max_ms: 250 };
        assert_eq!([ms(&linear, 1), ms(&linear, 2), ms(&linear, 3)], [100, 200, 250]);
        let exponential = Backoff::Exponential { delay_ms: 100, factor: 3.0, max_ms: 5_000 };
        assert_eq!([1, 2, 3, 4, 5].map(|nth| ms(&exponential, nth)), [100, 300, 900, 2700, 5000]);
        assert_eq!(ms(&exponential, u32::MAX), 5_000);
    }
}
