//! The ledger: every delivery ends as exactly one of acked, failed, expired, released.

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline_core::{PartitionId, QueueOptions, TransactionId, Verdict};
use wakeline_store::DeliveryOutcome::{Acked, Expired, Failed, Open, Released};
use wakeline_store::{
    DeliveryOutcome, GroupPartitionFilter, Intervention, LedgerEntry, MessageKey, Seek, SeekTo,
};

use super::{Bench, ClaimSpec, TakenBatch};

async fn ledger(bench: &Bench, partition: PartitionId, id: &str) -> Vec<LedgerEntry> {
    let id = TransactionId::new(id).expect("a short id");
    let found = bench.store.message(partition, &id).await.expect("a message is read");
    found.expect("it is stored").ledger
}

async fn outcomes(bench: &Bench, taken: &TakenBatch, id: &str) -> Vec<DeliveryOutcome> {
    let entries = ledger(bench, taken.partition_id(), id).await;
    entries.iter().map(|entry| entry.outcome).collect()
}

/// Every delivery has exactly one entry, however it was settled or whether it was settled at all.
pub async fn the_ledger_adds_up(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { lease_secs: 10, retry_limit: 2, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    bench.push(&queue, "p", &ids).await;
    let mut delivered: BTreeMap<String, usize> = BTreeMap::new();
    let mut partition = None;
    for round in 0.. {
        let Some(taken) = bench.try_take(&ClaimSpec::queue(&queue).batch(5)).await else { break };
        partition = Some(taken.partition_id());
        for (n, id) in taken.ids().into_iter().enumerate() {
            let verdict = match (round + n) % 5 {
                0 => Some(Verdict::Completed),
                1 => Some(Verdict::Failed),
                2 => Some(Verdict::Retry),
                3 => Some(Verdict::DeadLetter),
                _ => None,
            };
            if let Some(verdict) = verdict {
                bench.settled(&taken, &id, verdict).await;
            }
            *delivered.entry(id).or_default() += 1;
        }
        match round % 2 {
            0 => bench.advance(10).await,
            _ => {
                bench.store.release(vec![taken.lease()]).await.expect("it is released");
            }
        }
        bench.advance(1).await;
        assert!(round < 100, "it comes to an end");
    }
    let partition = partition.expect("something was delivered");
    let mut seen = Vec::new();
    for (id, times) in delivered {
        let entries = ledger(bench, partition, &id).await;
        assert_eq!(entries.len(), times, "{id}: {entries:#?}");
        assert!(entries.iter().all(|entry| entry.ended_at.is_some()), "{id}: {entries:#?}");
        seen.extend(entries.into_iter().map(|entry| entry.outcome));
    }
    for outcome in [Acked, Failed, Expired, Released] {
        assert!(seen.contains(&outcome), "{outcome:?} came up");
    }
    assert!(!seen.contains(&Open));
}

/// An entry shows the worker, the group, the begin, the end as last extended, and the size of the
/// batch.
pub async fn an_entry_shows_worker_times_and_outcome(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let options = QueueOptions { lease_secs: 10, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let offered_at = bench.now().await;
    let spec = ClaimSpec::queue(&queue).group(&group).batch(2).worker("w-1");
    let taken = bench.take(&spec).await;
    let open = LedgerEntry {
        offered_at,
        ended_at: None,
        group: group.clone(),
        worker: Some("w-1".to_owned()),
        leased_until: offered_at.plus(Duration::from_secs(10)),
        outcome: Open,
        first_offset: 0,
        last_offset: 1,
        messages: 2,
    };
    let partition = taken.partition_id();
    assert_eq!(ledger(bench, partition, "b").await, std::slice::from_ref(&open));
    assert!(ledger(bench, partition, "c").await.is_empty());
    bench.advance(4).await;
    let span = Duration::from_secs(20);
    bench.store.extend(taken.lease(), span).await.expect("it is extended");
    bench.advance(1).await;
    bench.settled(&taken, "b", Verdict::Failed).await;
    bench.settled(&taken, "a", Verdict::Completed).await;
    let ended = LedgerEntry {
        ended_at: Some(offered_at.plus(Duration::from_secs(5))),
        leased_until: offered_at.plus(Duration::from_secs(24)),
        ..open
    };
    let acked = LedgerEntry { outcome: Acked, ..ended.clone() };
    assert_eq!(ledger(bench, partition, "a").await, [acked]);
    let failed = LedgerEntry { outcome: Failed, ..ended };
    assert_eq!(ledger(bench, partition, "b").await, [failed]);
}

/// A settled message shows its outcome while the lease of the others continues.
pub async fn what_is_settled_shows_while_its_lease_is_live(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(4)).await;
    bench.settled(&taken, "b", Verdict::Completed).await;
    bench.settled(&taken, "c", Verdict::Retry).await;
    bench.settled(&taken, "d", Verdict::DeadLetter).await;
    let expected = [("a", Open), ("b", Acked), ("c", Released), ("d", Failed)];
    for (id, outcome) in expected {
        let entries = ledger(bench, taken.partition_id(), id).await;
        let [entry] = entries.as_slice() else { panic!("{id}: {entries:?}") };
        assert_eq!((entry.outcome, entry.ended_at, entry.messages), (outcome, None, 4), "{id}");
    }
    bench.settled(&taken, "a", Verdict::Completed).await;
    for (id, outcome) in expected {
        let outcome = if outcome == Open { Acked } else { outcome };
        assert_eq!(outcomes(bench, &taken, id).await, [outcome], "{id}");
    }
}

/// An expired lease ended at its expiry, whether or not its cursor has been visited since; what was
/// settled before stays settled.
pub async fn a_lease_that_ran_out_ended_then(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { lease_secs: 10, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let over = bench.now().await.plus(Duration::from_secs(10));
    bench.settled(&taken, "a", Verdict::Completed).await;
    bench.advance(15).await;
    let before = ledger(bench, taken.partition_id(), "b").await;
    assert_eq!((before[0].outcome, before[0].ended_at), (Expired, Some(over)));
    let again = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    assert_eq!(again.ids(), ["b"]);
    let after = ledger(bench, taken.partition_id(), "b").await;
    assert_eq!(after[..1], before);
    assert_eq!(outcomes(bench, &taken, "b").await, [Expired, Open]);
    assert_eq!(outcomes(bench, &taken, "a").await, [Acked]);
}

/// A message that was delivered with autoAck is recorded as acked.
pub async fn what_is_settled_at_once_is_acked(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let now = bench.now().await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2).auto_ack().worker("w")).await;
    let entries = ledger(bench, taken.partition_id(), "a").await;
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((entry.outcome, entry.messages), (Acked, 2));
    assert_eq!((entry.offered_at, entry.ended_at), (now, Some(now)));
    assert_eq!(entry.worker.as_deref(), Some("w"));
}

