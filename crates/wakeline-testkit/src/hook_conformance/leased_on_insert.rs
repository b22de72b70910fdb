//! Rules of deliveries that are leased by the commit that creates them.

use wakeline_core::{EndpointId, HookMessageId};
use wakeline_store::hook::{
    AttemptOutcome, DeliveryItem, DeliveryRequest, EmitReply, NewMessage, SettleDelivery,
    SettledState,
};

use super::{
    HookBench, capped, fifo, items, key, messages_of, plain, pulled, push, rated, request,
    request_fresh, secs, success,
};

async fn emit_to(bench: &HookBench, requests: Vec<DeliveryRequest>) -> (HookMessageId, EmitReply) {
    let new = bench.message();
    let id = new.id;
    (id, bench.hook.emit(new, requests).await.expect("a message is stored"))
}

/// The deliveries that a request was given.
fn given(reply: &EmitReply, request: usize) -> Vec<DeliveryItem> {
    let of = reply.leased.iter().filter(|(n, _)| *n == request);
    of.flat_map(|(_, groups)| items(groups)).collect()
}

fn endpoints(reply: &EmitReply) -> Vec<EndpointId> {
    let groups = reply.leased.iter().flat_map(|(_, groups)| groups);
    let mut all: Vec<_> = groups.map(|group| group.target.endpoint).collect();
    all.sort_unstable();
    all
}

/// Rule 7: a new delivery is leased to a request that comes with its message.
pub async fn a_new_delivery_is_leased_to_a_piggybacked_request(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let request = request(2);
    let (message, reply) = emit_to(bench, vec![request.clone()]).await;
    let got = given(&reply, 0);
    assert_eq!(got.len(), 1, "{reply:?}");
    assert_eq!((got[0].message, got[0].attempt_no), (message, 1));
    assert!(request.attempts.contains(&got[0].token.attempt));
    assert!(got[0].payload.is_some());
    assert_eq!(endpoints(&reply), [id]);
    assert!(bench.take(1).await.is_empty(), "it is leased");
    bench.deliver(&got[0]).await;
}

/// Rule 7: one request gets deliveries of several endpoints.
pub async fn a_request_gets_deliveries_of_several_endpoints(bench: &HookBench) {
    let ids = [bench.with(plain()).await, bench.with(plain()).await, bench.with(plain()).await];
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert_eq!(endpoints(&reply), ids);
    assert_eq!(given(&reply, 0).len(), 3);
}

/// Rule 7: a request gets at most as many deliveries as it has attempts.
pub async fn no_more_than_the_requested_attempts_are_leased_on_insert(bench: &HookBench) {
    for _ in 0..5 {
        bench.with(plain()).await;
    }
    let (_, reply) = emit_to(bench, vec![request(1), request(2)]).await;
    assert_eq!((given(&reply, 0).len(), given(&reply, 1).len()), (1, 2));
    assert_eq!(bench.take(9).await.len(), 2, "the others wait");
}

