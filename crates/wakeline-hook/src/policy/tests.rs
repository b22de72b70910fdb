use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{DeliveryToken, EventTypeName, HookMessageId, StatusRange, Timestamp};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// An attempt id whose lowest bits result in no spread.
const MIDDLE: AttemptId = AttemptId(Uuid::from_u128((u32::MAX / 2) as u128));

fn item(scheduled_no: u32, trigger: Trigger) -> DeliveryItem {
    DeliveryItem {
        token: DeliveryToken { delivery: 1, attempt: MIDDLE },
        attempt_no: scheduled_no,
        scheduled_no,
        trigger,
        message: HookMessageId::generate(),
        event_type: EventTypeName::new("a").expect("valid"),
        event_id: None,
        channels: Vec::new(),
        created_at: Timestamp(0),
        payload: None,
        now: Timestamp(0),
        lease_for: HOUR,
    }
}

fn response(status: u16, retry_after: Option<Duration>) -> AttemptEnd {
    AttemptEnd::Response { status, retry_after, body: Bytes::new() }
}

fn first(ended: &AttemptEnd) -> Decision {
    decide(ended, &item(1, Trigger::Scheduled), &EndpointOptions::default(), MIDDLE)
}

fn seconds(verdict: DeliveryVerdict) -> Option<u64> {
    match verdict {
        DeliveryVerdict::Retry(wait) => Some(wait.as_secs_f64().round() as u64),
        _ => None,
    }
}

#[test]
fn every_response_leads_to_the_specified_decision() {
    use BreakerSample::{Failure, None as Nothing, Success};
    for (ended, verdict, sample, throttle, gone) in [
        (response(200, None), Some("delivered"), Success, None, false),
        (response(204, None), Some("delivered"), Success, None, false),
        (response(299, None), Some("delivered"), Success, None, false),
        (response(301, None), None, Failure, None, false),
        (response(304, None), None, Failure, None, false),
        (response(400, None), None, Nothing, None, false),
        (response(401, None), None, Failure, None, false),
        (response(404, None), None, Failure, None, false),
        (response(408, None), None, Failure, None, false),
        (response(409, None), None, Nothing, None, false),
        (response(410, None), Some("failed"), Nothing, None, true),
        (response(422, None), None, Nothing, None, false),
        (response(429, None), None, Nothing, Some(5), false),
        (response(429, Some(HOUR)), None, Nothing, Some(3600), false),
        (response(429, Some(HOUR * 48)), None, Nothing, Some(24 * 3600), false),
        (response(500, None), None, Failure, None, false),
        (response(502, None), None, Failure, Some(5), false),
        (response(503, Some(HOUR)), None, Failure, None, false),
        (response(504, None), None, Failure, Some(5), false),
        (response(599, None), None, Failure, None, false),
        (AttemptEnd::Timeout, None, Failure, None, false),
        (AttemptEnd::Failed("reset".to_owned()), None, Failure, None, false),
        (AttemptEnd::Refused(crate::GuardError::NotHttps), None, Failure, None, false),
    ] {
        let decision = first(&ended);
        let name = match decision.verdict {
            DeliveryVerdict::Delivered => Some("delivered"),
            DeliveryVerdict::Failed => Some("failed"),
            DeliveryVerdict::Retry(_) => None,
        };
        assert_eq!(name, verdict, "{ended:?}");
        assert_eq!(decision.sample, sample, "{ended:?}");
        assert_eq!(decision.throttle, throttle.map(Duration::from_secs), "{ended:?}");
        assert_eq!(decision.gone, gone, "{ended:?}");
    }
}

