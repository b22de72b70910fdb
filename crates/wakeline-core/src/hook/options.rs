//! The options of endpoints.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The default waits between the attempts of a delivery: three days in total.
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

/// The default time for which a payload is kept.
pub const MESSAGE_RETENTION_DEFAULT: Duration = Duration::from_secs(90 * 24 * HOUR);

/// The default maximum size of a message's payload in bytes.
pub const MESSAGE_PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// How messages are delivered to an endpoint. A store reads the fields that decide what can be
/// claimed, and keeps all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointOptions {
    /// Whether the owner pulls deliveries instead of receiving requests.
    pub pull: bool,
    /// Strict order, one delivery at a time; with `None`, deliveries do not wait for each other.
    pub fifo: Option<FifoOptions>,
    /// The maximum number of attempts per second.
    pub rate_per_second: Option<u32>,
    /// The maximum number of attempts in flight, over all nodes.
    pub in_flight_max: u32,
    /// When to pause an endpoint that fails; with `None` it is never paused.
    pub breaker: Option<BreakerOptions>,
    /// The time without any success after which the endpoint is disabled; with `None` it never is.
    pub disable_after: Option<Duration>,
    /// The waits between attempts. `None` means [`RETRY_SCHEDULE_DEFAULT`]; an empty list means
    /// that there is only one attempt.
    pub schedule: Option<Vec<Duration>>,
    /// The status codes after which a delivery has failed permanently.
    pub give_up_on: Vec<StatusRange>,
    /// The maximum time for one attempt, from connecting to the end of the response.
    pub timeout: Duration,
    /// The names of the signature's headers.
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
    /// Returns the waits between attempts.
    pub fn schedule(&self) -> &[Duration] {
        self.schedule.as_deref().unwrap_or(&RETRY_SCHEDULE_DEFAULT)
    }

    /// Returns how long the lease of an attempt lasts: longer than its deadline, so that its
    /// outcome can still be written.
    pub fn lease(&self) -> Duration {
        self.timeout + Duration::from_secs(10)
    }
}

/// The options of strict order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FifoOptions {
    /// The maximum number of messages in one request; with more than one the body is a list.
    pub batch: u32,
}

impl Default for FifoOptions {
    fn default() -> Self {
        Self { batch: 1 }
    }
}

/// When an endpoint that fails is paused. Waiting deliveries do not lose attempts meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct BreakerOptions {
    /// The number of failures in a row that open the breaker.
    pub failures: u32,
    /// How long the breaker stays open.
    pub open_for: Duration,
    /// The number of attempts that are let through afterwards. If all succeed the breaker closes;
    /// if one fails it opens again.
    pub probes: u32,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30), probes: 3 }
    }
}

/// A range of status codes, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange(pub u16, pub u16);

impl StatusRange {
    /// Returns whether a status code is in the range.
    pub fn contains(self, status: u16) -> bool {
        (self.0..=self.1).contains(&status)
    }
}

/// The names of the headers that carry id, timestamp and signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderStyle {
    /// `webhook-id` and so on, as in Standard Webhooks.
    #[default]
    Webhook,
    /// `svix-id` and so on.
    Svix,
    /// Both kinds of headers.
    Both,
}
