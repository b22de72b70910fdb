//! Settings of long polling: `[long_poll]` in the file.

use clap::Args;
use serde::Deserialize;
use wakeline_wake::{AggressiveOn, LongPollConfig};

use super::millis;
use super::words::choose;

/// Long polling settings from flags, environment variables or the configuration file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LongPollArgs {
    /// Whether pops may wait for messages [default: true]
    #[arg(long = "long-poll", env = "WAKELINE_LONG_POLL", value_name = "BOOL")]
    enabled: Option<bool>,
    /// Time between two safety sweeps, which find work whose notification was lost [default: 60000]
    #[arg(long, env = "WAKELINE_FALLBACK_POLL_INTERVAL_MS", value_name = "MS")]
    fallback_poll_interval_ms: Option<u64>,
    /// Maximum time between two safety sweeps. The time between them increases up to this maximum
    /// while they find nothing; 0: it does not increase [default: 0]
    #[arg(long, env = "WAKELINE_FALLBACK_POLL_INTERVAL_MAX_MS", value_name = "MS")]
    fallback_poll_interval_max_ms: Option<u64>,
    /// Maximum time of one wait inside the server. A pop with a longer timeout waits several times
    /// in a row; its client receives one response [default: 30000]
    #[arg(long, env = "WAKELINE_MAX_WAIT_TIME_MS", value_name = "MS")]
    max_wait_time_ms: Option<u64>,
    /// Delay added to every timer of a waiting pop, to compare the server with systems that add
    /// such a delay [default: 0]
    #[arg(long, env = "WAKELINE_TIMER_GRACE_PERIOD_MS", value_name = "MS")]
    timer_grace_period_ms: Option<u64>,
    /// Minimum time for which a degraded node polls. A node is degraded if it does not receive
    /// notifications reliably [default: 60000]
    #[arg(long, env = "WAKELINE_AGGRESSIVE_POLL_DURATION_MS", value_name = "MS")]
    aggressive_poll_duration_ms: Option<u64>,
    /// Number of empty claims in a row, without errors, after which a degraded node stops polling
    /// [default: 5]
    #[arg(long, env = "WAKELINE_AGGRESSIVE_EXIT_THRESHOLD", value_name = "COUNT")]
    aggressive_exit_threshold: Option<u32>,
    /// Time within which a notification must lead to a claim; otherwise the node is degraded and
    /// polls [default: 100]
    #[arg(long, env = "WAKELINE_NOTIFY_DELIVERY_TIMEOUT_MS", value_name = "MS")]
    notify_delivery_timeout_ms: Option<u64>,
    /// Time between two claims of a degraded node [default: 100]
    #[arg(long, env = "WAKELINE_DEGRADED_POLL_INTERVAL_MS", value_name = "MS")]
    degraded_poll_interval_ms: Option<u64>,
    /// When a node polls like a degraded one: degraded (only when it is degraded) or any_wake
    /// (after every notification, too) [default: degraded]
    #[arg(long, env = "WAKELINE_AGGRESSIVE_ON", value_name = "WHEN", value_parser = aggressive_on)]
    aggressive_on: Option<AggressiveOn>,
    /// Maximum number of waiting pops on this node [default: 10000]
    #[arg(long, env = "WAKELINE_WAITERS_MAX", value_name = "COUNT")]
    waiters_max: Option<usize>,
    /// Maximum number of concurrent claims on this node [default: 2]
    #[arg(long, env = "WAKELINE_CLAIMS_IN_FLIGHT_MAX", value_name = "COUNT")]
    pub(super) claims_in_flight_max: Option<usize>,
    /// Whether claims for waiting pops take precedence over claims for pops that do not wait (at
    /// least every fourth claim is for the latter); false: claims are made in the order of arrival
    /// [default: true]
    #[arg(long, env = "WAKELINE_USE_PRIORITY_DISPATCH", value_name = "BOOL")]
    pub(super) use_priority_dispatch: Option<bool>,
}

impl LongPollArgs {
    /// Combines these settings with those of the file and the defaults.
    pub(super) fn resolve(&self, file: &Self) -> LongPollConfig {
        let preset = LongPollConfig::default();
        LongPollConfig {
            enabled: pick!(self, file, enabled).unwrap_or(preset.enabled),
            fallback_poll_interval: millis(
                pick!(self, file, fallback_poll_interval_ms),
                preset.fallback_poll_interval,
            ),
            fallback_poll_interval_max: millis(
                pick!(self, file, fallback_poll_interval_max_ms),
                preset.fallback_poll_interval_max,
            ),
            max_wait_time: millis(pick!(self, file, max_wait_time_ms), preset.max_wait_time),
            timer_grace_period: millis(
                pick!(self, file, timer_grace_period_ms),
                preset.timer_grace_period,
            ),
            aggressive_poll_duration: millis(
                pick!(self, file, aggressive_poll_duration_ms),
                preset.aggressive_poll_duration,
            ),
            aggressive_exit_threshold: pick!(self, file, aggressive_exit_threshold)
                .unwrap_or(preset.aggressive_exit_threshold),
            notify_delivery_timeout: millis(
                pick!(self, file, notify_delivery_timeout_ms),
                preset.notify_delivery_timeout,
            ),
            degraded_poll_interval: millis(
                pick!(self, file, degraded_poll_interval_ms),
                preset.degraded_poll_interval,
            ),
            aggressive_on: pick!(self, file, aggressive_on).unwrap_or(preset.aggressive_on),
            waiters_max: pick!(self, file, waiters_max).unwrap_or(preset.waiters_max),
            claims_in_flight_max: pick!(self, file, claims_in_flight_max)
                .unwrap_or(preset.claims_in_flight_max),
            use_priority_dispatch: pick!(self, file, use_priority_dispatch)
                .unwrap_or(preset.use_priority_dispatch),
        }
    }
}

fn aggressive_on(text: &str) -> Result<AggressiveOn, String> {
    let known = [("degraded", AggressiveOn::Degraded), ("any_wake", AggressiveOn::AnyWake)];
    choose(text, &known)
}