#[test]
fn the_schedule_is_followed_to_its_end() {
    let options = EndpointOptions::default();
    let waits: Vec<_> = (1..=10)
        .map(|no| {
            seconds(
                decide(&AttemptEnd::Timeout, &item(no, Trigger::Scheduled), &options, MIDDLE)
                    .verdict,
            )
        })
        .collect();
    let plan = options.schedule().iter().map(|wait| Some(wait.as_secs())).chain([None]);
    assert_eq!(waits, plan.collect::<Vec<_>>());
    let once = EndpointOptions { schedule: Some(Vec::new()), ..options };
    let decision = decide(&AttemptEnd::Timeout, &item(1, Trigger::Scheduled), &once, MIDDLE);
    assert_eq!(decision.verdict, DeliveryVerdict::Failed);
}

#[test]
fn an_endpoint_can_delay_an_attempt_but_not_advance_it() {
    for (requested, wait) in [(None, 5), (Some(1), 5), (Some(60), 60), (Some(1_000_000), 86_400)] {
        let ended = response(503, requested.map(Duration::from_secs));
        assert_eq!(seconds(first(&ended).verdict), Some(wait), "{requested:?}");
    }
}

#[test]
fn a_failed_manual_attempt_is_not_retried() {
    let decision = decide(
        &AttemptEnd::Timeout,
        &item(0, Trigger::Manual),
        &EndpointOptions::default(),
        MIDDLE,
    );
    assert_eq!(decision.verdict, DeliveryVerdict::Failed);
}

#[test]
fn statuses_in_give_up_on_end_the_delivery() {
    let options =
        EndpointOptions { give_up_on: vec![StatusRange(400, 499)], ..EndpointOptions::default() };
    for (status, failed) in [(399, false), (400, true), (422, true), (499, true), (500, false)] {
        let decision =
            decide(&response(status, None), &item(1, Trigger::Scheduled), &options, MIDDLE);
        assert_eq!(decision.verdict == DeliveryVerdict::Failed, failed, "{status}");
    }
}

#[test]
fn waits_are_spread_by_a_fifth_to_either_side() {
    let at = |bits: u32| {
        wait(1, &[Duration::from_secs(100)], AttemptId(Uuid::from_u128(bits.into())))
            .expect("one wait")
            .as_secs_f64()
    };
    assert!((at(0) - 80.0).abs() < 0.001 && (at(u32::MAX) - 120.0).abs() < 0.001);
    let made: Vec<_> = (0..200)
        .map(|_| wait(1, &[Duration::from_secs(100)], AttemptId::generate()).expect("one wait"))
        .collect();
    let low = made.iter().filter(|wait| wait.as_secs() < 100).count();
    assert!((50..150).contains(&low), "{low} of 200 are below the middle");
}

#[test]
fn messages_of_one_request_wait_equally_long() {
    let options = EndpointOptions::default();
    let waits = [1, u128::MAX].map(|attempt| {
        let mut item = item(1, Trigger::Scheduled);
        item.token.attempt = AttemptId(Uuid::from_u128(attempt));
        decide(&AttemptEnd::Timeout, &item, &options, MIDDLE).verdict
    });
    assert_eq!(waits[0], waits[1]);
}

#[test]
fn retry_after_is_read_in_all_its_forms() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
    for (text, date, expected) in [
        ("120", None, Some(120.0)),
        ("0", None, Some(0.0)),
        (" 1.5 ", None, Some(1.5)),
        ("-1", None, Some(0.0)),
        ("NaN", None, None),
        ("inf", None, None),
        ("1e300", None, Some(86_400.0)),
        ("99999999999999999999999", None, Some(86_400.0)),
        ("soon", None, None),
        ("", None, None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", None, Some(60.0)),
        ("Sun, 06 Nov 1994 08:48:37 GMT", None, Some(0.0)),
        ("Sun, 06 Nov 1994 08:50:37 GMT", Some("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30.0)),
        ("Sun, 06 Nov 1994 08:50:37 GMT", Some("yesterday"), Some(60.0)),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().expect("a value"));
        if let Some(date) = date {
            headers.insert(DATE, date.parse().expect("a value"));
        }
        let read = retry_after(&headers, now).map(|span| span.as_secs_f64());
        assert_eq!(read, expected, "{text:?} with {date:?}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), now), None);
}
