//! Wire types of the delivery options of an endpoint: the object `delivery`, which Wakeline adds to
//! the Svix API.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::{BreakerOptions, EndpointOptions, FifoOptions, HeaderStyle, StatusRange};

use super::given;
use crate::error::ApiError;

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// Bounds of the options.
const IN_FLIGHT_MAX: u32 = 10_000;
const RATE_MAX: u32 = 1_000_000;
const BATCH_MAX: u32 = 64;
const SCHEDULE_LEN_MAX: usize = 50;
const SCHEDULE_SECS: RangeInclusive<f64> = 0.0..=30.0 * DAY;
const TIMEOUT_SECS: RangeInclusive<f64> = 0.1..=120.0;
const OPEN_SECS: RangeInclusive<f64> = 0.1..=DAY;
const DISABLE_SECS: RangeInclusive<f64> = 1.0..=365.0 * DAY;
const RANGES_MAX: usize = 100;

/// Delivery options of an endpoint to set. Absent options keep their values.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeliveryIn {
    /// Whether the receiver fetches deliveries instead of getting requests.
    pull: Option<bool>,
    /// Deliver messages in strict order, one request at a time; null switches this off.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<FifoShape>)]
    fifo: Option<Option<FifoShape>>,
    /// Maximum number of attempts per second; the same as `throttleRate`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    rate_per_second: Option<Option<u32>>,
    /// Maximum number of concurrent attempts over all nodes (default 100).
    in_flight_max: Option<u32>,
    /// When to pause a failing endpoint; null means never.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<BreakerShape>)]
    breaker: Option<Option<BreakerShape>>,
    /// Seconds without a success after which a failing endpoint is disabled (default 432000); null
    /// means never.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>)]
    disable_after_seconds: Option<Option<f64>>,
    /// Seconds between attempts. Null selects the default schedule; with an empty list there is
    /// only one attempt.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<f64>>)]
    schedule_seconds: Option<Option<Vec<f64>>>,
    /// Response status codes after which a delivery has failed permanently, as pairs of first and
    /// last code.
    give_up_on: Option<Vec<(u16, u16)>>,
    /// Maximum duration of an attempt in seconds, from connecting to the end of the response
    /// (default 15).
    timeout_seconds: Option<f64>,
    /// The names of the signature headers: `webhook`, `svix` or `both`.
    #[schema(value_type = Option<String>)]
    header_style: Option<HeaderStyle>,
}

/// The delivery options of an endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryOut {
    /// Whether the receiver fetches deliveries instead of getting requests.
    pull: bool,
    /// The options of delivery in strict order; null if the order is not strict.
    fifo: Option<FifoShape>,
    /// Maximum number of attempts per second.
    rate_per_second: Option<u32>,
    /// Maximum number of concurrent attempts over all nodes.
    in_flight_max: u32,
    /// When a failing endpoint is paused; null if never.
    breaker: Option<BreakerShape>,
    /// Seconds without a success after which a failing endpoint is disabled; null if never.
    disable_after_seconds: Option<f64>,
    /// Seconds between attempts.
    schedule_seconds: Vec<f64>,
    /// Response status codes after which a delivery has failed permanently, as pairs of first and
    /// last code.
    give_up_on: Vec<(u16, u16)>,
    /// Maximum duration of an attempt in seconds.
    timeout_seconds: f64,
    /// The names of the signature headers: `webhook`, `svix` or `both`.
    #[schema(value_type = String)]
    header_style: HeaderStyle,
}

/// Delivery in strict order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FifoShape {
    /// Maximum number of messages per request (default 1). If it is greater than 1, the body is a
    /// list.
    #[serde(default = "one")]
    batch: u32,
}

/// When a failing endpoint is paused.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BreakerShape {
    /// Number of consecutive failures after which the endpoint is paused (default 5).
    failures: u32,
    /// Length of the pause in seconds (default 30).
    open_for_seconds: f64,
    /// Number of attempts after the pause that test whether the endpoint works again (default 3).
    probes: u32,
}

