//! The settings of long polling.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long polls wait, and what happens when hints cannot be relied on. On the wire, durations are
/// whole milliseconds, and their names end in `_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LongPollConfig {
    /// Whether a poll may wait at all. The default is true.
    pub enabled: bool,
    /// The time between two safety sweeps of all lines with waiters. This is the longest time that
    /// work can stay undetected if every hint is lost. The default is 60 s.
    #[serde(rename = "fallback_poll_interval_ms", with = "millis")]
    pub fallback_poll_interval: Duration,
    /// The maximum to which that time grows while sweeps find nothing that a hint had missed: it
    /// doubles with each such sweep, and is reset after a missed hint, a lost listener or a failed
    /// call. This is for databases that should have no load while nothing happens. The default is
    /// 0: the time does not grow.
    #[serde(rename = "fallback_poll_interval_max_ms", with = "millis")]
    pub fallback_poll_interval_max: Duration,
    /// The longest time that one poll waits, whatever it requests. The default is 30 s.
    #[serde(rename = "max_wait_time_ms", with = "millis")]
    pub max_wait_time: Duration,
    /// A time that is added to every timer. The default is zero, because the database's clock is
    /// exact enough; larger values exist for comparison with systems that add one.
    #[serde(rename = "timer_grace_period_ms", with = "millis")]
    pub timer_grace_period: Duration,
    /// The minimum duration of degraded polling. The default is 60 s.
    #[serde(rename = "aggressive_poll_duration_ms", with = "millis")]
    pub aggressive_poll_duration: Duration,
    /// The number of successful empty claims in a row after which degraded polling ends. The
    /// default is 5.
    pub aggressive_exit_threshold: u32,
    /// The time within which a hint must be answered by a claim if there is a waiter for it. After
    /// that time degraded polling starts. The default is 100 ms.
    #[serde(rename = "notify_delivery_timeout_ms", with = "millis")]
    pub notify_delivery_timeout: Duration,
    /// The time between two claims of degraded polling. The default is 100 ms.
    #[serde(rename = "degraded_poll_interval_ms", with = "millis")]
    pub degraded_poll_interval: Duration,
    /// What starts degraded polling. The default is [`AggressiveOn::Degraded`].
    pub aggressive_on: AggressiveOn,
    /// The maximum number of waiting polls; further ones are refused and may try again later. The
    /// default is 10,000.
    pub waiters_max: usize,
    /// The maximum number of claims in flight. The default is 2.
    pub claims_in_flight_max: usize,
    /// Whether claims for parked polls go before those of polls that do not wait; at least every
    /// fourth claim is for one of the latter. If false, claims are served in order of arrival. The
    /// default is true.
    pub use_priority_dispatch: bool,
}

/// What starts degraded polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggressiveOn {
    /// A lost listener, failing claims, or unanswered hints.
    #[default]
    Degraded,
    /// The same, and also every ordinary wake (a hint, a timer, the safety sweep), as in the design
    /// that this one is compared with. It polls most of the time.
    AnyWake,
}

/// A setting that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct ConfigError {
    /// The setting's name on the wire.
    pub field: &'static str,
    /// What is wrong with its value.
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
            waiters_max: 10_000,
            claims_in_flight_max: 2,
            use_priority_dispatch: true,
        }
    }
}

impl LongPollConfig {
    /// Checks the settings; the error names the first invalid one.
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
            ("waiters_max", self.waiters_max),
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

/// Serialises durations as whole milliseconds.
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
        let closed = LongPollConfig { waiters_max: 0, ..LongPollConfig::default() };
        assert_eq!(closed.validate().expect_err("zero").field, "waiters_max");
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
