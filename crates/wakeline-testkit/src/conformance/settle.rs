//! Settling: exactly the messages that are named, in any order, once.

use wakeline_core::{QueueOptions, TransactionId, Verdict};
use wakeline_store::SettleOutcome;

use super::{Bench, ClaimSpec, ended_lease, is_settled};

/// Messages are settled in any order, and no neighbour is settled with them.
pub async fn messages_are_settled_in_any_order(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(4)).await;
    for id in ["c", "a", "d"] {
        let outcome = bench.settle(&taken, id, Verdict::Completed).await;
        assert!(is_settled(&outcome) && !ended_lease(&outcome), "{id}: {outcome:?}");
    }
    let last = bench.settle(&taken, "b", Verdict::Completed).await;
    let expected = SettleOutcome::Settled {
        queue: queue.clone(),
        partition: super::partition_name("p"),
        lease_ended: true,
        dead_lettered: false,
        dropped: false,
    };
    assert_eq!(last, expected);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
}

/// Messages that were not settled stay under the lease and come again when it expires.
pub async fn the_rest_stays_under_the_lease(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    assert!(!ended_lease(&bench.settle(&taken, "b", Verdict::Completed).await));
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    assert!(!ended_lease(&bench.settle(&taken, "c", Verdict::Completed).await));
    assert!(ended_lease(&bench.settle(&taken, "a", Verdict::Completed).await));
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(3)).await.ids(), ["d"]);
}

/// A settled message is not settled again.
pub async fn settling_twice_is_refused(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(bench.settle(&taken, "a", Verdict::Failed).await, SettleOutcome::NotFound);
    bench.settled(&taken, "b", Verdict::Completed).await;
    assert_eq!(bench.settle(&taken, "b", Verdict::Failed).await, SettleOutcome::StaleLease);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
}

/// If one call settles a message twice, the first settlement counts.
pub async fn settling_twice_in_one_call_counts_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let verdicts = [("a", Verdict::Completed), ("a", Verdict::Failed), ("b", Verdict::Completed)];
    let items = verdicts.map(|(id, verdict)| taken.item(id, verdict));
    let outcomes = bench.settle_items(items.to_vec()).await;
    let counted: Vec<_> = outcomes.iter().map(is_settled).collect();
    assert_eq!(counted, [true, false, true]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
}

/// Settling an id that the lease does not hold returns not found and changes nothing.
pub async fn settling_an_unknown_id_is_not_found(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    // "b" is in the partition but not under the lease.
    for id in ["unknown", "b"] {
        assert_eq!(bench.settle(&taken, id, Verdict::Completed).await, SettleOutcome::NotFound);
    }
    bench.complete(&taken).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
}

/// An invalid item of a call fails alone.
pub async fn every_settlement_has_its_own_outcome(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["a", "b"]).await;
    bench.push(&queue, "y", &["c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10).partitions(2)).await;
    let mut zombie = taken.item("a", Verdict::Completed);
    zombie.token = Some(wakeline_core::LeaseToken::generate());
    let mut unknown = taken.item("a", Verdict::Completed);
    unknown.transaction_id = TransactionId::new("unknown").expect("a short id");
    let outcomes = bench
        .settle_items(vec![
            zombie,
            taken.item("c", Verdict::Completed),
            unknown,
            taken.item("a", Verdict::Completed),
        ])
        .await;
    assert_eq!(outcomes[0], SettleOutcome::StaleLease);
    assert!(ended_lease(&outcomes[1]), "{outcomes:?}");
    assert_eq!(outcomes[2], SettleOutcome::NotFound);
    assert!(is_settled(&outcomes[3]) && !ended_lease(&outcomes[3]), "{outcomes:?}");
    bench.settled(&taken, "b", Verdict::Completed).await;
}

/// The lease on each partition ends on its own.
pub async fn each_partition_of_a_lease_ends_by_itself(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["a", "more"]).await;
    bench.advance(1).await;
    bench.push(&queue, "y", &["b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(4).partitions(2)).await;
    assert_eq!(taken.ids(), ["a", "more", "b", "c"]);
    bench.settled(&taken, "more", Verdict::Completed).await;
    assert!(ended_lease(&bench.settle(&taken, "a", Verdict::Completed).await));
    assert_eq!(bench.settle(&taken, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    bench.settled(&taken, "b", Verdict::Completed).await;
    assert!(ended_lease(&bench.settle(&taken, "c", Verdict::Completed).await));
}

/// If a lease holds several messages of one transaction id, a settlement settles the first
/// unsettled one.
pub async fn recurring_ids_settle_the_lowest_offset_first(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { dedup_window_secs: 10, retry_limit: 5, ..Default::default() };
    bench.configure(&queue, options).await;
    for _ in 0..3 {
        bench.push(&queue, "p", &["same"]).await;
        bench.advance(11).await;
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(taken.ids(), ["same", "same", "same"]);
    let completed = taken.item("same", Verdict::Completed);
    let retried = taken.item("same", Verdict::Retry);
    let outcomes = bench.settle_items(vec![completed, retried]).await;
    assert!(outcomes.iter().all(is_settled), "{outcomes:?}");
    assert!(ended_lease(&bench.settle(&taken, "same", Verdict::Completed).await));
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.offsets(), [1]);
}

/// A settlement affects only its own group.
pub async fn a_settlement_is_for_its_group_only(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let (g, h) = (bench.group("g"), bench.group("h"));
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&g)).await;
    let mut wrong_group = taken.item("a", Verdict::Completed);
    wrong_group.group = h.clone();
    assert_eq!(bench.settle_items(vec![wrong_group]).await, [SettleOutcome::StaleLease]);
    bench.complete(&taken).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&h)).await, ["a"]);
}

/// An empty settlement gets an empty answer.
pub async fn an_empty_settlement_is_answered_with_nothing(bench: &Bench) {
    assert!(bench.settle_items(Vec::new()).await.is_empty());
}
