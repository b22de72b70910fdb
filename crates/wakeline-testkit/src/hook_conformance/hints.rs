//! Rules of the changes that calls report for waiters.

use std::time::Duration;

use wakeline_core::{EndpointRef, HookLine, MessageRef};
use wakeline_store::hook::{DeliveryVerdict, EndpointUpdate, SettleDelivery};

use super::{
    HookBench, breaking, capped, earliest_due, end, failure, fifo, plain, pulled, request, secs,
    success,
};

const NOW: Option<Duration> = Some(Duration::ZERO);

/// A message reports changes for the lines of its endpoints.
pub async fn a_message_notifies_the_lines_of_its_endpoints(bench: &HookBench) {
    let reply = bench.emitted(bench.message()).await;
    assert_eq!(earliest_due(&reply.changes, &HookLine::Push), None, "no endpoint gets it");
    let one = bench.with(pulled()).await;
    let reply = bench.emitted(bench.message()).await;
    assert_eq!(earliest_due(&reply.changes, &HookLine::Push), None);
    assert_eq!(earliest_due(&reply.changes, &HookLine::Pull(one)), NOW);
    bench.with(plain()).await;
    let other = bench.with(pulled()).await;
    let reply = bench.emitted(bench.message()).await;
    let lines = [HookLine::Push, HookLine::Pull(one), HookLine::Pull(other)];
    for line in lines {
        assert_eq!(earliest_due(&reply.changes, &line), NOW, "{line:?}");
    }
}

/// A delivery that is leased on insert needs no change; those that remain do.
pub async fn a_message_leased_on_insert_notifies_of_the_rest(bench: &HookBench) {
    bench.with(plain()).await;
    bench.with(plain()).await;
    let reply = bench.hook.emit(bench.message(), vec![request(1)]).await.expect("stored");
    assert_eq!(reply.leased.len(), 1);
    assert_eq!(earliest_due(&reply.changes, &HookLine::Push), NOW, "one is left");
}

/// A retry is reported with its due time.
pub async fn a_retry_reports_its_time(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    let verdict = DeliveryVerdict::Retry(secs(9));
    let settled = bench.settle(end(item.token, verdict)).await;
    let due = earliest_due(&settled.changes, &HookLine::Push).expect("it is reported");
    assert!(due <= secs(9), "{due:?}");
}

/// The end of an attempt reports that another one may be in flight.
pub async fn an_end_that_frees_capacity_notifies(bench: &HookBench) {
    bench.with(capped(1)).await;
    bench.emit_many(2).await;
    let item = bench.one().await;
    let settled = bench.settle(success(item.token)).await;
    assert_eq!(earliest_due(&settled.changes, &HookLine::Push), NOW);
}

/// In strict order the end of the head reports the next delivery.
pub async fn the_end_of_a_head_notifies_of_the_next(bench: &HookBench) {
    bench.with(fifo(1)).await;
    bench.emit_many(3).await;
    let item = bench.one().await;
    let settled = bench.settle(success(item.token)).await;
    assert_eq!(earliest_due(&settled.changes, &HookLine::Push), NOW);
    let item = bench.one().await;
    let settled = bench.settle(end(item.token, DeliveryVerdict::Failed)).await;
    assert_eq!(earliest_due(&settled.changes, &HookLine::Push), NOW);
}

/// A breaker that closes reports the deliveries that waited.
pub async fn a_breaker_that_closes_notifies(bench: &HookBench) {
    bench.with(breaking(1, 1)).await;
    bench.emit_many(4).await;
    let item = bench.one().await;
    bench.settle(failure(item.token)).await;
    bench.advance(60).await;
    let item = bench.one().await;
    let settled = bench.settle(success(item.token)).await;
    assert_eq!(earliest_due(&settled.changes, &HookLine::Push), NOW);
}

/// A release reports the released deliveries.
pub async fn a_release_notifies(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    bench.with(plain()).await;
    bench.emit().await;
    let (fetched, sent) = (bench.fetch(id, 1).await.remove(0), bench.one().await);
    let changes = bench.release(&[&fetched, &sent]).await;
    assert_eq!(earliest_due(&changes, &HookLine::Pull(id)), NOW);
    assert_eq!(earliest_due(&changes, &HookLine::Push), NOW);
}

/// Enabling an endpoint reports the deliveries that waited.
pub async fn enabling_an_endpoint_notifies(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    bench.switch(id, false).await;
    let changes = bench.switch(id, true).await;
    assert_eq!(earliest_due(&changes, &HookLine::Push), NOW);
}

/// Raising a limit reports the deliveries that it makes available.
pub async fn raising_a_limit_notifies(bench: &HookBench) {
    let id = bench.with(capped(1)).await;
    bench.emit_many(2).await;
    bench.one().await;
    let options = Some(capped(2));
    let changes = bench.update(id, EndpointUpdate { options, ..Default::default() }).await;
    assert_eq!(earliest_due(&changes, &HookLine::Push), NOW);
}

/// A resend reports its delivery.
pub async fn a_resend_notifies(bench: &HookBench) {
    let id = bench.with(pulled()).await;
    let message = bench.emit().await;
    let item = bench.fetch(id, 1).await.remove(0);
    bench.fail(&item).await;
    let (message, to) = (MessageRef::Id(message), EndpointRef::Id(id));
    let (_, changes) = bench.hook.resend(&bench.of_app(), &message, &to).await.expect("answered");
    assert_eq!(earliest_due(&changes, &HookLine::Pull(id)), NOW);
}

/// A deleted application leaves background work.
pub async fn deleting_an_application_notifies(bench: &HookBench) {
    bench.emit().await;
    let deleted = bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    assert_eq!(earliest_due(&deleted.1, &HookLine::Background), NOW);
}

/// A delivery of a throttled endpoint is not reported as due before the throttle ends.
pub async fn a_throttled_delivery_is_reported_for_the_end_of_its_throttle(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.settle(SettleDelivery { throttle: Some(secs(50)), ..success(item.token) }).await;
    let reply = bench.emitted(bench.message()).await;
    let due = earliest_due(&reply.changes, &HookLine::Push);
    assert!(due.is_none_or(|due| due <= secs(50)), "{due:?}");
    assert_eq!(bench.none().await, Some(secs(50)));
}
