//! Calls that run concurrently.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use wakeline_core::{PartitionId, QueueName, TransactionId, Verdict};
use wakeline_store::{MessageKey, PushOutcome, QueueClaimResult, SettleOutcome, Store};

use super::{Bench, ClaimSpec, is_settled, item};

/// Claims until it gets something. A claim that lost a race reports a short wait.
async fn claim_in_a_race(store: Arc<dyn Store>, spec: ClaimSpec) -> QueueClaimResult {
    for _ in 0..1_000 {
        let outcome =
            store.claim(vec![spec.line_claim(1)]).await.expect("it is answered").remove(0);
        if let Some(result) = &outcome.results[0] {
            return result.clone();
        }
        let wait = outcome.next_due;
        assert!(wait.is_some_and(|wait| wait < Duration::from_secs(60)), "none left: {wait:?}");
        tokio::task::yield_now().await;
    }
    panic!("a thousand claims lost every race");
}

/// Ten messages in ten partitions, ten claims: each gets one, round after round.
pub async fn racing_claims_share_what_is_there(bench: &Bench) {
    let queue = bench.queue("q");
    for round in 0..20 {
        let partitions: Vec<_> = (0..10).map(|n| format!("p{n}")).collect();
        let id = round.to_string();
        let items = partitions.iter().map(|name| item(&queue, name, &id)).collect();
        bench.push_items(items).await;
        let claims = (0..10).map(|_| {
            tokio::spawn(claim_in_a_race(bench.store.clone(), ClaimSpec::queue(&queue).auto_ack()))
        });
        let mut got = BTreeSet::new();
        for result in join_all(claims).await {
            let result = result.expect("no claim panics");
            assert_eq!(result.partitions[0].messages.len(), 1);
            assert!(got.insert(result.partitions[0].partition.to_string()), "round {round}");
        }
        assert_eq!(got, partitions.into_iter().collect());
    }
}

/// Many concurrent claims of one partition: exactly one holds it.
pub async fn a_partition_has_one_holder_in_a_race(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let claims = (0..8).map(|_| {
        let (store, spec) = (bench.store.clone(), ClaimSpec::queue(&queue).batch(2));
        tokio::spawn(async move { store.claim(vec![spec.line_claim(1)]).await })
    });
    let mut holders = 0;
    for outcome in join_all(claims).await {
        let outcome = outcome.expect("no claim panics").expect("it is answered");
        holders += outcome[0].results.iter().flatten().count();
    }
    assert_eq!(holders, 1);
}

/// Concurrent pushes leave no gap, store no message twice, and keep the order of each call.
pub async fn racing_pushes_leave_no_gap(bench: &Bench) {
    let queue = bench.queue("q");
    let pushes = (0..20).map(|call| {
        let (store, queue) = (bench.store.clone(), queue.clone());
        let items = (0..5).map(|n| item(&queue, "p", &format!("{call:02}-{n}"))).collect();
        tokio::spawn(async move { store.push(items).await })
    });
    for reply in join_all(pushes).await {
        let reply = reply.expect("no push panics").expect("it is answered");
        let queued = |outcome: &PushOutcome| matches!(outcome, PushOutcome::Queued { .. });
        assert!(reply.outcomes.iter().all(queued), "{reply:?}");
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(1000)).await;
    assert_eq!(taken.offsets(), (0..100).collect::<Vec<_>>());
    let mut ids = taken.ids();
    for call in 0..20 {
        let prefix = format!("{call:02}-");
        let own: Vec<_> = ids.iter().filter(|id| id.starts_with(&prefix)).cloned().collect();
        let expected: Vec<_> = (0..5).map(|n| format!("{prefix}{n}")).collect();
        assert_eq!(own, expected);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}

/// Concurrent pushes of the same transaction id store one message with one id.
pub async fn racing_repetitions_store_one_message(bench: &Bench) {
    let queue = bench.queue("q");
    let pushes = (0..10).map(|_| {
        let (store, items) = (bench.store.clone(), vec![item(&queue, "p", "same")]);
        tokio::spawn(async move { store.push(items).await })
    });
    let (mut queued, mut ids) = (0, BTreeSet::new());
    for reply in join_all(pushes).await {
        match reply.expect("no push panics").expect("it is answered").outcomes[0] {
            PushOutcome::Queued { id, .. } => {
                queued += 1;
                ids.insert(id);
            }
            PushOutcome::Held { id, .. } | PushOutcome::Duplicate { id, .. } => {
                ids.insert(id);
            }
        }
    }
    assert_eq!((queued, ids.len()), (1, 1));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["same"]);
}

