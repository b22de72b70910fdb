use tokio::time::{Instant, sleep};
use wakeline_wake::{Link, Patience, TakeError, TakeOutcome, WakeMode};

use crate::store::*;

#[tokio::test(start_paused = true)]
async fn impatient_poll_gets_the_error_and_a_waiting_one_gets_its_work_later() {
    for mode in all_modes() {
        let store = Store::new();
        let hub = hub(&store, mode);
        let waiter = poll(&hub, 1, LONG);
        sleep(S).await;
        *store.mood.lock() = Mood::Fails;
        push(&store, &hub, 1);
        let error = hub.take(1, 1, Patience::Now).await;
        assert_eq!(error, Err(TakeError::Claim("no database".into())), "{mode}");
        sleep(S).await;
        assert_eq!(hub.snapshot().waiters, 1, "{mode}: it stays parked");
        *store.mood.lock() = Mood::Works;
        assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))), "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_store_is_called_at_growing_intervals_and_the_deadline_brings_the_error() {
    for mode in all_modes() {
        let store = Store::new();
        let hub = hub(&store, mode);
        *store.mood.lock() = Mood::Fails;
        let polls = (0..20).map(|_| hub.take(1, 1, LONG));
        let ends = futures_util::future::join_all(polls).await;
        let error = TakeError::Claim("no database".to_owned());
        assert!(ends.iter().all(|end| *end == Err(error.clone())), "{mode}");
        assert!(store.claims_len() < 80, "{mode}: {} claims in 30 s", store.claims_len());
        assert_eq!(hub.snapshot().degraded.is_some(), mode.uses_hints());
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_after_an_outage_is_served_at_once() {
    for mode in all_modes().into_iter().filter(WakeMode::uses_hints) {
        let store = Store::new();
        let hub = hub(&store, mode);
        let waiter = poll(&hub, 1, LONG);
        *store.mood.lock() = Mood::Fails;
        hub.link(Link::Down { reason: "the database is away".into() });
        sleep(9 * S + 50 * MS).await;
        *store.mood.lock() = Mood::Works;
        let healed = Instant::now();
        push(&store, &hub, 1);
        assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))), "{mode}");
        assert!(healed.elapsed() <= 5 * MS, "{mode}: {:?}", healed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_claim_does_not_take_the_hub_with_it() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let waiter = poll(&hub, 1, LONG);
    sleep(S).await;
    *store.mood.lock() = Mood::Panics;
    push(&store, &hub, 1);
    settle().await;
    *store.mood.lock() = Mood::Works;
    assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
    assert_eq!(hub.snapshot().claims_in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn hanging_claim_does_not_hold_a_poll_much_beyond_its_deadline() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let _gate = store.gate.acquire_many(PERMITS as u32).await.expect("open");
    let start = Instant::now();
    assert_eq!(hub.take(1, 1, Patience::Wait(5 * S)).await, Ok(TakeOutcome::Empty));
    assert!(start.elapsed() <= 6 * S + 5 * MS);
    assert!(start.elapsed() >= 5 * S);
    assert_eq!(hub.snapshot().waiters, 0);
}
