//! Validation of applications and endpoints.

use std::time::Duration;

use wakeline_core::{ApplicationRef, EndpointOptions, Uid};
use wakeline_store::hook::Endpoint;

use super::{ApplicationIn, EndpointIn, EndpointPatch};
use crate::announce::{OPERATIONAL_APPLICATION, OPERATIONAL_UID, RESERVED_UID};
use crate::error::HookError;
use crate::guard::Guard;
use crate::send::TIMEOUT_MAX;

const CHANNELS_MAX: usize = 10;
const PATTERNS_MAX: usize = 500;
const SCHEDULE_LEN_MAX: usize = 50;
/// The maximum batch of an ordered endpoint: no more deliveries are claimed at a time, so no more
/// can be sent in one request.
const BATCH_MAX: u32 = 64;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Fails with the reason if an application is invalid.
pub(crate) fn application(application: &ApplicationIn) -> Result<(), HookError> {
    let reserved = |uid: &Uid| uid.as_str().starts_with(RESERVED_UID);
    if application.uid.as_ref().is_some_and(reserved) {
        let reason = format!("must not begin with {RESERVED_UID:?}");
        return Err(HookError::invalid("uid", reason));
    }
    if application.rate_limit == Some(0) {
        return Err(HookError::invalid("throttleRate", "must be at least 1, not 0"));
    }
    Ok(())
}

/// Whether this is the server's own application.
pub(super) fn is_own(which: &ApplicationRef) -> bool {
    match which {
        ApplicationRef::Id(id) => *id == OPERATIONAL_APPLICATION,
        ApplicationRef::Own(uid) => uid.as_str() == OPERATIONAL_UID,
    }
}

/// Fails with the reason if the new values of an application are invalid. The server's own
/// application must keep the uid by which the server finds it.
pub(super) fn replacement(id: &ApplicationRef, new: &ApplicationIn) -> Result<(), HookError> {
    if !is_own(id) {
        return application(new);
    }
    if new.uid.as_ref().is_none_or(|uid| uid.as_str() != OPERATIONAL_UID) {
        return Err(HookError::invalid(
            "uid",
            "of the application for operational webhooks cannot be changed",
        ));
    }
    application(&ApplicationIn { uid: None, ..new.clone() })
}

/// Fails with the reason if an application must not be deleted.
pub(super) fn deletion(which: &ApplicationRef) -> Result<(), HookError> {
    if is_own(which) {
        let reason = "is the application for operational webhooks, which cannot be deleted";
        return Err(HookError::invalid("app_id", reason));
    }
    Ok(())
}

/// Fails with the reason if an endpoint is invalid.
pub(super) fn endpoint(endpoint: &EndpointIn, guard: &Guard) -> Result<(), HookError> {
    url(&endpoint.url, endpoint.options.pull, guard)?;
    lens(endpoint.event_types.len(), endpoint.channels.len())?;
    options(&endpoint.options)
}

/// Fails with the reason if a change of an endpoint is invalid.
pub(super) fn patch(patch: &EndpointPatch, now: &Endpoint, guard: &Guard) -> Result<(), HookError> {
    let pull = patch.options.as_ref().map_or(now.options.pull, |options| options.pull);
    // An unchanged URL is checked too if the endpoint changes from pull to push.
    let becomes_push = now.options.pull && !pull;
    if let Some(text) = patch.url.as_ref().or(becomes_push.then_some(&now.url)) {
        url(text, pull, guard)?;
    }
    lens(
        patch.event_types.as_ref().map_or(0, Vec::len),
        patch.channels.as_ref().map_or(0, Vec::len),
    )?;
    patch.options.as_ref().map_or(Ok(()), options)
}

fn url(url: &str, pull: bool, guard: &Guard) -> Result<(), HookError> {
    if pull && url.is_empty() {
        return Ok(());
    }
    guard.check_url(url).map_err(|error| HookError::invalid("url", error.to_string()))
}

fn lens(patterns: usize, channels: usize) -> Result<(), HookError> {
    if patterns > PATTERNS_MAX {
        return Err(most("eventTypes", PATTERNS_MAX, patterns));
    }
    if channels > CHANNELS_MAX {
        return Err(most("channels", CHANNELS_MAX, channels));
    }
    Ok(())
}

fn most(field: &'static str, max: usize, len: usize) -> HookError {
    HookError::invalid(field, format!("must have at most {max} entries, not {len}"))
}

