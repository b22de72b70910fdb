//! Rules of slots that are reserved for first attempts.

use std::time::Duration;

use wakeline_core::{HookLine, HookMessageId};
use wakeline_store::hook::{DeliveryClaim, NewMessage};

use super::{HookBench, fifo, items, messages_of, plain, push, rated, request_fresh, secs};

/// Stores a message whose first attempt fails; the next attempt is due.
async fn retried(bench: &HookBench) -> HookMessageId {
    let message = bench.emit().await;
    let item = bench.one().await;
    assert_eq!(item.message, message, "nothing else is due");
    bench.retry(&item, 0).await;
    message
}

async fn taken(bench: &HookBench, attempts: usize, fresh_only: u32) -> Vec<HookMessageId> {
    let answer = bench.claim(push(vec![request_fresh(attempts, fresh_only)])).await;
    messages_of(&items(&answer.groups[0]))
}

/// Rule 3: retries never use all slots.
pub async fn retries_leave_slots_for_first_attempts(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(4).await;
    for item in bench.take(4).await {
        bench.retry(&item, 1).await;
    }
    bench.advance(1).await;
    assert_eq!(taken(bench, 3, 2).await, ids[..1]);
    let fresh = bench.emit_many(3).await;
    assert_eq!(taken(bench, 3, 2).await, [ids[1], fresh[0], fresh[1]]);
}

/// Rule 3: first attempts use the reserved slots last.
pub async fn first_attempts_use_their_reserved_slots_last(bench: &HookBench) {
    bench.with(plain()).await;
    let (retried, first) = (bench.emit().await, bench.emit().await);
    let item = bench.one().await;
    assert_eq!(item.message, retried);
    bench.advance_ms(1).await;
    bench.retry(&item, 0).await;
    // The first attempt became due earlier and takes the general slot, so that none is left for the
    // retry.
    assert_eq!(taken(bench, 2, 1).await, [first]);
    assert_eq!(taken(bench, 2, 1).await, [retried]);
}

/// Rule 3: first attempts are found, however many retries were due before them.
pub async fn first_attempts_are_found_behind_many_retries(bench: &HookBench) {
    for _ in 0..30 {
        bench.with(plain()).await;
    }
    bench.emit_many(2).await;
    let got = bench.take(60).await;
    assert_eq!(got.len(), 60);
    for item in got {
        bench.retry(&item, 1).await;
    }
    bench.advance(60).await;
    let last = bench.with(plain()).await;
    let new = NewMessage { only: Some(last), ..bench.message() };
    let fresh = bench.stored(new).await.0.id;
    assert_eq!(taken(bench, 1, 1).await, [fresh]);
    assert!(taken(bench, 1, 1).await.is_empty());
}

/// Rule 9: a claim with reserved slots only does not report retries as due, because the caller
/// would claim in a loop.
pub async fn slots_for_first_attempts_are_not_due_for_retries(bench: &HookBench) {
    bench.with(plain()).await;
    retried(bench).await;
    let answer = bench.claim(push(vec![request_fresh(2, 2)])).await;
    assert!(answer.groups[0].is_empty());
    assert_ne!(answer.next_due, Some(Duration::ZERO), "the retry is not for them");
    assert_eq!(bench.take(1).await.len(), 1);
}

/// A first attempt that was released is a first attempt again.
pub async fn a_released_first_attempt_is_first_again(bench: &HookBench) {
    bench.with(plain()).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.release(&[&item]).await;
    assert_eq!(taken(bench, 1, 1).await, [message]);
}

/// After a first attempt has expired, the next one is not a first attempt.
pub async fn an_expired_first_attempt_is_not_first_again(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    bench.one().await;
    bench.advance(30).await;
    assert!(taken(bench, 1, 1).await.is_empty());
    assert_eq!(bench.one().await.attempt_no, 2);
}

/// A manual attempt does not count as a first attempt.
pub async fn a_manual_attempt_is_not_a_first_attempt(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    bench.resend(message, id).await;
    assert!(taken(bench, 1, 1).await.is_empty());
    assert_eq!(bench.taken(1).await, [message]);
}

/// In strict order the head decides whether the next attempt is a first one.
pub async fn an_endpoint_in_order_is_not_overtaken_by_first_attempts(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let head = retried(bench).await;
    bench.emit().await;
    assert!(taken(bench, 1, 1).await.is_empty());
    assert_eq!(taken(bench, 2, 1).await, [head]);
}

/// Deliveries behind a head that was retried are still first attempts when they become available.
pub async fn first_attempts_behind_a_retried_head_are_found(bench: &HookBench) {
    let mut options = rated(1);
    options.fifo = fifo(1).fifo;
    bench.with(options).await;
    let head = retried(bench).await;
    let behind = bench.emit().await;
    bench.advance(1).await;
    let answer = bench.claim(push(vec![request_fresh(1, 1)])).await;
    assert!(answer.groups[0].is_empty(), "the head comes first");
    assert_ne!(answer.next_due, Some(Duration::ZERO), "so nothing is to be claimed");
    let item = bench.one().await;
    assert_eq!(item.message, head);
    bench.deliver(&item).await;
    bench.advance(1).await;
    assert_eq!(taken(bench, 1, 1).await, [behind]);
}

/// Each of several requests keeps its own reserved slots.
pub async fn each_request_keeps_its_own_slots(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    for item in bench.take(3).await {
        bench.retry(&item, 0).await;
    }
    let fresh = bench.emit().await;
    bench.advance(1).await;
    let answer = bench.claim(push(vec![request_fresh(2, 1), request_fresh(2, 1)])).await;
    let mut got: Vec<_> = answer.groups.iter().flat_map(|groups| items(groups)).collect();
    got.sort_by_key(|item| item.message);
    assert_eq!(messages_of(&got), [ids[0], ids[1], fresh]);
    assert_eq!(answer.groups[1].len(), 1);
    assert_eq!(bench.taken(5).await, ids[2..]);
    assert_eq!(bench.none().await, Some(secs(30)));
}

/// A claim that looks further reports what is due for the other waiters of its line, not only what
/// its own remaining slots can take.
pub async fn a_claim_that_looks_further_sees_what_its_own_slots_cannot_take(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(3).await;
    for item in bench.take(3).await {
        bench.retry(&item, 1).await;
    }
    bench.advance(1).await;
    let claim = async |claim: DeliveryClaim| {
        let answer = bench.claim(DeliveryClaim { further: true, ..claim }).await;
        assert_eq!(answer.groups[0].len(), 1);
        answer.next_due
    };
    let general = || push(vec![request_fresh(2, 1)]);
    assert_eq!(claim(general()).await, Some(Duration::ZERO), "a retry, for another waiter");
    bench.emit().await;
    let fresh = DeliveryClaim::new(HookLine::PushFresh, vec![request_fresh(1, 1)]);
    assert_ne!(claim(fresh).await, Some(Duration::ZERO), "retries are not for its line");
    assert_eq!(claim(general()).await, Some(Duration::ZERO));
}
