//! Endpoints that consumers pull from.

use std::time::Duration;

use wakeline_core::{EndpointId, EndpointOptions, EndpointRef, MessageRef};
use wakeline_hook::{
    EndpointIn, HookError, PullOutcome, PullRequest, PulledToken, PulledVerdict, Rotate,
};
use wakeline_store::hook::{DeliveryItem, DeliveryState, SettledState};

use crate::support::{Bench, LONG, schedule};

async fn pulled(bench: &Bench, options: EndpointOptions) -> EndpointId {
    let options = EndpointOptions { pull: true, ..options };
    bench.make(EndpointIn { options, ..EndpointIn::default() }).await
}

async fn pop(
    bench: &Bench,
    endpoint: EndpointId,
    pop: PullRequest,
) -> Vec<(PulledToken, DeliveryItem)> {
    let popped = bench.service.pop(&bench.app(), &EndpointRef::Id(endpoint), pop).await;
    match popped.expect("popped") {
        PullOutcome::Claimed(items) => items,
        PullOutcome::Empty => Vec::new(),
        other => panic!("{other:?}"),
    }
}

async fn settle(
    bench: &Bench,
    endpoint: EndpointId,
    settles: Vec<(PulledToken, PulledVerdict)>,
) -> Vec<SettledState> {
    let which = EndpointRef::Id(endpoint);
    let settled = bench.service.settle_pulled(&bench.app(), &which, settles).await;
    settled.expect("settled").expect("the endpoint exists")
}

async fn extend(bench: &Bench, endpoint: EndpointId, token: PulledToken) -> Vec<bool> {
    let which = EndpointRef::Id(endpoint);
    let extended = bench.service.extend_pulled(&bench.app(), &which, vec![token], LONG).await;
    extended.expect("answered").expect("the endpoint exists")
}

fn nack(delay: Option<Duration>) -> PulledVerdict {
    PulledVerdict::Nack { delay, error: Some("busy".to_owned()) }
}

#[tokio::test]
async fn popped_and_acked_deliveries_are_delivered() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, EndpointOptions::default()).await;
    let message = bench.emit(r#"{"n":1}"#).await;
    let ten = PullRequest { max: 10, ..PullRequest::default() };
    let items = pop(&bench, endpoint, ten.clone()).await;
    assert_eq!(items.len(), 1);
    let (token, item) = &items[0];
    assert_eq!((item.message, item.payload.as_deref()), (message, Some(br#"{"n":1}"#.as_slice())));
    assert!(pop(&bench, endpoint, ten).await.is_empty());
    let states = settle(&bench, endpoint, vec![(*token, PulledVerdict::Ack)]).await;
    assert_eq!(states, [SettledState::Delivered]);
    let again = settle(&bench, endpoint, vec![(*token, PulledVerdict::Ack)]).await;
    assert_eq!(again, [SettledState::Stale]);
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Delivered);
    bench.stop().await;
}

#[tokio::test]
async fn a_waiting_pop_gets_a_message_that_is_emitted_meanwhile() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, EndpointOptions::default()).await;
    let waiting = PullRequest { max: 1, wait: Some(LONG), lease: None };
    let (items, message) = tokio::join!(pop(&bench, endpoint, waiting), async {
        crate::support::eventually(async || bench.service.wake_snapshot().lines >= 2).await;
        bench.emit("{}").await
    });
    assert_eq!(items[0].1.message, message);
    bench.stop().await;
}

#[tokio::test]
async fn a_nacked_delivery_is_retried_by_the_schedule_and_then_fails() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, schedule(&[20])).await;
    let message = bench.emit("{}").await;
    let waiting = PullRequest { max: 1, wait: Some(LONG), lease: None };
    let (token, _) = pop(&bench, endpoint, waiting.clone()).await.remove(0);
    let states = settle(&bench, endpoint, vec![(token, nack(None))]).await;
    assert_eq!(states, [SettledState::Retrying]);
    let (token, item) = pop(&bench, endpoint, waiting).await.remove(0);
    assert_eq!(item.attempt_no, 2);
    let states = settle(&bench, endpoint, vec![(token, nack(None))]).await;
    assert_eq!(states, [SettledState::Failed]);
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Failed);
    let errors = bench.attempts().await.into_iter().map(|attempt| attempt.error);
    assert!(errors.eq([Some("busy".to_owned()), Some("busy".to_owned())]));
    bench.stop().await;
}

