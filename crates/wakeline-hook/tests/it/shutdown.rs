//! Graceful shutdown of a node.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use wakeline_core::EndpointOptions;
use wakeline_hook::{DispatchOptions, HookServiceOptions};
use wakeline_store::hook::DeliveryState;

use crate::support::{Answer, Bench, Receiver, options, schedule};

#[tokio::test]
async fn a_call_in_progress_finishes_and_its_outcome_is_stored() {
    let bench = Bench::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let mut receiver = Receiver::always(Answer::Gate(Arc::clone(&gate))).await;
    let endpoint = bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    let message = bench.emit("{}").await;
    receiver.next().await;
    let store = bench.store.clone();
    bench.shutdown.cancel();
    bench.service.drain();
    gate.add_permits(1);
    let application = bench.application;
    bench.stop().await;
    let after = Bench { application, ..Bench::over(store, options()).await };
    assert_eq!(after.delivery(endpoint, message).await.state, DeliveryState::Delivered);
    assert_eq!(after.attempts().await.len(), 1);
    after.stop().await;
}

#[tokio::test]
async fn a_call_that_exceeds_the_grace_period_does_not_delay_shutdown() {
    let grace = Duration::from_millis(50);
    let dispatch = DispatchOptions { grace, ..DispatchOptions::default() };
    let bench = Bench::with(HookServiceOptions { dispatch, ..options() }).await;
    let mut receiver = Receiver::always(Answer::Hang).await;
    let endpoint = bench.endpoint(&receiver.url(), schedule(&[])).await;
    let message = bench.emit("{}").await;
    receiver.next().await;
    let store = bench.store.clone();
    bench.stop().await;
    let found = store.deliveries_to(endpoint, vec![message]).await;
    let found = found.expect("read").remove(0).expect("it exists");
    assert_eq!(found.state, DeliveryState::InFlight);
}

#[tokio::test]
async fn messages_emitted_while_no_node_sends_are_sent_by_the_next_node() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Status(200)).await;
    bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    bench.shutdown.cancel();
    bench.service.drain();
    let message = bench.emit("{}").await;
    let (store, application) = (bench.store.clone(), bench.application);
    bench.stop().await;
    assert_eq!(receiver.left(), 0);
    let next = Bench { application, ..Bench::over(store, options()).await };
    assert_eq!(receiver.next().await.header("webhook-id"), message.to_string());
    next.attempted(1).await;
    next.stop().await;
}
