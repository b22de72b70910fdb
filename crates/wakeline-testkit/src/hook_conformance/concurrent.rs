//! Rules that must hold for concurrent calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use wakeline_core::HookMessageId;
use wakeline_store::hook::{
    Created, DeliveryItem, EmitOutcome, HookBackend, JobKind, JobState, NewMessage, SettledState,
};

use super::{
    HookBench, application, capped, fifo, items, key, message, plain, push, rated, request, success,
};

/// Claims until nothing is left. A claim that lost a race reports a next due time of zero.
async fn take_all(hook: Arc<dyn HookBackend>, attempts: usize) -> Vec<DeliveryItem> {
    let mut got = Vec::new();
    for _ in 0..1_000 {
        let answer = hook.claim_deliveries(vec![push(vec![request(attempts)])]).await;
        let answer = answer.expect("it is answered").remove(0);
        got.extend(items(&answer.groups[0]));
        let more = answer.next_due.is_some_and(|due| due < super::secs(25));
        if items(&answer.groups[0]).is_empty() && !more {
            return got;
        }
        tokio::task::yield_now().await;
    }
    panic!("a thousand claims did not take all");
}

fn distinct(got: &[DeliveryItem]) -> BTreeSet<i64> {
    got.iter().map(|item| item.token.delivery).collect()
}

/// Two claims never hold the same delivery, and none is left over.
pub async fn racing_claims_share_the_deliveries(bench: &HookBench) {
    for _ in 0..3 {
        bench.with(plain()).await;
    }
    for round in 0..10 {
        bench.emit_many(8).await;
        let claims = (0..6).map(|n| tokio::spawn(take_all(bench.hook.clone(), 1 + n % 3)));
        let mut got = Vec::new();
        for claim in join_all(claims).await {
            got.extend(claim.expect("no claim panics"));
        }
        assert_eq!((got.len(), distinct(&got).len()), (24, 24), "round {round}");
        assert!(got.iter().all(|item| item.attempt_no == 1), "round {round}");
        let ends = got.iter().map(|item| success(item.token)).collect();
        let settled = bench.hook.settle_deliveries(ends).await.expect("settled");
        assert!(settled.iter().all(|one| one.state == SettledState::Delivered));
    }
}

/// A message that races with a claim is found by the next claim.
pub async fn a_message_that_races_with_a_claim_is_not_lost(bench: &HookBench) {
    bench.with(plain()).await;
    for round in 0..60 {
        let (hook, new) = (bench.hook.clone(), bench.message());
        let id = new.id;
        let emit = tokio::spawn(async move { hook.emit(new, Vec::new()).await.map(|_| ()) });
        let hook = bench.hook.clone();
        let claim = tokio::spawn(async move {
            let answer = hook.claim_deliveries(vec![push(vec![request(2)])]).await;
            items(&answer.expect("it is answered")[0].groups[0])
        });
        emit.await.expect("no call panics").expect("it is stored");
        let mut got = claim.await.expect("no call panics");
        got.extend(take_all(bench.hook.clone(), 2).await);
        assert_eq!(super::messages_of(&got), [id], "round {round}");
        bench.deliver(&got[0]).await;
    }
}

/// A message that races with the cancellation of waiting deliveries is found.
pub async fn a_message_that_races_with_a_cancel_is_not_lost(bench: &HookBench) {
    bench.with(plain()).await;
    for round in 0..60 {
        let waits = bench.emit().await;
        let (hook, new) = (bench.hook.clone(), bench.message());
        let id = new.id;
        let emit = tokio::spawn(async move { hook.emit(new, Vec::new()).await.map(|_| ()) });
        let (hook, app) = (bench.hook.clone(), bench.of_app());
        let cancel = tokio::spawn(async move {
            hook.cancel(&app, &wakeline_core::MessageRef::Id(waits), None).await.map(|_| ())
        });
        for done in join_all([emit, cancel]).await {
            done.expect("no call panics").expect("it is answered");
        }
        let got = take_all(bench.hook.clone(), 2).await;
        assert_eq!(super::messages_of(&got), [id], "round {round}");
        bench.deliver(&got[0]).await;
    }
}

