//! Queue options on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::{Backoff, Fencing, MessageOrder, PartitionName, QueueOptions};

use crate::error::ApiError;

/// Options that a client may set.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OptionsBody {
    /// Seconds that a delivery stays with its consumer (300).
    lease_time: Option<u32>,
    /// Failures after which one more makes a dead letter (3).
    retry_limit: Option<u32>,
    /// Milliseconds before the first retry (1,000).
    retry_delay: Option<u64>,
    /// Longest wait that backoff grows to, in milliseconds (300,000).
    retry_delay_max: Option<u64>,
    /// `exponential` (default) or `fixed`.
    #[schema(value_type = Option<String>)]
    retry_backoff: Option<Backoff>,
    /// Keep messages beyond the limit as dead letters (true).
    dead_letter_queue: Option<bool>,
    /// The same as `deadLetterQueue`.
    dlq_after_max_retries: Option<bool>,
    /// Orders queues in a pop over several; higher first (0).
    priority: Option<i32>,
    /// Seconds from push to readability (0).
    delayed_processing: Option<u32>,
    /// Seconds of quiet after which a partition becomes readable (0).
    window_buffer: Option<u32>,
    /// `strict` (default) or `relaxed`.
    #[schema(value_type = Option<String>)]
    ordering: Option<MessageOrder>,
    /// `strict` (default) or `lenient`.
    #[schema(value_type = Option<String>)]
    fencing: Option<Fencing>,
    /// Seconds for which a repeated transaction id is recognised (3,600).
    dedup_window_seconds: Option<u32>,
    /// Each wait for a retry is shortened by up to so many percent, by message and try (20).
    retry_jitter_percent: Option<u32>,
    /// Most messages that the group which is furthest behind has yet to settle (0: no limit).
    max_size: Option<u64>,
    /// The same for each partition (0: no limit).
    max_partition_size: Option<u64>,
    /// Seconds after which a message is not delivered any more (0: never).
    ttl: Option<u32>,
    /// Seconds after which messages go, read or not (0: never).
    retention_seconds: Option<u32>,
    /// Seconds after which messages go that every group has settled (0: never).
    completed_retention_seconds: Option<u32>,
    /// Whether the spans of retention apply (true if one is given).
    retention_enabled: Option<bool>,
    /// Store payloads encrypted (false).
    encryption_enabled: Option<bool>,
    /// Seconds after which a message that waits for a group is evicted for it (0: never).
    max_wait_time_seconds: Option<u32>,
    /// Lanes over which pushes without a partition, or to `Default`, are spread (0: none).
    lanes: Option<u32>,
    /// Messages need no order: pushes without a partition are spread over 16 lanes, or over as many
    /// as `lanes` says, so that as many consumers work at once (false).
    unordered: Option<bool>,
    /// Seconds for which it is remembered how deliveries ended (86,400; 0: not at all).
    ledger_retention_seconds: Option<u32>,
    /// Seconds without a poll after which a group is idle: it no longer counts in the queue's
    /// capacity, nor holds completed messages back (2,419,200: four weeks; at least 600; 0: never).
    /// A group that has never settled anything is idle after a quarter of it.
    group_idle_seconds: Option<u32>,
    /// Orders partitions in a pop over several; higher first, 0 for those not named.
    #[schema(value_type = Option<BTreeMap<String, i32>>)]
    partition_priorities: Option<BTreeMap<PartitionName, i32>>,
}

/// Longest lease: one week.
const LEASE_SECS_MAX: u32 = 7 * 24 * 3600;

/// Longest span of the other options: one year.
const SPAN_SECS_MAX: u32 = 366 * 24 * 3600;

/// Longest time that messages are kept on purpose: a hundred years.
const AGE_SECS_MAX: u32 = 100 * SPAN_SECS_MAX;

/// Largest limit of messages that tells anything.
const LEN_MAX: u64 = 1 << 53;

/// Most lanes: each is a partition.
const LANES_MAX: u32 = 1024;

/// Lanes of a queue that is `unordered`, if it does not name their number.
const LANES_UNORDERED: u32 = 16;

