use std::time::Duration;

use tokio::time::sleep;
use wakeline_wake::{Hub, LongPollConfig, Patience, PollMode, TakeOutcome, WakeMode};

use crate::store::*;

fn poll_for_ever(hub: &Hub<Store>, queue: u32) -> tokio::task::JoinHandle<()> {
    let hub = hub.clone();
    tokio::spawn(async move {
        loop {
            let _ = hub.take(queue, 1, LONG).await;
            // The time that an answer and the next poll need on the network.
            sleep(2 * MS).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn hundred_clients_that_poll_again_cost_a_sweep_a_minute_and_no_claims() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let clients: Vec<_> = (0..100).map(|n| poll_for_ever(&hub, n % 10)).collect();
    sleep(S).await;
    let before = store.claims_len();
    sleep(600 * S).await;
    assert_eq!(store.claims_len() - before, 0);
    assert_eq!(*store.sweeps.lock(), 10);
    assert_eq!(hub.snapshot().counters.missed_hints, 0);
    clients.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn an_event_a_minute_costs_under_a_claim_per_second() {
    for mode in HINT_MODES {
        let store = Store::new();
        let hub = hub(&store, mode);
        let clients: Vec<_> = (0..4).map(|_| poll_for_ever(&hub, 1)).collect();
        sleep(S).await;
        let before = store.claims_len();
        for _ in 0..5 {
            sleep(60 * S).await;
            push(&store, &hub, 1);
            sleep(S).await;
            assert_eq!(store.left(), 0);
        }
        let claims = store.claims_len() - before;
        assert!(claims <= 5 * 6, "{mode}: {claims} claims in 305 s");
        clients.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn long_polling_switched_off_answers_at_once() {
    let store = Store::new();
    let long_poll = LongPollConfig { enabled: false, ..LongPollConfig::default() };
    let hub = hub_with(&store, WakeMode::Fused, long_poll);
    let start = tokio::time::Instant::now();
    assert_eq!(hub.take(1, 1, LONG).await, Ok(TakeOutcome::Empty));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn poll_mode_claims_at_its_pace_and_never_sweeps() {
    for (adaptive, expected) in [(false, 100..=101), (true, 20..=24)] {
        let store = Store::new();
        let mode = WakeMode::Poll(PollMode { adaptive, ..PollMode::default() });
        let hub = hub(&store, mode);
        assert_eq!(hub.take(1, 1, Patience::Wait(10 * S)).await, Ok(TakeOutcome::Empty));
        let claims = store.claims_len();
        assert!(expected.contains(&claims), "{claims} instead of {expected:?}");
        assert_eq!(*store.sweeps.lock(), 0);
    }
}