/// A message that races with the end of the last attempt is found.
pub async fn a_message_that_races_with_an_end_is_not_lost(bench: &HookBench) {
    bench.with(fifo(1)).await;
    bench.emit().await;
    let mut item = bench.one().await;
    for round in 0..60 {
        let (hook, new) = (bench.hook.clone(), bench.message());
        let id = new.id;
        let emit = tokio::spawn(async move { hook.emit(new, Vec::new()).await.map(|_| ()) });
        let (hook, end) = (bench.hook.clone(), success(item.token));
        let settle =
            tokio::spawn(async move { hook.settle_deliveries(vec![end]).await.map(|_| ()) });
        for done in join_all([emit, settle]).await {
            done.expect("no call panics").expect("it is answered");
        }
        let mut got = take_all(bench.hook.clone(), 2).await;
        assert_eq!(super::messages_of(&got), [id], "round {round}");
        item = got.remove(0);
    }
}

/// The limit of attempts in flight holds over all concurrent claims.
pub async fn the_cap_holds_in_a_race(bench: &HookBench) {
    bench.with(capped(4)).await;
    for round in 0..10 {
        bench.emit_many(10).await;
        let claims = (0..6).map(|_| {
            let hook = bench.hook.clone();
            tokio::spawn(async move { hook.claim_deliveries(vec![push(vec![request(3)])]).await })
        });
        let mut got = Vec::new();
        for answer in join_all(claims).await {
            let answer = answer.expect("no claim panics").expect("it is answered");
            got.extend(items(&answer[0].groups[0]));
        }
        assert!(got.len() <= 4, "round {round}: {}", got.len());
        loop {
            for item in got.drain(..) {
                bench.deliver(&item).await;
            }
            got = bench.take(4).await;
            if got.is_empty() {
                break;
            }
        }
    }
}

/// The rate limit holds over all concurrent claims.
pub async fn the_rate_holds_in_a_race(bench: &HookBench) {
    bench.with(rated(5)).await;
    bench.emit_many(20).await;
    let claims = (0..6).map(|_| {
        let hook = bench.hook.clone();
        tokio::spawn(async move { hook.claim_deliveries(vec![push(vec![request(3)])]).await })
    });
    let mut got = 0;
    for answer in join_all(claims).await {
        let answer = answer.expect("no claim panics").expect("it is answered");
        got += items(&answer[0].groups[0]).len();
    }
    got += bench.take(20).await.len();
    assert_eq!(got, 5);
}

/// An endpoint in strict order has one lease holder at a time.
pub async fn an_endpoint_in_order_has_one_holder_in_a_race(bench: &HookBench) {
    bench.with(fifo(2)).await;
    let ids = bench.emit_many(20).await;
    let mut order = Vec::new();
    for _ in 0..10 {
        let claims = (0..6).map(|_| {
            let hook = bench.hook.clone();
            tokio::spawn(async move { hook.claim_deliveries(vec![push(vec![request(2)])]).await })
        });
        let mut groups = Vec::new();
        for answer in join_all(claims).await {
            let mut answer = answer.expect("no claim panics").expect("it is answered");
            groups.append(&mut answer[0].groups[0]);
        }
        assert!(groups.len() <= 1, "{groups:?}");
        let group = match groups.pop() {
            Some(group) => group.items,
            None => bench.take(2).await,
        };
        order.extend(super::messages_of(&group));
        for item in group {
            bench.deliver(&item).await;
        }
    }
    assert_eq!(order, ids);
}

/// If one attempt is settled several times at once, one settlement counts.
pub async fn racing_ends_of_one_attempt_count_once(bench: &HookBench) {
    bench.with(plain()).await;
    let id = bench.emit().await;
    let item = bench.one().await;
    let ends = (0..8).map(|_| {
        let (hook, end) = (bench.hook.clone(), success(item.token));
        tokio::spawn(async move { hook.settle_deliveries(vec![end]).await })
    });
    let mut counted = 0;
    for settled in join_all(ends).await {
        let settled = settled.expect("no end panics").expect("it is answered");
        counted += usize::from(settled[0].state == SettledState::Delivered);
    }
    assert_eq!(counted, 1);
    assert_eq!(bench.attempts(id).await.len(), 1);
}

