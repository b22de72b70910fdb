//! Leases: extension, release, and what a stale token cannot do.

use std::time::Duration;

use wakeline_core::{CursorId, Fencing, GroupId, LeaseId, PartitionId, QueueOptions, Verdict};
use wakeline_store::{Extension, SettleOutcome};

use super::{Bench, ClaimSpec, TakenBatch, at_once, ended_lease, secs};

async fn extend(bench: &Bench, taken: &TakenBatch, secs: u64) -> Extension {
    let span = Duration::from_secs(secs);
    bench.store.extend(taken.lease(), span).await.expect("an extension is answered")
}

/// An extension counts from now and holds the partition until then.
pub async fn an_extension_moves_the_end(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { lease_secs: 30, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let began = bench.now().await;
    bench.advance(20).await;
    let extension = extend(bench, &taken, 60).await;
    assert_eq!(extension.held, [taken.partition_id()]);
    assert_eq!(extension.lost, []);
    assert_eq!(extension.expires_at, Some(began.plus(Duration::from_secs(80))));
    bench.advance(59).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(1));
    assert!(ended_lease(&bench.settle(&taken, "a", Verdict::Completed).await));
}

/// It never moves the end to an earlier time.
pub async fn an_extension_never_shortens(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { lease_secs: 30, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let began = bench.now().await;
    let extension = extend(bench, &taken, 5).await;
    assert_eq!(extension.expires_at, Some(began.plus(Duration::from_secs(30))));
    bench.advance(29).await;
    bench.nothing(&ClaimSpec::queue(&queue)).await;
}

/// Partitions that are no longer held are named; the others are extended.
pub async fn an_extension_names_what_was_lost(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["a"]).await;
    bench.advance(1).await;
    bench.push(&queue, "y", &["b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2).partitions(2)).await;
    let ids: Vec<_> = taken.result.partitions.iter().map(|claimed| claimed.partition_id).collect();
    bench.settled(&taken, "a", Verdict::Completed).await;
    let extension = extend(bench, &taken, 1000).await;
    assert_eq!((extension.held, extension.lost), (vec![ids[1]], vec![ids[0]]));
    let unknown = CursorId { partition: PartitionId(i64::MAX >> 2), group: GroupId(i32::MAX) };
    let lease = LeaseId { cursors: vec![unknown], ..taken.lease() };
    let extension =
        bench.store.extend(lease, Duration::from_secs(9)).await.expect("it is answered");
    assert_eq!((extension.held, extension.expires_at), (vec![], None));
    assert_eq!(extension.lost, [unknown.partition]);
}

/// An expired lease cannot be extended, settled under, or released.
pub async fn an_expired_lease_can_do_nothing(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.advance(300).await;
    let extension = extend(bench, &taken, 1000).await;
    assert_eq!((extension.held, extension.expires_at), (vec![], None));
    for verdict in [Verdict::Completed, Verdict::Failed, Verdict::Retry, Verdict::DeadLetter] {
        assert_eq!(bench.settle(&taken, "a", verdict).await, SettleOutcome::StaleLease);
    }
    bench.store.release(vec![taken.lease()]).await.expect("a release is answered");
    let again = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    assert_eq!(again.attempts(), [2, 1], "the expiry counted, the release did not");
}

/// A consumer that lost its lease changes nothing of what its successor holds.
pub async fn a_stale_token_can_not_touch_what_another_holds(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let zombie = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.advance(300).await;
    let holder = bench.take(&ClaimSpec::queue(&queue)).await;
    assert_eq!(holder.ids(), ["a"]);
    for verdict in [Verdict::Completed, Verdict::Failed, Verdict::Retry, Verdict::DeadLetter] {
        assert_eq!(bench.settle(&zombie, "a", verdict).await, SettleOutcome::StaleLease);
    }
    assert_eq!(extend(bench, &zombie, 10_000).await.held, []);
    bench.store.release(vec![zombie.lease()]).await.expect("a release is answered");
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(300));
    assert!(ended_lease(&bench.settle(&holder, "a", Verdict::Completed).await));
}

/// Strict fencing requires the lease token.
pub async fn settling_without_a_lease_is_refused(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let mut item = taken.item("a", Verdict::Completed);
    item.token = None;
    assert_eq!(bench.settle_items(vec![item]).await, [SettleOutcome::LeaseRequired]);
    bench.complete(&taken).await;
}

/// Lenient fencing settles under any live lease; a wrong token is still refused.
pub async fn lenient_fencing_settles_under_the_live_lease(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { fencing: Fencing::Lenient, ..Default::default() }).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let zombie = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.advance(300).await;
    let mut item = zombie.item("a", Verdict::Completed);
    item.token = None;
    assert_eq!(bench.settle_items(vec![item.clone()]).await, [SettleOutcome::StaleLease]);
    bench.take(&ClaimSpec::queue(&queue)).await;
    assert_eq!(bench.settle(&zombie, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    assert!(ended_lease(&bench.settle_items(vec![item]).await[0]));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
}

/// A release makes messages available at once, in order, and does not count as an attempt.
pub async fn a_release_is_not_counted_and_keeps_the_order(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { retry_limit: 0, ..Default::default() }).await;
    bench.push(&queue, "p", &["a", "b", "c", "d", "e"]).await;
    for _ in 0..3 {
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(4)).await;
        assert_eq!(taken.attempts(), [1, 1, 1, 1]);
        bench.store.release(vec![taken.lease()]).await.expect("a lease is released");
        let late = bench.settle(&taken, "a", Verdict::Completed).await;
        assert_eq!(late, SettleOutcome::StaleLease);
    }
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(2)).await, ["a", "b", "c", "d", "e"]);
}

/// What was settled before the release stays settled; the rest comes in order.
pub async fn a_release_gives_back_only_what_is_unsettled(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "p", &["a", "b", "c", "d", "e", "f"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(5)).await;
    bench.settled(&taken, "b", Verdict::Completed).await;
    bench.settled(&taken, "d", Verdict::Failed).await;
    bench.store.release(vec![taken.lease()]).await.expect("a lease is released");
    let again = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(again.ids(), ["a", "c", "d", "e", "f"]);
    assert_eq!(again.attempts(), [1, 1, 2, 1, 1]);
}

/// A release keeps the failures that were counted before.
pub async fn a_release_keeps_earlier_failures(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    for _ in 0..2 {
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
        assert_eq!((taken.ids(), taken.attempts()), (vec!["a".into(), "b".into()], vec![2, 1]));
        bench.store.release(vec![taken.lease()]).await.expect("a lease is released");
    }
}

/// Several leases over several partitions are released in one call; stale ones are ignored.
pub async fn several_leases_are_released_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    for partition in ["x", "y", "z"] {
        bench.push(&queue, partition, &[partition]).await;
    }
    let two = bench.take(&ClaimSpec::queue(&queue).batch(2).partitions(2)).await;
    let one = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.complete(&one).await;
    let leases = vec![one.lease(), two.lease(), two.lease()];
    bench.store.release(leases).await.expect("leases are released");
    let mut ids = bench.drain(&ClaimSpec::queue(&queue)).await;
    ids.sort();
    let mut expected = two.ids();
    expected.sort();
    assert_eq!(ids, expected);
}
