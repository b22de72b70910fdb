//! Rules of claiming: which deliveries are leased, and in which order.

use std::collections::BTreeMap;

use wakeline_core::{EndpointId, EndpointOptions, HookMessageId};
use wakeline_store::hook::{
    AttemptOutcome, DeliveryGroup, DeliveryItem, DeliveryRequest, EndpointUpdate, NewMessage,
};

use super::{
    HookBench, LEASE, capped, items, messages_of, plain, pull, pulled, push, request, secs,
};

fn counts(groups: &[DeliveryGroup]) -> BTreeMap<EndpointId, usize> {
    let mut counts = BTreeMap::new();
    for group in groups {
        *counts.entry(group.target.endpoint).or_default() += group.items.len();
    }
    counts
}

async fn emit_only(bench: &HookBench, to: EndpointId, count: usize) -> Vec<HookMessageId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let new = NewMessage { only: Some(to), ..bench.message() };
        ids.push(bench.stored(new).await.0.id);
    }
    ids
}

/// Rule 1: pushed and pulled deliveries are claimed in different lines.
pub async fn push_and_pull_do_not_mix(bench: &HookBench) {
    let (pushed, fetched) = (bench.with(plain()).await, bench.with(pulled()).await);
    let other = bench.with(pulled()).await;
    let message = bench.emit().await;
    let answer = bench.claim(push(vec![request(9)])).await;
    assert_eq!(counts(&answer.groups[0]), [(pushed, 1)].into());
    assert_eq!(messages_of(&bench.fetch(fetched, 9).await), [message]);
    assert!(bench.fetch(pushed, 9).await.is_empty(), "it is not fetched from");
    assert_eq!(messages_of(&bench.fetch(other, 9).await), [message]);
    assert!(bench.fetch(other, 9).await.is_empty());
}

/// Rule 3: deliveries are taken in order of their due time.
pub async fn deliveries_are_taken_by_their_time(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let got = bench.take(3).await;
    assert_eq!(messages_of(&got), ids);
    for (item, wait) in got.iter().zip([30, 10, 20]) {
        bench.retry(item, wait).await;
    }
    bench.advance(40).await;
    let fresh = bench.emit().await;
    assert_eq!(bench.taken(9).await, [ids[1], ids[2], ids[0], fresh]);
}

/// Rule 3: deliveries with the same due time are taken in the order of their creation.
pub async fn deliveries_of_one_moment_are_taken_in_order(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(20).await;
    let mut got = Vec::new();
    for size in [3, 1, 7, 9] {
        got.extend(bench.taken(size).await);
    }
    assert_eq!(got, ids);
}

/// Rule 4: endpoints are served in the order in which they became due.
pub async fn endpoints_that_became_due_first_come_first(bench: &HookBench) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bench.with(plain()).await);
    }
    for n in [2, 0, 3, 1] {
        emit_only(bench, ids[n], 1).await;
        bench.advance_ms(5).await;
    }
    for n in [2, 0, 3, 1] {
        let answer = bench.claim(push(vec![request(1)])).await;
        assert_eq!(counts(&answer.groups[0]), [(ids[n], 1)].into());
    }
}

/// Rule 4: the share of an endpoint is the remaining attempts divided by the remaining endpoints,
/// rounded up.
pub async fn an_endpoint_gets_its_fair_share(bench: &HookBench) {
    let (busy, quiet) = (bench.with(plain()).await, bench.with(plain()).await);
    let third = bench.with(plain()).await;
    emit_only(bench, busy, 20).await;
    bench.advance_ms(1).await;
    emit_only(bench, quiet, 20).await;
    bench.advance_ms(1).await;
    emit_only(bench, third, 20).await;
    let answer = bench.claim(push(vec![request(10)])).await;
    assert_eq!(counts(&answer.groups[0]), [(busy, 4), (quiet, 3), (third, 3)].into());
}

