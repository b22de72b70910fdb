//! How an endpoint is delivered to, on the wire: Wakeline's own object `delivery`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakeline_core::{BreakerOptions, EndpointOptions, FifoOptions, HeaderStyle, StatusRange};

use super::given;
use crate::error::ApiError;

const DAY: f64 = 24.0 * 60.0 * 60.0;

/// Bounds of what can be asked for.
const IN_FLIGHT_MAX: u32 = 10_000;
const RATE_MAX: u32 = 1_000_000;
const BATCH_MAX: u32 = 64;
const SCHEDULE_LEN_MAX: usize = 50;
const SCHEDULE_SECS: RangeInclusive<f64> = 0.0..=30.0 * DAY;
const TIMEOUT_SECS: RangeInclusive<f64> = 0.1..=120.0;
const OPEN_SECS: RangeInclusive<f64> = 0.1..=DAY;
const DISABLE_SECS: RangeInclusive<f64> = 1.0..=365.0 * DAY;
const RANGES_MAX: usize = 100;

/// What to set of the way in which an endpoint is delivered to; what is absent stays as it is.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeliveryIn {
    /// Whether you fetch deliveries instead of getting them sent.
    pull: Option<bool>,
    /// Strict order, one request at a time; null is none.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<FifoShape>)]
    fifo: Option<Option<FifoShape>>,
    /// Most attempts a second; the same as `throttleRate`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    rate_per_second: Option<Option<u32>>,
    /// Most attempts under way at once, over all nodes (100).
    in_flight_max: Option<u32>,
    /// When to pause an endpoint that fails; null never does.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<BreakerShape>)]
    breaker: Option<Option<BreakerShape>>,
    /// Nothing but failures for so long disables the endpoint (432000); null never does.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>)]
    disable_after_seconds: Option<Option<f64>>,
    /// Waits between attempts; null is the default schedule, an empty list is one attempt only.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<f64>>)]
    schedule_seconds: Option<Option<Vec<f64>>>,
    /// Answers after which a delivery has failed for good, as pairs of first and last status.
    give_up_on: Option<Vec<(u16, u16)>>,
    /// Most time for one attempt, from connecting to the end of the answer (15).
    timeout_seconds: Option<f64>,
    /// Names of the signature's headers: `webhook`, `svix` or `both`.
    #[schema(value_type = Option<String>)]
    header_style: Option<HeaderStyle>,
}

/// The way in which an endpoint is delivered to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryOut {
    /// Whether you fetch deliveries instead of getting them sent.
    pull: bool,
    /// Strict order.
    fifo: Option<FifoShape>,
    /// Most attempts a second.
    rate_per_second: Option<u32>,
    /// Most attempts under way at once.
    in_flight_max: u32,
    /// When an endpoint that fails is paused.
    breaker: Option<BreakerShape>,
    /// Nothing but failures for so long disables the endpoint.
    disable_after_seconds: Option<f64>,
    /// Waits between attempts.
    schedule_seconds: Vec<f64>,
    /// Answers after which a delivery has failed for good.
    give_up_on: Vec<(u16, u16)>,
    /// Most time for one attempt.
    timeout_seconds: f64,
    /// Names of the signature's headers.
    #[schema(value_type = String)]
    header_style: HeaderStyle,
}

/// Strict order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FifoShape {
    /// Most messages in one request; with more than one the body is a list (1).
    #[serde(default = "one")]
    batch: u32,
}

/// When an endpoint that fails is paused.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BreakerShape {
    /// Failures in a row that pause it (5).
    failures: u32,
    /// For how long (30).
    open_for_seconds: f64,
    /// Attempts that are let through afterwards to see whether it works again (3).
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
    /// Options as they shall be.
    pub(crate) fn over(&self, mut now: EndpointOptions) -> Result<EndpointOptions, ApiError> {
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
    let place = format!("delivery.{field}");
    ApiError::invalid_field(&place, format!("{place} {reason}"))
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
        let whole = 300 <= first && first <= last && last <= 599;
        whole.then_some(StatusRange(first, last)).ok_or_else(|| {
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

    fn over(json: &str) -> Result<EndpointOptions, ApiError> {
        let given: DeliveryIn = serde_json::from_str(json).expect("a body");
        given.over(EndpointOptions::default())
    }

    #[test]
    fn what_is_absent_stays_and_null_switches_off() {
        assert_eq!(over("{}").expect("valid"), EndpointOptions::default());
        let off = r#"{"breaker":null,"disableAfterSeconds":null,"scheduleSeconds":[]}"#;
        let off = over(off).expect("valid");
        assert_eq!((off.breaker, off.disable_after), (None, None));
        assert!(off.schedule().is_empty());
    }

    #[test]
    fn what_goes_out_can_come_back_in() {
        let json = r#"{"pull":true,"fifo":{"batch":7},"ratePerSecond":9,"inFlightMax":3,
            "breaker":{"failures":2,"openForSeconds":1.5,"probes":1},"disableAfterSeconds":60,
            "scheduleSeconds":[0.5,10],"giveUpOn":[[400,404]],"timeoutSeconds":2.5,
            "headerStyle":"both"}"#;
        let options = over(json).expect("valid");
        let shown = serde_json::to_string(&DeliveryOut::from(&options)).expect("JSON");
        assert_eq!(over(&shown).expect("valid"), options);
    }

    #[test]
    fn what_cannot_work_is_named() {
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
            let error = format!("{:?}", over(json).expect_err(field));
            assert!(error.contains(&format!("delivery.{field}")), "{error}");
        }
        assert!(serde_json::from_str::<DeliveryIn>(r#"{"colour":1}"#).is_err());
    }
}
