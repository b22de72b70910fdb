//! How long ended orchestration instances and webhook messages are kept: `[retention]` in the file.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::retention::Retention;

const DAY: u64 = 24 * 60 * 60;
const INSTANCES_DAYS: u64 = 30;
const WEBHOOKS_DAYS: u64 = 90;

/// Retention settings from flags, environment variables or the configuration file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RetentionArgs {
    /// Number of days for which ended orchestration instances are kept; 0: indefinitely
    /// [default: 30]
    #[arg(
        id = "retention_instances_days",
        long = "retention-instances-days",
        env = "WAKELINE_RETENTION_INSTANCES_DAYS",
        value_name = "DAYS"
    )]
    pub(super) instances_days: Option<u64>,
    /// Number of days for which webhook messages are kept with their deliveries and attempts; 0:
    /// indefinitely. Messages are kept at least as long as their payload [default: 90]
    #[arg(
        id = "retention_webhooks_days",
        long = "retention-webhooks-days",
        env = "WAKELINE_RETENTION_WEBHOOKS_DAYS",
        value_name = "DAYS"
    )]
    pub(super) webhooks_days: Option<u64>,
}

/// Converts days to a duration. 0 days means that nothing is removed, which is `None`.
pub(super) fn kept(days: Option<u64>, default: u64) -> Option<Duration> {
    let days = days.unwrap_or(default);
    (days > 0).then(|| Duration::from_secs(days.saturating_mul(DAY)))
}

impl RetentionArgs {
    /// Combines these settings with those of the file and the defaults.
    pub(super) fn resolve(&self, file: &Self) -> Retention {
        Retention {
            instances: kept(self.instances_days.or(file.instances_days), INSTANCES_DAYS),
            webhooks: kept(self.webhooks_days.or(file.webhooks_days), WEBHOOKS_DAYS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_take_precedence_over_the_file_and_zero_keeps_all() {
        let unset = RetentionArgs::default();
        let defaults = unset.resolve(&unset);
        assert_eq!(defaults.instances, Some(Duration::from_secs(30 * DAY)));
        assert_eq!(defaults.webhooks, Some(Duration::from_secs(90 * DAY)));
        let file = RetentionArgs { instances_days: Some(7), webhooks_days: Some(0) };
        assert_eq!(unset.resolve(&file).instances, Some(Duration::from_secs(7 * DAY)));
        assert_eq!(unset.resolve(&file).webhooks, None);
        let flag = RetentionArgs { instances_days: Some(1), webhooks_days: None };
        assert_eq!(flag.resolve(&file).instances, Some(Duration::from_secs(DAY)));
    }
}
