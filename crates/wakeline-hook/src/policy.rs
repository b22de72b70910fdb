//! What the end of an attempt means: for the delivery, for its endpoint. Pure functions.
//!
//! # Invariants
//! * A delivery is never tried earlier than its schedule says (less the spread), nor earlier than
//!   the endpoint asked for, up to a limit.
//! * The messages of one request wait equally long, so that they are due together again.

use std::time::{Duration, SystemTime};

use hyper::header::{DATE, HeaderMap, RETRY_AFTER};
use wakeline_core::{AttemptId, EndpointOptions};
use wakeline_store::hook::{BreakerSample, DeliveryItem, DeliveryVerdict, Trigger};

use crate::send::Ended;

/// The longest that an endpoint can put an attempt off.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an endpoint is left alone that says it is overloaded, and not for how long.
const THROTTLE_DEFAULT: Duration = Duration::from_secs(5);
/// Waits are spread by so much to either side, so that failures do not come back together.
const SPREAD: f64 = 0.2;

/// What an attempt's end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    /// For the delivery.
    pub(crate) verdict: DeliveryVerdict,
    /// For the breaker.
    pub(crate) sample: BreakerSample,
    /// The endpoint is left alone for so long.
    pub(crate) throttle: Option<Duration>,
    /// The endpoint is gone.
    pub(crate) gone: bool,
}

impl Decision {
    /// Nothing can be tried, and nobody is to blame: the payload has expired, say.
    pub(crate) const GIVEN_UP: Self = Self {
        verdict: DeliveryVerdict::Failed,
        sample: BreakerSample::None,
        throttle: None,
        gone: false,
    };
}

/// Decides what the end of an attempt means. `request`: the attempt of the first message of its
/// request.
pub(crate) fn decide(
    ended: &Ended,
    item: &DeliveryItem,
    options: &EndpointOptions,
    request: AttemptId,
) -> Decision {
    let (status, asked) = match ended {
        Ended::Answer { status, retry_after, .. } => (Some(*status), *retry_after),
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
    let asked = asked.map(|asked| asked.min(RETRY_AFTER_MAX));
    let overloaded = matches!(status, Some(429 | 502 | 504));
    Decision {
        verdict: match given_up {
            true => DeliveryVerdict::Failed,
            false => next(item, options, request, asked),
        },
        sample: if given_up { BreakerSample::None } else { sample(status) },
        throttle: overloaded.then(|| asked.unwrap_or(THROTTLE_DEFAULT)),
        gone: status == Some(410),
    }
}

/// The next attempt by the schedule. A manual attempt that failed changes nothing.
pub(crate) fn next(
    item: &DeliveryItem,
    options: &EndpointOptions,
    request: AttemptId,
    asked: Option<Duration>,
) -> DeliveryVerdict {
    if item.trigger == Trigger::Manual {
        return DeliveryVerdict::Failed;
    }
    wait(item.scheduled_no, options.schedule(), request).map_or(DeliveryVerdict::Failed, |wait| {
        DeliveryVerdict::Retry(wait.max(asked.unwrap_or_default()))
    })
}

/// How long to wait after an attempt by the schedule; `None` if it is used up.
pub(crate) fn wait(
    scheduled_no: u32,
    schedule: &[Duration],
    attempt: AttemptId,
) -> Option<Duration> {
    let place = usize::try_from(scheduled_no).ok()?.checked_sub(1)?;
    Some(schedule.get(place)?.mul_f64(spread(attempt)))
}

/// A factor around 1, by the random bits of an attempt's id.
fn spread(attempt: AttemptId) -> f64 {
    let bits = u32::try_from(attempt.0.as_u128() & u128::from(u32::MAX)).unwrap_or_default();
    1.0 - SPREAD + 2.0 * SPREAD * f64::from(bits) / f64::from(u32::MAX)
}

/// What a failure says about the endpoint. Answers about the message alone say nothing, and one
/// that asks for less is throttled instead.
fn sample(status: Option<u16>) -> BreakerSample {
    match status {
        Some(400 | 409 | 411 | 413 | 415 | 422 | 425 | 429 | 431) => BreakerSample::None,
        _ => BreakerSample::Failure,
    }
}

/// How long an answer asks to be left alone: seconds, with or without fractions, up to the limit,
/// or a date, which is read by the sender's own clock if the answer tells it.
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
