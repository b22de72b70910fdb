//! Deliveries that are leased by the commit that makes them.

use wakeline_core::{EndpointId, HookMessageId};
use wakeline_store::hook::{
    AttemptOutcome, DeliveryAsk, DeliveryItem, EmitReply, NewMessage, SettleDelivery, SettledState,
};

use super::{
    HookBench, ask, ask_fresh, capped, fifo, items, key, messages_of, plain, pulled, push, rated,
    secs, success,
};

async fn emit_to(bench: &HookBench, asks: Vec<DeliveryAsk>) -> (HookMessageId, EmitReply) {
    let new = bench.message();
    let id = new.id;
    (id, bench.hook.emit(new, asks).await.expect("a message is stored"))
}

/// What an ask was given.
fn given(reply: &EmitReply, ask: usize) -> Vec<DeliveryItem> {
    let of = reply.leased.iter().filter(|(n, _)| *n == ask);
    of.flat_map(|(_, groups)| items(groups)).collect()
}

fn endpoints(reply: &EmitReply) -> Vec<EndpointId> {
    let groups = reply.leased.iter().flat_map(|(_, groups)| groups);
    let mut all: Vec<_> = groups.map(|group| group.target.endpoint).collect();
    all.sort_unstable();
    all
}

/// Rule 7: straight to whoever waits.
pub async fn a_new_delivery_is_leased_to_an_ask_that_comes_along(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ask = ask(2);
    let (message, reply) = emit_to(bench, vec![ask.clone()]).await;
    let got = given(&reply, 0);
    assert_eq!(got.len(), 1, "{reply:?}");
    assert_eq!((got[0].message, got[0].attempt_no), (message, 1));
    assert!(ask.attempts.contains(&got[0].token.attempt));
    assert!(got[0].payload.is_some());
    assert_eq!(endpoints(&reply), [id]);
    assert!(bench.take(1).await.is_empty(), "it is leased");
    bench.deliver(&got[0]).await;
}

/// Rule 7: several endpoints, one waiter.
pub async fn an_ask_gets_deliveries_of_several_endpoints(bench: &HookBench) {
    let ids = [bench.with(plain()).await, bench.with(plain()).await, bench.with(plain()).await];
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert_eq!(endpoints(&reply), ids);
    assert_eq!(given(&reply, 0).len(), 3);
}

/// Rule 7: at most the ask's attempts.
pub async fn no_more_than_the_asks_attempts_are_born_leased(bench: &HookBench) {
    for _ in 0..5 {
        bench.with(plain()).await;
    }
    let (_, reply) = emit_to(bench, vec![ask(1), ask(2)]).await;
    assert_eq!((given(&reply, 0).len(), given(&reply, 1).len()), (1, 2));
    assert_eq!(bench.take(9).await.len(), 2, "the others wait");
}

