//! Rules of claims that limit how much some applications get.

use std::time::Duration;

use wakeline_core::{ApplicationId, ApplicationRef, EndpointId, EndpointOptions, HookMessageId};
use wakeline_store::hook::{ApplicationLimit, Created, DeliveryClaim, DeliveryClaimed};

use super::{
    HookBench, application, endpoint, fifo, items, message, messages_of, plain, push, request,
    request_fresh, secs,
};

/// Creates another application with one endpoint.
async fn other(bench: &HookBench, options: EndpointOptions) -> (ApplicationId, EndpointId) {
    let app = bench.application(application(None)).await;
    let made = bench.hook.create_endpoint(&ApplicationRef::Id(app), endpoint(options), None).await;
    match made.expect("an endpoint is made") {
        Created::New(made) => (app, made.id),
        other => panic!("{other:?}"),
    }
}

async fn emit_to(bench: &HookBench, app: ApplicationId) -> HookMessageId {
    bench.stored(message(app)).await.0.id
}

/// A claim of one request in which the application of the bench gets at most this number of groups.
fn limited(bench: &HookBench, attempts: usize, groups: u32) -> DeliveryClaim {
    let limits = vec![ApplicationLimit { application: bench.app, groups }];
    DeliveryClaim { limits, ..push(vec![request(attempts)]) }
}

fn given(answer: &DeliveryClaimed) -> Vec<HookMessageId> {
    messages_of(&items(&answer.groups[0]))
}

/// Rule 12: the limit holds however many of its endpoints were due before those of others.
pub async fn a_limited_application_leaves_the_claim_to_others(bench: &HookBench) {
    for _ in 0..40 {
        bench.with(plain()).await;
    }
    bench.emit_many(2).await;
    bench.advance(1).await;
    let (quiet, _) = other(bench, plain()).await;
    let message = emit_to(bench, quiet).await;
    assert_eq!(given(&bench.claim(limited(bench, 8, 0)).await), [message]);
}

/// Rule 12: the application gets as much as its limit allows, and others get the rest.
pub async fn a_limited_application_gets_as_much_as_its_limit(bench: &HookBench) {
    for _ in 0..20 {
        bench.with(plain()).await;
    }
    bench.emit_many(2).await;
    bench.advance(1).await;
    let (quiet, _) = other(bench, plain()).await;
    let message = emit_to(bench, quiet).await;
    let answer = bench.claim(limited(bench, 8, 3)).await;
    let got = answer.groups[0].iter();
    let (mine, others): (Vec<_>, Vec<_>) =
        got.partition(|group| group.target.application == bench.app);
    assert_eq!((mine.len(), others.len()), (3, 1), "{:?}", given(&answer));
    assert_eq!(others[0].items[0].message, message);
}

/// Rule 12: one endpoint alone does not exceed the limit either.
pub async fn a_limit_holds_for_one_endpoint_with_much_to_give(bench: &HookBench) {
    bench.with(plain()).await;
    let ids = bench.emit_many(5).await;
    assert_eq!(given(&bench.claim(limited(bench, 5, 2)).await), ids[..2]);
    assert_eq!(bench.taken(5).await, ids[2..], "the rest stayed due");
}

/// Rule 12: held-back deliveries are not reported as due, because the caller would claim in a loop.
pub async fn what_a_limit_holds_back_is_not_in_sight(bench: &HookBench) {
    for options in [plain(), fifo(1)] {
        bench.with(options).await;
    }
    bench.emit_many(3).await;
    let answer = bench.claim(limited(bench, 9, 0)).await;
    assert!(given(&answer).is_empty());
    assert_eq!(answer.next_due, None, "nothing that it may have");
    let answer = bench.claim(limited(bench, 9, 1)).await;
    assert_eq!(given(&answer).len(), 1);
    assert_ne!(answer.next_due, Some(Duration::ZERO), "it has had all that it may have");
    assert!(!bench.take(1).await.is_empty(), "another claim finds it");
}

/// Rule 12: the next delivery of other applications is reported.
pub async fn what_others_have_later_is_in_sight_past_a_limit(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(3).await;
    let (quiet, _) = other(bench, plain()).await;
    emit_to(bench, quiet).await;
    let item = items(&bench.claim(limited(bench, 9, 0)).await.groups[0]).remove(0);
    bench.retry(&item, 7).await;
    let answer = bench.claim(limited(bench, 9, 0)).await;
    assert!(given(&answer).is_empty());
    assert_eq!(answer.next_due, Some(secs(7)));
}

/// Rule 12: a group in strict order counts as one.
pub async fn a_group_in_order_counts_as_one_against_a_limit(bench: &HookBench) {
    bench.with(fifo(3)).await;
    bench.with(fifo(3)).await;
    let ids = bench.emit_many(3).await;
    let answer = bench.claim(limited(bench, 9, 1)).await;
    assert_eq!(answer.groups[0].len(), 1);
    assert_eq!(given(&answer), ids);
}

/// Rule 12: the limit also holds for slots that are reserved for first attempts.
pub async fn a_limit_holds_for_first_attempts(bench: &HookBench) {
    for _ in 0..5 {
        bench.with(plain()).await;
    }
    bench.emit().await;
    let (quiet, _) = other(bench, plain()).await;
    let message = emit_to(bench, quiet).await;
    let fresh = DeliveryClaim { requests: vec![request_fresh(4, 4)], ..limited(bench, 4, 0) };
    let answer = bench.claim(fresh).await;
    assert_eq!(given(&answer), [message]);
    assert_ne!(answer.next_due, Some(Duration::ZERO));
}