/// Rule 4: the unused part of a share goes to the other endpoints.
pub async fn a_share_that_is_not_used_is_for_the_others(bench: &HookBench) {
    let (small, large) = (bench.with(plain()).await, bench.with(plain()).await);
    emit_only(bench, small, 1).await;
    bench.advance_ms(1).await;
    emit_only(bench, large, 20).await;
    let answer = bench.claim(push(vec![request(10)])).await;
    assert_eq!(counts(&answer.groups[0]), [(small, 1), (large, 9)].into());
}

/// Rule 4: deliveries beyond the share stay due.
pub async fn what_an_endpoint_was_not_given_stays_due(bench: &HookBench) {
    let (busy, quiet) = (bench.with(plain()).await, bench.with(plain()).await);
    let all = emit_only(bench, busy, 8).await;
    bench.advance_ms(1).await;
    emit_only(bench, quiet, 1).await;
    let answer = bench.claim(push(vec![request(10)])).await;
    assert_eq!(counts(&answer.groups[0]), [(busy, 5), (quiet, 1)].into());
    assert_eq!(answer.next_due, Some(secs(0)));
    assert_eq!(bench.taken(10).await, all[5..]);
}

/// Rule 4: an endpoint that was served comes after the others.
pub async fn an_endpoint_with_much_waiting_does_not_hold_up_another(bench: &HookBench) {
    let (busy, quiet) = (bench.with(plain()).await, bench.with(plain()).await);
    emit_only(bench, busy, 20).await;
    bench.advance(1).await;
    emit_only(bench, quiet, 1).await;
    bench.advance(1).await;
    let answer = bench.claim(push(vec![request(1)])).await;
    assert_eq!(counts(&answer.groups[0]), [(busy, 1)].into());
    bench.advance_ms(1).await;
    let answer = bench.claim(push(vec![request(1)])).await;
    assert_eq!(counts(&answer.groups[0]), [(quiet, 1)].into());
}

/// Rule 2: no more attempts than the limit are in flight.
pub async fn no_more_than_the_cap_are_under_way(bench: &HookBench) {
    bench.with(capped(3)).await;
    let ids = bench.emit_many(6).await;
    let got = bench.take(9).await;
    assert_eq!(messages_of(&got), ids[..3]);
    assert_eq!(bench.none().await, Some(LEASE), "until one ends");
    bench.deliver(&got[1]).await;
    assert_eq!(bench.taken(9).await, ids[3..4], "capacity for one");
    bench.release(&[&got[2]]).await;
    assert_eq!(bench.take(9).await.len(), 1);
}

/// Rule 2: an expired lease does not count as in flight.
pub async fn expired_leases_free_capacity(bench: &HookBench) {
    bench.with(capped(1)).await;
    let ids = bench.emit_many(2).await;
    assert_eq!(bench.taken(9).await, ids[..1]);
    bench.advance(30).await;
    assert_eq!(bench.taken(9).await, ids[1..], "it became due before");
    bench.advance(30).await;
    assert_eq!(bench.taken(9).await, ids[..1]);
}

/// Requests are served in order of arrival.
pub async fn requests_are_served_in_their_order(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(4).await;
    let answer = bench.claim(push(vec![request(2), request(1), request(5), request(1)])).await;
    let got: Vec<_> = answer.groups.iter().map(|groups| messages_of(&items(groups))).collect();
    assert_eq!(got, [ids[..2].to_vec(), ids[2..3].to_vec(), ids[3..].to_vec(), Vec::new()]);
}

/// A claim without requests leases nothing.
pub async fn a_claim_without_requests_takes_nothing(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    assert!(bench.claim(push(Vec::new())).await.groups.is_empty());
    assert!(bench.hook.claim_deliveries(Vec::new()).await.expect("answered").is_empty());
    assert_eq!(bench.take(1).await.len(), 1);
}