fn one() -> u32 {
    1
}

impl Default for BreakerShape {
    fn default() -> Self {
        BreakerOptions::default().into()
    }
}

impl From<BreakerOptions> for BreakerShape {
    fn from(options: BreakerOptions) -> Self {
        Self {
            failures: options.failures,
            open_for_seconds: options.open_for.as_secs_f64(),
            probes: options.probes,
        }
    }
}

impl DeliveryIn {
    /// Returns the options with the change applied.
    pub(crate) fn apply_to(&self, mut now: EndpointOptions) -> Result<EndpointOptions, ApiError> {
        now.pull = self.pull.unwrap_or(now.pull);
        now.header_style = self.header_style.unwrap_or(now.header_style);
        if let Some(rate) = self.rate_per_second {
            now.rate_per_second = rate.map(|n| count("ratePerSecond", n, RATE_MAX)).transpose()?;
        }
        if let Some(most) = self.in_flight_max {
            now.in_flight_max = count("inFlightMax", most, IN_FLIGHT_MAX)?;
        }
        if let Some(fifo) = self.fifo {
            let batch = |fifo: FifoShape| count("fifo.batch", fifo.batch, BATCH_MAX);
            now.fifo = fifo.map(batch).transpose()?.map(|batch| FifoOptions { batch });
        }
        if let Some(breaker) = self.breaker {
            now.breaker = breaker.map(breaker_options).transpose()?;
        }
        if let Some(after) = self.disable_after_seconds {
            let read = |secs| span("disableAfterSeconds", secs, DISABLE_SECS);
            now.disable_after = after.map(read).transpose()?;
        }
        if let Some(schedule) = &self.schedule_seconds {
            now.schedule = schedule.as_deref().map(waits).transpose()?;
        }
        if let Some(secs) = self.timeout_seconds {
            now.timeout = span("timeoutSeconds", secs, TIMEOUT_SECS)?;
        }
        if let Some(ranges) = &self.give_up_on {
            now.give_up_on = statuses(ranges)?;
        }
        Ok(now)
    }
}

fn wrong(field: &str, reason: &str) -> ApiError {
    let path = format!("delivery.{field}");
    ApiError::invalid_field(&path, format!("{path} {reason}"))
}

fn count(field: &str, given: u32, most: u32) -> Result<u32, ApiError> {
    match given {
        0 => Err(wrong(field, "must be at least 1, not 0")),
        n if n > most => Err(wrong(field, &format!("must be at most {most}, not {n}"))),
        n => Ok(n),
    }
}

fn span(field: &str, secs: f64, bounds: RangeInclusive<f64>) -> Result<Duration, ApiError> {
    if !bounds.contains(&secs) {
        let (least, most) = (bounds.start(), bounds.end());
        return Err(wrong(field, &format!("must be seconds from {least} to {most}, not {secs}")));
    }
    Ok(Duration::from_secs_f64(secs))
}

fn breaker_options(shape: BreakerShape) -> Result<BreakerOptions, ApiError> {
    Ok(BreakerOptions {
        failures: count("breaker.failures", shape.failures, 1_000_000)?,
        open_for: span("breaker.openForSeconds", shape.open_for_seconds, OPEN_SECS)?,
        probes: count("breaker.probes", shape.probes, 1_000)?,
    })
}

fn waits(secs: &[f64]) -> Result<Vec<Duration>, ApiError> {
    let field = "scheduleSeconds";
    if secs.len() > SCHEDULE_LEN_MAX {
        return Err(wrong(field, &format!("must have at most {SCHEDULE_LEN_MAX} entries")));
    }
    secs.iter().map(|secs| span(field, *secs, SCHEDULE_SECS)).collect()
}