/// Most partitions with a priority of their own.
const PRIORITIES_LEN_MAX: u64 = 1000;

impl OptionsBody {
    pub(crate) fn check(self) -> Result<QueueOptions, ApiError> {
        let default = QueueOptions::default();
        let retention = self.retention_seconds.max(self.completed_retention_seconds).unwrap_or(0);
        let options = QueueOptions {
            lease_secs: self.lease_time.unwrap_or(default.lease_secs),
            retry_limit: self.retry_limit.unwrap_or(default.retry_limit),
            retry_delay_ms: self.retry_delay.unwrap_or(default.retry_delay_ms),
            retry_delay_ms_max: self.retry_delay_max.unwrap_or(default.retry_delay_ms_max),
            retry_backoff: self.retry_backoff.unwrap_or_default(),
            dead_letters: self
                .dead_letter_queue
                .or(self.dlq_after_max_retries)
                .unwrap_or(default.dead_letters),
            priority: self.priority.unwrap_or_default(),
            delay_secs: self.delayed_processing.unwrap_or_default(),
            window_secs: self.window_buffer.unwrap_or_default(),
            ordering: self.ordering.unwrap_or_default(),
            fencing: self.fencing.unwrap_or_default(),
            dedup_window_secs: self.dedup_window_seconds.unwrap_or(default.dedup_window_secs),
            retry_jitter_percent: self.retry_jitter_percent.unwrap_or(default.retry_jitter_percent),
            ttl_secs: self.ttl.unwrap_or_default(),
            len_max: self.max_size.unwrap_or_default(),
            partition_len_max: self.max_partition_size.unwrap_or_default(),
            retention: self.retention_enabled.unwrap_or(retention > 0),
            retention_secs: self.retention_seconds.unwrap_or_default(),
            completed_retention_secs: self.completed_retention_seconds.unwrap_or_default(),
            wait_secs_max: self.max_wait_time_seconds.unwrap_or_default(),
            encrypted: self.encryption_enabled.unwrap_or_default(),
            lanes: lanes(self.lanes, self.unordered)?,
            ledger_secs: self.ledger_retention_seconds.unwrap_or(default.ledger_secs),
            group_idle_secs: self.group_idle_seconds.unwrap_or(default.group_idle_secs),
            partition_priorities: self.partition_priorities.unwrap_or_default(),
        };
        let span_ms_max = u64::from(SPAN_SECS_MAX) * 1000;
        within("leaseTime", options.lease_secs.into(), 1, LEASE_SECS_MAX.into())?;
        within("retryLimit", options.retry_limit.into(), 0, 1_000_000)?;
        within("retryDelay", options.retry_delay_ms, 0, span_ms_max)?;
        within("retryDelayMax", options.retry_delay_ms_max, 0, span_ms_max)?;
        within("delayedProcessing", options.delay_secs.into(), 0, SPAN_SECS_MAX.into())?;
        within("windowBuffer", options.window_secs.into(), 0, SPAN_SECS_MAX.into())?;
        within("dedupWindowSeconds", options.dedup_window_secs.into(), 0, SPAN_SECS_MAX.into())?;
        within("retryJitterPercent", options.retry_jitter_percent.into(), 0, 100)?;
        within("maxSize", options.len_max, 0, LEN_MAX)?;
        within("maxPartitionSize", options.partition_len_max, 0, LEN_MAX)?;
        within("ttl", options.ttl_secs.into(), 0, SPAN_SECS_MAX.into())?;
        within("retentionSeconds", options.retention_secs.into(), 0, AGE_SECS_MAX.into())?;
        let completed = options.completed_retention_secs.into();
        within("completedRetentionSeconds", completed, 0, AGE_SECS_MAX.into())?;
        within("maxWaitTimeSeconds", options.wait_secs_max.into(), 0, SPAN_SECS_MAX.into())?;
        within("ledgerRetentionSeconds", options.ledger_secs.into(), 0, SPAN_SECS_MAX.into())?;
        idle_span(options.group_idle_secs)?;
        within("lanes", options.lanes.into(), 0, LANES_MAX.into())?;
        let priorities = options.partition_priorities.len() as u64;
        within("partitionPriorities (their number)", priorities, 0, PRIORITIES_LEN_MAX)?;
        Ok(options)
    }
}

