//! Endpoints that do not get in each other's way.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use wakeline_core::EndpointOptions;
use wakeline_hook::{DispatchOptions, HookServiceOptions};

use crate::support::{Answer, Bench, Receiver, options, schedule};

#[tokio::test]
async fn endpoints_that_hang_or_fail_do_not_delay_another() {
    let bench = Bench::start().await;
    let hanging = Receiver::always(Answer::Hang).await;
    let dripping = Receiver::always(Answer::Drip).await;
    let failing = Receiver::always(Answer::Status(500)).await;
    let mut quick = Receiver::always(Answer::Status(200)).await;
    for receiver in [&hanging, &dripping, &failing] {
        bench.endpoint(&receiver.url(), schedule(&[5, 5, 5])).await;
    }
    bench.endpoint(&quick.url(), EndpointOptions::default()).await;
    for _ in 0..50 {
        let message = bench.emit("{}").await;
        // Nothing else of the test can end before: the others hold for their whole timeout.
        assert_eq!(quick.next().await.header("webhook-id"), message.to_string());
    }
    bench.shutdown.cancel();
    bench.running.abort();
}

#[tokio::test]
async fn slots_kept_for_first_attempts_are_free_while_retries_hang() {
    let dispatch = DispatchOptions { slots: 4, fresh_slots: 2, ..DispatchOptions::default() };
    let bench = Bench::with(HookServiceOptions { dispatch, ..options() }).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    // Fails at first, so that what holds the slots are retries.
    let mut failing = Receiver::start(move |request| match request {
        0..4 => Answer::Status(500),
        _ => Answer::Gate(Arc::clone(&held)),
    })
    .await;
    let breaker = EndpointOptions { breaker: None, ..schedule(&[30, 30]) };
    bench.endpoint(&failing.url(), breaker).await;
    for _ in 0..4 {
        bench.emit("{}").await;
    }
    for _ in 0..6 {
        failing.next().await;
    }
    let mut quick = Receiver::always(Answer::Status(200)).await;
    bench.endpoint(&quick.url(), EndpointOptions::default()).await;
    bench.emit("{}").await;
    quick.next().await;
    // All four retries are due by now, and only two of them are under way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let under_way = failing.left();
    assert!(under_way <= 1, "{under_way} more than the first attempt of the new message");
    gate.add_permits(100);
    bench.stop().await;
}
