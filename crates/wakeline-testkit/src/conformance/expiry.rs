//! Expired leases: expiry counts as a failed attempt, messages then go one by one, and neighbours
//! of a poison message are not penalized.

use std::time::Duration;

use wakeline_core::{QueueName, QueueOptions, Verdict};
use wakeline_store::{Dropped, SettleOutcome};

use super::{Bench, ClaimSpec, at_once, partition_name, secs};

async fn queue_with(bench: &Bench, retry_limit: u32, name: &str) -> QueueName {
    let queue = bench.queue(name);
    let options = QueueOptions { retry_limit, lease_secs: 30, ..at_once() };
    bench.configure(&queue, options).await;
    queue
}

/// A lease holds its partition until its last millisecond and ends exactly at its end.
pub async fn a_lease_ends_at_its_end(bench: &Bench) {
    let queue = queue_with(bench, 3, "q").await;
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.advance_ms(29_999).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, Some(Duration::from_millis(1)));
    bench.advance_ms(1).await;
    assert_eq!(bench.settle(&taken, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    let again = bench.take(&ClaimSpec::queue(&queue)).await;
    assert_eq!((again.ids(), again.attempts()), (vec!["a".to_owned()], vec![2]));
}

/// Expiry counts as a failure of the messages that were not settled, and of no others.
pub async fn expiry_counts_what_was_not_settled(bench: &Bench) {
    let queue = queue_with(bench, 3, "q").await;
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    bench.settled(&taken, "b", Verdict::Completed).await;
    bench.advance(30).await;
    let mut seen = Vec::new();
    while let Some(taken) = bench.try_take(&ClaimSpec::queue(&queue).batch(10)).await {
        seen.push((taken.ids().join(","), taken.attempts()[0]));
        bench.complete(&taken).await;
    }
    assert_eq!(seen, [("a".to_owned(), 2), ("c".to_owned(), 2), ("d".to_owned(), 1)]);
}

/// After a batch expired its messages are delivered one at a time; after them batches resume.
pub async fn an_expired_batch_is_redelivered_one_by_one(bench: &Bench) {
    let queue = queue_with(bench, 3, "q").await;
    bench.push(&queue, "p", &["a", "b", "c", "d", "e", "f"]).await;
    bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    bench.advance(30).await;
    let mut batches = Vec::new();
    while let Some(taken) = bench.try_take(&ClaimSpec::queue(&queue).batch(10)).await {
        batches.push(taken.ids().join(""));
        bench.complete(&taken).await;
    }
    assert_eq!(batches, ["a", "b", "c", "def"]);
}

/// A message that must be delivered alone may still share a request with messages of other
/// partitions.
pub async fn redelivering_one_by_one_is_per_partition(bench: &Bench) {
    let queue = queue_with(bench, 3, "q").await;
    bench.push(&queue, "x", &["a", "b"]).await;
    bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.advance(30).await;
    bench.push(&queue, "y", &["c", "d"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10).partitions(2)).await;
    assert_eq!(taken.ids(), ["a", "c", "d"]);
}

/// A message keeps the mark to be delivered alone when it fails or is released.
pub async fn a_message_redelivered_alone_stays_alone(bench: &Bench) {
    let queue = queue_with(bench, 9, "q").await;
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.advance(30).await;
    for verdict in [Verdict::Failed, Verdict::Retry] {
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
        assert_eq!(taken.ids(), ["a"]);
        bench.settled(&taken, "a", verdict).await;
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    bench.store.release(vec![taken.lease()]).await.expect("a lease is released");
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!((taken.ids(), taken.attempts()), (vec!["a".to_owned()], vec![3]));
}

/// However often a batch expires, it makes no dead letter.
pub async fn an_expired_batch_makes_no_dead_letter(bench: &Bench) {
    let queue = queue_with(bench, 0, "q").await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    bench.advance(30).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(3)).await, ["a", "b", "c"]);
    assert!(bench.dead_letters(&queue).await.is_empty());
}

/// A single message that expires beyond the limit becomes a dead letter, with the reason.
pub async fn a_single_message_that_expires_beyond_the_limit_is_given_up(bench: &Bench) {
    for limit in 0..=3 {
        let queue = queue_with(bench, limit, &format!("limit-{limit}")).await;
        bench.push(&queue, "p", &["a", "b"]).await;
        for attempt in 1..=limit + 1 {
            let taken = bench.take(&ClaimSpec::queue(&queue)).await;
            assert_eq!((taken.ids(), taken.attempts()), (vec!["a".to_owned()], vec![attempt]));
            bench.advance(30).await;
        }
        assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
        let letter = bench.dead_letters(&queue).await.remove(0);
        assert_eq!((letter.transaction_id.as_str(), letter.failures), ("a", limit + 1));
        assert_eq!(letter.error.as_deref(), Some("lease expired"));
    }
}

/// The last unsettled message of a batch counts as a single message.
pub async fn the_last_unsettled_message_of_a_batch_counts_as_single(bench: &Bench) {
    let queue = queue_with(bench, 0, "q").await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.settled(&taken, "a", Verdict::Completed).await;
    bench.advance(30).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["c"]);
    assert_eq!(bench.dead_ids(&queue).await, ["b"]);
}

/// Without dead letters an expired message beyond its limit is dropped and reported as dropped.
pub async fn without_dead_letters_an_expired_message_is_dropped(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_limit: 0, dead_letters: false, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.take(&ClaimSpec::queue(&queue)).await;
    bench.advance(300).await;
    let outcome = bench.claim(vec![ClaimSpec::queue(&queue).line_claim(1)]).await.remove(0);
    assert_eq!((outcome.results, outcome.next_due), (vec![None], None));
    let dropped = Dropped { queue: queue.clone(), partition: partition_name("p"), offset: 0 };
    assert_eq!(outcome.dropped, [dropped]);
    assert!(bench.dead_letters(&queue).await.is_empty());
}

/// A poison message in a batch of ten is the only one to be given up, whatever the limit.
pub async fn a_poison_message_takes_only_itself(bench: &Bench) {
    for limit in 0..=3 {
        let queue = queue_with(bench, limit, &format!("limit-{limit}")).await;
        let ids: Vec<_> = (0..10).map(|n| n.to_string()).collect();
        bench.push(&queue, "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let mut done = Vec::new();
        let mut poisoned = 0;
        while let Some(taken) = bench.try_take(&ClaimSpec::queue(&queue).batch(10)).await {
            if taken.ids().contains(&"4".to_owned()) {
                poisoned += 1;
                bench.advance(30).await;
            } else {
                done.extend(taken.ids());
                bench.complete(&taken).await;
            }
        }
        assert_eq!(done, ["0", "1", "2", "3", "5", "6", "7", "8", "9"], "limit {limit}");
        assert_eq!(bench.dead_ids(&queue).await, ["4"], "limit {limit}");
        assert_eq!(poisoned, 1 + limit.max(1), "limit {limit}");
    }
}

/// Expired messages do not wait for the retry delay, and come before later ones.
pub async fn an_expired_message_is_available_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { lease_secs: 30, retry_delay_ms: 600_000, ..Default::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.take(&ClaimSpec::queue(&queue)).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(30));
    bench.advance(30).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    // A single delivery that expired is not marked to go alone.
    assert_eq!((taken.ids(), taken.attempts()), (vec!["a".into(), "b".into()], vec![2, 1]));
}