/// Moving a group releases what it holds; leases that have run out by then have expired.
pub async fn a_group_that_is_moved_lets_go(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let options = QueueOptions { lease_secs: 10, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.push(&queue, "r", &["a"]).await;
    let spec = |partition| ClaimSpec::partition(&queue, partition).group(&group);
    let old = bench.take(&spec("p")).await;
    bench.advance(8).await;
    let live = bench.take(&spec("r")).await;
    bench.advance(2).await;
    let seek = Seek { group: group.clone(), queue: None, partition: None, to: SeekTo::Beginning };
    bench.store.seek(seek).await.expect("a group is moved");
    assert_eq!(outcomes(bench, &old, "a").await, [Expired]);
    assert_eq!(outcomes(bench, &live, "a").await, [Released]);
    bench.advance(1).await;
    bench.take(&spec("r")).await;
    assert_eq!(outcomes(bench, &live, "a").await, [Released, Open]);
    bench.store.delete_group(&group, None).await.expect("a group is deleted");
    assert!(outcomes(bench, &live, "a").await.is_empty(), "with its group");
}

/// When a message is given up by hand after its lease expired, the delivery ended as expired.
pub async fn what_is_given_up_after_its_lease_has_expired(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { lease_secs: 10, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.advance(10).await;
    for id in ["a", "b"] {
        let transaction_id = TransactionId::new(id).expect("a short id");
        let key = MessageKey { partition: taken.partition_id(), transaction_id };
        let group = &taken.group;
        let bury = Intervention::GiveUp { error: None };
        bench.store.intervene(key, group, bury).await.expect("it is answered");
        for id in ["a", "b"] {
            assert_eq!(outcomes(bench, &taken, id).await, [Expired], "{id}");
        }
    }
}

/// A retry may be leased together with messages far behind it, and the ledger finds both.
pub async fn a_scattered_lease_is_found(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions {
        retry_delay_ms: 5_000,
        ordering: wakeline_core::MessageOrder::Relaxed,
        ..QueueOptions::default()
    };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["first"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "first", Verdict::Failed).await;
    for batch in 0..11 {
        let ids: Vec<String> = (0..1000).map(|n| format!("{batch}/{n}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        bench.push(&queue, "p", &ids).await;
    }
    while bench.try_take(&ClaimSpec::queue(&queue).batch(5000).auto_ack()).await.is_some() {}
    bench.push(&queue, "p", &["last"]).await;
    bench.advance(5).await;
    let both = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    assert_eq!(both.ids(), ["first", "last"]);
    bench.complete(&both).await;
    assert_eq!(outcomes(bench, &both, "first").await, [Failed, Acked]);
    assert_eq!(outcomes(bench, &both, "last").await, [Acked]);
    assert_eq!(outcomes(bench, &both, "5/5").await, [Acked]);
}

/// Entries are kept for the time that the queue sets, or not at all; live leases are shown in any
/// case.
pub async fn entries_are_kept_for_as_long_as_the_queue_says(bench: &Bench) {
    let (queue, silent) = (bench.queue("q"), bench.queue("silent"));
    let options = |ledger_secs| QueueOptions { ledger_secs, ..QueueOptions::default() };
    bench.configure(&queue, options(60)).await;
    bench.configure(&silent, options(0)).await;
    for queue in [&queue, &silent] {
        bench.push(queue, "p", &["a"]).await;
    }
    let (kept, unkept) =
        (bench.take(&ClaimSpec::queue(&queue)).await, bench.take(&ClaimSpec::queue(&silent)).await);
    assert_eq!(outcomes(bench, &unkept, "a").await, [Open]);
    bench.complete(&kept).await;
    bench.complete(&unkept).await;
    assert!(outcomes(bench, &unkept, "a").await.is_empty());
    bench.advance(59).await;
    bench.housekeep().await;
    assert_eq!(outcomes(bench, &kept, "a").await, [Acked]);
    bench.advance(1).await;
    assert!(outcomes(bench, &kept, "a").await.is_empty());
    bench.housekeep().await;
    assert!(outcomes(bench, &kept, "a").await.is_empty());
}

/// A partition shows its last consumer, also after that consumer released its lease.
pub async fn a_partition_shows_its_last_consumer(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    bench.push(&queue, "p", &["a", "b"]).await;
    let spec = |worker| ClaimSpec::partition(&queue, "p").group(&group).worker(worker);
    let last = async || {
        let group = Some(group.clone());
        let filter = GroupPartitionFilter { group, limit: 10, ..GroupPartitionFilter::default() };
        let listed = bench.store.group_partitions(filter).await.expect("they are listed");
        let one = listed.into_iter().find(|one| one.partition.as_str() == "p");
        one.map(|one| (one.taken_at, one.taken_by))
    };
    let taken = bench.take(&spec("one")).await;
    let at = bench.now().await;
    assert_eq!(last().await, Some((Some(at), Some("one".to_owned()))));
    bench.complete(&taken).await;
    bench.advance(1).await;
    assert_eq!(last().await, Some((Some(at), Some("one".to_owned()))));
    bench.take(&spec("two").auto_ack()).await;
    let at = bench.now().await;
    assert_eq!(last().await, Some((Some(at), Some("two".to_owned()))));
}
