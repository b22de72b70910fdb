//! Failed messages: attempts are counted per message, retries wait, and messages over the limit are
//! given up.

use std::time::Duration;

use wakeline_core::{
    MessageOrder, QueueName, QueueOptions, RetryBackoff, RetryDecision, TransactionId, Verdict,
};

use wakeline_store::SettleOutcome;

use super::{Bench, ClaimSpec, at_once, secs};

/// A failed message comes again with the number of its attempt.
pub async fn a_failed_message_comes_again(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "p", &["a"]).await;
    for attempt in 1..=3 {
        let taken = bench.take(&ClaimSpec::queue(&queue)).await;
        assert_eq!((taken.ids(), taken.attempts()), (vec!["a".to_owned()], vec![attempt]));
        bench.settled(&taken, "a", Verdict::Failed).await;
    }
}

/// With default options a failed message waits before each retry, twice as long each time, minus a
/// jitter that depends on the message.
pub async fn a_queue_without_options_waits_longer_before_each_retry(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    for seconds in [1, 2, 4] {
        let taken = bench.take(&ClaimSpec::queue(&queue)).await;
        bench.settled(&taken, "a", Verdict::Failed).await;
        let wait = bench.nothing(&ClaimSpec::queue(&queue)).await.expect("a retry is due");
        let full = Duration::from_secs(seconds);
        assert!(wait <= full && wait >= full.mul_f64(0.8), "{wait:?} of {full:?}");
        bench.advance(seconds).await;
    }
}

/// Attempts are counted per message, so that the neighbours of a failed one are not penalized.
pub async fn attempts_are_counted_per_message(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    bench.settled(&taken, "b", Verdict::Failed).await;
    bench.settled(&taken, "c", Verdict::Retry).await;
    bench.settled(&taken, "a", Verdict::Completed).await;
    bench.push(&queue, "p", &["d"]).await;
    let again = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(again.ids(), ["b", "c", "d"]);
    assert_eq!(again.attempts(), [2, 1, 1]);
}

/// The verdict `retry` gives a message back at once and does not count an attempt, any number of
/// times.
pub async fn a_retried_message_is_not_counted(bench: &Bench) {
    let queue = bench.queue("q");
    let options =
        QueueOptions { retry_limit: 0, retry_delay_ms: 60_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a"]).await;
    for _ in 0..5 {
        let taken = bench.take(&ClaimSpec::queue(&queue)).await;
        assert_eq!(taken.attempts(), [1]);
        bench.settled(&taken, "a", Verdict::Retry).await;
    }
    assert!(bench.dead_letters(&queue).await.is_empty());
}

/// The verdict `dlq` gives a message up at once.
pub async fn a_message_may_be_given_up_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let mut item = taken.item("a", Verdict::DeadLetter);
    item.error = Some("hopeless".to_owned());
    let outcome = bench.settle_items(vec![item]).await.remove(0);
    assert!(
        matches!(outcome, wakeline_store::SettleOutcome::Settled { dead_lettered: true, .. }),
        "{outcome:?}"
    );
    bench.settled(&taken, "b", Verdict::Completed).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    let letter = bench.dead_letters(&queue).await.remove(0);
    assert_eq!((letter.failures, letter.error.as_deref()), (0, Some("hopeless")));
}

/// A message becomes a dead letter once it exceeds the limit, and not before.
pub async fn the_limit_is_exact(bench: &Bench) {
    for limit in 0..=3 {
        let queue = bench.queue(&format!("limit-{limit}"));
        bench.configure(&queue, QueueOptions { retry_limit: limit, ..at_once() }).await;
        bench.push(&queue, "p", &["a", "b"]).await;
        for attempt in 1..=limit + 1 {
            assert!(bench.dead_letters(&queue).await.is_empty(), "limit {limit}");
            let taken = bench.take(&ClaimSpec::queue(&queue)).await;
            assert_eq!((taken.ids(), taken.attempts()), (vec!["a".to_owned()], vec![attempt]));
            bench.settled(&taken, "a", Verdict::Failed).await;
        }
        let letters = bench.dead_letters(&queue).await;
        assert_eq!(letters.len(), 1, "limit {limit}");
        assert_eq!(letters[0].failures, limit + 1);
        assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
    }
}

async fn waits(bench: &Bench, queue: &QueueName) -> Vec<u64> {
    bench.push(queue, "p", &["a"]).await;
    let mut waits = Vec::new();
    for _ in 0..6 {
        let taken = bench.take(&ClaimSpec::queue(queue)).await;
        bench.settled(&taken, "a", Verdict::Failed).await;
        let wait = bench.nothing(&ClaimSpec::queue(queue)).await.expect("a retry is in sight");
        let wait = u64::try_from(wait.as_millis()).expect("a short wait");
        bench.advance_ms(wait - 1).await;
        bench.nothing(&ClaimSpec::queue(queue)).await;
        bench.advance_ms(1).await;
        waits.push(wait);
    }
    waits
}

/// The wait doubles with every counted failure, up to its cap.
pub async fn exponential_backoff_doubles_up_to_its_cap(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions {
        retry_limit: 10,
        retry_delay_ms: 1_500,
        retry_delay_ms_max: 20_000,
        ..at_once()
    };
    bench.configure(&queue, options).await;
    assert_eq!(waits(bench, &queue).await, [1_500, 3_000, 6_000, 12_000, 20_000, 20_000]);
}

