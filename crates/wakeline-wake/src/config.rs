//! Long polling's settings, with the names of the design that they come from.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long polls wait, and what happens when hints cannot be relied on. On the wire durations
/// are whole milliseconds, and their names end in `_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LongPollConfig {
    /// Whether a poll may wait at all. True.
    pub enabled: bool,
    /// Time between two safety sweeps of all lines with waiters: the longest that work can stay
    /// unseen if every hint is lost. 60 s.
    #[serde(rename = "fallback_poll_interval_ms", with = "millis")]
    pub fallback_poll_interval: Duration,
    /// What that time grows to while sweeps find nothing that a hint had missed: it doubles with
    /// each of them, and is short again after a missed hint or any trouble. For databases that
    /// should be left alone while nothing happens. 0: it does not grow.
    #[serde(rename = "fallback_poll_interval_max_ms", with = "millis")]
    pub fallback_poll_interval_max: Duration,
    /// The longest that one poll waits, whatever it asks for. 30 s.
    #[serde(rename = "max_wait_time_ms", with = "millis")]
    pub max_wait_time: Duration,
    /// Added to every timer. Zero: the database's clock is exact enough; larger values exist to
    /// compare with systems that add one.
    #[serde(rename = "timer_grace_period_ms", with = "millis")]
    pub timer_grace_period: Duration,
    /// The shortest that degraded polling lasts. 60 s.
    #[serde(rename = "aggressive_poll_duration_ms", with = "millis")]
    pub aggressive_poll_duration: Duration,
    /// Clean empty claims in a row before degraded polling ends. 5.
    pub aggressive_exit_threshold: u32,
    /// How long a hint may stay without an answered claim although someone waits for it, before
    /// that counts as trouble. 100 ms.
    #[serde(rename = "notify_delivery_timeout_ms", with = "millis")]
    pub notify_delivery_timeout: Duration,
    /// Time between two claims of degraded polling. 100 ms.
    #[serde(rename = "degraded_poll_interval_ms", with = "millis")]
    pub degraded_poll_interval: Duration,
    /// What starts degraded polling. Only trouble.
    pub aggressive_on: AggressiveOn,
    /// Most waiting polls; the next one is told to come back later. 10,000.
    pub intentions_max: usize,
    /// Most claims under way at a time. 2.
    pub claims_in_flight_max: usize,
    /// Whether claims for parked polls go before those of polls that do not wait; of these at
    /// least every fourth claim is one. False: first come, first served. True.
    pub use_priority_dispatch: bool,
}

/// What starts degraded polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggressiveOn {
    /// A lost listener, failing claims, unanswered hints.
    #[default]
    Degraded,
    /// Those, and every ordinary wake (a hint, a timer, the safety sweep): the original design's
    /// table, for comparison. It polls most of the time.
    AnyWake,
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct ConfigError {
    /// The setting's name on the wire.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, reason: &'static str) -> Self {
        Self { field, reason }
    }
}

impl Default for LongPollConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            fallback_poll_interval: Duration::from_secs(60),
            fallback_poll_interval_max: Duration::ZERO,
            max_wait_time: Duration::from_secs(30),
            timer_grace_period: Duration::ZERO,
            aggressive_poll_duration: Duration::from_secs(60),
            aggressive_exit_threshold: 5,
            notify_delivery_timeout: Duration::from_millis(100),
            degraded_poll_interval: Duration::from_millis(100),
            aggressive_on: AggressiveOn::Degraded,
            intentions_max: 10_000,
            claims_in_flight_max: 2,
            use_priority_dispatch: true,
        }
    }
}

impl LongPollConfig {
    /// Says which setting cannot work, if one cannot.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let at_least_1_ms = [
            ("fallback_poll_interval_ms", self.fallback_poll_interval),
            ("max_wait_time_ms", self.max_wait_time),
            ("notify_delivery_timeout_ms", self.notify_delivery_timeout),
            ("degraded_poll_interval_ms", self.degraded_poll_interval),
        ];
        for (field, value) in at_least_1_ms {
            if value < Duration::from_millis(1) {
                return Err(ConfigError::new(field, "must be at least 1, not 0"));
            }
        }
        let widest = self.fallback_poll_interval_max;
        if !widest.is_zero() && widest < self.fallback_poll_interval {
            let reason = "must be 0, or at least fallback_poll_interval_ms";
            return Err(ConfigError::new("fallback_poll_interval_max_ms", reason));
        }
        let at_least_1 = [
            ("intentions_max", self.intentions_max),
            ("claims_in_flight_max", self.claims_in_flight_max),
        ];
        for (field, value) in at_least_1 {
            if value == 0 {
                return Err(ConfigError::new(field, "must be at least 1, not 0"));
            }
        }
        Ok(())
    }
}

/// Durations as whole milliseconds.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_a_zero_names_its_field() {
        assert_eq!(LongPollConfig::default().validate(), Ok(()));
        let spinning =
            LongPollConfig { degraded_poll_interval: Duration::ZERO, ..LongPollConfig::default() };
        assert_eq!(
            spinning.validate().expect_err("zero").to_string(),
            "degraded_poll_interval_ms must be at least 1, not 0"
        );
        let closed = LongPollConfig { intentions_max: 0, ..LongPollConfig::default() };
        assert_eq!(closed.validate().expect_err("zero").field, "intentions_max");
        let narrow = LongPollConfig {
            fallback_poll_interval_max: Duration::from_secs(59),
            ..LongPollConfig::default()
        };
        assert_eq!(
            narrow.validate().expect_err("below the interval").to_string(),
            "fallback_poll_interval_max_ms must be 0, or at least fallback_poll_interval_ms"
        );
    }
}
