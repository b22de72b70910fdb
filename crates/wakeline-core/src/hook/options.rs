//! How an endpoint is delivered to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Waits between the attempts of a delivery, unless its endpoint says otherwise: three days.
pub const RETRY_SCHEDULE_DEFAULT: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(5 * HOUR),
    Duration::from_secs(10 * HOUR),
    Duration::from_secs(14 * HOUR),
    Duration::from_secs(20 * HOUR),
    Duration::from_secs(24 * HOUR),
];

/// How long a payload is kept, unless its message says otherwise.
pub const MESSAGE_RETENTION_DEFAULT: Duration = Duration::from_secs(90 * 24 * HOUR);

/// Most bytes of a message's payload, unless a node is told otherwise.
pub const MESSAGE_PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// How an endpoint is delivered to. A store reads the fields that decide what can be claimed, and
/// keeps all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointOptions {
    /// Whether the owner fetches deliveries instead of getting them sent.
    pub pull: bool,
    /// Strict order, one at a time; without, deliveries do not wait for each other.
    pub fifo: Option<FifoOptions>,
    /// Most attempts a second.
    pub rate_per_second: Option<u32>,
    /// Most attempts under way at once, over all nodes.
    pub in_flight_max: u32,
    /// When to pause an endpoint that fails; `None` never does.
    pub breaker: Option<BreakerOptions>,
    /// Nothing but failures for so long disables the endpoint; `None` never does.
    pub disable_after: Option<Duration>,
    /// Waits between attempts; `None` is [`RETRY_SCHEDULE_DEFAULT`], empty is one attempt only.
    pub schedule: Option<Vec<Duration>>,
    /// Answers after which a delivery has failed for good.
    pub give_up_on: Vec<StatusRange>,
    /// Most time for one attempt, from connecting to the end of the answer.
    pub timeout: Duration,
    /// Names of the signature's headers.
    pub header_style: HeaderStyle,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            pull: false,
            fifo: None,
            rate_per_second: None,
            in_flight_max: 100,
            breaker: Some(BreakerOptions::default()),
            disable_after: Some(Duration::from_secs(5 * 24 * HOUR)),
            schedule: None,
            give_up_on: Vec::new(),
            timeout: Duration::from_secs(15),
            header_style: HeaderStyle::Webhook,
        }
    }
}

impl EndpointOptions {
    /// The waits between attempts.
    pub fn schedule(&self) -> &[Duration] {
        self.schedule.as_deref().unwrap_or(&RETRY_SCHEDULE_DEFAULT)
    }

    /// How long the lease of an attempt lasts: beyond its deadline, so that its outcome can still
    /// be written.
    pub fn lease(&self) -> Duration {
        self.timeout + Duration::from_secs(10)
    }
}

/// Strict order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FifoOptions {
    /// Most messages in one request; with more than one the body is a list.
    pub batch: u32,
}

impl Default for FifoOptions {
    fn default() -> Self {
        Self { batch: 1 }
    }
}

/// When an endpoint that fails is left alone for a while. What waits for it keeps its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct BreakerOptions {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open.
    pub open_for: Duration,
    /// Attempts that are let through afterwards; if all succeed it closes, if one fails it opens
    /// again.
    pub probes: u32,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30), probes: 3 }
    }
}

/// Answers from one status to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange(pub u16, pub u16);

impl StatusRange {
    /// Whether a status is one of them.
    pub fn contains(self, status: u16) -> bool {
        (self.0..=self.1).contains(&status)
    }
}

/// Names of the headers that carry id, timestamp and signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderStyle {
    /// `webhook-id` and so on, as Standard Webhooks has it.
    #[default]
    Webhook,
    /// `svix-id` and so on.
    Svix,
    /// Both.
    Both,
}