/// With fixed backoff every wait is equally long.
pub async fn fixed_backoff_stays_the_same(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions {
        retry_limit: 10,
        retry_delay_ms: 2_000,
        retry_backoff: RetryBackoff::Fixed,
        ..at_once()
    };
    bench.configure(&queue, options).await;
    assert_eq!(waits(bench, &queue).await, [2_000; 6]);
}

/// Jitter shortens each wait depending on message and attempt, in the same way on every store, so
/// that messages that failed together do not come back together.
pub async fn jitter_spreads_retries(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions {
        retry_limit: 10,
        retry_delay_ms: 10_000,
        retry_jitter_percent: 50,
        ..QueueOptions::default()
    };
    bench.configure(&queue, options.clone()).await;
    let mut spread = std::collections::BTreeSet::new();
    for partition in ["p", "q", "r", "s", "t"] {
        let id = format!("{partition}-1");
        bench.push(&queue, partition, &[&id]).await;
        for failures in 1..=3 {
            let taken = bench.take(&ClaimSpec::partition(&queue, partition)).await;
            bench.settled(&taken, &id, Verdict::Failed).await;
            let wait = bench.nothing(&ClaimSpec::partition(&queue, partition)).await;
            let name = TransactionId::new(&id).expect("a fine name");
            let RetryDecision::After(expected) = options.after_failure(failures, &name) else {
                panic!("tries are left");
            };
            assert_eq!(wait, Some(expected), "{id}, failure {failures}");
            let plain = Duration::from_millis(10_000 << (failures - 1));
            assert!(expected <= plain && expected * 2 >= plain, "{expected:?} of {plain:?}");
            spread.insert(expected);
            bench.advance_ms(u64::try_from(expected.as_millis()).expect("a short wait")).await;
        }
    }
    assert!(spread.len() > 10, "{spread:?}");
}

async fn fail_the_second_of_four(bench: &Bench, ordering: MessageOrder) -> QueueName {
    let queue = bench.queue("q");
    let options = QueueOptions { ordering, retry_delay_ms: 30_000, ..at_once() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    for (id, verdict) in
        [("a", Verdict::Completed), ("b", Verdict::Failed), ("c", Verdict::Completed)]
    {
        bench.settled(&taken, id, verdict).await;
    }
    queue
}

/// In strict order a failed message holds its partition until its retry.
pub async fn strict_order_holds_the_partition(bench: &Bench) {
    let queue = fail_the_second_of_four(bench, MessageOrder::Strict).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(10)).await, secs(30));
    bench.push(&queue, "other", &["x"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["x"]);
    bench.advance(30).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(taken.ids(), ["b", "d"]);
}

/// In relaxed order later messages pass a failed one; those that are due are delivered in order of
/// offset.
pub async fn relaxed_order_lets_later_messages_pass(bench: &Bench) {
    let queue = fail_the_second_of_four(bench, MessageOrder::Relaxed).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["d"]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(30));
    bench.advance(30).await;
    bench.push(&queue, "p", &["e"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!((taken.ids(), taken.attempts()), (vec!["b".into(), "e".into()], vec![2, 1]));
}

/// In relaxed order the first parked message that is due comes first, and the others hold nothing
/// back.
pub async fn relaxed_retries_come_as_they_are_due(bench: &Bench) {
    let queue = bench.queue("q");
    let ordering = MessageOrder::Relaxed;
    let options = QueueOptions { ordering, retry_delay_ms: 10_000, ..at_once() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.settled(&taken, "b", Verdict::Failed).await;
    bench.advance(4).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(2)).await, secs(6));
    bench.advance(6).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(2)).await.ids(), ["b"]);
    bench.advance(4).await;
    bench.nothing(&ClaimSpec::queue(&queue).batch(2)).await;
}

/// In strict order parked messages come in order of offset, whichever failed last.
pub async fn strict_retries_come_in_order_of_offset(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { retry_delay_ms: 10_000, ..at_once() }).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.settled(&taken, "b", Verdict::Failed).await;
    bench.advance(4).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    // "b" is due in 6 s, but waits for "a".
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(2)).await, secs(10));
    bench.advance(10).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(2)).await.ids(), ["a", "b"]);
}

/// Without dead letters a message over the limit is dropped; one with the verdict `dlq` is kept.
pub async fn without_dead_letters_given_up_messages_are_dropped(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { retry_limit: 0, dead_letters: false, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let items = vec![taken.item("a", Verdict::Failed), taken.item("b", Verdict::DeadLetter)];
    let outcomes = bench.settle_items(items).await;
    let fates: Vec<_> = (outcomes.iter())
        .map(|outcome| match outcome {
            SettleOutcome::Settled { dead_lettered, dropped, .. } => (*dead_lettered, *dropped),
            outcome => panic!("{outcome:?}"),
        })
        .collect();
    assert_eq!(fates, [(false, true), (true, false)], "the drop is reported");
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["c"]);
    assert_eq!(bench.dead_ids(&queue).await, ["b"]);
}