/// A message that is settled concurrently is settled once.
pub async fn racing_settlements_count_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let settles = (0..8).map(|_| {
        let (store, item) = (bench.store.clone(), taken.item("a", Verdict::Completed));
        tokio::spawn(async move { store.settle(vec![item]).await })
    });
    let mut counted = 0;
    for reply in join_all(settles).await {
        let outcome = reply.expect("no settlement panics").expect("it is answered").outcomes;
        counted += usize::from(is_settled(&outcome[0]));
        assert!(is_settled(&outcome[0]) || outcome[0] == SettleOutcome::NotFound, "{outcome:?}");
    }
    assert_eq!(counted, 1);
    bench.settled(&taken, "b", Verdict::Completed).await;
}

/// A group that begins while partitions are created misses none of them.
pub async fn a_group_that_begins_during_pushes_misses_no_partition(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "first", &["a"]).await;
    for round in 0..10 {
        let group = bench.group(&round.to_string());
        let pushes = (0..4).map(|n| {
            let items = vec![item(&queue, &format!("{round}-{n}"), "a")];
            let store = bench.store.clone();
            tokio::spawn(async move { drop(store.push(items).await.expect("it is answered")) })
        });
        let spec = ClaimSpec::queue(&queue).group(&group);
        let (store, line) = (bench.store.clone(), spec.line_claim(1));
        let claim = tokio::spawn(async move {
            drop(store.claim(vec![line]).await.expect("it is answered"));
        });
        for done in join_all(pushes.chain([claim])).await {
            done.expect("no call panics");
        }
        let detail = bench.store.groups(Some(&group)).await.expect("groups are listed").remove(0);
        assert_eq!(detail.lag, 1 + 4 * (round + 1));
    }
}

/// Pushes five messages a call, `00-0` to `19-4`.
async fn push_all(store: Arc<dyn Store>, queue: QueueName) {
    for call in 0..20 {
        let items = (0..5).map(|n| item(&queue, "p", &format!("{call:02}-{n}"))).collect();
        store.push(items).await.expect("messages are pushed");
    }
}

/// Deletes one message of each call as soon as it exists; returns the ids that it deleted.
async fn delete_each(store: Arc<dyn Store>, partition: PartitionId, n: usize) -> BTreeSet<String> {
    let mut deleted = BTreeSet::new();
    for call in 0..20 {
        let id = format!("{call:02}-{n}");
        let transaction_id = TransactionId::new(id.as_str()).expect("a short id");
        for _ in 0..1_000 {
            let key = MessageKey { partition, transaction_id: transaction_id.clone() };
            if store.delete_message(key).await.expect("it is answered").0 {
                deleted.insert(id);
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    deleted
}

/// Messages that are not deleted are delivered once and in order; deleted ones are not delivered
/// after their deletion.
pub async fn deletions_race_with_consumers(bench: &Bench) {
    let queue = bench.queue("q");
    let spec = ClaimSpec::queue(&queue).batch(3);
    let partition = bench.push(&queue, "p", &["--"]).await.outcomes[0].partition();
    let push = tokio::spawn(push_all(bench.store.clone(), queue.clone()));
    let deletions = [0, 3].map(|n| tokio::spawn(delete_each(bench.store.clone(), partition, n)));
    let (mut delivered, mut acked) = (Vec::new(), BTreeSet::new());
    while !(push.is_finished() && deletions.iter().all(|task| task.is_finished())) {
        let Some(taken) = bench.try_take(&spec).await else {
            tokio::task::yield_now().await;
            continue;
        };
        for id in taken.ids() {
            delivered.push(id.clone());
            if is_settled(&bench.settle(&taken, &id, Verdict::Completed).await) {
                acked.insert(id);
            }
        }
    }
    push.await.expect("no push panics");
    let mut deleted = BTreeSet::new();
    for task in join_all(deletions).await {
        deleted.extend(task.expect("no deletion panics"));
    }
    let late = bench.drain(&spec).await;
    assert!(late.iter().all(|id| !deleted.contains(id)), "{late:?}");
    delivered.extend(late.clone());
    acked.extend(late);
    assert!(delivered.is_sorted(), "in order: {delivered:?}");
    let once: BTreeSet<_> = delivered.iter().collect();
    assert_eq!(once.len(), delivered.len(), "once: {delivered:?}");
    for id in (0..20).flat_map(|call| (0..5).map(move |n| format!("{call:02}-{n}"))) {
        assert!(acked.contains(&id) || deleted.contains(&id), "{id} is lost");
    }
    let group = bench.store.groups(Some(&spec.line.group)).await.expect("groups are listed");
    let lag: u64 = group.iter().filter(|one| one.queue == queue).map(|one| one.lag).sum();
    assert_eq!(lag, 0);
}