/// Fails with the name of the option if an option is out of range.
fn options(options: &EndpointOptions) -> Result<(), HookError> {
    let fifo = options.fifo.map_or(1, |fifo| fifo.batch);
    let breaker = options.breaker.unwrap_or_default();
    let numbers = [
        ("options.inFlightMax", options.in_flight_max, 1, 10_000),
        ("options.ratePerSecond", options.rate_per_second.unwrap_or(1), 1, 1_000_000),
        ("options.fifo.batch", fifo, 1, BATCH_MAX),
        ("options.breaker.failures", breaker.failures, 1, 1_000_000),
        ("options.breaker.probes", breaker.probes, 1, 1_000),
    ];
    for (field, value, min, max) in numbers {
        if !(min..=max).contains(&value) {
            return Err(HookError::invalid(
                field,
                format!("must be from {min} to {max}, not {value}"),
            ));
        }
    }
    let second = Duration::from_secs(1);
    let spans = [
        ("options.timeout", options.timeout, second / 10, TIMEOUT_MAX),
        ("options.breaker.openFor", breaker.open_for, second / 10, DAY),
        ("options.disableAfter", options.disable_after.unwrap_or(DAY), second, 365 * DAY),
    ];
    for (field, value, min, max) in spans {
        if !(min..=max).contains(&value) {
            let (min, max, value) = (min.as_secs_f64(), max.as_secs(), value.as_secs_f64());
            let reason = format!("must be from {min} to {max} seconds, not {value}");
            return Err(HookError::invalid(field, reason));
        }
    }
    lists(options)
}

fn lists(options: &EndpointOptions) -> Result<(), HookError> {
    let schedule = options.schedule();
    if schedule.len() > SCHEDULE_LEN_MAX {
        return Err(most("options.schedule", SCHEDULE_LEN_MAX, schedule.len()));
    }
    if let Some(wait) = schedule.iter().find(|wait| **wait > 30 * DAY) {
        let reason = format!(
            "has a wait of {} seconds: at most {}, 30 days, are allowed",
            wait.as_secs(),
            (30 * DAY).as_secs()
        );
        return Err(HookError::invalid("options.schedule", reason));
    }
    let wrong =
        |range: &&wakeline_core::StatusRange| range.0 > range.1 || range.0 < 300 || range.1 > 599;
    if let Some(range) = options.give_up_on.iter().find(wrong) {
        let reason = format!("has {}-{}, which is not within 300-599", range.0, range.1);
        return Err(HookError::invalid("options.giveUpOn", reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{BreakerOptions, Channel, FifoOptions, StatusRange};

    fn field(result: Result<(), HookError>) -> &'static str {
        match result {
            Ok(()) => "",
            Err(HookError::Invalid { field, .. }) => field,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn an_invalid_option_is_named_in_the_error() {
        let fine = EndpointOptions::default();
        let breaker = BreakerOptions { probes: 0, ..BreakerOptions::default() };
        for (changed, expected) in [
            (fine.clone(), ""),
            (EndpointOptions { in_flight_max: 0, ..fine.clone() }, "options.inFlightMax"),
            (EndpointOptions { rate_per_second: Some(0), ..fine.clone() }, "options.ratePerSecond"),
            (EndpointOptions { timeout: Duration::ZERO, ..fine.clone() }, "options.timeout"),
            (
                EndpointOptions { fifo: Some(FifoOptions { batch: 0 }), ..fine.clone() },
                "options.fifo.batch",
            ),
            (EndpointOptions { breaker: Some(breaker), ..fine.clone() }, "options.breaker.probes"),
            (EndpointOptions { schedule: Some(vec![DAY; 51]), ..fine.clone() }, "options.schedule"),
            (
                EndpointOptions { give_up_on: vec![StatusRange(200, 204)], ..fine.clone() },
                "options.giveUpOn",
            ),
            (
                EndpointOptions { give_up_on: vec![StatusRange(499, 400)], ..fine },
                "options.giveUpOn",
            ),
        ] {
            assert_eq!(field(options(&changed)), expected, "{changed:?}");
        }
    }

    #[test]
    fn endpoints_need_a_url_unless_they_are_pulled_from() {
        let guard = Guard::default();
        let mut made = EndpointIn::default();
        assert_eq!(field(endpoint(&made, &guard)), "url");
        made.options.pull = true;
        assert_eq!(field(endpoint(&made, &guard)), "");
        made.url = "http://127.0.0.1/".to_owned();
        assert_eq!(field(endpoint(&made, &guard)), "url");
        made.url = "https://example.com/".to_owned();
        made.channels = vec![Channel::new("a").expect("valid"); 11];
        assert_eq!(field(endpoint(&made, &guard)), "channels");
    }

    #[test]
    fn uids_of_the_server_cannot_be_taken() {
        let uid = Some(Uid::parse("wakeline.operational").expect("valid"));
        let taken = ApplicationIn { uid, ..ApplicationIn::default() };
        assert_eq!(field(application(&taken)), "uid");
        assert_eq!(field(application(&ApplicationIn::default())), "");
    }
}
