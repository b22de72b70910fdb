//! The consequences of an attempt for its delivery and its endpoint. Pure functions.
//!
//! # Invariants
//! * A delivery is never retried earlier than its schedule says (apart from the random spread), nor
//!   earlier than the endpoint requested, up to a limit.
//! * The messages of one request wait equally long, so that they are due together again.

use std::time::{Duration, SystemTime};

use hyper::header::{DATE, HeaderMap, RETRY_AFTER};
use wakeline_core::{AttemptId, EndpointOptions};
use wakeline_store::hook::{BreakerSample, DeliveryItem, DeliveryVerdict, Trigger};

use crate::send::AttemptEnd;

/// The longest time for which an endpoint can delay an attempt.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an overloaded endpoint is not called if its response contains no time.
const THROTTLE_DEFAULT: Duration = Duration::from_secs(5);
/// The relative random spread of waits to either side, so that failed deliveries are not retried
/// all at once.
const SPREAD: f64 = 0.2;

/// The consequences of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    /// What happens to the delivery.
    pub(crate) verdict: DeliveryVerdict,
    /// What the attempt shows about the endpoint, for its circuit breaker.
    pub(crate) sample: BreakerSample,
    /// How long the endpoint is not called, if it is overloaded.
    pub(crate) throttle: Option<Duration>,
    /// Whether the endpoint reported that it is gone.
    pub(crate) gone: bool,
}

impl Decision {
    /// The delivery fails without a retry, and the failure says nothing about the endpoint, for
    /// example because the payload has expired.
    pub(crate) const GIVEN_UP: Self = Self {
        verdict: DeliveryVerdict::Failed,
        sample: BreakerSample::None,
        throttle: None,
        gone: false,
    };
}

/// Decides the consequences of an attempt. `request` is the attempt id of the first message of the
/// request.
pub(crate) fn decide(
    ended: &AttemptEnd,
    item: &DeliveryItem,
    options: &EndpointOptions,
    request: AttemptId,
) -> Decision {
    let (status, requested) = match ended {
        AttemptEnd::Response { status, retry_after, .. } => (Some(*status), *retry_after),
        _ => (None, None),
    };
    if status.is_some_and(|status| (200..300).contains(&status)) {
        return Decision {
            verdict: DeliveryVerdict::Delivered,
            sample: BreakerSample::Success,
            throttle: None,
            gone: false,
        };
    }
    let given_up = status == Some(410)
        || status.is_some_and(|status| options.give_up_on.iter().any(|r| r.contains(status)));
    let requested = requested.map(|requested| requested.min(RETRY_AFTER_MAX));
    let overloaded = matches!(status, Some(429 | 502 | 504));
    Decision {
        verdict: if given_up {
            DeliveryVerdict::Failed
        } else {
            next(item, options, request, requested)
        },
        sample: if given_up { BreakerSample::None } else { sample(status) },
        throttle: overloaded.then(|| requested.unwrap_or(THROTTLE_DEFAULT)),
        gone: status == Some(410),
    }
}

/// The verdict after a failed attempt, by the schedule. A failed manual attempt is not retried.
pub(crate) fn next(
    item: &DeliveryItem,
    options: &EndpointOptions,
    request: AttemptId,
    requested: Option<Duration>,
) -> DeliveryVerdict {
    if item.trigger == Trigger::Manual {
        return DeliveryVerdict::Failed;
    }
    wait(item.scheduled_no, options.schedule(), request).map_or(DeliveryVerdict::Failed, |wait| {
        DeliveryVerdict::Retry(wait.max(requested.unwrap_or_default()))
    })
}

/// How long to wait after a scheduled attempt; `None` if the schedule is used up.
pub(crate) fn wait(
    scheduled_no: u32,
    schedule: &[Duration],
    attempt: AttemptId,
) -> Option<Duration> {
    let index = usize::try_from(scheduled_no).ok()?.checked_sub(1)?;
    Some(schedule.get(index)?.mul_f64(spread(attempt)))
}

/// A factor around 1, derived from the random bits of an attempt's id.
fn spread(attempt: AttemptId) -> f64 {
    let bits = u32::try_from(attempt.0.as_u128() & u128::from(u32::MAX)).unwrap_or_default();
    1.0 - SPREAD + 2.0 * SPREAD * f64::from(bits) / f64::from(u32::MAX)
}

/// What a failure shows about the endpoint: nothing if the response concerns only the message. An
/// endpoint that requests fewer calls is throttled instead.
fn sample(status: Option<u16>) -> BreakerSample {
    match status {
        Some(400 | 409 | 411 | 413 | 415 | 422 | 425 | 429 | 431) => BreakerSample::None,
        _ => BreakerSample::Failure,
    }
}

/// The time in a `Retry-After` header: seconds, with or without fractions, up to the limit, or a
/// date. A date is compared with the endpoint's own clock if the response contains it.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        let most = RETRY_AFTER_MAX.as_secs_f64();
        return seconds.is_finite().then(|| Duration::from_secs_f64(seconds.clamp(0.0, most)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests;
