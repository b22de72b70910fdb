//! Rules of endpoints in strict order.

use wakeline_core::HookMessageId;
use wakeline_store::hook::{
    DeliveryGroup, DeliveryItem, DeliveryState, DeliveryVerdict, EndpointUpdate, SettledState,
    Trigger,
};

use super::{
    HookBench, LEASE, end, fifo, messages_of, plain, pull, push, request, scheduled, secs,
};

async fn groups(bench: &HookBench, attempts: usize) -> Vec<DeliveryGroup> {
    bench.claim(push(vec![request(attempts)])).await.groups.remove(0)
}

/// Claims the only group there is.
async fn batch(bench: &HookBench, attempts: usize) -> Vec<DeliveryItem> {
    let mut groups = groups(bench, attempts).await;
    assert_eq!(groups.len(), 1, "one request at a time: {groups:?}");
    groups.remove(0).items
}

async fn end_all(bench: &HookBench, items: &[DeliveryItem], verdict: DeliveryVerdict) {
    let ends = items.iter().map(|item| end(item.token, verdict)).collect();
    let settled = bench.hook.settle_deliveries(ends).await.expect("answered");
    assert!(settled.iter().all(|one| one.state != SettledState::Stale), "{settled:?}");
}

/// Rule 5: deliveries are sent one at a time, in order.
pub async fn deliveries_go_one_at_a_time_in_order(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let ids = bench.emit_many(4).await;
    for id in ids {
        let got = bench.take(9).await;
        assert_eq!(messages_of(&got), [id]);
        assert_eq!(bench.none().await, Some(LEASE), "one is under way");
        bench.deliver(&got[0]).await;
    }
    assert_eq!(bench.none().await, None);
}

/// Rule 5: a head that waits for its retry blocks the deliveries behind it.
pub async fn a_head_that_waits_blocks_the_others(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let ids = bench.emit_many(2).await;
    let item = bench.one().await;
    bench.retry(&item, 100).await;
    assert_eq!(bench.none().await, Some(secs(100)));
    bench.advance(100).await;
    let got = bench.take(9).await;
    assert_eq!(messages_of(&got), ids[..1]);
    bench.deliver(&got[0]).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
}

/// Rule 5: a head that failed no longer blocks the others.
pub async fn a_head_that_failed_lets_the_next_go(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let ids = bench.emit_many(2).await;
    let item = bench.one().await;
    bench.fail(&item).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
}

/// A head that was cancelled no longer blocks the others.
pub async fn a_head_that_was_cancelled_lets_the_next_go(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let ids = bench.emit_many(2).await;
    let item = bench.one().await;
    bench.retry(&item, 100).await;
    bench.cancel(ids[0]).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
}

/// A head whose lease expired is claimed again, before the others.
pub async fn an_expired_head_comes_again_first(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let ids = bench.emit_many(2).await;
    bench.one().await;
    bench.advance(30).await;
    let got = bench.take(9).await;
    assert_eq!((messages_of(&got), got[0].attempt_no), (ids[..1].to_vec(), 2));
}

/// A head whose lease expired, and whose schedule is used up, no longer blocks the others.
pub async fn an_expired_head_that_failed_makes_way(bench: &HookBench) {
    let mut options = scheduled(&[]);
    options.fifo = fifo(1).fifo;
    let id = bench.with(options).await;
    let ids = bench.emit_many(2).await;
    bench.one().await;
    bench.advance(30).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
    assert_eq!(bench.state(ids[0], id).await, DeliveryState::Failed);
}

/// Rule 5: a group is sent in one request.
pub async fn a_batch_is_one_group(bench: &HookBench) {
    bench.with(fifo(3)).await;
    let ids = bench.emit_many(7).await;
    let mut got = Vec::new();
    for size in [3, 3, 1] {
        let items = batch(bench, 9).await;
        assert_eq!(items.len(), size);
        got.extend(messages_of(&items));
        assert!(groups(bench, 9).await.is_empty(), "it is under way");
        end_all(bench, &items, DeliveryVerdict::Delivered).await;
    }
    assert_eq!(got, ids);
}

/// Rule 5: every delivery of a group has its own lease.
pub async fn each_of_a_group_has_its_own_lease(bench: &HookBench) {
    let id = bench.with(fifo(3)).await;
    let ids = bench.emit_many(3).await;
    let items = batch(bench, 9).await;
    bench.deliver(&items[0]).await;
    assert!(groups(bench, 9).await.is_empty(), "the others are under way");
    end_all(bench, &items[1..], DeliveryVerdict::Retry(secs(5))).await;
    assert_eq!(bench.state(ids[0], id).await, DeliveryState::Delivered);
    assert_eq!(bench.state(ids[2], id).await, DeliveryState::Retrying);
    bench.advance(5).await;
    assert_eq!(messages_of(&batch(bench, 9).await), ids[1..]);
    assert_eq!(bench.attempts(ids[1]).await.len(), 1);
}

