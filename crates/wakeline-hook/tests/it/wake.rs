//! How senders are notified of deliveries.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{EndpointId, EndpointOptions, RETRY_SCHEDULE_DEFAULT};
use wakeline_hook::{DispatchOptions, HookServiceOptions, SendOptions};
use wakeline_store::hook::DeliveryState;
use wakeline_testkit::oracle::MemoryStore;
use wakeline_wake::{PollGrouping, PollMode, WakeMode};

use crate::support::{Answer, Bench, Receiver, eventually, options, schedule};

fn polling(grouping: PollGrouping) -> WakeMode {
    WakeMode::Poll(PollMode { grouping, ..PollMode::default() })
}

async fn claims_in_100_s(grouping: PollGrouping) -> u64 {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let options = HookServiceOptions { mode: polling(grouping), ..options() };
    let bench = Bench::over(store, options).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let counters = bench.service.wake_snapshot().counters;
    assert_eq!(counters.sweeps, 0);
    bench.stop().await;
    counters.claims.total()
}

#[tokio::test(start_paused = true)]
async fn ten_independent_senders_make_a_hundred_claims_a_second() {
    let claims = claims_in_100_s(PollGrouping::Waiter).await;
    assert!((9_000..=11_000).contains(&claims), "{claims} claims in 100 s");
}

#[tokio::test(start_paused = true)]
async fn ten_senders_that_poll_together_make_ten_claims_a_second() {
    let claims = claims_in_100_s(PollGrouping::Line).await;
    assert!((900..=1_100).contains(&claims), "{claims} claims in 100 s");
}

/// An endpoint that the guard refuses when it is called, so that attempts need no socket.
async fn refused(bench: &Bench, options: EndpointOptions) -> EndpointId {
    bench.endpoint("http://localhost:9/", options).await
}

/// Options that refuse loopback.
fn strict() -> HookServiceOptions {
    HookServiceOptions { send: SendOptions::default(), ..options() }
}

#[tokio::test(start_paused = true)]
async fn polling_continues_without_a_pause_while_batches_are_full() {
    let dispatch = DispatchOptions { poll_senders: 1, ..DispatchOptions::default() };
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let options = HookServiceOptions { mode: polling(PollGrouping::Waiter), dispatch, ..strict() };
    let bench = Bench::over(store, options).await;
    refused(&bench, EndpointOptions { breaker: None, ..schedule(&[]) }).await;
    let began = tokio::time::Instant::now();
    for _ in 0..200 {
        bench.emit("{}").await;
    }
    bench.attempted(200).await;
    // With its usual pause one sender would need twenty intervals of 100 ms.
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delivery_follows_its_schedule_to_the_end_and_is_never_early() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let bench = Bench::over(store, strict()).await;
    let planned = &RETRY_SCHEDULE_DEFAULT[..4];
    let schedule = Some(planned.to_vec());
    let options = EndpointOptions { schedule, ..EndpointOptions::default() };
    let endpoint = refused(&bench, options).await;
    let message = bench.emit("{}").await;
    tokio::time::sleep(Duration::from_secs(4 * 60 * 60)).await;
    let attempts = bench.attempts().await;
    let waits: Vec<_> = attempts
        .windows(2)
        .map(|pair| (pair[1].began_at.0 - pair[0].began_at.0) as f64 / 1e6)
        .collect();
    assert_eq!(waits.len(), planned.len());
    for (wait, planned) in waits.iter().zip(planned) {
        let share = wait / planned.as_secs_f64();
        assert!((0.8..1.25).contains(&share), "{wait} s instead of {planned:?}");
    }
    assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Failed);
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_hints_costs_only_one_query_per_minute() {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        let store = Arc::new(MemoryStore::with_tokio_clock());
        let bench = Bench::over(store, HookServiceOptions { mode, ..options() }).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = bench.service.wake_snapshot().counters;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let after = bench.service.wake_snapshot().counters;
        assert_eq!(after.claims.empty, before.claims.empty, "{mode}");
        let sweeps = after.sweeps - before.sweeps;
        assert!((1..=12).contains(&sweeps), "{mode}: {sweeps} sweeps in ten minutes");
        bench.stop().await;
    }
}

#[tokio::test]
async fn every_mode_delivers_first_attempts_and_retries() {
    let poll =
        WakeMode::Poll(PollMode { interval: Duration::from_millis(5), ..PollMode::default() });
    let independent = polling(PollGrouping::Waiter);
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast, independent, poll] {
        let bench = Bench::with(HookServiceOptions { mode, ..options() }).await;
        let mut receiver = Receiver::start(|request| match request {
            0 => Answer::Status(500),
            _ => Answer::Status(200),
        })
        .await;
        bench.endpoint(&receiver.url(), schedule(&[20])).await;
        for _ in 0..20 {
            bench.emit("{}").await;
        }
        for _ in 0..21 {
            receiver.next().await;
        }
        assert_eq!(bench.attempted(21).await.len(), 21, "{mode}");
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_message_of_an_idle_node_is_leased_on_insert() {
    let bench = Bench::start().await;
    let mut receiver = Receiver::always(Answer::Status(200)).await;
    bench.endpoint(&receiver.url(), EndpointOptions::default()).await;
    // The senders, and the background worker.
    eventually(async || bench.service.wake_snapshot().waiters == 5).await;
    eventually(async || bench.service.wake_snapshot().claims_in_flight == 0).await;
    bench.emit("{}").await;
    receiver.next().await;
    assert_eq!(bench.service.wake_snapshot().counters.leased_on_insert, 1);
    bench.stop().await;
}