/// One call serves several lines.
pub async fn lines_of_one_claim_are_served_each(bench: &HookBench) {
    bench.with(plain()).await;
    let (one, other) = (bench.with(pulled()).await, bench.with(pulled()).await);
    let message = bench.emit().await;
    let lines =
        vec![pull(one, vec![request(2)]), push(vec![request(2)]), pull(other, vec![request(2)])];
    let answers = bench.hook.claim_deliveries(lines).await.expect("claimed");
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert_eq!(messages_of(&items(&answer.groups[0])), [message]);
    }
}

/// Rule 6: the duration of a lease is that of the request, or else that of the endpoint.
pub async fn a_lease_lasts_as_the_request_or_the_endpoint_says(bench: &HookBench) {
    bench.with(EndpointOptions { timeout: secs(40), ..plain() }).await;
    bench.emit_many(2).await;
    let take = async |lease| -> DeliveryItem {
        let request = DeliveryRequest { lease, ..request(1) };
        items(&bench.claim(push(vec![request])).await.groups[0]).remove(0)
    };
    assert_eq!(take(Some(secs(7))).await.lease_for, secs(7));
    assert_eq!(take(None).await.lease_for, secs(50));
    bench.advance_ms(6_999).await;
    assert_eq!(bench.take(1).await.len(), 0);
    bench.advance_ms(1).await;
    assert_eq!(bench.take(2).await.len(), 1, "only the short one is over");
}

/// Rule 6: the keys of leases are the attempt ids of the request.
pub async fn leases_have_the_ids_of_the_request(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(2).await;
    let request = request(2);
    let answer = bench.claim(push(vec![request.clone()])).await;
    let mut got: Vec<_> = items(&answer.groups[0]).iter().map(|item| item.token.attempt).collect();
    got.sort_unstable();
    assert_eq!(got, request.attempts);
}

/// Rule 8: the same ids return the same deliveries.
pub async fn a_claim_repeated_with_its_ids_returns_the_same(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(5).await;
    let claim = push(vec![request(2), request(1)]);
    let tokens = |answer: &wakeline_store::hook::DeliveryClaimed| -> Vec<Vec<_>> {
        let sorted = |groups: &Vec<DeliveryGroup>| {
            let mut tokens: Vec<_> = items(groups)
                .iter()
                .map(|item| (item.token.delivery, item.token.attempt))
                .collect();
            tokens.sort_unstable();
            tokens
        };
        answer.groups.iter().map(sorted).collect()
    };
    let first = bench.claim(claim.clone()).await;
    let again = bench.claim(claim.clone()).await;
    assert_eq!(tokens(&first), tokens(&again));
    assert_eq!(items(&again.groups[0])[0].attempt_no, 1, "it is no further attempt");
    let item = items(&again.groups[0]).remove(0);
    bench.deliver(&item).await;
    assert_eq!(bench.take(9).await.len(), 2, "nothing else was taken");
}

/// Rule 8: ids that hold no delivery yet are filled.
pub async fn a_claim_repeated_with_more_ids_fills_them(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(4).await;
    let held = request(1);
    let first = items(&bench.claim(push(vec![held.clone()])).await.groups[0]).remove(0);
    let mut more = request(2);
    more.attempts.extend(held.attempts);
    let got = items(&bench.claim(push(vec![more])).await.groups[0]);
    assert_eq!(got.len(), 3);
    assert!(got.iter().any(|item| item.token == first.token));
    let mut messages = messages_of(&got);
    messages.sort_unstable();
    assert_eq!(messages, ids[..3]);
}

