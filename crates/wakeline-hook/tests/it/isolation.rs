//! Isolation between endpoints and between applications.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use wakeline_core::EndpointOptions;
use wakeline_hook::{DispatchOptions, HookServiceOptions};
use wakeline_wake::{LongPollConfig, PollMode, WakeMode};

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
        // No other call of the test ends before: the others hang for their complete timeout.
        assert_eq!(quick.next().await.header("webhook-id"), message.to_string());
    }
    bench.shutdown.cancel();
    bench.running.abort();
}

#[tokio::test]
async fn slots_reserved_for_first_attempts_are_free_while_retries_hang() {
    let dispatch = DispatchOptions { slots: 4, fresh_slots: 2, ..DispatchOptions::default() };
    let bench = Bench::with(HookServiceOptions { dispatch, ..options() }).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    // The first attempts fail, so that the slots are held by retries.
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
    // All four retries are due by now, and only two of them are in progress.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let under_way = failing.left();
    assert!(under_way <= 1, "{under_way} more than the first attempt of the new message");
    gate.add_permits(100);
    bench.stop().await;
}

/// A node with two slots, one of them reserved, which is woken only by hints and timers.
fn narrow(mode: WakeMode) -> HookServiceOptions {
    let dispatch = DispatchOptions { slots: 2, fresh_slots: 1, ..DispatchOptions::default() };
    let hour = Duration::from_secs(3_600);
    let long_poll = LongPollConfig { fallback_poll_interval: hour, ..LongPollConfig::default() };
    HookServiceOptions { mode, dispatch, long_poll, ..options() }
}

#[tokio::test]
async fn retries_that_become_due_while_the_general_slots_are_full_are_not_lost() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let bench = Bench::with(narrow(mode)).await;
        let gate = Arc::new(Semaphore::new(0));
        let mut receivers = Vec::new();
        for _ in 0..4 {
            let held = Arc::clone(&gate);
            let receiver = Receiver::start(move |request| match request {
                0 => Answer::Status(500),
                _ => Answer::Gate(Arc::clone(&held)),
            })
            .await;
            bench.endpoint(&receiver.url(), schedule(&[50])).await;
            receivers.push(receiver);
        }
        bench.emit("{}").await;
        bench.attempted(4).await;
        // All retries are due, one of them is in progress, and the waiting loops are not notified.
        tokio::time::sleep(Duration::from_millis(200)).await;
        gate.add_permits(100);
        for receiver in &mut receivers {
            receiver.next().await;
            receiver.next().await;
        }
        bench.attempted(8).await;
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_freed_slot_for_retries_is_used_at_once() {
    let poll = PollMode { interval: Duration::from_millis(20), ..PollMode::default() };
    for mode in [WakeMode::Fused, WakeMode::Poll(poll)] {
        let bench = Bench::with(narrow(mode)).await;
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let mut receiver = Receiver::start(move |request| match request {
            0..10 => Answer::Status(500),
            _ => Answer::Gate(Arc::clone(&held)),
        })
        .await;
        let options = EndpointOptions { breaker: None, ..schedule(&[50]) };
        bench.endpoint(&receiver.url(), options).await;
        for _ in 0..10 {
            bench.emit("{}").await;
        }
        for _ in 0..11 {
            receiver.next().await;
        }
        // All other loops wait for first attempts by now, and there are none.
        tokio::time::sleep(Duration::from_millis(100)).await;
        gate.add_permits(100);
        // A loop that is not notified waits for seconds each time, in total longer than this waits.
        bench.attempted(20).await;
        bench.stop().await;
    }
}

#[tokio::test]
async fn hanging_retries_of_one_application_leave_slots_to_retries_of_another() {
    let dispatch = DispatchOptions { slots: 16, fresh_slots: 4, ..DispatchOptions::default() };
    let mut bench = Bench::with(HookServiceOptions { dispatch, ..options() }).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let mut hanging = Receiver::start(move |request| match request {
        0..40 => Answer::Status(500),
        _ => Answer::Gate(Arc::clone(&held)),
    })
    .await;
    for _ in 0..40 {
        bench.endpoint(&hanging.url(), schedule(&[10])).await;
    }
    bench.emit("{}").await;
    // The first attempts, and then as many retries as the share of twelve slots allows.
    for _ in 0..40 + 9 {
        hanging.next().await;
    }
    let quiet = wakeline_hook::ApplicationIn { name: "quiet".to_owned(), ..Default::default() };
    let made = bench.service.create_application(quiet, None).await.expect("stored");
    let wakeline_store::hook::Created::New(quiet) = made else { panic!("{made:?}") };
    let abuser = std::mem::replace(&mut bench.application, quiet.id);
    let mut receiver = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    bench.endpoint(&receiver.url(), schedule(&[10])).await;
    let message = bench.emit("{}").await;
    for _ in 0..2 {
        assert_eq!(receiver.next().await.header("webhook-id"), message.to_string());
    }
    bench.attempted(2).await;
    assert_eq!(hanging.left(), 0, "no other retry of the abuser was begun meanwhile");
    gate.add_permits(100);
    bench.application = abuser;
    bench.attempted(80).await;
    bench.stop().await;
}