/// Rule 5: a request with fewer ids gets a smaller group.
pub async fn too_few_ids_make_a_smaller_group(bench: &HookBench) {
    bench.with(fifo(5)).await;
    let ids = bench.emit_many(5).await;
    let items = batch(bench, 2).await;
    assert_eq!(messages_of(&items), ids[..2]);
    end_all(bench, &items, DeliveryVerdict::Delivered).await;
    assert_eq!(messages_of(&batch(bench, 9).await), ids[2..]);
}

/// Rule 5: a group ends before the first delivery that is not due.
pub async fn a_group_ends_before_what_is_not_due(bench: &HookBench) {
    let id = bench.with(fifo(9)).await;
    let ids = bench.emit_many(3).await;
    let items = batch(bench, 9).await;
    let waits = [secs(0), secs(60), secs(0)];
    let ends =
        items.iter().zip(waits).map(|(item, wait)| end(item.token, DeliveryVerdict::Retry(wait)));
    bench.hook.settle_deliveries(ends.collect()).await.expect("settled");
    let items = batch(bench, 9).await;
    assert_eq!(messages_of(&items), ids[..1]);
    end_all(bench, &items, DeliveryVerdict::Delivered).await;
    assert_eq!(bench.none().await, Some(secs(60)), "the next one is the head now");
    assert_eq!(bench.state(ids[2], id).await, DeliveryState::Retrying);
}

/// A released group is claimed again unchanged.
pub async fn a_released_group_comes_again(bench: &HookBench) {
    bench.with(fifo(3)).await;
    let ids = bench.emit_many(3).await;
    let items = batch(bench, 9).await;
    bench.release(&items.iter().collect::<Vec<_>>()).await;
    let again = batch(bench, 9).await;
    assert_eq!(messages_of(&again), ids);
    assert!(again.iter().all(|item| item.attempt_no == 1));
}

/// A group whose lease expired is claimed again unchanged, and the attempt is counted, because its
/// request may have arrived.
pub async fn an_expired_group_comes_again(bench: &HookBench) {
    bench.with(fifo(3)).await;
    let ids = bench.emit_many(2).await;
    batch(bench, 9).await;
    bench.advance(30).await;
    let third = bench.emit().await;
    let again = batch(bench, 9).await;
    assert_eq!(messages_of(&again), ids);
    assert!(again.iter().all(|item| item.attempt_no == 2));
    end_all(bench, &again, DeliveryVerdict::Delivered).await;
    assert_eq!(messages_of(&batch(bench, 9).await), [third]);
}

/// Rule 5: a retry consists of the deliveries that were attempted together, and of no others.
pub async fn a_retried_group_comes_again_as_it_was(bench: &HookBench) {
    bench.with(fifo(4)).await;
    let ids = bench.emit_many(2).await;
    let items = batch(bench, 9).await;
    let late = bench.emit_many(2).await;
    end_all(bench, &items, DeliveryVerdict::Retry(secs(5))).await;
    bench.advance(5).await;
    let again = batch(bench, 9).await;
    assert_eq!(messages_of(&again), ids);
    bench.release(&again.iter().collect::<Vec<_>>()).await;
    let again = batch(bench, 9).await;
    assert_eq!(messages_of(&again), ids, "what was given back has the same group");
    end_all(bench, &again, DeliveryVerdict::Delivered).await;
    assert_eq!(messages_of(&batch(bench, 9).await), late);
}

/// Rule 5: if one delivery of a group was cancelled, the others are sent together, and nothing is
/// added.
pub async fn what_is_left_of_a_retried_group_goes_together(bench: &HookBench) {
    bench.with(fifo(4)).await;
    let ids = bench.emit_many(3).await;
    let items = batch(bench, 9).await;
    bench.emit().await;
    end_all(bench, &items, DeliveryVerdict::Retry(secs(5))).await;
    bench.cancel(ids[1]).await;
    bench.advance(5).await;
    assert_eq!(messages_of(&batch(bench, 9).await), [ids[0], ids[2]]);
}

