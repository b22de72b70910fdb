//! Wire types of queue options.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use wakeline_core::{
    Fencing, MessageOrder, OptionsPatch, PartitionName, QueueOptions, RetryBackoff, nearest,
};

use crate::error::ApiError;

/// Options that a client may set.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OptionsBody {
    /// Length of a lease in seconds (default 300).
    lease_time: Option<u32>,
    /// Maximum number of retries of a message. If the last one fails as well, the message becomes a
    /// dead letter (default 3).
    retry_limit: Option<u32>,
    /// Delay of the first retry in milliseconds (default 1000).
    retry_delay: Option<u64>,
    /// Maximum delay of a retry in milliseconds (default 300000).
    retry_delay_max: Option<u64>,
    /// How the delay of retries grows: `exponential` (default) or `fixed`.
    #[schema(value_type = Option<String>)]
    retry_backoff: Option<RetryBackoff>,
    /// Keep messages that exceed the retry limit as dead letters (default true).
    dead_letter_queue: Option<bool>,
    /// The same as `deadLetterQueue`.
    dlq_after_max_retries: Option<bool>,
    /// Priority of the queue in pops over several queues; higher is first (default 0).
    priority: Option<i32>,
    /// Seconds after a push before the message can be delivered (default 0).
    delayed_processing: Option<u32>,
    /// Seconds without a push after which the messages of a partition can be delivered (default 0).
    window_buffer: Option<u32>,
    /// Order of delivery within a partition: `strict` (default) or `relaxed`.
    #[schema(value_type = Option<String>)]
    ordering: Option<MessageOrder>,
    /// Whether settling requires the current lease: `strict` (default) or `lenient`.
    #[schema(value_type = Option<String>)]
    fencing: Option<Fencing>,
    /// Seconds for which a repeated transaction id is recognised as a duplicate (default 3600).
    dedup_window_seconds: Option<u32>,
    /// Maximum percentage by which the delay of a retry is shortened. The actual percentage differs
    /// between messages and between attempts (default 20).
    retry_jitter_percent: Option<u32>,
    /// Maximum number of unsettled messages in the queue, counted for the group that has the most
    /// of them (default 0: no limit).
    max_size: Option<u64>,
    /// The same for each partition (default 0: no limit).
    max_partition_size: Option<u64>,
    /// Seconds after which a message is no longer delivered (default 0: never).
    ttl: Option<u32>,
    /// Seconds after which a message is removed, whether or not it was read (default 0: never).
    retention_seconds: Option<u32>,
    /// Seconds after which a message that every group has settled is removed (default 0: never).
    completed_retention_seconds: Option<u32>,
    /// Whether the retention times apply (default true if one of them is given).
    retention_enabled: Option<bool>,
    /// Store payloads encrypted (default false).
    encryption_enabled: Option<bool>,
    /// Seconds for which a message can be available to a group before it is evicted for that group
    /// (default 0: never).
    max_wait_time_seconds: Option<u32>,
    /// Number of lanes over which pushes without a partition, or to `Default`, are distributed
    /// (default 0: none).
    lanes: Option<u32>,
    /// Messages need no order (default false). Pushes without a partition are distributed over
    /// `lanes` lanes, or over 16 if `lanes` is not given, so that one consumer per lane can work at
    /// the same time.
    unordered: Option<bool>,
    /// Seconds for which the results of deliveries are recorded (default 86400; 0: not recorded).
    ledger_retention_seconds: Option<u32>,
    /// Seconds without a poll after which a group is idle (default 2419200, four weeks; at least
    /// 600; 0: never). The limits `maxSize` and `maxPartitionSize` ignore an idle group, and it
    /// does not keep completed messages from being removed. A group that has never settled a
    /// message is idle after a quarter of this time.
    group_idle_seconds: Option<u32>,
    /// Priorities of partitions in pops over several partitions; higher is first (default 0).
    #[schema(value_type = Option<BTreeMap<String, i32>>)]
    partition_priorities: Option<BTreeMap<PartitionName, i32>>,
}

/// The maximum length of a lease: one week.
const LEASE_SECS_MAX: u32 = 7 * 24 * 3600;

/// The maximum of the other durations: one year.
const SPAN_SECS_MAX: u32 = 366 * 24 * 3600;

/// The maximum retention: a hundred years.
const AGE_SECS_MAX: u32 = 100 * SPAN_SECS_MAX;

/// The maximum value of a limit of messages; larger values have no practical meaning.
const LEN_MAX: u64 = 1 << 53;

/// The maximum number of lanes. Each lane is a partition.
const LANES_MAX: u32 = 1024;

/// The number of lanes of an `unordered` queue for which `lanes` is not given.
const LANES_UNORDERED: u32 = 16;

/// The maximum number of partitions with their own priority.
const PRIORITIES_LEN_MAX: u64 = 1000;

impl OptionsBody {
    /// Returns all options; those that are not given have their defaults.
    pub(crate) fn check(self) -> Result<QueueOptions, ApiError> {
        Ok(self.patch()?.apply(QueueOptions::default()))
    }

