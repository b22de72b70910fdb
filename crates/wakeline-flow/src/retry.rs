//! Retry policies of activities. Workers retry activities without turns and without history events.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The delay between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The delay is always the same.
    Fixed {
        /// The delay in milliseconds.
        delay_ms: u64,
    },
    /// The delay grows by the same amount after each attempt.
    Linear {
        /// The first delay and the increment, in milliseconds.
        delay_ms: u64,
        /// The longest delay in milliseconds.
        max_ms: u64,
    },
    /// The delay grows by a factor after each attempt.
    Exponential {
        /// The first delay in milliseconds.
        delay_ms: u64,
        /// The factor, at least 1.
        factor: f64,
        /// The longest delay in milliseconds.
        max_ms: u64,
    },
}

impl Backoff {
    /// Returns the delay after this number of failed attempts (at least 1).
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

/// The retry policy of an activity. The default is one attempt without a time limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivityPolicy {
    /// The maximum number of attempts, at least 1.
    pub attempts_max: u32,
    /// The delay between two attempts.
    pub backoff: Backoff,
    /// The time limit of one attempt in milliseconds.
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
    /// Whether this is the default policy.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_as_configured_up_to_their_limit() {
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
