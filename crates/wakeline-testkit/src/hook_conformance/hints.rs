//! What waiters are told.

use std::time::Duration;

use wakeline_core::{EndpointRef, HookLine, MessageRef};
use wakeline_store::hook::{DeliveryVerdict, EndpointUpdate, SettleDelivery};

use super::{
    HookBench, ask, breaking, capped, end, failure, fifo, plain, pulled, secs, success, told,
};

const NOW: Option<Duration> = Some(Duration::ZERO);

/// A message tells the lines of its endpoints.
pub async fn a_message_tells_the_lines_of_its_endpoints(bench: &HookBench) {
    let reply = bench.emitted(bench.message()).await;
    assert_eq!(told(&reply.changes, &HookLine::Push), None, "nobody gets it");
    let one = bench.with(pulled()).await;
    let reply = bench.emitted(bench.message()).await;
    assert_eq!(told(&reply.changes, &HookLine::Push), None);
    assert_eq!(told(&reply.changes, &HookLine::Pull(one)), NOW);
    bench.with(plain()).await;
    let other = bench.with(pulled()).await;
    let reply = bench.emitted(bench.message()).await;
    let lines = [HookLine::Push, HookLine::Pull(one), HookLine::Pull(other)];
    for line in lines {
        assert_eq!(told(&reply.changes, &line), NOW, "{line:?}");
    }
}

/// What is leased at once is nothing to wait for.
pub async fn a_message_that_is_leased_tells_of_the_rest(bench: &HookBench) {
    bench.with(plain()).await;
    bench.with(plain()).await;
    let reply = bench.hook.emit(bench.message(), vec![ask(1)]).await.expect("stored");
    assert_eq!(reply.leased.len(), 1);
    assert_eq!(told(&reply.changes, &HookLine::Push), NOW, "one is left");
}

/// A retry is told with its time.
pub async fn a_retry_tells_its_time(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    let verdict = DeliveryVerdict::Retry(secs(9));
    let settled = bench.settle(end(item.token, verdict)).await;
    let due = told(&settled.changes, &HookLine::Push).expect("it is told");
    assert!(due <= secs(9), "{due:?}");
}

/// Room is told.
pub async fn an_end_that_makes_room_tells(bench: &HookBench) {
    bench.with(capped(1)).await;
    bench.emit_many(2).await;
    let item = bench.one().await;
    let settled = bench.settle(success(item.token)).await;
    assert_eq!(told(&settled.changes, &HookLine::Push), NOW);
}

/// In order, the next one is told.
pub async fn the_end_of_a_head_tells_of_the_next(bench: &HookBench) {
    bench.with(fifo(1)).await;
    bench.emit_many(3).await;
    let item = bench.one().await;
    let settled = bench.settle(success(item.token)).await;
    assert_eq!(told(&settled.changes, &HookLine::Push), NOW);
    let item = bench.one().await;
    let settled = bench.settle(end(item.token, DeliveryVerdict::Failed)).await;
    assert_eq!(told(&settled.changes, &HookLine::Push), NOW);
}

/// A breaker that closes lets go.
pub async fn a_breaker_that_closes_tells(bench: &HookBench) {
    bench.with(breaking(1, 1)).await;
    bench.emit_many(4).await;
    let item = bench.one().await;
    bench.settle(failure(item.token)).await;
    bench.advance(60).await;
    let item = bench.one().await;
    let settled = bench.settle(success(item.token)).await;
    assert_eq!(told(&settled.changes, &HookLine::Push), NOW);
}

/// Giving back tells.
pub async fn a_release_tells(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    bench.with(plain()).await;
    bench.emit().await;
    let (fetched, sent) = (bench.fetch(id, 1).await.remove(0), bench.one().await);
    let changes = bench.release(&[&fetched, &sent]).await;
    assert_eq!(told(&changes, &HookLine::Pull(id)), NOW);
    assert_eq!(told(&changes, &HookLine::Push), NOW);
}

/// Switching on tells of what waited.
pub async fn switching_on_tells(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    bench.switch(id, false).await;
    let changes = bench.switch(id, true).await;
    assert_eq!(told(&changes, &HookLine::Push), NOW);
}

/// Raising a limit tells.
pub async fn raising_a_limit_tells(bench: &HookBench) {
    let id = bench.with(capped(1)).await;
    bench.emit_many(2).await;
    bench.one().await;
    let options = Some(capped(2));
    let changes = bench.update(id, EndpointUpdate { options, ..Default::default() }).await;
    assert_eq!(told(&changes, &HookLine::Push), NOW);
}

/// A resend tells.
pub async fn a_resend_tells(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    let message = bench.emit().await;
    let item = bench.fetch(id, 1).await.remove(0);
    bench.fail(&item).await;
    let (message, to) = (MessageRef::Id(message), EndpointRef::Id(id));
    let (_, changes) = bench.hook.resend(&bench.of_app(), &message, &to).await.expect("answered");
    assert_eq!(told(&changes, &HookLine::Pull(id)), NOW);
}

/// A deleted application leaves something to do.
pub async fn deleting_an_application_tells(bench: &HookBench) {
    bench.emit().await;
    let deleted = bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    assert_eq!(told(&deleted.1, &HookLine::Chores), NOW);
}

/// What is throttled is not told before its time as if it were there.
pub async fn what_is_held_back_is_told_for_its_end(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.settle(SettleDelivery { throttle: Some(secs(50)), ..success(item.token) }).await;
    let reply = bench.emitted(bench.message()).await;
    let due = told(&reply.changes, &HookLine::Push);
    assert!(due.is_none_or(|due| due <= secs(50)), "{due:?}");
    assert_eq!(bench.none().await, Some(secs(50)));
}
