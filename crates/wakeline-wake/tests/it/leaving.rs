use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use wakeline_wake::{LongPollConfig, Patience, TakeError, TakeOutcome, WakeMode};

use crate::store::*;

#[tokio::test(start_paused = true)]
async fn dropped_poll_is_gone_and_its_claim_is_released_to_the_next() {
    for mode in HINT_MODES {
        let store = Store::new();
        let hub = hub(&store, mode);
        let quitter = poll(&hub, 1, LONG);
        settle().await;
        let gate = store.gate.acquire_many(PERMITS as u32).await.expect("open");
        push(&store, &hub, 1);
        settle().await;
        quitter.abort();
        settle().await;
        assert_eq!(hub.snapshot().waiters, 0, "{mode}");
        let next = poll(&hub, 1, LONG);
        drop(gate);
        assert!(matches!(next.await, Ok(TakeOutcome::Claimed(_))), "{mode}");
        assert_eq!(*store.released.lock(), 1, "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn poll_dropped_before_it_receives_its_answer_gives_its_result_back() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let mut taking = Box::pin(hub.take(1, 1, LONG));
    assert!(timeout(S, &mut taking).await.is_err());
    push(&store, &hub, 1);
    settle().await;
    assert_eq!(store.left(), 0, "claimed");
    drop(taking);
    settle().await;
    assert_eq!(store.left(), 1);
    assert_eq!(*store.released.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_polls_dropped_at_once_leave_nothing() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let polls: Vec<_> = (0..10_000).map(|n| poll(&hub, n % 100, LONG)).collect();
    sleep(S).await;
    assert_eq!(hub.snapshot().waiters, 10_000);
    let refused = hub.take(1, 1, LONG).await;
    assert!(matches!(refused, Err(TakeError::TooMany { .. })));
    for poll in &polls {
        poll.abort();
    }
    for poll in polls {
        assert!(poll.await.expect_err("aborted").is_cancelled());
    }
    let after = hub.snapshot();
    assert_eq!((after.waiters, after.lines), (0, 0));
    push(&store, &hub, 1);
    let taken = hub.take(1, 1, LONG).await;
    assert!(matches!(taken, Ok(TakeOutcome::Claimed(_))));
}

#[tokio::test(start_paused = true)]
async fn drain_answers_all_waiters_at_once() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let polls: Vec<_> = (0..100).map(|_| poll(&hub, 1, LONG)).collect();
    sleep(S).await;
    let start = Instant::now();
    hub.drain();
    for poll in polls {
        assert_eq!(poll.await.expect("ends"), TakeOutcome::Drained);
    }
    assert_eq!(hub.take(1, 1, LONG).await, Ok(TakeOutcome::Drained));
    assert_eq!(start.elapsed(), Duration::ZERO);
    store.commit(1, Duration::ZERO);
    let taken = hub.take(1, 1, Patience::Now).await;
    assert!(matches!(taken, Ok(TakeOutcome::Claimed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_drained_hub_is_settled_when_unclaimed_results_are_released() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let poll = poll(&hub, 1, LONG);
    settle().await;
    let gate = store.gate.acquire_many(PERMITS as u32).await.expect("open");
    push(&store, &hub, 1);
    settle().await;
    hub.drain();
    // The claim takes longer than a drained waiter is kept for its end.
    assert_eq!(poll.await.expect("ends"), TakeOutcome::Drained);
    let settled = hub.wait_for_claims();
    tokio::pin!(settled);
    assert!(timeout(S, &mut settled).await.is_err(), "a claim is under way");
    drop(gate);
    settled.await;
    assert_eq!((store.left(), *store.released.lock()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn max_wait_time_caps_a_wait() {
    let store = Store::new();
    let long_poll = LongPollConfig { max_wait_time: 2 * S, ..LongPollConfig::default() };
    let hub = hub_with(&store, WakeMode::Fused, long_poll);
    let start = Instant::now();
    assert_eq!(hub.take(1, 1, LONG).await, Ok(TakeOutcome::Empty));
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_ends_the_hubs_tasks() {
    let store = Store::new();
    let hub = hub(&store, WakeMode::Fused);
    let other = hub.clone();
    assert_eq!(other.take(1, 1, Patience::Wait(S)).await, Ok(TakeOutcome::Empty));
    drop(hub);
    settle().await;
    assert!(Arc::strong_count(&store) > 1, "a handle is left");
    drop(other);
    settle().await;
    assert_eq!(Arc::strong_count(&store), 1, "no task holds the API any more");
}

#[test]
fn waiters_are_drained_when_the_hubs_runtime_ends() {
    let theirs = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    let store = Store::new();
    let hub = theirs.block_on(async { hub(&store, WakeMode::Fused) });
    let ours = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ours = ours.expect("a runtime");
    let taken = ours.block_on(async {
        let taking = poll(&hub, 1, LONG);
        while hub.snapshot().counters.claims.empty == 0 {
            tokio::task::yield_now().await;
        }
        theirs.shutdown_background();
        taking.await.expect("ends")
    });
    assert_eq!(taken, TakeOutcome::Drained);
}
