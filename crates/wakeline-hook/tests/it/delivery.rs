//! Requests as receivers get them.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use standardwebhooks::Webhook;
use wakeline_core::{EndpointOptions, EndpointRef, HeaderStyle};
use wakeline_hook::{
    DispatchOptions, Emit, EndpointIn, Example, HookError, HookServiceOptions, Rotate,
};
use wakeline_store::hook::{AttemptOutcome, DeliveryState, RotateOutcome};

use crate::support::{Answer, Bench, Receiver, event_type, eventually, options};

#[tokio::test]
async fn a_message_arrives_signed_and_byte_for_byte() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Body(200, b"thanks".to_vec())).await;
    let endpoint = bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    let payload = "{ \"amount\":  1.50, \"name\": \"Z\u{fc}rich\" }";
    let message = bench.emit(payload).await;
    let request = receiver.next().await;
    assert_eq!(request.body, payload.as_bytes());
    assert_eq!(request.path, "/hook");
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("webhook-id"), message.to_string());
    assert!(request.header("user-agent").starts_with("Wakeline-Webhooks/"));
    assert_eq!(request.header("svix-id"), "");
    let secret = bench.service.secret(&bench.app(), &EndpointRef::Id(endpoint)).await;
    let secret = secret.expect("read").expect("it exists");
    let verifier = Webhook::new(&secret).expect("a key");
    verifier.verify(&request.body, &request.headers).expect("it verifies");
    assert!(verifier.verify(b"{}", &request.headers).is_err());
    let attempt = bench.attempted(1).await.remove(0);
    assert_eq!(attempt.outcome, AttemptOutcome::Succeeded);
    assert_eq!((attempt.status, attempt.attempt_no), (Some(200), 1));
    assert_eq!(attempt.response.as_deref(), Some(b"thanks".as_slice()));
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Delivered);
    bench.stop().await;
}

#[tokio::test]
async fn during_a_rotation_both_keys_verify() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Status(204)).await;
    let endpoint = bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    let which = EndpointRef::Id(endpoint);
    let mut keys = Vec::new();
    for _ in 0..2 {
        keys.push(bench.service.secret(&bench.app(), &which).await.expect("read").expect("one"));
        let rotated = bench.service.rotate_secret(&bench.app(), &which, Rotate::default()).await;
        assert_eq!(rotated.expect("stored"), RotateOutcome::Rotated);
    }
    keys.push(bench.service.secret(&bench.app(), &which).await.expect("read").expect("one"));
    bench.emit("{}").await;
    let request = receiver.next().await;
    for key in &keys {
        let verifier = Webhook::new(key).expect("a key");
        verifier.verify(&request.body, &request.headers).expect("it verifies");
    }
    assert_eq!(request.header("webhook-signature").split(' ').count(), 3);
    let at_once = Rotate { grace: Duration::ZERO, ..Rotate::default() };
    bench.service.rotate_secret(&bench.app(), &which, at_once).await.expect("stored");
    bench.emit("{}").await;
    let request = receiver.next().await;
    let verifies = |key: &String| {
        Webhook::new(key).expect("a key").verify(&request.body, &request.headers).is_ok()
    };
    assert_eq!(keys.iter().map(verifies).collect::<Vec<_>>(), [true, true, false]);
    bench.stop().await;
}

#[tokio::test]
async fn an_ed25519_key_signs_and_its_public_half_verifies() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Status(204)).await;
    let options = EndpointOptions { header_style: HeaderStyle::Both, ..EndpointOptions::default() };
    let endpoint = bench.endpoint(&receiver.url(), options).await;
    let which = EndpointRef::Id(endpoint);
    let rotate = Rotate { asymmetric: true, grace: Duration::ZERO, key: None };
    bench.service.rotate_secret(&bench.app(), &which, rotate).await.expect("stored");
    let public = bench.service.secret(&bench.app(), &which).await.expect("read").expect("one");
    let public = STANDARD.decode(public.strip_prefix("whpk_").expect("public")).expect("base64");
    bench.emit("{}").await;
    let request = receiver.next().await;
    for style in ["webhook", "svix"] {
        let header = |name: &str| request.header(&format!("{style}-{name}")).to_owned();
        let signature = header("signature");
        let signature = signature.strip_prefix("v1a,").expect("the version");
        let signed = format!("{}.{}.{{}}", header("id"), header("timestamp"));
        ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &public)
            .verify(signed.as_bytes(), &STANDARD.decode(signature).expect("base64"))
            .expect("it verifies");
    }
    bench.stop().await;
}