    /// Returns the given options.
    pub(crate) fn patch(self) -> Result<OptionsPatch, ApiError> {
        self.check_spans()?;
        let retention = self.retention_seconds.max(self.completed_retention_seconds).unwrap_or(0);
        Ok(OptionsPatch {
            lease_secs: self.lease_time,
            retry_limit: self.retry_limit,
            retry_delay_ms: self.retry_delay,
            retry_delay_ms_max: self.retry_delay_max,
            retry_backoff: self.retry_backoff,
            dead_letters: self.dead_letter_queue.or(self.dlq_after_max_retries),
            priority: self.priority,
            delay_secs: self.delayed_processing,
            window_secs: self.window_buffer,
            ordering: self.ordering,
            fencing: self.fencing,
            dedup_window_secs: self.dedup_window_seconds,
            retry_jitter_percent: self.retry_jitter_percent,
            ttl_secs: self.ttl,
            len_max: self.max_size,
            partition_len_max: self.max_partition_size,
            retention: self.retention_enabled.or((retention > 0).then_some(true)),
            retention_secs: self.retention_seconds,
            completed_retention_secs: self.completed_retention_seconds,
            wait_secs_max: self.max_wait_time_seconds,
            encrypted: self.encryption_enabled,
            lanes: lanes(self.lanes, self.unordered)?,
            ledger_secs: self.ledger_retention_seconds,
            group_idle_secs: self.group_idle_seconds,
            partition_priorities: self.partition_priorities,
        })
    }

    fn check_spans(&self) -> Result<(), ApiError> {
        let span_ms_max = u64::from(SPAN_SECS_MAX) * 1000;
        within("leaseTime", self.lease_time, 1, LEASE_SECS_MAX)?;
        within("retryLimit", self.retry_limit, 0, 1_000_000u32)?;
        within("retryDelay", self.retry_delay, 0, span_ms_max)?;
        within("retryDelayMax", self.retry_delay_max, 0, span_ms_max)?;
        within("delayedProcessing", self.delayed_processing, 0, SPAN_SECS_MAX)?;
        within("windowBuffer", self.window_buffer, 0, SPAN_SECS_MAX)?;
        within("dedupWindowSeconds", self.dedup_window_seconds, 0, SPAN_SECS_MAX)?;
        within("retryJitterPercent", self.retry_jitter_percent, 0, 100u32)?;
        within("maxSize", self.max_size, 0, LEN_MAX)?;
        within("maxPartitionSize", self.max_partition_size, 0, LEN_MAX)?;
        within("ttl", self.ttl, 0, SPAN_SECS_MAX)?;
        within("retentionSeconds", self.retention_seconds, 0, AGE_SECS_MAX)?;
        within("completedRetentionSeconds", self.completed_retention_seconds, 0, AGE_SECS_MAX)?;
        within("maxWaitTimeSeconds", self.max_wait_time_seconds, 0, SPAN_SECS_MAX)?;
        within("ledgerRetentionSeconds", self.ledger_retention_seconds, 0, SPAN_SECS_MAX)?;
        within("lanes", self.lanes, 0, LANES_MAX)?;
        idle_span(self.group_idle_seconds.unwrap_or(0))?;
        let priorities = self.partition_priorities.as_ref().map(|named| named.len() as u64);
        within("partitionPriorities: the number of entries", priorities, 0, PRIORITIES_LEN_MAX)
    }
}

/// The minimum time after which a group is idle. The polls of waiting consumers are recorded only
/// by the sweep, which runs once a minute.
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

/// The number of lanes that `lanes` and `unordered` together specify.
fn lanes(lanes: Option<u32>, unordered: Option<bool>) -> Result<Option<u32>, ApiError> {
    let contradiction = |text: &str| Err(ApiError::invalid(text.to_owned()));
    match (unordered, lanes) {
        (Some(true), Some(0)) => contradiction(
            "options.unordered needs lanes: omit options.lanes, or set it to 1 or more",
        ),
        (Some(false), Some(1..)) => contradiction(
            "options.lanes distributes messages, so that their order is lost, which contradicts \
             options.unordered = false: omit one of the two",
        ),
        (Some(true), None) => Ok(Some(LANES_UNORDERED)),
        (Some(false), None) => Ok(Some(0)),
        (_, lanes) => Ok(lanes),
    }
}

fn within<N: Into<u64>>(
    name: &str,
    value: Option<N>,
    least: u64,
    most: impl Into<u64>,
) -> Result<(), ApiError> {
    let (Some(value), most) = (value.map(Into::into), most.into()) else { return Ok(()) };
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("options.{name} must be from {least} to {most}, not {value}")))
}

/// Parses options with their names in the HTTP API, for other ways to set them, such as the command
/// line. The error says what is wrong.
pub fn parse_options(options: Map<String, Value>) -> Result<OptionsPatch, String> {
    let document: Value = serde_json::from_str(crate::openapi()).expect("the document is JSON");
    let known = &document["components"]["schemas"]["OptionsBody"]["properties"];
    let known = known.as_object().into_iter().flat_map(Map::keys);
    let known: Vec<&str> = known.map(String::as_str).collect();
    if let Some(name) = options.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(match nearest(name, known.iter().copied()) {
            Some(near) => format!("unknown option {name}: did you mean {near}?"),
            None => format!("unknown option {name}; the options are {}", known.join(", ")),
        });
    }
    let read = serde_path_to_error::deserialize::<_, OptionsBody>(Value::Object(options));
    let body = read.map_err(|error| format!("option {}: {}", error.path(), error.inner()))?;
    body.patch().map_err(|error| error.message().replace("options.", "option "))
}

/// Renders options as the HTTP API returns them.
pub fn render_options(options: QueueOptions) -> Value {
    serde_json::to_value(OptionsAnswer::from(options)).unwrap_or_default()
}

/// The effective options of a queue. The schema `OptionsBody` describes them.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OptionsAnswer {
    lease_time: u32,
    retry_limit: u32,
    retry_delay: u64,
    retry_delay_max: u64,
    #[schema(value_type = String)]
    retry_backoff: RetryBackoff,
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
