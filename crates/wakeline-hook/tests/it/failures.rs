//! Receivers that fail in different ways.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{EndpointOptions, EndpointRef, StatusRange};
use wakeline_hook::{EndpointPatch, HookServiceOptions};
use wakeline_store::hook::{AttemptOutcome, DeliveryState, DisableReason};
use wakeline_testkit::oracle::MemoryStore;
use wakeline_wake::{PollMode, WakeMode};

use crate::support::{Answer, Bench, Receiver, eventually, options, other_keys, schedule};

/// Makes one attempt to send a message to a receiver with this behaviour; returns the logged
/// result.
async fn once(answer: Answer) -> (Option<u16>, Vec<u8>, Option<String>, Duration) {
    let bench = Bench::start().await;
    let receiver = Receiver::always(answer).await;
    let options = EndpointOptions { timeout: Duration::from_millis(300), ..schedule(&[]) };
    let endpoint = bench.endpoint(&receiver.url(), options).await;
    let message = bench.emit("{}").await;
    let attempt = bench.attempted(1).await.remove(0);
    assert_eq!(attempt.outcome, AttemptOutcome::Failed);
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Failed);
    bench.stop().await;
    let response = attempt.response.unwrap_or_default().to_vec();
    (attempt.status, response, attempt.error, attempt.took)
}

#[tokio::test]
async fn a_call_to_a_hanging_receiver_ends_at_the_deadline() {
    let (status, _, error, took) = once(Answer::Hang).await;
    assert_eq!((status, error.as_deref()), (None, Some("the endpoint did not respond in time")));
    assert!(took >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_call_to_a_receiver_that_sends_slowly_ends_at_the_deadline() {
    let (status, _, error, _) = once(Answer::Drip).await;
    assert_eq!((status, error.as_deref()), (None, Some("the endpoint did not respond in time")));
}

#[tokio::test]
async fn a_closed_connection_is_a_failed_attempt() {
    let (status, _, error, _) = once(Answer::Close).await;
    assert!(status.is_none() && error.is_some(), "{error:?}");
}

#[tokio::test]
async fn a_truncated_response_is_a_failed_attempt() {
    let (status, _, error, _) = once(Answer::Break).await;
    assert_eq!(status, None);
    assert!(error.expect("an error").contains("status 200 was incomplete"));
}

#[tokio::test]
async fn a_refused_connection_is_a_failed_attempt() {
    let bench = Bench::start().await;
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("bound");
    drop(socket);
    bench.endpoint(&format!("http://{address}/"), schedule(&[])).await;
    bench.emit("{}").await;
    let attempt = bench.attempted(1).await.remove(0);
    assert!(attempt.error.expect("an error").to_lowercase().contains("refused"));
    bench.stop().await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut elsewhere = Receiver::always(Answer::Status(200)).await;
    let location = format!("location: {}", elsewhere.url());
    let (status, ..) = once(Answer::Header(307, location)).await;
    assert_eq!(status, Some(307));
    assert_eq!(elsewhere.left(), 0);
}

#[tokio::test]
async fn a_huge_response_is_stored_up_to_the_limit() {
    let (status, response, ..) = once(Answer::Body(500, vec![b'x'; 2_000_000])).await;
    assert_eq!((status, response.len()), (Some(500), 20_000));
}

#[tokio::test]
async fn response_bytes_that_are_not_text_are_stored_unchanged() {
    let (_, response, ..) = once(Answer::Body(500, vec![0, 255, 254, 0])).await;
    assert_eq!(response, [0, 255, 254, 0]);
}

#[tokio::test]
async fn a_failed_delivery_is_retried_by_its_schedule_with_the_same_id() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        1 => Answer::Close,
        _ => Answer::Status(200),
    })
    .await;
    let endpoint = bench.endpoint(&receiver.url(), schedule(&[20, 20, 20])).await;
    let message = bench.emit("{}").await;
    let ids: Vec<_> = [receiver.next().await, receiver.next().await, receiver.next().await]
        .iter()
        .map(|request| request.header("webhook-id").to_owned())
        .collect();
    assert_eq!(ids, vec![message.to_string(); 3]);
    let attempts = bench.attempted(3).await;
    let mut numbers: Vec<_> = attempts.iter().map(|attempt| attempt.attempt_no).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Delivered);
    bench.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_disabled_and_receives_nothing_more() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Status(410),
        _ => Answer::Status(200),
    })
    .await;
    let endpoint = bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    bench.emit("{}").await;
    bench.attempted(1).await;
    assert_eq!(bench.look(endpoint).await.disabled, Some(DisableReason::Gone));
    bench.emit("{}").await;
    let on = EndpointPatch { disabled: Some(false), ..EndpointPatch::default() };
    bench.service.update_endpoint(&bench.app(), &EndpointRef::Id(endpoint), on).await.expect("on");
    let after = bench.emit("{}").await;
    receiver.next().await;
    assert_eq!(receiver.next().await.header("webhook-id"), after.to_string());
    bench.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_requests_a_pause_gets_it() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Header(429, "retry-after: 0.4".to_owned()),
        _ => Answer::Status(200),
    })
    .await;
    bench.endpoint(&receiver.url(), schedule(&[10])).await;
    let began = tokio::time::Instant::now();
    bench.emit("{}").await;
    receiver.next().await;
    bench.attempted(1).await;
    // The complete endpoint is throttled: this message waits too, without counting an attempt.
    bench.emit("{}").await;
    receiver.next().await;
    assert!(began.elapsed() >= Duration::from_millis(400));
    receiver.next().await;
    let attempts = bench.attempted(3).await;
    let numbers = attempts.iter().map(|attempt| attempt.attempt_no);
    assert_eq!(numbers.max(), Some(2));
    bench.stop().await;
}