/// Rule 7: a new delivery never overtakes one that waits.
pub async fn nothing_is_leased_on_insert_past_a_waiting_delivery(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let first = bench.emit().await;
    let (second, reply) = emit_to(bench, vec![request(5)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
    assert_eq!(bench.taken(5).await, [first, second]);
    let other = bench.with(plain()).await;
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert_eq!(endpoints(&reply), [id, other], "those under way do not hinder");
}

/// Rule 7: nor one whose lease has expired, which waits as well.
pub async fn nothing_is_leased_on_insert_past_an_expired_lease(bench: &HookBench) {
    for options in [fifo(1), plain()] {
        let id = bench.with(options).await;
        let (first, reply) = emit_to(bench, vec![request(1)]).await;
        assert_eq!(given(&reply, 0).len(), 1);
        bench.advance(30).await;
        let (second, reply) = emit_to(bench, vec![request(1)]).await;
        assert!(reply.leased.is_empty(), "{reply:?}");
        for message in [first, second] {
            let item = bench.one().await;
            assert_eq!(item.message, message);
            bench.deliver(&item).await;
        }
        bench.delete(id).await;
    }
}

/// Rule 7: each lease ends on its own, whatever was leased before.
pub async fn a_delivery_leased_on_insert_is_due_again_after_its_own_lease(bench: &HookBench) {
    bench.with(plain()).await;
    let (first, _) = emit_to(bench, vec![request(1)]).await;
    bench.advance(10).await;
    let (second, _) = emit_to(bench, vec![request(1)]).await;
    let short = DeliveryRequest { lease: Some(secs(5)), ..request(1) };
    let (third, reply) = emit_to(bench, vec![short]).await;
    assert_eq!(given(&reply, 0).len(), 1);
    for (span, message) in [(4, third), (14, first), (9, second)] {
        bench.advance(span).await;
        assert!(bench.take(9).await.is_empty(), "it is leased still");
        bench.advance(1).await;
        let item = bench.one().await;
        assert_eq!(item.message, message);
        bench.deliver(&item).await;
    }
}

/// Rule 7: in strict order, one delivery is in flight at a time.
pub async fn an_endpoint_in_order_gives_nothing_while_one_is_under_way(bench: &HookBench) {
    bench.with(fifo(5)).await;
    let (first, reply) = emit_to(bench, vec![request(1)]).await;
    let got = given(&reply, 0);
    assert_eq!(got.iter().map(|item| item.message).collect::<Vec<_>>(), [first]);
    let (second, reply) = emit_to(bench, vec![request(1)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
    bench.deliver(&got[0]).await;
    assert_eq!(bench.taken(1).await, [second]);
}

/// Rule 7: pulled deliveries are never leased on insert.
pub async fn pulled_deliveries_are_never_leased_on_insert(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
    assert_eq!(bench.fetch(id, 5).await.len(), 1);
}

/// Rule 7: only deliveries that can be claimed right now are leased on insert.
pub async fn an_endpoint_that_is_held_back_gives_nothing(bench: &HookBench) {
    let rated = bench.with(rated(1)).await;
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert_eq!(endpoints(&reply), [rated]);
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert!(reply.leased.is_empty(), "the rate is used up: {reply:?}");
    bench.delete(rated).await;
    let capped = bench.with(capped(1)).await;
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert_eq!(endpoints(&reply), [capped]);
    let held = given(&reply, 0).remove(0);
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert!(reply.leased.is_empty(), "one is under way: {reply:?}");
    let throttle = Some(secs(60));
    bench.settle(SettleDelivery { throttle, ..success(held.token) }).await;
    assert!(bench.take(9).await.is_empty(), "throttled");
}

/// Rule 7: a throttled endpoint leases nothing on insert.
pub async fn a_throttled_endpoint_leases_nothing_on_insert(bench: &HookBench) {
    bench.with(plain()).await;
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    let held = given(&reply, 0).remove(0);
    bench.settle(SettleDelivery { throttle: Some(secs(60)), ..success(held.token) }).await;
    let (_, reply) = emit_to(bench, vec![request(5)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
}

/// New deliveries are first attempts.
pub async fn slots_for_first_attempts_take_new_deliveries(bench: &HookBench) {
    bench.with(plain()).await;
    let (_, reply) = emit_to(bench, vec![request_fresh(1, 1)]).await;
    assert_eq!(given(&reply, 0).len(), 1);
}

/// A repeated message is not stored and leases nothing.
pub async fn a_repeated_message_leases_nothing(bench: &HookBench) {
    bench.with(plain()).await;
    let new = || NewMessage { idempotency: key("k", 1), ..bench.message() };
    bench.stored(new()).await;
    let reply = bench.hook.emit(new(), vec![request(5)]).await.expect("answered");
    assert!(reply.leased.is_empty(), "{reply:?}");
    assert_eq!(bench.take(5).await.len(), 1);
}

/// A lease made on insert expires like any other.
pub async fn a_lease_made_on_insert_expires(bench: &HookBench) {
    bench.with(plain()).await;
    let (message, reply) = emit_to(bench, vec![request(1)]).await;
    let held = given(&reply, 0).remove(0);
    bench.advance(30).await;
    let again = bench.one().await;
    assert_eq!((again.message, again.attempt_no), (message, 2));
    let attempts = bench.attempts(message).await;
    assert_eq!(attempts[0].outcome, AttemptOutcome::Unknown);
    assert_eq!(attempts[0].id, held.token.attempt);
    assert_eq!(bench.settle(success(held.token)).await.state, SettledState::Stale);
}

/// An attempt that is leased on insert counts for the rate limit.
pub async fn attempts_leased_on_insert_count_for_the_rate(bench: &HookBench) {
    bench.with(rated(2)).await;
    for leased in [1, 1, 0] {
        let (_, reply) = emit_to(bench, vec![request(1)]).await;
        assert_eq!(given(&reply, 0).len(), leased);
    }
    bench.advance_ms(500).await;
    assert_eq!(bench.take(5).await.len(), 1);
}

/// Rule 8 of claiming: a request that is sent again keeps what it holds and gets no more.
pub async fn an_id_that_holds_a_delivery_is_not_leased_another_on_insert(bench: &HookBench) {
    bench.with(plain()).await;
    let held = request(1);
    let (first, reply) = emit_to(bench, vec![held.clone()]).await;
    assert_eq!(given(&reply, 0).len(), 1);
    let (second, reply) = emit_to(bench, vec![held.clone()]).await;
    assert!(reply.leased.is_empty(), "{:?}", reply.leased);
    let got = items(&bench.claim(push(vec![held])).await.groups[0]);
    assert_eq!(messages_of(&got), [first]);
    bench.deliver(&got[0]).await;
    let other = bench.one().await;
    bench.deliver(&other).await;
    assert_eq!((other.message, bench.attempts(second).await.len()), (second, 1));
}
