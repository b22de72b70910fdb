//! Settings of webhooks: `[hook]` in the file.

use clap::Args;
use serde::Deserialize;
use wakeline_hook::{Guard, Subnet};
use wakeline_wake::{PollGrouping, PollMode, WakeMode};

use super::wake::poll_grouping;
use super::{UsageError, millis};

/// Webhook settings from flags, environment variables or the configuration file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HookArgs {
    /// Private address range that endpoints may be in, like 10.0.0.0/8; can be repeated
    #[arg(id = "hook_allow", long = "hook-allow", env = "WAKELINE_HOOK_ALLOW",
        value_name = "CIDR", value_delimiter = ',', value_parser = subnet)]
    #[serde(deserialize_with = "subnets_from_texts")]
    pub(super) allow: Option<Vec<Subnet>>,
    /// Refuse endpoints without TLS [default: false]
    #[arg(id = "hook_https_only", long = "hook-https-only", env = "WAKELINE_HOOK_HTTPS_ONLY",
        num_args = 0..=1, default_missing_value = "true", require_equals = true,
        value_name = "BOOL")]
    pub(super) https_only: Option<bool>,
    /// How the senders of webhooks are notified of deliveries: fused, compete, broadcast or poll
    /// [default: the value of wake_mode]
    #[arg(
        id = "hook_wake_mode",
        long = "hook-wake-mode",
        env = "WAKELINE_HOOK_WAKE_MODE",
        value_name = "MODE"
    )]
    pub(super) wake_mode: Option<WakeMode>,
    /// Time between two claims of deliveries in poll mode [default: the value of poll_interval_ms]
    #[arg(
        id = "hook_poll_interval_ms",
        long = "hook-poll-interval-ms",
        env = "WAKELINE_HOOK_POLL_INTERVAL_MS",
        value_name = "MS"
    )]
    pub(super) poll_interval_ms: Option<u64>,
    /// Maximum number of deliveries per claim in poll mode [default: the value of poll_batch]
    #[arg(
        id = "hook_poll_batch",
        long = "hook-poll-batch",
        env = "WAKELINE_HOOK_POLL_BATCH",
        value_name = "COUNT"
    )]
    pub(super) poll_batch: Option<u32>,
    /// Whether poll mode adapts its interval to the load [default: the value of poll_adaptive]
    #[arg(
        id = "hook_poll_adaptive",
        long = "hook-poll-adaptive",
        env = "WAKELINE_HOOK_POLL_ADAPTIVE",
        value_name = "BOOL"
    )]
    pub(super) poll_adaptive: Option<bool>,
    /// Who claims in poll mode: line (one claim for all senders) or waiter (each sender claims for
    /// itself) [default: the value of poll_grouping]
    #[arg(
        id = "hook_poll_grouping",
        long = "hook-poll-grouping",
        env = "WAKELINE_HOOK_POLL_GROUPING",
        value_name = "WHO",
        value_parser = poll_grouping
    )]
    pub(super) poll_grouping: Option<PollGrouping>,
    /// Number of senders in poll mode, each of which claims deliveries and sends them [default: 10]
    #[arg(
        id = "hook_poll_workers",
        long = "hook-poll-workers",
        env = "WAKELINE_HOOK_POLL_WORKERS",
        value_name = "COUNT"
    )]
    pub(super) poll_workers: Option<u32>,
    /// Maximum number of webhook requests in flight on this node; 0: this node sends no webhooks
    /// [default: 1000]
    #[arg(
        id = "hook_slots",
        long = "hook-slots",
        env = "WAKELINE_HOOK_SLOTS",
        value_name = "COUNT"
    )]
    pub(super) slots: Option<u32>,
    /// Maximum size of a message's payload [default: 1048576]
    #[arg(
        id = "hook_payload_bytes_max",
        long = "hook-payload-bytes-max",
        env = "WAKELINE_HOOK_PAYLOAD_BYTES_MAX",
        value_name = "BYTES"
    )]
    pub(super) payload_bytes_max: Option<usize>,
}

/// Complete settings of webhooks.
#[derive(Debug, Clone)]
pub(crate) struct HookSettings {
    pub(crate) guard: Guard,
    pub(crate) mode: WakeMode,
    pub(crate) poll_workers: u32,
    pub(crate) slots: u32,
    pub(crate) payload_bytes_max: usize,
}

impl HookArgs {
    /// Combines these settings with those of the file and the defaults. The default mode is
    /// `server`, the mode of the server. The defaults of poll mode are `poll`, the server's
    /// settings of poll mode, which exist even if it uses another mode.
    pub(super) fn resolve(&self, file: &Self, server: WakeMode, poll: PollMode) -> HookSettings {
        let mode = match self.wake_mode.or(file.wake_mode).unwrap_or(server) {
            WakeMode::Poll(_) => WakeMode::Poll(PollMode {
                interval: millis(self.poll_interval_ms.or(file.poll_interval_ms), poll.interval),
                batch: self.poll_batch.or(file.poll_batch).unwrap_or(poll.batch),
                adaptive: self.poll_adaptive.or(file.poll_adaptive).unwrap_or(poll.adaptive),
                grouping: self.poll_grouping.or(file.poll_grouping).unwrap_or(poll.grouping),
            }),
            other => other,
        };
        HookSettings {
            guard: Guard {
                allow: self.allow.clone().or_else(|| file.allow.clone()).unwrap_or_default(),
                https_only: self.https_only.or(file.https_only).unwrap_or_default(),
            },
            mode,
            poll_workers: self.poll_workers.or(file.poll_workers).unwrap_or(10),
            slots: self.slots.or(file.slots).unwrap_or(1000),
            payload_bytes_max: self
                .payload_bytes_max
                .or(file.payload_bytes_max)
                .unwrap_or(wakeline_core::MESSAGE_PAYLOAD_BYTES_MAX),
        }
    }
}

impl HookSettings {
    /// Maximum number of connections to endpoints, in use and idle.
    pub(crate) fn connections_max(&self) -> u32 {
        self.slots.saturating_mul(2)
    }

    pub(super) fn check(&self) -> Result<(), UsageError> {
        self.mode.validate().map_err(|error| UsageError(format!("[hook] {error}")))?;
        if self.poll_workers == 0 {
            return Err(UsageError("[hook] poll_workers must be at least 1, not 0".to_owned()));
        }
        Ok(())
    }
}

fn subnet(text: &str) -> Result<Subnet, String> {
    text.trim().parse().map_err(|error: wakeline_hook::SubnetError| error.to_string())
}

fn subnets_from_texts<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Subnet>>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let read = |text: &String| {
        subnet(text).map_err(|why| serde::de::Error::custom(format!("allow: {why}")))
    };
    texts.iter().map(read).collect::<Result<_, _>>().map(Some)
}