/// Of concurrent messages with one idempotency key, one is stored.
pub async fn racing_messages_of_one_key_are_stored_once(bench: &HookBench) {
    bench.with(plain()).await;
    for round in 0..5 {
        let name = format!("k{round}");
        let emits = (0..6).map(|_| {
            let new = NewMessage { idempotency: key(&name, 1), ..bench.message() };
            let hook = bench.hook.clone();
            tokio::spawn(async move { hook.emit(new, Vec::new()).await })
        });
        let mut stored: Vec<HookMessageId> = Vec::new();
        let mut answers = BTreeSet::new();
        for reply in join_all(emits).await {
            match reply.expect("no call panics").expect("it is answered").outcome {
                EmitOutcome::Stored(message, _) => {
                    stored.push(message.id);
                    answers.insert(message.id);
                }
                EmitOutcome::Repeated(message) => drop(answers.insert(message.id)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((stored.len(), answers.len()), (1, 1));
        let got = bench.take(9).await;
        assert_eq!(super::messages_of(&got), stored);
    }
}

/// Of concurrent messages with one event id, one is stored.
pub async fn racing_messages_of_one_event_are_stored_once(bench: &HookBench) {
    for round in 0..5 {
        let event_id = wakeline_core::EventId::parse(&format!("e{round}")).expect("valid");
        let emits = (0..6).map(|_| {
            let new = NewMessage { event_id: Some(event_id.clone()), ..bench.message() };
            let hook = bench.hook.clone();
            tokio::spawn(async move { hook.emit(new, Vec::new()).await })
        });
        let (mut stored, mut taken) = (0, 0);
        for reply in join_all(emits).await {
            match reply.expect("no call panics").expect("it is answered").outcome {
                EmitOutcome::Stored(..) => stored += 1,
                EmitOutcome::Taken(_) => taken += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((stored, taken), (1, 5));
    }
}

/// Of concurrent applications with one own id, one is created.
pub async fn racing_applications_of_one_own_id_are_made_once(bench: &HookBench) {
    for round in 0..5 {
        let name = format!("app-{round}");
        let makes = (0..6).map(|_| {
            let (hook, new) = (bench.hook.clone(), application(Some(&name)));
            tokio::spawn(async move { hook.create_application(new, None).await })
        });
        let mut made = 0;
        for answer in join_all(makes).await {
            match answer.expect("no call panics").expect("it is answered") {
                Created::New(_) => made += 1,
                Created::Taken(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(made, 1);
    }
}

/// Concurrent first messages create one application.
pub async fn racing_first_messages_make_one_application(bench: &HookBench) {
    let emits = (0..6).map(|_| {
        let new = NewMessage {
            application: wakeline_core::ApplicationRef::Own(super::uid("fresh")),
            create_application: Some(application(Some("fresh"))),
            ..message(bench.app)
        };
        let hook = bench.hook.clone();
        tokio::spawn(async move { hook.emit(new, Vec::new()).await })
    });
    let mut owners = BTreeSet::new();
    for reply in join_all(emits).await {
        match reply.expect("no call panics").expect("it is answered").outcome {
            EmitOutcome::Stored(message, _) => drop(owners.insert(message.application)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(owners.len(), 1);
}

/// Two concurrent callers of background work run a job once.
pub async fn racing_background_workers_do_a_job_once(bench: &HookBench) {
    bench.with(plain()).await;
    for _ in 0..10 {
        bench.failed().await;
    }
    let job = bench.start(JobKind::Recover, Default::default()).await;
    for _ in 0..100 {
        let pieces = (0..3).map(|_| {
            let hook = bench.hook.clone();
            tokio::spawn(async move { hook.run_background(2).await })
        });
        for piece in join_all(pieces).await {
            piece.expect("no piece panics").expect("it is answered");
        }
        if bench.job(job).await.state == JobState::Finished {
            break;
        }
    }
    let done = bench.job(job).await;
    assert_eq!((done.state, done.changed), (JobState::Finished, 10));
    assert_eq!(bench.take(20).await.len(), 10);
}

/// Settlements of many endpoints that run at once do not block each other.
pub async fn crosswise_ends_do_not_block_each_other(bench: &HookBench) {
    for _ in 0..4 {
        bench.with(plain()).await;
    }
    for _ in 0..5 {
        bench.emit_many(4).await;
        let got = bench.take(16).await;
        assert_eq!(got.len(), 16);
        let calls = (0..4).map(|n| {
            let mut ends: Vec<_> = got.iter().skip(n).step_by(4).collect();
            if n % 2 == 1 {
                ends.reverse();
            }
            let ends = ends
                .into_iter()
                .map(|item| wakeline_store::hook::SettleDelivery {
                    announce: vec![message(bench.app)],
                    ..success(item.token)
                })
                .collect();
            let hook = bench.hook.clone();
            tokio::spawn(async move { hook.settle_deliveries(ends).await })
        });
        for settled in join_all(calls).await {
            let settled = settled.expect("no end panics").expect("it is answered");
            assert!(settled.iter().all(|one| one.state == SettledState::Delivered));
        }
        for item in take_all(bench.hook.clone(), 16).await {
            bench.deliver(&item).await;
        }
    }
}