/// Rule 7: never past one that waits.
pub async fn nothing_is_born_leased_past_one_that_waits(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let first = bench.emit().await;
    let (second, reply) = emit_to(bench, vec![ask(5)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
    assert_eq!(bench.taken(5).await, [first, second]);
    let other = bench.with(plain()).await;
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert_eq!(endpoints(&reply), [id, other], "those under way do not hinder");
}

/// Rule 7: nor past one whose lease has expired, which waits as well.
pub async fn nothing_is_born_leased_past_an_expired_lease(bench: &HookBench) {
    for options in [fifo(1), plain()] {
        let id = bench.with(options).await;
        let (first, reply) = emit_to(bench, vec![ask(1)]).await;
        assert_eq!(given(&reply, 0).len(), 1);
        bench.advance(30).await;
        let (second, reply) = emit_to(bench, vec![ask(1)]).await;
        assert!(reply.leased.is_empty(), "{reply:?}");
        for message in [first, second] {
            let item = bench.one().await;
            assert_eq!(item.message, message);
            bench.deliver(&item).await;
        }
        bench.delete(id).await;
    }
}

/// Rule 7: each lease ends by itself, whatever was leased before.
pub async fn what_was_born_leased_comes_back_after_its_own_lease(bench: &HookBench) {
    bench.with(plain()).await;
    let (first, _) = emit_to(bench, vec![ask(1)]).await;
    bench.advance(10).await;
    let (second, _) = emit_to(bench, vec![ask(1)]).await;
    let short = DeliveryAsk { lease: Some(secs(5)), ..ask(1) };
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

/// Rule 7: in order, one at a time.
pub async fn an_endpoint_in_order_gives_nothing_while_one_is_under_way(bench: &HookBench) {
    bench.with(fifo(5)).await;
    let (first, reply) = emit_to(bench, vec![ask(1)]).await;
    let got = given(&reply, 0);
    assert_eq!(got.iter().map(|item| item.message).collect::<Vec<_>>(), [first]);
    let (second, reply) = emit_to(bench, vec![ask(1)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
    bench.deliver(&got[0]).await;
    assert_eq!(bench.taken(1).await, [second]);
}

/// Rule 7: pulled ones never are.
pub async fn pulled_deliveries_are_never_born_leased(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
    assert_eq!(bench.fetch(id, 5).await.len(), 1);
}

/// Rule 7: only what can be claimed right now.
pub async fn an_endpoint_that_is_held_back_gives_nothing(bench: &HookBench) {
    let rated = bench.with(rated(1)).await;
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert_eq!(endpoints(&reply), [rated]);
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert!(reply.leased.is_empty(), "the rate is used up: {reply:?}");
    bench.delete(rated).await;
    let capped = bench.with(capped(1)).await;
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert_eq!(endpoints(&reply), [capped]);
    let held = given(&reply, 0).remove(0);
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert!(reply.leased.is_empty(), "one is under way: {reply:?}");
    let throttle = Some(secs(60));
    bench.settle(SettleDelivery { throttle, ..success(held.token) }).await;
    assert!(bench.take(9).await.is_empty(), "throttled");
}

/// Rule 7: a throttled endpoint gives nothing either.
pub async fn a_throttled_endpoint_gives_nothing_born_leased(bench: &HookBench) {
    bench.with(plain()).await;
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    let held = given(&reply, 0).remove(0);
    bench.settle(SettleDelivery { throttle: Some(secs(60)), ..success(held.token) }).await;
    let (_, reply) = emit_to(bench, vec![ask(5)]).await;
    assert!(reply.leased.is_empty(), "{reply:?}");
}

/// New deliveries are first attempts.
pub async fn attempts_for_first_ones_take_what_is_born(bench: &HookBench) {
    bench.with(plain()).await;
    let (_, reply) = emit_to(bench, vec![ask_fresh(1, 1)]).await;
    assert_eq!(given(&reply, 0).len(), 1);
}

/// What is not stored leases nothing.
pub async fn a_repeated_message_leases_nothing(bench: &HookBench) {
    bench.with(plain()).await;
    let new = || NewMessage { idempotency: key("k", 1), ..bench.message() };
    bench.stored(new()).await;
    let reply = bench.hook.emit(new(), vec![ask(5)]).await.expect("answered");
    assert!(reply.leased.is_empty(), "{reply:?}");
    assert_eq!(bench.take(5).await.len(), 1);
}

/// A lease that is born is a lease.
pub async fn a_lease_that_is_born_expires(bench: &HookBench) {
    bench.with(plain()).await;
    let (message, reply) = emit_to(bench, vec![ask(1)]).await;
    let held = given(&reply, 0).remove(0);
    bench.advance(30).await;
    let again = bench.one().await;
    assert_eq!((again.message, again.attempt_no), (message, 2));
    let attempts = bench.attempts(message).await;
    assert_eq!(attempts[0].outcome, AttemptOutcome::Unknown);
    assert_eq!(attempts[0].id, held.token.attempt);
    assert_eq!(bench.settle(success(held.token)).await.state, SettledState::Stale);
}

/// An attempt that is born counts for the rate.
pub async fn attempts_that_are_born_count_for_the_rate(bench: &HookBench) {
    bench.with(rated(2)).await;
    for born in [1, 1, 0] {
        let (_, reply) = emit_to(bench, vec![ask(1)]).await;
        assert_eq!(given(&reply, 0).len(), born);
    }
    bench.advance_ms(500).await;
    assert_eq!(bench.take(5).await.len(), 1);
}

/// Rule 8 of claiming: an ask that comes along once more holds what it holds, and no more.
pub async fn an_id_that_holds_a_delivery_is_not_born_with_another(bench: &HookBench) {
    bench.with(plain()).await;
    let held = ask(1);
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