/// Rule 8: an id names one attempt, also for a claim that is repeated too late.
pub async fn a_claim_repeated_after_its_lease_ended_takes_nothing(bench: &HookBench) {
    bench.with(plain()).await;
    let message = bench.emit().await;
    let late = push(vec![request(1)]);
    let lost = items(&bench.claim(late.clone()).await.groups[0]).remove(0);
    bench.advance(30).await;
    let answer = bench.claim(late.clone()).await;
    assert!(answer.groups[0].is_empty(), "got {:?}", answer.groups);
    let item = bench.one().await;
    assert_eq!((item.message, item.attempt_no), (message, 2));
    bench.deliver(&item).await;
    let logged = bench.attempts(message).await;
    let logged: Vec<_> = logged.iter().map(|one| (one.id, one.attempt_no, one.outcome)).collect();
    let unknown = (lost.token.attempt, 1, AttemptOutcome::Unknown);
    assert_eq!(logged, [unknown, (item.token.attempt, 2, AttemptOutcome::Succeeded)]);
}

/// Rule 8: ids of attempts that have ended are skipped, unused ids are filled.
pub async fn ids_of_attempts_that_have_ended_are_passed_over(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let mut requested = request(2);
    let got = items(&bench.claim(push(vec![requested.clone()])).await.groups[0]);
    assert_eq!(messages_of(&got), ids[..2]);
    bench.retry(&got[0], 0).await;
    bench.deliver(&got[1]).await;
    let free = request(1).attempts[0];
    requested.attempts.push(free);
    let again = items(&bench.claim(push(vec![requested.clone()])).await.groups[0]);
    assert_eq!(again.iter().map(|item| item.token.attempt).collect::<Vec<_>>(), [free]);
    bench.deliver(&again[0]).await;
    let rest = bench.one().await;
    bench.deliver(&rest).await;
    let log = bench.attempts(ids[0]).await.len() + bench.attempts(ids[2]).await.len();
    assert_eq!(log, 3, "none of them is missing");
}

/// Rule 1: waiting deliveries and those in flight move to the current line of their endpoint.
pub async fn an_endpoint_may_become_pulled_and_sent_to_again(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    assert_eq!(bench.taken(1).await, ids[..1]);
    let switched = |options| EndpointUpdate { options: Some(options), ..Default::default() };
    bench.update(id, switched(pulled())).await;
    assert_eq!(messages_of(&bench.fetch(id, 9).await), ids[1..]);
    bench.advance(30).await;
    assert_eq!(bench.taken(9).await, []);
    assert_eq!(messages_of(&bench.fetch(id, 1).await), ids[..1], "its lease was over");
    bench.update(id, switched(plain())).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
    bench.advance(30).await;
    assert!(bench.fetch(id, 9).await.is_empty());
    assert_eq!(bench.taken(9).await, ids);
}

/// Rule 10: the payload may have expired before the claim.
pub async fn an_expired_payload_comes_as_none(bench: &HookBench) {
    bench.with(plain()).await;
    bench.stored(NewMessage { retention: secs(60), ..bench.message() }).await;
    bench.advance(60).await;
    bench.background(10).await;
    let item = bench.one().await;
    assert_eq!(item.payload, None);
    bench.fail(&item).await;
}

/// A delivery is sent to the endpoint as it is at the claim, not as it was when the message was
/// stored.
pub async fn a_target_is_the_endpoint_as_it_is(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    let url = Some("https://new.example".to_owned());
    let update = EndpointUpdate { url, ..Default::default() };
    bench.update(id, update).await;
    let answer = bench.claim(push(vec![request(1)])).await;
    assert_eq!(answer.groups[0][0].target.url, "https://new.example");
}

/// Rule 1: pulled deliveries obey the same limits.
pub async fn fetching_keeps_the_limits(bench: &HookBench) {
    let id = bench.with(EndpointOptions { in_flight_max: 2, ..pulled() }).await;
    let ids = bench.emit_many(3).await;
    let got = bench.fetch(id, 9).await;
    assert_eq!(messages_of(&got), ids[..2]);
    assert!(bench.fetch(id, 9).await.is_empty());
    bench.deliver(&got[0]).await;
    assert_eq!(messages_of(&bench.fetch(id, 9).await), ids[2..]);
}