#[tokio::test]
async fn statuses_in_give_up_on_are_not_retried() {
    let bench = Bench::start().await;
    let receiver = Receiver::always(Answer::Status(422)).await;
    let give_up_on = vec![StatusRange(422, 422)];
    let options = EndpointOptions { give_up_on, ..schedule(&[10, 10]) };
    let endpoint = bench.endpoint(&receiver.url(), options).await;
    let message = bench.emit("{}").await;
    bench.attempted(1).await;
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Failed);
    bench.stop().await;
}

#[tokio::test]
async fn deliveries_without_keys_are_left_to_other_nodes_without_counting_an_attempt() {
    for keys in [None, Some(Arc::new(other_keys()))] {
        let has_some = keys.is_some();
        // Nodes that share the oracle are not notified of each other's changes.
        let poll = PollMode { interval: Duration::from_millis(5), ..PollMode::default() };
        let with_keys = HookServiceOptions { mode: WakeMode::Poll(poll), ..options() };
        let store = Arc::new(MemoryStore::with_real_clock());
        let bench = Bench::over(store.clone(), with_keys.clone()).await;
        let mut receiver = Receiver::always(Answer::Status(200)).await;
        bench.endpoint(&receiver.url(), schedule(&[])).await;
        let application = bench.application;
        bench.stop().await;
        let without = HookServiceOptions { keys, ..with_keys.clone() };
        let other = Bench { application, ..Bench::over(store.clone(), without).await };
        for _ in 0..4 {
            other.emit("{}").await;
        }
        let released = || store.hook_calls().get("release_deliveries").copied().unwrap_or(0);
        if has_some {
            eventually(async || released() >= 4).await;
        }
        assert_eq!(receiver.left(), 0);
        let bench = Bench { application, ..Bench::over(store.clone(), with_keys).await };
        for _ in 0..4 {
            other.emit("{}").await;
        }
        for _ in 0..8 {
            receiver.next().await;
        }
        let attempts = bench.attempted(8).await;
        assert_eq!(attempts.len(), 8);
        for attempt in attempts {
            assert_eq!((attempt.outcome, attempt.attempt_no), (AttemptOutcome::Succeeded, 1));
        }
        other.stop().await;
        bench.stop().await;
    }
}