#[tokio::test]
async fn a_lease_can_be_extended() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, EndpointOptions::default()).await;
    bench.emit("{}").await;
    let short = PullRequest { max: 1, wait: Some(LONG), lease: Some(Duration::from_millis(150)) };
    let (token, _) = pop(&bench, endpoint, short).await.remove(0);
    assert_eq!(extend(&bench, endpoint, token).await, [true]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let states = settle(&bench, endpoint, vec![(token, PulledVerdict::Ack)]).await;
    assert_eq!(states, [SettledState::Delivered]);
    assert_eq!(extend(&bench, endpoint, token).await, [false]);
    bench.stop().await;
}

#[tokio::test]
async fn pulled_deliveries_can_be_signed_like_webhooks() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, EndpointOptions::default()).await;
    let which = EndpointRef::Id(endpoint);
    let old = bench.service.secret(&bench.app(), &which).await.expect("read").expect("one");
    let rotate = Rotate { asymmetric: true, ..Rotate::default() };
    bench.service.rotate_secret(&bench.app(), &which, rotate).await.expect("stored");
    bench.emit(r#"{"n":1}"#).await;
    let (_, item) =
        pop(&bench, endpoint, PullRequest { max: 1, ..PullRequest::default() }).await.remove(0);
    let signer = bench.service.pulled_signer(&bench.app(), &which).await;
    let headers = signer.expect("read").expect("one").headers(&item, br#"{"n":1}"#);
    let mut map = hyper::HeaderMap::new();
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().expect("a name");
        map.insert(name, value.parse().expect("a value"));
    }
    let verifier = standardwebhooks::Webhook::new(&old).expect("a key");
    verifier.verify(br#"{"n":1}"#, &map).expect("it verifies");
    assert!(map["webhook-signature"].to_str().expect("text").starts_with("v1a,"));
    bench.stop().await;
}

#[tokio::test]
async fn expired_deliveries_are_not_returned_and_have_failed() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, EndpointOptions::default()).await;
    let (gone, kept) = (bench.emit(r#"{"n":1}"#).await, bench.emit(r#"{"n":2}"#).await);
    let service = &bench.service;
    let expunged = service.expunge_payload(&bench.app(), &MessageRef::Id(gone)).await;
    assert!(expunged.expect("expunged"));
    // One at a time, so that the first claim finds only an expired delivery.
    let one = PullRequest { max: 1, ..PullRequest::default() };
    let items = pop(&bench, endpoint, one.clone()).await;
    assert_eq!(items.iter().map(|(_, item)| item.message).collect::<Vec<_>>(), [kept]);
    assert!(pop(&bench, endpoint, one).await.is_empty());
    assert_eq!(bench.delivery(endpoint, gone).await.state, DeliveryState::Failed);
    let attempts = bench.attempts().await;
    assert_eq!((attempts.len(), attempts[0].message), (1, gone));
    assert!(attempts[0].error.as_ref().expect("words").contains("expired"), "{attempts:?}");
    bench.stop().await;
}

#[tokio::test]
async fn a_token_of_another_endpoint_is_stale() {
    let bench = Bench::start().await;
    let endpoint = pulled(&bench, EndpointOptions::default()).await;
    let other = pulled(&bench, EndpointOptions::default()).await;
    bench.emit("{}").await;
    let one = PullRequest { max: 1, ..PullRequest::default() };
    let (token, _) = pop(&bench, endpoint, one.clone()).await.remove(0);
    let (own, _) = pop(&bench, other, one).await.remove(0);
    assert_eq!(extend(&bench, other, token).await, [false]);
    let settles = vec![(token, nack(None)), (own, PulledVerdict::Ack), (token, PulledVerdict::Ack)];
    let states = settle(&bench, other, settles).await;
    assert_eq!(states, [SettledState::Stale, SettledState::Delivered, SettledState::Stale]);
    let states = settle(&bench, endpoint, vec![(token, PulledVerdict::Ack)]).await;
    assert_eq!(states, [SettledState::Delivered]);
    bench.stop().await;
}

#[tokio::test]
async fn push_endpoints_cannot_be_pulled_from() {
    let bench = Bench::start().await;
    let called = bench.endpoint("https://example.com/", EndpointOptions::default()).await;
    let one = PullRequest { max: 1, ..PullRequest::default() };
    let refused = bench.service.pop(&bench.app(), &EndpointRef::Id(called), one.clone()).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "endpoint", .. })));
    let which = EndpointRef::Id(called);
    let refused = bench.service.extend_pulled(&bench.app(), &which, Vec::new(), LONG).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "endpoint", .. })));
    let unknown = EndpointRef::Id(EndpointId::generate());
    let missing = bench.service.pop(&bench.app(), &unknown, one).await;
    assert!(matches!(missing, Ok(PullOutcome::Missing)));
    bench.stop().await;
}
