//! Queue options.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::{Backoff, Fencing, MessageOrder, PartitionId, QueueOptions};
use wakeline_store::QueueDetail;

use crate::error::ApiError;

/// A queue to make or change.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ConfigureBody {
    /// The queue.
    pub(crate) queue: Option<String>,
    /// Its namespace; stays as it is if omitted.
    pub(crate) namespace: Option<String>,
    /// Its task; stays as it is if omitted.
    pub(crate) task: Option<String>,
    /// Its options; omitted ones go back to their defaults.
    pub(crate) options: Option<OptionsBody>,
}

/// Options that a client may set.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OptionsBody {
    /// Seconds that a delivery stays with its consumer (300).
    lease_time: Option<u32>,
    /// Failures after which one more makes a dead letter (3).
    retry_limit: Option<u32>,
    /// Milliseconds before the first retry (0).
    retry_delay: Option<u64>,
    /// Longest wait that backoff grows to, in milliseconds (3,600,000).
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
    /// Not available yet: 0 or omitted.
    max_size: Option<u64>,
    /// Not available yet: 0 or omitted.
    ttl: Option<u64>,
    /// Not available yet: 0 or omitted.
    retention_seconds: Option<u64>,
    /// Not available yet: 0 or omitted.
    completed_retention_seconds: Option<u64>,
    /// Not available yet: false or omitted.
    retention_enabled: Option<bool>,
    /// Not available yet: false or omitted.
    encryption_enabled: Option<bool>,
    /// Not available yet: 0 or omitted.
    max_wait_time_seconds: Option<u64>,
}

/// Longest lease: one week.
const LEASE_SECS_MAX: u32 = 7 * 24 * 3600;

/// Longest span of the other options: one year.
const SPAN_SECS_MAX: u32 = 366 * 24 * 3600;

impl OptionsBody {
    pub(crate) fn check(self) -> Result<QueueOptions, ApiError> {
        self.refuse_unavailable()?;
        let default = QueueOptions::default();
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
        };
        let span_ms_max = u64::from(SPAN_SECS_MAX) * 1000;
        within("leaseTime", options.lease_secs.into(), 1, LEASE_SECS_MAX.into())?;
        within("retryLimit", options.retry_limit.into(), 0, 1_000_000)?;
        within("retryDelay", options.retry_delay_ms, 0, span_ms_max)?;
        within("retryDelayMax", options.retry_delay_ms_max, 0, span_ms_max)?;
        within("delayedProcessing", options.delay_secs.into(), 0, SPAN_SECS_MAX.into())?;
        within("windowBuffer", options.window_secs.into(), 0, SPAN_SECS_MAX.into())?;
        within("dedupWindowSeconds", options.dedup_window_secs.into(), 0, SPAN_SECS_MAX.into())?;
        Ok(options)
    }

    /// An option that would be stored and ignored is refused: its owner relies on it.
    fn refuse_unavailable(&self) -> Result<(), ApiError> {
        let set = |number: Option<u64>| number.unwrap_or_default() != 0;
        let asked = [
            ("maxSize", set(self.max_size)),
            ("ttl", set(self.ttl)),
            ("retentionSeconds", set(self.retention_seconds)),
            ("completedRetentionSeconds", set(self.completed_retention_seconds)),
            ("retentionEnabled", self.retention_enabled.unwrap_or_default()),
            ("encryptionEnabled", self.encryption_enabled.unwrap_or_default()),
            ("maxWaitTimeSeconds", set(self.max_wait_time_seconds)),
        ];
        match asked.iter().find(|(_, asked)| *asked) {
            Some((name, _)) => Err(ApiError::invalid(format!(
                "options.{name} is not available in this version: omit it, or set it to 0 or false"
            ))),
            None => Ok(()),
        }
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), ApiError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("options.{name} must be from {least} to {most}, not {value}")))
}

/// A queue with its options in force.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigureAnswer {
    configured: bool,
    queue_id: String,
    /// The id of the partition `Default`.
    partition_id: String,
    queue: String,
    namespace: Option<String>,
    task: Option<String>,
    options: OptionsAnswer,
}

/// Options in force.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OptionsAnswer {
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
    max_size: u64,
    ttl: u64,
    retention_seconds: u64,
    completed_retention_seconds: u64,
    retention_enabled: bool,
    encryption_enabled: bool,
    max_wait_time_seconds: u64,
}

impl From<QueueDetail> for ConfigureAnswer {
    fn from(detail: QueueDetail) -> Self {
        Self {
            configured: true,
            queue_id: PartitionId(detail.id).to_string(),
            partition_id: detail.default_partition.to_string(),
            queue: detail.queue.into(),
            namespace: detail.namespace.map(Into::into),
            task: detail.task.map(Into::into),
            options: detail.options.into(),
        }
    }
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
            max_size: 0,
            ttl: 0,
            retention_seconds: 0,
            completed_retention_seconds: 0,
            retention_enabled: false,
            encryption_enabled: false,
            max_wait_time_seconds: 0,
        }
    }
}