fn statuses(ranges: &[(u16, u16)]) -> Result<Vec<StatusRange>, ApiError> {
    let field = "giveUpOn";
    if ranges.len() > RANGES_MAX {
        return Err(wrong(field, &format!("must have at most {RANGES_MAX} pairs")));
    }
    let read = |&(first, last): &(u16, u16)| {
        let valid = 300 <= first && first <= last && last <= 599;
        valid.then_some(StatusRange(first, last)).ok_or_else(|| {
            wrong(
                field,
                "must be pairs of first and last status within 300-599, like [[400, \
                          403], [422, 422]]",
            )
        })
    };
    ranges.iter().map(read).collect()
}

impl From<&EndpointOptions> for DeliveryOut {
    fn from(options: &EndpointOptions) -> Self {
        Self {
            pull: options.pull,
            fifo: options.fifo.map(|fifo| FifoShape { batch: fifo.batch }),
            rate_per_second: options.rate_per_second,
            in_flight_max: options.in_flight_max,
            breaker: options.breaker.map(Into::into),
            disable_after_seconds: options.disable_after.map(|span| span.as_secs_f64()),
            schedule_seconds: options.schedule().iter().map(Duration::as_secs_f64).collect(),
            give_up_on: options.give_up_on.iter().map(|range| (range.0, range.1)).collect(),
            timeout_seconds: options.timeout.as_secs_f64(),
            header_style: options.header_style,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(json: &str) -> Result<EndpointOptions, ApiError> {
        let given: DeliveryIn = serde_json::from_str(json).expect("a body");
        given.apply_to(EndpointOptions::default())
    }

    #[test]
    fn absent_options_keep_their_values_and_null_switches_off() {
        assert_eq!(applied("{}").expect("valid"), EndpointOptions::default());
        let off = r#"{"breaker":null,"disableAfterSeconds":null,"scheduleSeconds":[]}"#;
        let off = applied(off).expect("valid");
        assert_eq!((off.breaker, off.disable_after), (None, None));
        assert!(off.schedule().is_empty());
    }

    #[test]
    fn response_is_accepted_as_a_request() {
        let json = r#"{"pull":true,"fifo":{"batch":7},"ratePerSecond":9,"inFlightMax":3,
            "breaker":{"failures":2,"openForSeconds":1.5,"probes":1},"disableAfterSeconds":60,
            "scheduleSeconds":[0.5,10],"giveUpOn":[[400,404]],"timeoutSeconds":2.5,
            "headerStyle":"both"}"#;
        let options = applied(json).expect("valid");
        let shown = serde_json::to_string(&DeliveryOut::from(&options)).expect("JSON");
        assert_eq!(applied(&shown).expect("valid"), options);
    }

    #[test]
    fn error_names_the_invalid_option() {
        for (json, field) in [
            (r#"{"inFlightMax":0}"#, "inFlightMax"),
            (r#"{"inFlightMax":10001}"#, "inFlightMax"),
            (r#"{"fifo":{"batch":0}}"#, "fifo.batch"),
            (r#"{"ratePerSecond":0}"#, "ratePerSecond"),
            (r#"{"breaker":{"failures":0}}"#, "breaker.failures"),
            (r#"{"timeoutSeconds":0}"#, "timeoutSeconds"),
            (r#"{"timeoutSeconds":-1}"#, "timeoutSeconds"),
            (r#"{"timeoutSeconds":1e300}"#, "timeoutSeconds"),
            (r#"{"scheduleSeconds":[-1]}"#, "scheduleSeconds"),
            (r#"{"giveUpOn":[[404,400]]}"#, "giveUpOn"),
            (r#"{"giveUpOn":[[0,65535]]}"#, "giveUpOn"),
        ] {
            let error = format!("{:?}", applied(json).expect_err(field));
            assert!(error.contains(&format!("delivery.{field}")), "{error}");
        }
        assert!(serde_json::from_str::<DeliveryIn>(r#"{"colour":1}"#).is_err());
    }
}