/// Rule 5: groups that were attempted one after the other stay separate, and in their order.
pub async fn groups_that_were_attempted_apart_stay_apart(bench: &HookBench) {
    let id = bench.with(fifo(2)).await;
    let ids = bench.emit_many(3).await;
    for _ in 0..2 {
        let items = batch(bench, 9).await;
        end_all(bench, &items, DeliveryVerdict::Failed).await;
        bench.advance_ms(1).await;
    }
    for message in &ids[1..] {
        bench.resend(*message, id).await;
    }
    bench.resend(ids[0], id).await;
    for group in [&ids[..2], &ids[2..]] {
        let items = batch(bench, 9).await;
        assert_eq!(messages_of(&items), group);
        end_all(bench, &items, DeliveryVerdict::Delivered).await;
    }
}

/// Rule 8: the same ids return the same group.
pub async fn a_group_claimed_again_is_the_same(bench: &HookBench) {
    bench.with(fifo(3)).await;
    let ids = bench.emit_many(4).await;
    let claim = push(vec![request(3)]);
    for _ in 0..2 {
        let mut answer = bench.claim(claim.clone()).await;
        let groups = answer.groups.remove(0);
        assert_eq!(groups.len(), 1);
        assert_eq!(messages_of(&groups[0].items), ids[..3]);
    }
}

/// A group counts as one against the share of its endpoint.
pub async fn a_group_is_one_against_the_share(bench: &HookBench) {
    let ordered = bench.with(fifo(4)).await;
    bench.emit_many(4).await;
    bench.advance_ms(1).await;
    bench.with(plain()).await;
    bench.emit().await;
    let groups = groups(bench, 6).await;
    let of_ordered: Vec<_> =
        groups.iter().filter(|group| group.target.endpoint == ordered).collect();
    assert_eq!(of_ordered.len(), 1);
    assert_eq!(of_ordered[0].items.len(), 4);
    assert_eq!(groups.len(), 2, "the other one has its share");
}

/// A delivery that is sent again keeps its place in the order.
pub async fn a_resent_delivery_has_its_place(bench: &HookBench) {
    let id = bench.with(fifo(1)).await;
    let failed = bench.failed().await;
    let next = bench.emit().await;
    bench.resend(failed, id).await;
    let item = bench.one().await;
    assert_eq!((item.message, item.trigger), (failed, Trigger::Manual));
    assert!(bench.none().await.is_some(), "it is under way");
    assert_eq!(bench.ends(&item, DeliveryVerdict::Failed).await, SettledState::Failed);
    assert_eq!(bench.taken(9).await, [next]);
}

/// The order of deliveries is that of the commits.
pub async fn the_order_is_that_of_the_commits(bench: &HookBench) {
    bench.with(fifo(1)).await;
    let (early, late) = (bench.message(), bench.message());
    let ids: [HookMessageId; 2] = [late.id, early.id];
    bench.stored(late).await;
    bench.stored(early).await;
    for id in ids {
        let item = bench.one().await;
        assert_eq!(item.message, id);
        bench.deliver(&item).await;
    }
}

/// Pulled deliveries are in order as well.
pub async fn fetching_keeps_the_order(bench: &HookBench) {
    let mut options = fifo(2);
    options.pull = true;
    let id = bench.with(options).await;
    let ids = bench.emit_many(3).await;
    let mut answer = bench.claim(pull(id, vec![request(9)])).await;
    let groups = answer.groups.remove(0);
    assert_eq!(groups.len(), 1);
    assert_eq!(messages_of(&groups[0].items), ids[..2]);
    assert!(bench.fetch(id, 9).await.is_empty());
}

/// Endpoints in strict order do not wait for each other.
pub async fn endpoints_in_order_do_not_wait_for_each_other(bench: &HookBench) {
    bench.with(fifo(1)).await;
    bench.with(fifo(1)).await;
    bench.emit_many(2).await;
    let got = bench.take(9).await;
    assert_eq!(got.len(), 2);
    bench.retry(&got[0], 100).await;
    bench.deliver(&got[1]).await;
    assert_eq!(bench.take(9).await.len(), 1);
}

/// Rule 5: waiting deliveries and those in flight obey the endpoint's current setting of strict
/// order.
pub async fn an_endpoint_may_be_put_in_order_and_out_of_it(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let first = bench.one().await;
    let switched = |options| EndpointUpdate { options: Some(options), ..Default::default() };
    bench.update(id, switched(fifo(1))).await;
    assert_eq!(bench.none().await, Some(LEASE), "one is under way");
    bench.retry(&first, 5).await;
    assert_eq!(bench.none().await, Some(secs(5)));
    bench.advance(5).await;
    assert_eq!(bench.taken(9).await, ids[..1]);
    bench.update(id, switched(plain())).await;
    assert_eq!(bench.taken(9).await, ids[1..]);
}
