use std::time::Duration;

use tokio::time::{Instant, sleep};
use wakeline_wake::{HintSource, Hub, Link, Patience, TakeOutcome, WakeMode};

use crate::store::*;

#[tokio::test(start_paused = true)]
async fn push_answers_a_parked_poll_in_every_mode() {
    for mode in all_modes() {
        let store = Store::new();
        let hub = hub(&store, mode);
        let waiter = poll(&hub, 1, LONG);
        sleep(S).await;
        let pushed = Instant::now();
        push(&store, &hub, 1);
        assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))), "{mode}");
        let bound = if mode.uses_hints() { Duration::ZERO } else { 500 * MS };
        assert!(pushed.elapsed() <= bound, "{mode}: {:?}", pushed.elapsed());
        assert_eq!(store.left(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn hint_during_the_empty_claim_answers_the_poll_that_follows() {
    for mode in HINT_MODES {
        let store = Store::new();
        let hub = hub(&store, mode);
        let gate = store.gate.acquire_many(PERMITS as u32).await.expect("open");
        let waiter = poll(&hub, 1, LONG);
        settle().await;
        assert_eq!(store.claims_len(), 1);
        hub.hint(&[(1, Duration::ZERO)], HintSource::Notify);
        drop(gate);
        settle().await;
        assert_eq!(store.claims_len(), 2, "{mode}: the hint made it claim again");
        push(&store, &hub, 1);
        assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn hundred_waiters_and_hundred_items_cost_one_claim_fused_and_hundred_broadcast() {
    for (mode, expected) in [(WakeMode::Fused, 1), (WakeMode::Broadcast, 100)] {
        let store = Store::new();
        let hub = hub(&store, mode);
        let waiters: Vec<_> = (0..100).map(|_| poll(&hub, 1, LONG)).collect();
        sleep(S).await;
        let before = store.claims_len();
        for _ in 0..100 {
            store.commit(1, Duration::ZERO);
        }
        hub.hint(&[(1, Duration::ZERO)], HintSource::InProcess);
        for waiter in waiters {
            assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
        }
        assert_eq!(store.claims_len() - before, expected, "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn timers_at_1_s_and_3_s_are_on_time_with_other_work_between() {
    for mode in HINT_MODES {
        let store = Store::new();
        // This item was committed before the node starts; it is found by the first claim.
        store.commit(1, S);
        store.commit(1, 3 * S);
        let start = Instant::now();
        let hub = hub(&store, mode);
        let late = |hub: Hub<Store>| async move {
            let taken = hub.take(1, 1, LONG).await;
            let Ok(TakeOutcome::Claimed((_, items))) = taken else { panic!("{taken:?}") };
            items[0].elapsed()
        };
        let waiters: Vec<_> = (0..3).map(|_| tokio::spawn(late(hub.clone()))).collect();
        sleep(S / 2).await;
        push(&store, &hub, 1);
        for waiter in waiters {
            let late = waiter.await.expect("every waiter gets an item");
            assert!(late <= 2 * MS, "{mode}: {late:?} late");
        }
        assert!(start.elapsed() >= 3 * S, "{mode}: never early");
        // Three claims on arrival, one for the push and one that it wakes, two per timer.
        assert!(store.claims_len() <= 3 + 3 + 2 * 3, "{mode}: {}", store.claims_len());
    }
}

#[tokio::test(start_paused = true)]
async fn due_hint_of_another_node_is_claimed_when_it_is_due() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let waiter = poll(&hub, 1, LONG);
    sleep(S).await;
    let before = store.claims_len();
    store.commit(1, 2 * S);
    hub.hint(&[(1, 2 * S)], HintSource::Notify);
    sleep(S).await;
    assert_eq!(store.claims_len(), before);
    assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
    assert_eq!(store.claims_len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn visible_at_claim_time_is_the_rule() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    store.commit(1, S / 2);
    let start = Instant::now();
    assert_eq!(hub.take(1, 1, Patience::Now).await, Ok(TakeOutcome::Empty));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let taken = hub.take(1, 1, Patience::Wait(5 * S)).await;
    assert!(matches!(taken, Ok(TakeOutcome::Claimed(_))));
    assert!(start.elapsed() >= S / 2 && start.elapsed() < S, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_hints_with_all_claims_busy_neither_block_nor_lose_anything() {
    for mode in HINT_MODES {
        let store = Store::new();
        let hub = hub(&store, mode);
        let waiters: Vec<_> = (0..2).map(|_| poll(&hub, 1, LONG)).collect();
        sleep(S).await;
        let gate = store.gate.acquire_many(PERMITS as u32).await.expect("open");
        let before = store.claims_len();
        for _ in 0..10_000 {
            hub.hint(&[(1, Duration::ZERO)], HintSource::Notify);
        }
        settle().await;
        assert!(store.claims_len() - before <= 2, "{mode}: coalesced");
        store.commit(1, Duration::ZERO);
        store.commit(1, Duration::ZERO);
        drop(gate);
        for waiter in waiters {
            assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))), "{mode}");
        }
        assert!(store.claims_len() - before <= 6, "{mode}: {}", store.claims_len() - before);
    }
}

#[tokio::test(start_paused = true)]
async fn cut_link_polls_until_it_is_up_and_clean_again() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let waiter = poll(&hub, 1, LONG);
    sleep(S).await;
    hub.link(Link::Down { reason: "the socket was cut".into() });
    store.commit(1, Duration::ZERO);
    let lost = Instant::now();
    assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
    assert!(lost.elapsed() <= 101 * MS, "within the degraded interval");
    let degraded = hub.snapshot().degraded.expect("says so");
    assert_eq!(
        degraded.reason,
        "the connection that receives notifications is lost: the socket was cut"
    );
    hub.link(Link::Up);
    hub.everything();
    for _ in 0..3 {
        assert_eq!(hub.take(1, 1, LONG).await, Ok(TakeOutcome::Empty));
    }
    assert_eq!(hub.snapshot().degraded, None);
    let before = store.claims_len();
    assert_eq!(hub.take(1, 1, LONG).await, Ok(TakeOutcome::Empty));
    assert_eq!(store.claims_len() - before, 0, "idle again");
}

#[tokio::test(start_paused = true)]
async fn work_committed_during_a_cut_is_found_on_reconnect() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Compete);
    let waiters: Vec<_> = (1..=20).map(|queue| poll(&hub, queue, LONG)).collect();
    sleep(S).await;
    for queue in 1..=20 {
        store.commit(queue, Duration::ZERO);
    }
    hub.everything();
    let start = Instant::now();
    for waiter in waiters {
        assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
    }
    assert!(start.elapsed() < 20 * MS);
}

#[tokio::test(start_paused = true)]
async fn losing_every_hint_costs_latency_never_work() {
    for mode in HINT_MODES {
        let store = Store::new();
        let hub = hub(&store, mode);
        // The poll parks just before the sweep of the first minute, on a line that is known to be
        // empty.
        for _ in 0..2 {
            assert_eq!(hub.take(1, 1, Patience::Wait(29 * S)).await, Ok(TakeOutcome::Empty));
        }
        let waiter = poll(&hub, 1, LONG);
        settle().await;
        store.commit(1, Duration::ZERO);
        let start = Instant::now();
        assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))), "{mode}");
        assert!(start.elapsed() < 5 * S, "{mode}: {:?}", start.elapsed());
        sleep(S).await;
        assert_eq!(hub.snapshot().counters.missed_hints, 1, "{mode}");
    }
}