#[tokio::test]
async fn additional_headers_and_credentials_are_sent() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Status(204)).await;
    let url = format!("http://us%20er:pass@{}/a?b=c", receiver.address);
    let headers = BTreeMap::from([("X-Team".to_owned(), "blue".to_owned())]);
    bench.make(EndpointIn { url, headers, ..EndpointIn::default() }).await;
    bench.emit("{}").await;
    let request = receiver.next().await;
    assert_eq!(request.header("x-team"), "blue");
    assert_eq!(request.path, "/a?b=c");
    assert_eq!(request.header("host"), receiver.address.to_string());
    let basic = format!("Basic {}", STANDARD.encode("us er:pass"));
    assert_eq!(request.header("authorization"), basic);
    let kept = bench.attempted(1).await.remove(0).url;
    assert_eq!(kept, format!("http://{}/a?b=c", receiver.address));
    bench.stop().await;
}

#[tokio::test]
async fn connections_are_reused_until_one_side_closes_them() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::start(|request| match request {
        1 => Answer::Header(200, "connection: close".to_owned()),
        _ => Answer::Status(200),
    })
    .await;
    bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    for sent in 1..=4 {
        bench.emit("{}").await;
        receiver.next().await;
        let attempts = bench.attempted(sent).await;
        assert!(attempts.iter().all(|attempt| attempt.status == Some(200)));
    }
    let connections = receiver.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(connections, 2);
    bench.stop().await;
}

#[tokio::test]
async fn the_total_number_of_idle_connections_is_limited() {
    let dispatch = DispatchOptions::with_slots(1);
    let bench = Bench::with(HookServiceOptions { dispatch, ..options() }).await;
    let mut receivers = Vec::new();
    for _ in 0..3 {
        let receiver = Receiver::always(Answer::Status(200)).await;
        bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
        receivers.push(receiver);
    }
    // With one slot two connections are kept; the third one is closed after its call.
    bench.emit("{}").await;
    let mut closing = Vec::new();
    for receiver in &mut receivers {
        closing.push(receiver.next().await.header("connection") == "close");
    }
    assert_eq!(closing.iter().filter(|closing| **closing).count(), 1);
    bench.attempted(3).await;
    bench.emit("{}").await;
    for (receiver, closing) in receivers.iter_mut().zip(closing) {
        receiver.next().await;
        let connections = receiver.connections.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(connections, if closing { 2 } else { 1 });
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_payload_beyond_the_limit_is_refused() {
    let bench = Bench::with(HookServiceOptions { payload_bytes_max: 10, ..options() }).await;
    let emit = async |payload: &str| {
        let payload = bytes::Bytes::copy_from_slice(payload.as_bytes());
        bench.service.emit(Emit::new(bench.app(), event_type("a.b"), payload)).await
    };
    emit("12345678.0").await.expect("ten bytes are stored");
    let refused = emit("12345678.00").await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "payload", .. })), "{refused:?}");
    bench.stop().await;
}

#[tokio::test]
async fn a_connection_that_broke_while_idle_does_not_fail_an_attempt() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Leave).await;
    bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    for sent in 1..=5 {
        bench.emit("{}").await;
        receiver.next().await;
        let attempts = bench.attempted(sent).await;
        assert!(attempts.iter().all(|attempt| attempt.status == Some(200)), "{attempts:?}");
        // Waits until the end of the connection has been noticed.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_ping_reports_the_response_and_stores_nothing() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Status(418)).await;
    let endpoint = bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    let report = bench.service.ping(&bench.app(), &EndpointRef::Id(endpoint)).await;
    let report = report.expect("called").expect("it exists");
    assert_eq!((report.status, report.error), (Some(418), None));
    let request = receiver.next().await;
    assert!(request.body.starts_with(b"{\"data\":{},") || request.body.starts_with(b"{\"type\""));
    assert!(bench.attempts().await.is_empty());
    bench.stop().await;
}

#[tokio::test]
async fn an_example_is_sent_to_one_endpoint_only() {
    let bench = Bench::start().await;
    let mut one = Receiver::always(Answer::Status(200)).await;
    let mut other = Receiver::always(Answer::Status(200)).await;
    let endpoint = bench.endpoint(&one.url(), EndpointOptions::default()).await;
    bench.endpoint(&other.url(), EndpointOptions::default()).await;
    let event_type = crate::support::event_type("user.signup");
    let which = EndpointRef::Id(endpoint);
    let sent = bench.service.send_example(&bench.app(), &which, Example::new(event_type)).await;
    assert!(sent.expect("stored").is_some());
    let request = one.next().await;
    assert!(String::from_utf8_lossy(&request.body).contains("user.signup"));
    eventually(async || !bench.attempts().await.is_empty()).await;
    bench.stop().await;
    assert_eq!(other.left(), 0);
}