/// Shortest time after which a group is idle: polls of those who wait are recorded by the sweep
/// only, which comes once a minute.
const GROUP_IDLE_SECS_MIN: u32 = 600;

fn idle_span(secs: u32) -> Result<(), ApiError> {
    if secs == 0 || (GROUP_IDLE_SECS_MIN..=SPAN_SECS_MAX).contains(&secs) {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "options.groupIdleSeconds must be 0 or from {GROUP_IDLE_SECS_MIN} to {SPAN_SECS_MAX}, not \
         {secs}"
    )))
}

/// The number of lanes that `lanes` and `unordered` together ask for.
fn lanes(lanes: Option<u32>, unordered: Option<bool>) -> Result<u32, ApiError> {
    let contradiction = |text: &str| Err(ApiError::invalid(text.to_owned()));
    match (unordered, lanes) {
        (Some(true), Some(0)) => contradiction(
            "options.unordered needs lanes: leave out options.lanes, or give it a number from 1",
        ),
        (Some(false), Some(1..)) => contradiction(
            "options.lanes spreads messages without order: leave it out, or leave out \
             options.unordered",
        ),
        (Some(true), None) => Ok(LANES_UNORDERED),
        (_, lanes) => Ok(lanes.unwrap_or_default()),
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), ApiError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("options.{name} must be from {least} to {most}, not {value}")))
}

/// Options in force.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OptionsAnswer {
    lease_time: u32,
    retry_limit: u32,
    retry_delay: u64,
    retry_delay_max: u64,
    #[schema(value_type = String)]
    retry_backoff: Backoff,
    dead_letter_queue: bool,
    dlq_after_max_retries: bool,
    priority: i32,
    delayed_processing: u32,
    window_buffer: u32,
    #[schema(value_type = String)]
    ordering: MessageOrder,
    #[schema(value_type = String)]
    fencing: Fencing,
    dedup_window_seconds: u32,
    retry_jitter_percent: u32,
    max_size: u64,
    max_partition_size: u64,
    ttl: u32,
    retention_seconds: u32,
    completed_retention_seconds: u32,
    retention_enabled: bool,
    encryption_enabled: bool,
    max_wait_time_seconds: u32,
    lanes: u32,
    unordered: bool,
    ledger_retention_seconds: u32,
    group_idle_seconds: u32,
    #[schema(value_type = BTreeMap<String, i32>)]
    partition_priorities: BTreeMap<PartitionName, i32>,
}

impl From<QueueOptions> for OptionsAnswer {
    fn from(options: QueueOptions) -> Self {
        Self {
            lease_time: options.lease_secs,
            retry_limit: options.retry_limit,
            retry_delay: options.retry_delay_ms,
            retry_delay_max: options.retry_delay_ms_max,
            retry_backoff: options.retry_backoff,
            dead_letter_queue: options.dead_letters,
            dlq_after_max_retries: options.dead_letters,
            priority: options.priority,
            delayed_processing: options.delay_secs,
            window_buffer: options.window_secs,
            ordering: options.ordering,
            fencing: options.fencing,
            dedup_window_seconds: options.dedup_window_secs,
            retry_jitter_percent: options.retry_jitter_percent,
            max_size: options.len_max,
            max_partition_size: options.partition_len_max,
            ttl: options.ttl_secs,
            retention_seconds: options.retention_secs,
            completed_retention_seconds: options.completed_retention_secs,
            retention_enabled: options.retention,
            encryption_enabled: options.encrypted,
            max_wait_time_seconds: options.wait_secs_max,
            lanes: options.lanes,
            unordered: options.lanes > 0,
            ledger_retention_seconds: options.ledger_secs,
            group_idle_seconds: options.group_idle_secs,
            partition_priorities: options.partition_priorities,
        }
    }
}
